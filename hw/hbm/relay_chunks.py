"""Which page of the relay regions leaves next, and when a region may be written again."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.relay_layouts import page_layout, stored_layout
from hw.sram.regions import GROUPS
from hw.ucie.pacer import RATE_BITS


class RelayChunks(wiring.Component):
    """Chunks leave in order, page by page; each gives its region back once.

    Promise: a chunk's pages are offered when it has closed, or with ``cut_through`` each as soon as
    it is whole. A region is given back when its last page has been read: that is ``emptied``, or in
    a chunk that closed only after all its pages had left, ``spent``.

    With ``early_pages`` a region is given back while at most that many of its pages are left to
    take, if all beats that these can have are ``free`` on link B, which are reserved with it, and
    if no writer can catch the reader:

    - Slots are written in order, at most one a clock (pages of one beat), from the clock after
      ``grant``. So slot ``k`` is written ``k + 1`` clocks after it or later.
    - A page is read in ``2 G`` clocks, of ``G`` groups, conflicts with the writer included (see
      :class:`hw.hbm.relay_reader.RelayReader`), and needs no credit any more. A page is taken when
      the one before is no longer waiting and the pacer grants: ``G ceil(1 / rate)`` clocks after
      the one before at most. So reading begins ``P = max(2 G, G ceil(1 / rate)) <= 2 G / rate``
      clocks apart at most.
    - At ``grant`` one page may be in reading and one waiting. The latter begins within ``2 G``
      clocks, so page ``m`` of those left has been read after ``2 G + P m + 2 G`` clocks.
    - With ``n`` pages of which ``l`` are left that page is in slot ``n - l + m - 1``. The last one
      is the critical one, as ``P > 1``: it is safe if ``n >= P l + 4 G``, and so if

        ``n rate >= 2 G (l + 2)``

    which holds for any round trip, since it holds for none. For that bound the rate must not
    change while such pages are left: ``pace`` is ``rate`` as it was.

    Members
    -------
    stored : In: a page is whole, a chunk closes
    whole, closed : Out, one a region: pages of its chunk, and whether it has closed; zero again
        when the last one is taken or the region is given back
    page, waits : Out: the page that leaves next, while ``waits`` is high
    left : Out: pages of its region that are whole and not taken
    take : In: it is taken
    reading : In(2): regions that are being read
    emptied : In: a region is given back otherwise in this clock
    free : In: beats that link B takes
    grant, reserve : Out: a region is given back early, and so many beats are reserved
    spent : Out: a region is given back, of which nothing is left
    region : Out: that of ``page``, ``grant`` and ``spent``
    tail : Out: ``page`` is of a region that has been given back
    """

    def __init__(self, *, pages: int, credits: int) -> None:
        if credits < GROUPS:
            raise ValueError(f"credits must be at least {GROUPS}, a page, not {credits!r}")
        self._pages, self._credits = pages, credits
        super().__init__(
            {
                "rate": In(RATE_BITS + 1),
                "pace": Out(RATE_BITS + 1),
                "cut_through": In(1),
                "early_pages": In(range(credits // GROUPS + 1)),
                "stored": In(stored_layout()),
                "whole": Out(range(pages + 1)).array(2),
                "closed": Out(2),
                "page": Out(page_layout(pages)),
                "waits": Out(1),
                "left": Out(range(pages + 1)),
                "take": In(1),
                "reading": In(2),
                "emptied": In(1),
                "free": In(range(credits + 1)),
                "grant": Out(1),
                "reserve": Out(range(credits + 1)),
                "spent": Out(1),
                "region": Out(1),
                "tail": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        whole, closed = self.whole, self.closed
        page = Signal(range(self._pages))  # next of region `region`
        tail_end = Signal(range(self._pages + 1))
        here, closes = Signal.like(tail_end), Signal()
        left, end = self.left, Signal.like(tail_end)
        last = Signal()
        m.d.comb += [
            here.eq(Mux(self.region, whole[1], whole[0])),
            closes.eq(closed.bit_select(self.region, 1)),
            end.eq(Mux(self.tail, tail_end, here)),
            left.eq(end - page),
            self.waits.eq((self.tail | closes | self.cut_through) & (left != 0)),
            last.eq((self.tail | closes) & (left == 1)),
            self.page.region.eq(self.region),
            self.page.page.eq(page),
            self.page.frees.eq(last & ~self.tail),
            self.spent.eq(
                closes & ~self.tail & (left == 0) & ~self.reading.bit_select(self.region, 1)
            ),
        ]

        # Early: what is left is safe and has its credits ------------------------------------------
        safe = Signal()
        m.d.comb += [
            safe.eq(here * self.pace >= (2 * GROUPS * (left + 2)).shift_left(RATE_BITS)),
            self.grant.eq(
                (closes & ~self.tail & (left != 0) & (left <= self.early_pages))
                & (self.free >= GROUPS * left)
                & safe
                & ~self.take
                & ~self.emptied
            ),
            self.reserve.eq(GROUPS * left),
        ]
        with m.If(~self.tail & ~self.grant):
            m.d.sync += self.pace.eq(self.rate)
        with m.If(self.grant):
            m.d.sync += [self.tail.eq(1), tail_end.eq(here)]

        with m.If(self.take):
            m.d.sync += page.eq(page + 1)
        with m.If((self.take & last) | self.spent):
            m.d.sync += [self.region.eq(~self.region), page.eq(0), self.tail.eq(0)]
        for r in range(2):
            gone = self.page.frees & self.take | self.spent | self.grant
            with m.If(gone & (self.region == r)):
                m.d.sync += [closed[r].eq(0), whole[r].eq(0)]
            with m.If(self.stored.region == r):
                with m.If(self.stored.page):
                    m.d.sync += whole[r].eq(whole[r] + 1)
                with m.If(self.stored.close):
                    m.d.sync += closed[r].eq(1)
        return m
