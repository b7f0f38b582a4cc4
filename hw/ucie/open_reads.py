"""Reads that are open on one link: how many of their pages have come."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.bits import line
from hw.params import TRANSACTION_PAGES

PAGES = range(TRANSACTION_PAGES + 1)


class OpenReads(wiring.Component):
    """Counts the pages of each open read, by its slot.

    Promise: a slot is open from the clock after ``begin`` to that of its last ``page`` or of
    ``end``. ``whole`` tells in the clock of ``page`` that it is the last one, ``missing`` how many
    pages of ``end.slot`` have not come, that of this clock among them. Nothing is held back.

    Contract: ``begin`` only of a slot that is not open, ``page`` and ``end`` only of one that is,
    not both of one slot in a clock.

    Members
    -------
    begin : In: slot and pages; page, end : In: slot
    whole : Out; missing : Out; open : Out, one bit a slot
    """

    def __init__(self, *, slots: int) -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, not {slots!r}")
        self._slots = slots
        of_slot = {"valid": 1, "slot": range(slots)}
        super().__init__(
            {
                "begin": In(data.StructLayout({**of_slot, "pages": PAGES})),
                "page": In(data.StructLayout(of_slot)),
                "end": In(data.StructLayout(of_slot)),
                "whole": Out(1),
                "missing": Out(PAGES),
                "open": Out(slots),
            }
        )

    @property
    def slots(self) -> int:
        return self._slots

    def elaborate(self, platform) -> Module:
        m = Module()
        slots = self._slots
        m.submodules.wanted = wanted = Memory(shape=PAGES, depth=slots, init=[])
        m.submodules.counts = counts = Memory(shape=PAGES, depth=slots, init=[])
        want = wanted.write_port()
        m.d.comb += [
            want.en.eq(self.begin.valid),
            want.addr.eq(self.begin.slot),
            want.data.eq(self.begin.pages),
        ]

        fresh = Signal(slots)  # nothing has come since `begin`: the count is an old one
        left = []  # before this clock, of the slot of `page` and of `end`
        for of in (self.page, self.end):
            pages, count = wanted.read_port(domain="comb"), counts.read_port(domain="comb")
            so_far, rest = Signal(PAGES), Signal(PAGES)
            m.d.comb += [
                pages.addr.eq(of.slot),
                count.addr.eq(of.slot),
                rest.eq(pages.data - so_far),
            ]
            with m.If(~fresh.bit_select(of.slot, 1)):
                m.d.comb += so_far.eq(count.data)
            left.append((so_far, rest))
        (so_far, rest), (_, missing) = left
        store = counts.write_port()
        m.d.comb += [
            self.whole.eq(self.page.valid & (rest == 1)),
            self.missing.eq(missing),
            store.en.eq(self.page.valid),
            store.addr.eq(self.page.slot),
            store.data.eq(so_far + 1),
        ]
        begins = line(self.begin.valid, self.begin.slot, slots)
        paged = line(self.page.valid, self.page.slot, slots)
        ends = line(self.end.valid, self.end.slot, slots) | line(self.whole, self.page.slot, slots)
        m.d.sync += [
            fresh.eq((fresh & ~paged) | begins),
            self.open.eq((self.open & ~ends) | begins),
        ]
        return m
