"""Where the beats of link C go: slots of the region that fills, bank groups in turn."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.relay_layouts import message_layout, span_layout, write_layout
from hw.sram.regions import GROUPS


class RelayReceiver(wiring.Component):
    """Gives each beat its place and tells where pages and chunks end.

    Promise: pages of a chunk fill slots 0, 1, 2 .. of one region, the next chunk the other region.
    All beats of a chunk take the bank groups in turn, over the ends of pages: of whole pages beat
    ``p`` lies in group ``p``, and after shorter ones the next page begins in the group that is
    next. So the writer never stays in a group for two clocks, and whoever reads meanwhile loses at
    most one clock a beat. A page keeps at most one beat in a group.

    A chunk closes with the last beat of a page that is marked ``chunk_end``, or with a message so
    marked that carries no data. While ``cut`` is high, the chunk under way closes with its last
    whole page; if it has none, ``tears`` gives its region up as soon as ``busy`` is low.
    Combinational; one beat a clock; nothing waits.

    Members
    -------
    i : In: what comes over link C
    cut : In: nothing comes, and what is under way will not be completed
    busy : In: another region is given up in this clock
    write : Out: place of the beat that comes
    ends, span : Out: with it its page is whole; where the page's beats lie
    closes, tears : Out: of region ``region``
    filling : Out(2): regions that hold a part of a chunk that is still open
    """

    def __init__(self, *, pages: int) -> None:
        self._pages = pages
        super().__init__(
            {
                "i": In(message_layout()),
                "cut": In(1),
                "busy": In(1),
                "write": Out(write_layout(pages)),
                "ends": Out(1),
                "span": Out(span_layout()),
                "closes": Out(1),
                "tears": Out(1),
                "region": Out(1),
                "filling": Out(2),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        i, place = self.i, self.write.place
        page, position = Signal(range(self._pages)), Signal(range(GROUPS))
        group, beat = Signal(range(GROUPS)), Signal()
        m.d.comb += [
            beat.eq(i.valid & i.beat),
            self.write.valid.eq(beat),
            place.region.eq(self.region),
            place.page.eq(page),
            place.group.eq(group),
            self.ends.eq(beat & i.page_end),
            self.span.first.eq(group - position),
            self.span.last.eq(position),
            self.closes.eq(
                (i.valid & i.chunk_end & (self.ends | ~beat)) | (self.cut & (page != 0))
            ),
            self.tears.eq(self.cut & (page == 0) & (position != 0) & ~self.busy),
            *(
                self.filling[r].eq((self.region == r) & (beat | (page != 0) | (position != 0)))
                for r in range(2)
            ),
        ]
        with m.If(beat):
            m.d.sync += [group.eq(group + 1), position.eq(position + 1)]
        with m.If(self.ends):
            m.d.sync += [page.eq(page + 1), position.eq(0)]
        with m.If(self.closes | self.tears):
            m.d.sync += [page.eq(0), position.eq(0), group.eq(0)]
        with m.If(self.closes):
            m.d.sync += self.region.eq(~self.region)
        return m
