"""Reads pages out of the relay regions, beat by beat, beside whoever writes."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.relay_layouts import page_layout, place_layout, read_layout, span_layout
from hw.sram.regions import GROUPS


class RelayReader(wiring.Component):
    """Reads the beats of one page after the other.

    Promise: beats are read in order, one a clock, but for clocks in which the group that is next is
    ``blocked``. The first beat of a page is read in the clock after the page was taken, or right
    after the last beat of the page before; one page may wait for that. A writer that takes the
    groups in turn blocks a beat once at most: it has moved on then. So a page takes no more than
    ``2 * GROUPS`` clocks. Back-pressure: ``ready``.

    Members
    -------
    take, ready : In, Out: ``page`` with its ``span`` is taken; only while ``ready``
    lost : In: what is taken is read without anyone to take it, with ``dropped``
    place, blocked : Out, In: of the beat that is next, which cannot be read in this clock
    read : Out: what is read
    emptied, region : Out: a region is free after this clock
    regions : Out(2): regions that are still to be read from
    """

    def __init__(self, *, pages: int) -> None:
        self._pages = pages
        super().__init__(
            {
                "take": In(1),
                "page": In(page_layout(pages)),
                "span": In(span_layout()),
                "lost": In(1),
                "ready": Out(1),
                "place": Out(place_layout(pages)),
                "blocked": In(1),
                "read": Out(read_layout(pages)),
                "emptied": Out(1),
                "region": Out(1),
                "regions": Out(2),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        pages, read, place = self._pages, self.read, self.place
        entry = data.StructLayout(
            {"page": page_layout(pages), "group": range(GROUPS), "left": range(GROUPS), "lost": 1}
        )  # group of the next beat, and beats after it
        now, waiting = Signal(entry), Signal(entry)
        busy, waits = Signal(), Signal()
        page = Signal(entry)  # whose beat is next
        moves, done = Signal(), Signal()
        m.d.comb += [
            page.eq(Mux(busy, now, waiting)),
            moves.eq((busy | waits) & ~self.blocked),
            done.eq(moves & (page.left == 0)),
            self.ready.eq(~busy | ~waits),
            place.region.eq(page.page.region),
            place.page.eq(page.page.page),
            place.group.eq(page.group),
            read.valid.eq(moves),
            read.place.eq(place),
            read.page_end.eq(page.left == 0),
            read.dropped.eq(page.lost),
            self.emptied.eq(done & page.page.frees),
            self.region.eq(page.page.region),
            *(
                self.regions[r].eq(
                    (busy & (now.page.region == r)) | (waits & (waiting.page.region == r))
                )
                for r in range(2)
            ),
        ]
        m.d.sync += [busy.eq((busy | waits) & ~done), now.eq(page)]
        with m.If(moves):
            m.d.sync += [now.group.eq(page.group + 1), now.left.eq(page.left - 1)]
        with m.If(self.take):
            m.d.sync += [
                waits.eq(1),
                waiting.page.eq(self.page),
                waiting.group.eq(self.span.first),
                waiting.left.eq(self.span.last),
                waiting.lost.eq(self.lost),
            ]
        with m.Elif(~busy):
            m.d.sync += waits.eq(0)
        return m
