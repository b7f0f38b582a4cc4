"""Lockstep sensing: when the whole stack may start the next page wave."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import CLOCK_BITS
from hw.params import NAND_TIME_BITS, Machine


class WaveGate(wiring.Component):
    """Opens for as long as a die needs to issue one page to each of its subarrays.

    Promise: ``open`` rises only when some die has a page to issue, region ``region`` is wholly free
    and the wave before is sensed: with ``cache_read`` its first pages have sensed for ``t_read``
    and no page waits for its cache register; without, no data register of the stack is in use. It
    falls after two clocks for each subarray of a die, since every SENSE but those of the first wave
    follows a LATCH on the same command port. Waves alternate between the regions.

    Members
    -------
    clock : In: free-running clock count
    t_read, cache_read : In
    sensing : In: a data register is in use
    stuck : In: a sensed page waits for its cache register
    pending : In: some die has a page to issue
    region_busy : In: one bit a region
    open, region : Out
    """

    def __init__(self, machine: Machine) -> None:
        self._window = 2 * machine.geometry.subarrays_per_die
        super().__init__(
            {
                "clock": In(CLOCK_BITS),
                "t_read": In(NAND_TIME_BITS["t_read"]),
                "cache_read": In(1),
                "sensing": In(1),
                "stuck": In(1),
                "pending": In(1),
                "region_busy": In(2),
                "open": Out(1),
                "region": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        left = Signal(range(self._window + 1))
        opened = Signal(CLOCK_BITS)  # when the wave before began
        busy = self.region_busy.bit_select(self.region, 1)
        senses, waits = Signal(), Signal()
        m.d.comb += [
            senses.eq((self.clock - opened)[:CLOCK_BITS] < self.t_read),
            # Nothing sensed means that no wave is under way, however long ago it began.
            waits.eq(self.sensing & (~self.cache_read | senses | self.stuck)),
            self.open.eq(left != 0),
        ]
        with m.If(self.open):
            m.d.sync += left.eq(left - 1)
            with m.If(left == 1):
                m.d.sync += self.region.eq(~self.region)
        with m.Elif(self.pending & ~waits & ~busy):
            m.d.sync += [left.eq(self._window), opened.eq(self.clock + 1)]
        return m
