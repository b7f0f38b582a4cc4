"""Credits: the sender's counter, and the receive queue that gives them back."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.ucie.transaction import Header, RequestPort


class CreditCounter(wiring.Component):
    """Counts the credits that a sender holds.

    Contract: ``count`` starts at ``initial``; a pulse of ``give`` adds one, ``take`` subtracts its
    value, both may come in one clock. The users take no more than ``count`` and give no more than
    up to ``limit``: nothing here stops them. Latency 1 clock from ``give`` to ``count``.

    Members
    -------
    take : In(range(max_take + 1))
    give : In(1)
    count : Out(range(limit + 1))
    """

    def __init__(self, *, initial: int, limit: int | None = None, max_take: int = 1) -> None:
        limit = initial if limit is None else limit
        if not 0 <= initial <= limit or limit < 1:
            raise ValueError(f"initial credits must be 0 to the limit {limit}, not {initial!r}")
        if not 1 <= max_take <= limit:
            raise ValueError(f"max_take must be 1 to the limit {limit}, not {max_take!r}")
        self._initial, self._limit, self._max_take = initial, limit, max_take
        super().__init__(
            {
                "take": In(range(max_take + 1)),
                "give": In(1),
                "count": Out(range(limit + 1), init=initial),
            }
        )

    @property
    def initial(self) -> int:
        return self._initial

    @property
    def limit(self) -> int:
        return self._limit

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.sync += self.count.eq(self.count - self.take + self.give)
        return m


class RequestSender(wiring.Component):
    """Sends descriptors over a credited port.

    Contract: a descriptor leaves one clock after it is accepted; accepts one a clock while it holds
    credit and never drops or duplicates one. ``credits`` equals those the receiver granted at
    reset.
    """

    def __init__(self, *, credits: int) -> None:
        self._credits = credits
        super().__init__({"i": In(stream.Signature(Header)), "port": Out(RequestPort())})

    @property
    def credits(self) -> int:
        return self._credits

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.counter = counter = CreditCounter(initial=self._credits)
        m.d.comb += [
            self.i.ready.eq(counter.count != 0),
            counter.take.eq(self.i.valid & self.i.ready),
            counter.give.eq(self.port.credit),
        ]
        m.d.sync += self.port.valid.eq(counter.take)
        with m.If(counter.take):
            m.d.sync += self.port.header.eq(self.i.payload)
        return m


class RequestReceiver(wiring.Component):
    """Receive queue of a credited request port.

    Contract: holds ``credits`` descriptors, so a sender that obeys its credits never overflows it.
    A credit pulse follows each descriptor taken from ``o`` by one clock. Latency 2 clocks.
    ``holds`` tells one clock after it came that there is a descriptor, before ``o`` shows it.
    """

    def __init__(self, *, credits: int) -> None:
        self._credits = credits
        super().__init__(
            {"port": In(RequestPort()), "o": Out(stream.Signature(Header)), "holds": Out(1)}
        )

    @property
    def credits(self) -> int:
        return self._credits

    def elaborate(self, platform) -> Module:
        m = Module()
        # One more than the credits: a queue of two is not ready for the second of two in a row.
        m.submodules.queue = queue = SyncFIFOBuffered(
            width=Header.as_shape().size, depth=self._credits + 1
        )
        m.d.comb += [
            queue.w_data.eq(self.port.header),
            queue.w_en.eq(self.port.valid),
            self.o.valid.eq(queue.r_rdy),
            self.o.payload.eq(queue.r_data),
            queue.r_en.eq(self.o.ready),
            self.holds.eq(queue.w_level.any()),
        ]
        m.d.sync += self.port.credit.eq(self.o.valid & self.o.ready)
        return m
