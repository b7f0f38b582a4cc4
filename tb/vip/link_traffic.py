"""Sources and sinks at the ports of a link: numbered beats and messages, checked where they arrive.

All of it counts in RTL, so that benches wake only at the end of a run.
"""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.beat_queue import BeatQueue
from hw.ucie.credit import CreditCounter, RequestReceiver, RequestSender
from hw.ucie.pacer import RATE_BITS, FramePacer
from hw.ucie.transaction import DataPort, MessageClass, RequestPort
from tb.vip.content import BeatContent
from tb.vip.xorshift import xorshift

NUMBER_BITS = 32
SIDES = 256  # of the dice


def dice(m: Module, name: str, seed: int) -> Value:
    """Eight bits that are new in each clock."""
    return xorshift(m, name, bits=32, stream=2 * seed + 1)[8:16]


class BeatSource(wiring.Component):
    """Sends beats 0 to ``total - 1`` under credit, ``rate`` / 65536 of them a clock.

    Members
    -------
    port : Out(DataPort), ``depth`` credits
    total, rate : In
    sent : Out: how many have left; first : Out, a pulse with the first
    credits : Out: held
    """

    def __init__(self, *, lanes: int, depth: int, seed: int) -> None:
        self._lanes, self._depth, self._seed = lanes, depth, seed
        super().__init__(
            {
                "port": Out(DataPort(lanes)),
                "total": In(NUMBER_BITS),
                "rate": In(RATE_BITS + 1),
                "sent": Out(NUMBER_BITS),
                "first": Out(1),
                "credits": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.pacer = pacer = FramePacer()
        m.submodules.counter = counter = CreditCounter(initial=self._depth)
        m.submodules.content = content = BeatContent(stack=self._seed, lanes=self._lanes)
        goes = Signal()
        header = self.port.header
        m.d.comb += [
            pacer.rate.eq(self.rate),
            pacer.tick.eq(1),
            goes.eq(pacer.grant & (counter.count != 0) & (self.sent != self.total)),
            pacer.use.eq(goes),
            counter.take.eq(goes),
            counter.give.eq(self.port.credit),
            self.credits.eq(counter.count),
            self.first.eq(goes & (self.sent == 0)),
            content.beat.eq(header.address),
            *(to.eq(of) for to, of in zip(self.port.lanes, content.lanes, strict=True)),
        ]
        m.d.sync += self.port.valid.eq(goes)
        with m.If(goes):
            m.d.sync += [
                self.sent.eq(self.sent + 1),
                header.message_class.eq(MessageClass.READ_DATA),
                header.address.eq(self.sent),
                header.beat.eq(self.sent),
            ]
        return m


class _Sink(wiring.Component):
    """What sinks of beats and messages share: numbers must rise."""

    def __init__(self, seed: int, port: wiring.Signature) -> None:
        self._seed = seed
        super().__init__(
            {
                "port": In(port),
                "stall": In(9),
                "taken": Out(NUMBER_BITS),
                "errors": Out(NUMBER_BITS),
                "skipped": Out(NUMBER_BITS),
                "last": Out(1),
            }
        )

    def _judge(self, m: Module, takes: Value, number: Value, right: Value) -> None:
        expected = Signal(NUMBER_BITS)
        m.d.comb += self.last.eq(takes)
        with m.If(takes):
            m.d.sync += [
                self.taken.eq(self.taken + 1),
                expected.eq(number + 1),
                self.errors.eq(self.errors + (~right | (number < expected))),
            ]
            with m.If(number > expected):
                m.d.sync += self.skipped.eq(self.skipped + (number - expected))


class BeatSink(_Sink):
    """Takes beats in all but ``stall`` of 256 clocks and compares every byte.

    Members
    -------
    port : In(DataPort), as deep as ``depth``
    taken : Out: beats so far; errors : those with a wrong byte, doubled or out of order
    skipped : Out: beats that never came before a later one did
    last : Out: one is taken in this clock
    """

    def __init__(self, *, lanes: int, depth: int, seed: int) -> None:
        self._lanes, self._depth = lanes, depth
        super().__init__(seed, DataPort(lanes))

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.queue = queue = BeatQueue(
            lanes=self._lanes, depth=self._depth, bank_bytes=min(64, 8 * self._lanes)
        )
        m.submodules.content = content = BeatContent(stack=self._seed, lanes=self._lanes)
        wiring.connect(m, wiring.flipped(self.port), queue.port)
        number, right = queue.o.header.address[:NUMBER_BITS], Signal()
        m.d.comb += [
            content.beat.eq(number),
            queue.o.ready.eq(dice(m, "dice", self._seed) >= self.stall),
            right.eq(Cat(a == b for a, b in zip(queue.o.lanes, content.lanes, strict=True)).all()),
        ]
        self._judge(m, queue.o.valid & queue.o.ready, number, right)
        return m


class MessageSource(wiring.Component):
    """Sends messages 0 to ``total - 1`` under credit, in ``share`` of 256 clocks.

    Members
    -------
    port : Out(RequestPort), ``depth`` credits
    total, share : In
    sent : Out
    """

    def __init__(self, *, depth: int, seed: int) -> None:
        self._depth, self._seed = depth, seed
        super().__init__(
            {
                "port": Out(RequestPort()),
                "total": In(NUMBER_BITS),
                "share": In(9),
                "sent": Out(NUMBER_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.sender = sender = RequestSender(credits=self._depth)
        wiring.connect(m, sender.port, wiring.flipped(self.port))
        header = sender.i.payload
        m.d.comb += [
            sender.i.valid.eq(
                (self.sent != self.total) & (dice(m, "dice", self._seed) < self.share)
            ),
            header.message_class.eq(MessageClass.COMPLETION),
            header.address.eq(self.sent),
            # All bits that a message has matter to its receiver.
            Cat(header.length, header.tag, header.page).eq(~self.sent),
        ]
        with m.If(sender.i.valid & sender.i.ready):
            m.d.sync += self.sent.eq(self.sent + 1)
        return m


class MessageSink(_Sink):
    """Takes messages in all but ``stall`` of 256 clocks; members as of :class:`BeatSink`."""

    def __init__(self, *, depth: int, seed: int) -> None:
        self._depth = depth
        super().__init__(seed, RequestPort())

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.receiver = receiver = RequestReceiver(credits=self._depth)
        wiring.connect(m, wiring.flipped(self.port), receiver.port)
        header = receiver.o.payload
        number = header.address[:NUMBER_BITS]
        told = Cat(header.length, header.tag, header.page)
        m.d.comb += receiver.o.ready.eq(dice(m, "dice", self._seed) >= self.stall)
        right = (told == ~number) & (header.spare == 0)
        self._judge(m, receiver.o.valid & receiver.o.ready, number, right)
        return m
