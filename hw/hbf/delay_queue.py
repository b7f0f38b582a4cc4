"""A queue whose items may leave only some time after they entered."""

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import CLOCK_BITS


class DelayQueue(wiring.Component):
    """Holds each item for ``delay`` clocks, in order.

    Contract: an item that enters in clock c is offered from clock c + ``delay`` on, not before
    c + 2. ``depth`` items at most are held; nothing is refused, so the user must not exceed it.

    Members
    -------
    clock : In: free-running clock count
    delay : In
    i, o : streams; ``i.ready`` is always high
    """

    def __init__(self, shape, *, depth: int, delay_bits: int) -> None:
        self._shape, self._depth = data.Layout.cast(shape), depth
        super().__init__(
            {
                "clock": In(CLOCK_BITS),
                "delay": In(delay_bits),
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
            }
        )

    @property
    def depth(self) -> int:
        return self._depth

    def elaborate(self, platform) -> Module:
        m = Module()
        item = data.StructLayout({"payload": self._shape, "since": CLOCK_BITS})
        # One more than the depth: a queue of two is not ready for the second of two in a row.
        m.submodules.queue = queue = SyncFIFOBuffered(width=item.size, depth=self._depth + 1)
        head, entering = item(queue.r_data), item(queue.w_data)
        m.d.comb += [
            entering.payload.eq(self.i.payload),
            entering.since.eq(self.clock),
            queue.w_en.eq(self.i.valid),
            self.i.ready.eq(1),
            self.o.valid.eq(queue.r_rdy & ((self.clock - head.since)[:CLOCK_BITS] >= self.delay)),
            self.o.payload.eq(head.payload),
            queue.r_en.eq(self.o.valid & self.o.ready),
        ]
        return m
