"""Both ends of the sideband with their serial lines, and the pair of them."""

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.registers.register_file import RegisterPort
from hw.ucie.sideband_completer import SidebandCompleter
from hw.ucie.sideband_packet import COUNT_BITS, TAGS, check_identity
from hw.ucie.sideband_requester import (
    TIMEOUT_CLOCKS,
    Access,
    Response,
    SidebandRequester,
    check_sizes,
)
from hw.ucie.sideband_serial import (
    Pace,
    SidebandBus,
    SidebandReceiver,
    SidebandTransmitter,
    wire_pace,
)

_HOST_OUTPUTS = ("tag", "credits", "idle", "unexpected")
_TARGET_OUTPUTS = ("overflow", "dropped")
_TARGET_MEMBERS = {"port": Out(RegisterPort()), "overflow": Out(1), "dropped": Out(COUNT_BITS)}


def _host_members(credits: int) -> dict[str, object]:
    return {
        "access": In(stream.Signature(Access)),
        "response": Out(stream.Signature(Response)),
        "tag": Out(5),
        "credits": Out(range(credits + 1)),
        "idle": Out(1),
        "unexpected": Out(COUNT_BITS),
    }


def _show(m: Module, whole: wiring.Component, part: object, names: tuple[str, ...]) -> None:
    for name in names:
        m.d.comb += getattr(whole, name).eq(getattr(part, name))


class _End(wiring.Component):
    """What both ends have: the lines, the reset handshake and the report of errors."""

    def __init__(self, *, width: int, pace: Pace | None, members: dict[str, object]) -> None:
        self._width = width
        self._pace = wire_pace(width) if pace is None else pace
        super().__init__(
            {
                "bus_o": Out(SidebandBus(width)),
                "bus_i": In(SidebandBus(width)),
                "performant": In(1),
                "ready": Out(1),
                "peer_ready": In(1),
                "parity_error": Out(1),
                "framing_error": Out(1),
                **members,
            }
        )

    @property
    def pace(self) -> Pace:
        return self._pace

    def _lines(self, m: Module, block: SidebandRequester | SidebandCompleter) -> None:
        up = Signal()
        transmitter = SidebandTransmitter(width=self._width, pace=self._pace)
        receiver = SidebandReceiver(width=self._width, pace=self._pace)
        m.submodules.block = block
        m.submodules.transmitter = ResetInserter(~up)(transmitter)
        m.submodules.receiver = ResetInserter(~up)(receiver)
        connect(m, block.o, transmitter.i)
        connect(m, receiver.o, block.i)
        connect(m, transmitter.bus, flipped(self.bus_o))
        connect(m, flipped(self.bus_i), receiver.bus)
        m.d.sync += self.ready.eq(1)
        m.d.comb += [
            up.eq(self.ready & self.peer_ready),
            block.up.eq(up),
            transmitter.performant.eq(self.performant),
            self.parity_error.eq(receiver.control_error | receiver.data_error),
            self.framing_error.eq(receiver.framing_error),
        ]


class SidebandHost(_End):
    """The end that asks: a requester with its transmitter and receiver.

    Contract: as :class:`SidebandRequester`, over the bus. Both ends are up while each is out of
    reset and sees the other's ``ready``, which takes the same way as the bus. Latency from
    ``access`` to the first word on ``bus_o``: 1 clock and a word; from the last word on ``bus_i``
    to ``response``: 3 clocks.

    Members
    -------
    access, tag, response, credits, idle, unexpected : those of the requester
    bus_o, bus_i : Out, In
    performant : In: no gaps on ``bus_o``
    ready, peer_ready : Out, In: out of reset
    parity_error, framing_error : Out: pulses, a packet was dropped
    """

    def __init__(
        self,
        *,
        width: int = 32,
        pace: Pace | None = None,
        tags: int = TAGS,
        credits: int = 32,
        timeout: int = TIMEOUT_CLOCKS,
        identity: int = 0,
        destination: int = 0,
    ) -> None:
        check_sizes(tags=tags, credits=credits, timeout=timeout)
        check_identity(identity)
        check_identity(destination)
        self._tags, self._credits, self._timeout = tags, credits, timeout
        self._identity, self._destination = identity, destination
        super().__init__(width=width, pace=pace, members=_host_members(credits))

    def elaborate(self, platform) -> Module:
        m = Module()
        requester = SidebandRequester(
            tags=self._tags,
            credits=self._credits,
            timeout=self._timeout,
            identity=self._identity,
            destination=self._destination,
        )
        self._lines(m, requester)
        connect(m, flipped(self.access), requester.access)
        connect(m, requester.response, flipped(self.response))
        _show(m, self, requester, _HOST_OUTPUTS)
        return m


