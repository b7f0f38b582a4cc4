# amaranth: UnusedElaboratable=no
"""Flits from payload and header, and back: both CRCs are added and checked."""

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.shared import shared
from hw.ucie.crc import INJECTION, MAX_PIPELINE, Crc16
from hw.ucie.flit import FLIT_BYTES, HALVES, FlitFormat
from hw.ucie.flit_header import FlitHeader

INJECTION_BITS = Const(INJECTION, 16)


class FlitPort(wiring.Signature):
    """The flits of a clock, ``flits`` of them, byte 0 lowest. There is no ready."""

    def __init__(self, *, flits: int, flit_bytes: int = FLIT_BYTES) -> None:
        super().__init__({"valid": Out(1), "flits": Out(8 * flit_bytes).array(flits)})


class PayloadPort(wiring.Signature):
    """Payload and header of each flit of a clock, without the gaps of the format.

    There is no ready: neither side can stall.
    """

    def __init__(self, *, flit_format: FlitFormat, flits: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "headers": Out(FlitHeader).array(flits),
                "payloads": Out(8 * flit_format.payload_bytes).array(flits),
            }
        )


class _Codec(wiring.Component):
    """What both directions share."""

    def __init__(self, flit_format: FlitFormat, flits: int, pipeline: int, ports: dict) -> None:
        if flits < 1:
            raise ValueError(f"flits a clock must be at least 1, not {flits!r}")
        if not 1 <= pipeline <= MAX_PIPELINE:
            raise ValueError(f"pipeline must be 1 to {MAX_PIPELINE} clocks, not {pipeline!r}")
        self._format, self._flits, self._pipeline = flit_format, flits, pipeline
        super().__init__(ports)

    @property
    def flit_format(self) -> FlitFormat:
        return self._format

    @property
    def flits(self) -> int:
        return self._flits

    @property
    def pipeline(self) -> int:
        return self._pipeline

    def _crcs(self, m: Module, slot: int, flit: Value) -> list[Value]:
        """CRC of both halves of a flit, ``pipeline`` clocks later."""
        found = []
        for half, message in enumerate(self._format.covered):
            crc = Crc16(pipeline=self._pipeline, message_bytes=len(message))
            name = f"crc16_of_{len(message)}_bytes"
            m.submodules[f"crc{slot}_{half}"] = shared(name, crc)
            m.d.comb += crc.i.eq(_bytes(flit, message))
            found.append(crc.o)
        return found


def _bytes(flit: Value, part: range) -> Value:
    return flit[8 * part.start : 8 * part.stop]


def _delayed(m: Module, name: str, value: Value, clocks: int) -> Value:
    for stage in range(clocks):
        later = Signal(len(value), name=f"{name}_{stage}")
        m.d.sync += later.eq(value)
        value = later
    return value


class FlitEncoder(_Codec):
    """Makes ``flits`` flits a clock.

    Contract: flit ``k`` of ``o`` holds header and payload ``k`` of ``i`` at the places of the
    format, zeros where it is reserved, and both CRCs over what is sent. Latency ``pipeline``
    clocks; ``flits`` flits a clock, without stall: a stall is held before the encoder. A slot that
    is not wanted is filled by the user, with the header of a NOP.

    Members
    -------
    i : In(PayloadPort)
    corrupt : In(2).array(flits)
        With ``i``: bit ``h`` makes the CRC of half ``h`` wrong, as ``lp_corrupt_crc`` does.
    o : Out(FlitPort)
    """

    def __init__(self, *, flit_format: FlitFormat, flits: int, pipeline: int) -> None:
        super().__init__(
            flit_format,
            flits,
            pipeline,
            {
                "i": In(PayloadPort(flit_format=flit_format, flits=flits)),
                "corrupt": In(HALVES).array(flits),
                "o": Out(FlitPort(flits=flits, flit_bytes=flit_format.flit_bytes)),
            },
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        clocks = self._pipeline
        m.d.comb += self.o.valid.eq(_delayed(m, "valid", self.i.valid, clocks))
        for k in range(self._flits):
            header, payload = self.i.headers[k].as_value(), self.i.payloads[k]
            zeros = [Const(0, 16)] * HALVES
            crcs = self._crcs(m, k, self._assemble(m, f"plain{k}", header, payload, zeros))
            header = _delayed(m, f"header{k}", header, clocks)
            payload = _delayed(m, f"payload{k}", payload, clocks)
            corrupt = _delayed(m, f"corrupt{k}", self.corrupt[k], clocks)
            sent = [
                crc ^ (INJECTION_BITS & corrupt[half].replicate(16))
                for half, crc in enumerate(crcs)
            ]
            m.d.comb += self.o.flits[k].eq(self._assemble(m, f"flit{k}", header, payload, sent))
        return m

    def _assemble(
        self, m: Module, name: str, header: Value, payload: Value, crcs: list[Value]
    ) -> Value:
        """The bytes of a flit."""
        found: list[Value] = []
        taken = 0
        for use, part in self._format.parts():
            if use == "protocol":
                found.append(payload[8 * taken : 8 * (taken + len(part))])
                taken += len(part)
            elif use == "header":
                found.append(header)
            elif use == "reserved":
                found.append(Const(0, 8 * len(part)))
            else:
                found.append(crcs[int(use.removeprefix("crc"))])
        flit = Signal(8 * self._format.flit_bytes, name=name)
        m.d.comb += flit.eq(Cat(*found))
        return flit


class FlitDecoder(_Codec):
    """Takes ``flits`` flits a clock apart and checks both CRCs of each.

    Contract: header and payload ``k`` of ``o`` are those of flit ``k`` of ``i``, ``pipeline - 1``
    clocks later. One clock after them bit ``k`` of ``bad`` says that a CRC of flit ``k`` is wrong;
    it is low at all other times. What came in a bad flit must not be used, so a user holds it for
    that clock. ``flits`` flits a clock, without stall. Reserved bytes are ignored.

    UCIe tells the same way, with ``pl_flit_cancel``, but for all flits of a clock together.

    Members
    -------
    i : In(FlitPort)
    o : Out(PayloadPort)
    bad : Out(flits)
    """

    def __init__(self, *, flit_format: FlitFormat, flits: int, pipeline: int) -> None:
        super().__init__(
            flit_format,
            flits,
            pipeline,
            {
                "i": In(FlitPort(flits=flits, flit_bytes=flit_format.flit_bytes)),
                "o": Out(PayloadPort(flit_format=flit_format, flits=flits)),
                "bad": Out(flits),
            },
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        clocks = self._pipeline
        m.d.comb += self.o.valid.eq(_delayed(m, "valid", self.i.valid, clocks - 1))
        checked = Signal()  # one clock after o.valid
        m.d.sync += checked.eq(self.o.valid)
        for k in range(self._flits):
            flit = self.i.flits[k]
            payload = Cat(*(_bytes(flit, part) for part in self._format.protocol))
            received = Cat(*(_bytes(flit, part) for part in self._format.crc))
            header = _bytes(flit, self._format.header)
            m.d.comb += [
                self.o.payloads[k].eq(_delayed(m, f"payload{k}", payload, clocks - 1)),
                self.o.headers[k].eq(_delayed(m, f"header{k}", header, clocks - 1)),
            ]
            right = Cat(*self._crcs(m, k, flit))
            received = _delayed(m, f"received{k}", received, clocks)
            m.d.comb += self.bad[k].eq(checked & (received != right))
        return m
