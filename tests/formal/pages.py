"""Which pages a die must present of a descriptor, from the address map alone."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal

from hw.hbf.page_walk import locate
from hw.params import Machine
from tests.formal.harness import constant

FOLLOWED = 1  # the tag of the descriptor that is followed; all before and after have others


class FollowedPage:
    """Any one page of any one descriptor among others: presented once if the die owns it.

    Descriptor and page are constants that may have any value.
    """

    def __init__(self, m: Module, machine: Machine, *, die: int) -> None:
        geometry = machine.geometry
        stack = geometry.stack_pages
        first = constant(m, "followed_first", range(stack))
        pages = constant(m, "followed_pages", range(stack + 1))
        page = constant(m, "followed_page", range(stack))
        self._dies, self._die = geometry.dies, die
        self._stack, self._first, self._pages, self._page = stack, first, pages, page
        self.subarray, self.row = Signal(8), Signal(8)
        self.owned = Signal()
        self.sent = Signal()
        self.presented = Signal(2)
        m.d.comb += [Assume(first + pages <= stack), Assume(pages != 0), Assume(page < pages)]
        with m.Switch(first + page):
            for number in range(stack):
                owner, subarray, row = locate(machine, number)
                with m.Case(number):
                    m.d.comb += [
                        self.owned.eq(owner == die),
                        self.subarray.eq(subarray),
                        self.row.eq(row),
                    ]

    def accepts(self, m: Module, accept, payload) -> None:
        """Descriptors lie within the stack; the followed one comes once, by its tag."""
        followed = payload.tag == FOLLOWED
        m.d.comb += [
            Assume(payload.first + payload.pages <= self._stack),
            Assume(
                ~(accept & followed)
                | (~self.sent & (payload.first == self._first) & (payload.pages == self._pages))
            ),
        ]
        with m.If(accept & followed):
            m.d.sync += self.sent.eq(1)

    def presents(self, m: Module, when, *, tag, page, subarray, row) -> Signal:
        """States what holds of presented pages; returns whether it is the followed one."""
        hit = Signal()
        m.d.comb += [
            hit.eq(when & (tag == FOLLOWED) & (page == self._page)),
            Assert(~hit | self.owned, "only pages that the die owns"),
            Assert(~hit | self.sent, "only pages that were asked for"),
            Assert(~hit | ((subarray == self.subarray) & (row == self.row)), "where it lies"),
            Assert(~(when & (tag == FOLLOWED)) | (page < self._pages), "no page past the end"),
            Assert(self.presented <= 1, "no page twice"),
            Cover(hit & (self._page > 2), "a later page"),
        ]
        with m.If(hit):
            m.d.sync += self.presented.eq(Mux(self.presented == 3, 3, self.presented + 1))
        return hit

    def walks(self, m: Module, *, local, end, first, tag) -> None:
        """States how far a walk is, in its own registers, which makes the rest inductive."""
        dies, die = self._dies, self._die
        index, mine = Signal(8), Signal()  # of the followed page among those of the die
        m.d.comb += [
            index.eq((self._first + self._page) // dies),
            mine.eq(tag == FOLLOWED),
            Assert(~mine | self.sent, "walks what was sent"),
            Assert(~mine | (first == self._first), "from the first page"),
            Assert(
                ~mine | (end == (self._first + self._pages + dies - 1 - die) // dies), "to the end"
            ),
            Assert(local <= end, "not past the end"),
            Assert(~mine | (local * dies + die >= self._first), "not before the first page"),
            Assert(
                self.presented == (self.sent & self.owned & (~mine | (local > index))),
                "presented once passed",
            ),
        ]

    def finished(self, m: Module, quiet) -> None:
        """States that nothing is missing once the block has been ``quiet``."""
        m.d.comb += [
            Assert(~(quiet & self.sent & self.owned) | (self.presented == 1), "no page lost"),
            Cover(quiet & self.sent & self.owned, "all done"),
        ]
