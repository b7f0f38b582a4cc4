"""Whole-region draining: pages leave only when their region has filled."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import page_layout, slot_event
from hw.params import Machine


class RegionDrain(wiring.Component):
    """Lets each region fill and drain in turn, or all the time.

    Promise: without ``enable`` both regions fill and drain at once, page by page. With it a region
    takes pages until none of those issued into it is still on its way; from then on it only drains,
    until it holds no page that was read. A region that fills as far as reads go thus drains as a
    whole, which is how the paper's alternating regions may be understood.

    Members
    -------
    issued : In, one a die: a page is issued into a region
    filled : In, one a die: a page has been filled
    free : In, one a path and die: a slot has been drained
    fills, drains : Out(2): one bit a region
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        dies = machine.geometry.dies
        issued = data.StructLayout({"valid": 1, "region": 1})
        filled = data.StructLayout({"valid": 1, "page": page_layout(machine)})
        super().__init__(
            {
                "enable": In(1),
                "issued": In(issued).array(dies),
                "filled": In(filled).array(dies),
                "free": In(slot_event(machine)).array(2, dies),
                "fills": Out(2),
                "drains": Out(2),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        pages = range(self._machine.geometry.wave_pages + 1)
        draining = Signal(2)
        for r in range(2):
            coming, held = Signal(pages, name=f"coming{r}"), Signal(pages, name=f"held{r}")
            come = sum(i.valid & (i.region == r) for i in self.issued)
            fill = sum(f.valid & (f.page.slot.region == r) for f in self.filled)
            gone = sum(f.valid & (f.slot.region == r) for path in self.free for f in path)
            m.d.sync += [coming.eq(coming + come - fill), held.eq(held + come - gone)]
            with m.If(held == 0):
                m.d.sync += draining[r].eq(0)
            with m.Elif((coming == 0) & (come == 0)):
                m.d.sync += draining[r].eq(1)
        with m.If(self.enable):
            m.d.comb += [self.fills.eq(~draining), self.drains.eq(draining)]
        with m.Else():
            m.d.comb += [self.fills.eq(0b11), self.drains.eq(0b11)]
        return m