class SidebandTarget(_End):
    """The end that answers: a completer with its receiver and transmitter.

    Contract: as :class:`SidebandCompleter`, over the bus; reset handshake as :class:`SidebandHost`.
    Latency from the last word on ``bus_i`` to the first on ``bus_o``: 7 clocks and a word for a
    32-bit access of a register file.

    Members
    -------
    port, overflow, dropped : those of the completer
    bus_o, bus_i, performant, ready, peer_ready, parity_error, framing_error : as of the host
    """

    def __init__(
        self,
        *,
        width: int = 32,
        pace: Pace | None = None,
        credits: int = 32,
        identity: int = 0,
    ) -> None:
        check_sizes(credits=credits)
        check_identity(identity)
        self._credits, self._identity = credits, identity
        super().__init__(width=width, pace=pace, members=dict(_TARGET_MEMBERS))

    def elaborate(self, platform) -> Module:
        m = Module()
        completer = SidebandCompleter(credits=self._credits, identity=self._identity)
        self._lines(m, completer)
        connect(m, completer.port, flipped(self.port))
        _show(m, self, completer, _TARGET_OUTPUTS)
        return m


class SidebandPair(wiring.Component):
    """A host and a target, ``cycles`` clocks of line between them each way.

    Contract: accesses at ``access`` become accesses at ``port``. In an idle link a packet of ``n``
    UI takes ``n`` UI, ``cycles`` and what its ends add, 11 clocks in all from ``access`` to
    ``response`` for 32 bits of a register file.

    Members
    -------
    access, tag, response, credits, idle, unexpected : of the host
    port, overflow, dropped : of the target
    performant : In: no gaps, both ways
    corrupt_down, corrupt_up : In: the lowest bit of a word on the line is wrong
    error : Out: pulse, one of the ends dropped a packet
    """

    def __init__(
        self,
        *,
        width: int = 32,
        pace: Pace | None = None,
        cycles: int = 1,
        tags: int = TAGS,
        credits: int = 32,
        timeout: int = TIMEOUT_CLOCKS,
    ) -> None:
        if cycles < 0:
            raise ValueError(f"cycles must not be negative, not {cycles!r}")
        check_sizes(tags=tags, credits=credits, timeout=timeout)
        self._width, self._pace, self._cycles = width, pace, cycles
        self._tags, self._credits, self._timeout = tags, credits, timeout
        super().__init__(
            {
                **_host_members(credits),
                **_TARGET_MEMBERS,
                "performant": In(1),
                "corrupt_down": In(1),
                "corrupt_up": In(1),
                "error": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        host = SidebandHost(
            width=self._width,
            pace=self._pace,
            tags=self._tags,
            credits=self._credits,
            timeout=self._timeout,
        )
        target = SidebandTarget(width=self._width, pace=self._pace, credits=self._credits)
        m.submodules.host, m.submodules.target = host, target
        connect(m, flipped(self.access), host.access)
        connect(m, host.response, flipped(self.response))
        connect(m, target.port, flipped(self.port))
        _show(m, self, host, _HOST_OUTPUTS)
        _show(m, self, target, _TARGET_OUTPUTS)
        for begin, end, corrupt in (
            (host, target, self.corrupt_down),
            (target, host, self.corrupt_up),
        ):
            for value, there in (
                (begin.bus_o.vld, end.bus_i.vld),
                (begin.bus_o.cfg ^ corrupt, end.bus_i.cfg),
                (begin.ready, end.peer_ready),
            ):
                m.d.comb += there.eq(self._delayed(m, value))
        m.d.comb += [
            host.performant.eq(self.performant),
            target.performant.eq(self.performant),
            self.error.eq(
                host.parity_error | host.framing_error | target.parity_error | target.framing_error
            ),
        ]
        return m

    def _delayed(self, m: Module, value):
        for stage in range(self._cycles):
            later = Signal.like(value, name=f"stage{stage}")
            m.d.sync += later.eq(value)
            value = later
        return value
