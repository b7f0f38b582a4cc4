"""Lockstep sensing: when the whole stack may start the next page wave."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.params import Machine


class WaveGate(wiring.Component):
    """Opens for as long as a die needs to issue one page to each of its subarrays.

    Promise: ``open`` rises only when no subarray of the stack senses, some die has a page to issue
    and region ``region`` is wholly free; it falls after ``subarrays_per_die`` clocks. Waves
    alternate between the regions.
    """

    def __init__(self, machine: Machine) -> None:
        self._window = machine.geometry.subarrays_per_die
        super().__init__(
            {
                "sensing": In(1),
                "pending": In(1),
                "region_busy": In(2),
                "open": Out(1),
                "region": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        left = Signal(range(self._window + 1))
        busy = self.region_busy.bit_select(self.region, 1)
        m.d.comb += self.open.eq(left != 0)
        with m.If(self.open):
            m.d.sync += left.eq(left - 1)
            with m.If(left == 1):
                m.d.sync += self.region.eq(~self.region)
        with m.Elif(self.pending & ~self.sensing & ~busy):
            m.d.sync += left.eq(self._window)
        return m
