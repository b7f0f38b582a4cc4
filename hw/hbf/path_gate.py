"""How many pages a path may have under way."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import MAX_PAGES
from hw.params import Machine

LEFT_BITS = 24


class PathGate(wiring.Component):
    """The path's availability for the issue of pages.

    Promise: ``open`` while the path can send (``flows``), and else while it has fewer pages between
    issue and link than one region holds. So a path whose link has no credit prepares at most one
    region's worth of pages, about, and leaves the other region's worth of slots to the other path.
    ``idle`` while no page that was accepted is still to be sent.

    Members
    -------
    accepted : In: pages of a read that all dies take in this clock
    issued : In: pages of this path that are issued in this clock
    sent : In: a page leaves
    flows : In: the path holds credit
    open, idle : Out
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "accepted": In(range(MAX_PAGES + 1)),
                "issued": In(range(machine.geometry.dies + 1)),
                "sent": In(1),
                "flows": In(1),
                "open": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        wave = self._machine.geometry.wave_pages
        under_way = Signal(range(2 * wave + 1))
        m.d.sync += under_way.eq(under_way + self.issued - self.sent)
        left = Signal(LEFT_BITS)  # pages accepted and not yet sent
        m.d.sync += left.eq(left + self.accepted - self.sent)
        m.d.comb += [self.open.eq(self.flows | (under_way < wave)), self.idle.eq(left == 0)]
        return m
