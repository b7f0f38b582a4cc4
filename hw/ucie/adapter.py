"""The D2D adapter: payload comes out exactly once and in order, whatever flits suffer."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.sram.macro import Sram1r1w
from hw.ucie.flit import HALVES, FlitFormat
from hw.ucie.flit_codec import FlitDecoder, FlitEncoder, FlitPort
from hw.ucie.flit_header import FlitHeader, FlitType, SequenceUse, is_discarded, sequence_of
from hw.ucie.retry import (
    SEQUENCE_LAST,
    TIMEOUT_FLITS,
    RetryReceiver,
    RetrySender,
    advanced,
    group_layout,
)

STREAMING = 1  # protocol of payload flits; 0 is the adapter's own
MAX_UNACKNOWLEDGED = 127
BANK_BITS = 512  # of the replay buffer
PATIENCE = 4  # passes of the replay buffer without an Ack, until the link must be trained anew


def replay_rows(flits: int) -> int:
    """Groups of ``flits`` flits that may be unacknowledged."""
    return MAX_UNACKNOWLEDGED // flits


class D2DAdapter(wiring.Component):
    """Sends and receives groups of ``flits`` flits, with CRC, retry and NOPs.

    A group is what a clock carries; its payload is ``payload_bits`` wide, zeros fill the rest of
    the flits. Even flits of a group carry their sequence number, odd ones the Ack or Nak.

    Promise: each payload that ``i`` takes is given out by the ``o`` of the other end once, in
    order, if only some groups get through both ways. While ``active``, a group leaves every
    ``interval`` clocks, NOP if there is nothing to send, so that answers always flow. What is taken
    is kept until it is acknowledged, also while not ``active``: after a retrain it is sent again.
    ``clear`` forgets everything; both ends must be cleared before either is active again.
    Groups are taken while ``receiving``. ``retrain`` asks for a retrain when the buffer was sent
    ``PATIENCE`` times without any Ack.

    Latency: ``i`` to ``tx`` ``1 + pipeline`` clocks, ``rx`` to ``o`` ``pipeline``; from a group to
    the answer to it ``4 + 2 * pipeline`` clocks and both ways of the channel. Throughput: a group
    every ``interval`` clocks, while that takes at most ``rows`` of them. Back-pressure: ``i`` waits
    while groups are sent again and while the buffer is full; ``o`` has none.
    Source: UCIe 3.0 chapter 3.

    Members
    -------
    active, receiving, clear : In
    interval : In: clocks a group takes on the modules that are in use
    i : In(stream); o : Out: valid and payload, without ready
    corrupt : In(HALVES).array(flits): makes CRCs of the group wrong that leaves next
    tx : Out(FlitPort); rx : In(FlitPort)
    cancel : Out, a pulse: a group had a wrong CRC and was dropped whole
    repeat : Out, a pulse: everything unacknowledged is sent once more
    idle : Out: nothing is unacknowledged
    retrain : Out
    """

    def __init__(
        self,
        *,
        flit_format: FlitFormat,
        flits: int,
        payload_bits: int,
        rows: int | None = None,
        pipeline: int = 1,
        timeout: int = TIMEOUT_FLITS,
        slowest: int = 4,
    ) -> None:
        most = 8 * flits * flit_format.payload_bytes
        if not 0 < payload_bits <= most:
            raise ValueError(f"payload_bits must be 1 to {most}, not {payload_bits!r}")
        self._format, self._flits, self._bits = flit_format, flits, payload_bits
        self._rows = replay_rows(flits) if rows is None else rows
        self._pipeline, self._timeout = pipeline, timeout
        port = FlitPort(flits=flits, flit_bytes=flit_format.flit_bytes)
        super().__init__(
            {
                "active": In(1),
                "receiving": In(1),
                "clear": In(1),
                "interval": In(range(1, slowest + 1), init=1),
                "i": In(stream.Signature(payload_bits)),
                "o": Out(wiring.Signature({"valid": Out(1), "payload": Out(payload_bits)})),
                "corrupt": In(HALVES).array(flits),
                "tx": Out(port),
                "rx": In(port),
                "cancel": Out(1),
                "repeat": Out(1),
                "idle": Out(1),
                "retrain": Out(1),
            }
        )

    @property
    def rows(self) -> int:
        """Groups that may be unacknowledged."""
        return self._rows

    @property
    def flit_format(self) -> FlitFormat:
        return self._format

    def elaborate(self, platform) -> Module:
        m = Module()
        sizes = {"flits": self._flits}
        sender = RetrySender(**sizes, rows=self._rows, timeout=self._timeout)
        receiver = RetryReceiver(**sizes)
        m.submodules.sender = ResetInserter(self.clear)(sender)
        m.submodules.receiver = ResetInserter(self.clear)(receiver)
        self._send(m, sender, receiver)
        self._receive(m, sender, receiver)
        m.d.comb += [self.repeat.eq(sender.repeat), self.idle.eq(sender.idle)]

        passes = Signal(range(PATIENCE + 1))
        m.d.comb += self.retrain.eq(passes == PATIENCE)
        with m.If(sender.progress | sender.idle | ~self.active):
            m.d.sync += passes.eq(0)
        with m.Elif(sender.repeat & ~self.retrain):
            m.d.sync += passes.eq(passes + 1)
        return m

    def _send(self, m: Module, sender: RetrySender, receiver: RetryReceiver) -> None:
        flits, last = self._flits, SEQUENCE_LAST
        waits = Signal.like(self.interval, init=0)
        leaves = Signal()
        m.d.comb += leaves.eq(self.active & (waits == 0))
        with m.If(leaves):
            m.d.sync += waits.eq(self.interval - 1)
        with m.Elif(waits != 0):
            m.d.sync += waits.eq(waits - 1)

        replayed = self._buffer(m, sender)
        fresh, labels = Signal(self._bits, reset_less=True), Signal(group_layout(last))
        going, again = Signal(), Signal()
        m.d.comb += [
            sender.active.eq(leaves),
            sender.offer.eq(self.i.valid),
            self.i.ready.eq(sender.accept),
        ]
        m.d.sync += [
            going.eq(leaves & ~self.clear),
            again.eq(sender.replay),
            labels.eq(sender.send),
        ]
        with m.If(sender.store):
            m.d.sync += fresh.eq(self.i.payload)

        m.submodules.encoder = encoder = FlitEncoder(
            flit_format=self._format, flits=flits, pipeline=self._pipeline
        )
        payload = Signal(self._bits)
        m.d.comb += [
            payload.eq(Mux(again, replayed, fresh)),
            encoder.i.valid.eq(going),
            receiver.answered.eq(going),
        ]
        each = 8 * self._format.payload_bytes
        for k in range(flits):
            header = encoder.i.headers[k]
            m.d.comb += encoder.corrupt[k].eq(self.corrupt[k])
            with m.If(labels.payload):
                m.d.comb += [
                    encoder.i.payloads[k].eq(payload[k * each : (k + 1) * each]),
                    header.protocol.eq(STREAMING),
                ]
            if k % 2:
                use = Mux(receiver.answer.nak, SequenceUse.NAK, SequenceUse.ACK)
                m.d.comb += header.use.eq(use)
                _number(m, header, receiver.answer.sequence)
            else:
                sequence = advanced(labels.sequence, k, last) if k else labels.sequence
                with m.If(labels.payload):
                    _number(m, header, sequence)
        wiring.connect(m, encoder.o, wiring.flipped(self.tx))

    def _buffer(self, m: Module, sender: RetrySender) -> Value:
        """The replay buffer; what it held at a row is there a clock after ``replay``."""
        read = []
        for first in range(0, self._bits, BANK_BITS):
            width = min(BANK_BITS, self._bits - first)
            bank = Sram1r1w(width=width, depth=max(self._rows, 2))
            m.submodules[f"buffer{first // BANK_BITS}"] = bank
            m.d.comb += [
                bank.w_en.eq(sender.store),
                bank.w_addr.eq(sender.row),
                bank.w_data.eq(self.i.payload[first : first + width]),
                bank.r_en.eq(sender.replay),
                bank.r_addr.eq(sender.row),
            ]
            read.append(bank.r_data)
        return Cat(*read)

    def _receive(self, m: Module, sender: RetrySender, receiver: RetryReceiver) -> None:
        m.submodules.decoder = decoder = FlitDecoder(
            flit_format=self._format, flits=self._flits, pipeline=self._pipeline
        )
        wiring.connect(m, wiring.flipped(self.rx), decoder.i)
        # What has come is held for a clock: only then it is known whether it is good.
        came, payload = Signal(), Signal(self._bits, reset_less=True)
        heads = Signal(2 * FlitHeader.as_shape().size, reset_less=True)
        numbered, answering = (FlitHeader(heads[16 * k : 16 * (k + 1)]) for k in range(2))
        m.d.sync += came.eq(decoder.o.valid & self.receiving & ~self.clear)
        with m.If(decoder.o.valid):
            m.d.sync += [
                payload.eq(Cat(*decoder.o.payloads)),
                heads.eq(Cat(decoder.o.headers[0].as_value(), decoder.o.headers[1].as_value())),
            ]
        bad = decoder.bad.any()
        answers = (answering.use == SequenceUse.ACK) | (answering.use == SequenceUse.NAK)
        m.d.comb += [
            receiver.valid.eq(came),
            receiver.bad.eq(bad),
            receiver.group.payload.eq(
                (numbered.protocol == STREAMING) & (numbered.type == FlitType.NORMAL)
            ),
            receiver.group.sequence.eq(sequence_of(numbered)),
            self.o.valid.eq(receiver.take),
            self.o.payload.eq(payload),
            self.cancel.eq(came & bad),
        ]
        m.d.sync += [
            sender.answer.valid.eq(came & ~bad & answers & ~is_discarded(answering) & ~self.clear),
            sender.answer.nak.eq(answering.use == SequenceUse.NAK),
            sender.answer.sequence.eq(sequence_of(answering)),
        ]


def _number(m: Module, header, sequence: Value) -> None:
    m.d.comb += [header.sequence_low.eq(sequence[:4]), header.sequence_high.eq(sequence[4:])]
