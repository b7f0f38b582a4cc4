"""Relay credits at the HBF base die."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.sram.regions import GROUPS


class RelayAdmission(wiring.Component):
    """Relay credits at the HBF die: which page may go, and where chunks end.

    A credit is a free region of the relay buffer, for one chunk of up to ``chunk_pages`` pages.
    Promise: pages are admitted only into a region that was granted and not yet closed. A chunk
    closes when it is full; with the last page of the last descriptor accepted so far; or by a
    ``close`` pulse of its own after ``idle_clocks`` in which no page was ready, so that data never
    waits in the relay buffer for pages that are still being sensed. While the link is ``lost`` no
    chunk is open, and pages that leave take no credit.

    Members
    -------
    requested : In
        Pages of a relay descriptor that the die accepts in this clock.
    waiting, sent : In
        A page is ready; a page leaves in this clock.
    lost : In
        The link is being reset.
    grant : In
        The relay buffer has freed a region.
    admit, chunk_end : Out
        A page may leave; it would be the last of its chunk.
    close : Out
        The open chunk ends with the page before. Comes when no page is on its way to the link.
    """

    def __init__(self, *, chunk_pages: int, regions: int, max_pages: int, idle_clocks: int) -> None:
        if chunk_pages < 2:
            raise ValueError(f"a relay chunk must hold at least 2 pages, not {chunk_pages!r}")
        if idle_clocks < 2 * GROUPS:
            raise ValueError(f"idle_clocks must be at least {2 * GROUPS}, not {idle_clocks!r}")
        self._chunk_pages, self._regions = chunk_pages, regions
        self._max_pages, self._idle_clocks = max_pages, idle_clocks
        super().__init__(
            {
                "requested": In(range(max_pages + 1)),
                "waiting": In(1),
                "sent": In(1),
                "lost": In(1),
                "grant": In(1),
                "admit": Out(1),
                "chunk_end": Out(1),
                "close": Out(1),
                "regions": Out(range(regions + 1), init=regions),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        outstanding = Signal(32)  # pages accepted and not yet sent
        filled = Signal(range(self._chunk_pages))  # pages in the open chunk
        idle = Signal(range(self._idle_clocks))
        opens = Signal()
        m.d.comb += [
            self.admit.eq((filled != 0) | (self.regions != 0)),
            self.chunk_end.eq((filled == self._chunk_pages - 1) | (outstanding == 1)),
            self.close.eq((idle == self._idle_clocks - 1) & ~self.waiting & ~self.lost),
            opens.eq(self.sent & (filled == 0) & ~self.lost),
        ]
        m.d.sync += [
            outstanding.eq(outstanding + self.requested - self.sent),
            self.regions.eq(self.regions + self.grant - opens),
        ]
        with m.If(self.waiting | self.close | self.lost | (filled == 0)):
            m.d.sync += idle.eq(0)
        with m.Else():
            m.d.sync += idle.eq(idle + 1)
        with m.If(self.lost):
            m.d.sync += filled.eq(0)
        with m.Elif(self.sent):
            m.d.sync += filled.eq(Mux(self.chunk_end, 0, filled + 1))
        with m.Elif(self.close):
            m.d.sync += filled.eq(0)
        return m
