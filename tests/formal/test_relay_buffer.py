# amaranth: UnusedElaboratable=no
"""The relay buffer, whatever comes under credit: no slot is written before it was read."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import Counterexample, constant, prove
from tests.formal.relay_traffic import ONCE, Traffic, small

LONGEST = 6  # clocks without a beat, while both regions are full


class Blocks(Traffic):
    """Whoever reads loses at most one clock a beat to the writer."""

    def describe(self, m) -> None:
        self.drive(m)
        stalled, parts = self.stalled(m), self.parts.submodules
        beat, next_beat = parts.receiver.write.place, parts.reader.place
        m.d.comb += [
            Assert(
                ~stalled | (beat.region != next_beat.region) | (beat.group != next_beat.group),
                "the writer has moved on",
            ),
            Assert(~stalled | ~parts.reader.blocked, "blocked once"),
        ]


class Slots(Traffic):
    """Of any one slot: it is written when free, read when whole, and freed by its last beat."""

    def describe(self, m) -> None:
        self.drive(m)
        self.race(m)
        whole, region, page = self.slot(m)
        chunks, reader = self.parts.submodules.chunks, self.parts.submodules.reader
        drains = chunks.region == region

        def reads(entry, there):
            return there & (entry.region == region) & (entry.page == page)

        new = (page < Mux(region, chunks.whole[1], chunks.whole[0])) & ~(
            drains & ~chunks.tail & (page < chunks.page.page)
        )
        tail = drains & chunks.tail & (page >= chunks.page.page)
        tail &= page < chunks.page.page + chunks.left
        reading = reads(reader.first, reader.rest != 0) | reads(reader.second, reader.waits)
        m.d.comb += [
            Assert(whole == (new | tail | reading), "what is whole is to be read"),
            Assert(
                self.credits + self._control.c_credit <= 2, "a credit is given once for each chunk"
            ),
        ]

    def slot(self, m):
        """The slot, and whether a page waits in it."""
        region, page = constant(m, "region", 1), constant(m, "page", range(self._pages))
        whole, control = Signal(), self._control
        write, read = control.write, control.read

        def here(of):
            return of.valid & (of.place.region == region) & (of.place.page == page)

        with m.If(here(read) & read.page_end):
            m.d.sync += whole.eq(0)
        with m.If(here(write) & control.ends):
            m.d.sync += whole.eq(1)
        m.d.comb += [
            Assert(~here(write) | ~whole, "no slot is written before its last beat was read"),
            Assert(~here(read) | whole, "what is read is whole"),
        ]
        return whole, region, page


class Overwritten(Slots):
    """The same, without what else is stated to prove it."""

    def describe(self, m) -> None:
        self.drive(m)
        self.block(m)
        self.slot(m)


class Progress(Traffic):
    """While both regions are full, a beat is read every few clocks, if link B takes it."""

    def describe(self, m) -> None:
        self.drive(m)
        away, full = self.away, self.full.all()
        waited = Signal(range(LONGEST + 2))
        with m.If(~full | self._control.read.valid):
            m.d.sync += waited.eq(0)
        with m.Else():
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += [
            Assume(self.b_credit == (away != 0)),
            Assert(waited <= LONGEST, "full regions leave"),
            Cover(full & (waited == LONGEST), "the longest wait"),
        ]


class Reached(Traffic):
    """What the proofs are about does come."""

    def describe(self, m) -> None:
        self.drive(m)
        parts = self.parts.submodules
        chunks, reader = parts.chunks, parts.reader
        m.d.comb += [
            Cover(chunks.grant, "a region is given back early"),
            Cover(chunks.spent, "a region is given back of which nothing is left"),
            Cover(chunks.tail & self.full.all(), "and filled again before its tail has left"),
            Cover(reader.blocked & reader.take, "a page begins blocked"),
            Cover(reader.take & (reader.rest != 0), "a page waits"),
        ]


def control(of: type[Traffic], *edits: tuple[str, str], **others) -> type:
    """The control of a proof; bank groups count where the beats that they block do."""
    once = () if of in (Blocks, Reached) else (ONCE,)
    return small(*edits, control=once, **others)


@pytest.mark.formal
@pytest.mark.parametrize("of", [Blocks, Slots, Progress])
def test_no_slot_is_written_before_it_was_read(of: type[Traffic]) -> None:
    prove(of(control=control(of)))


@pytest.mark.formal
def test_early_grants_are_reached() -> None:
    prove(Reached(control=control(Reached)), mode="cover", depth=60)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("of", "old", "new", "violated"),
    [
        (Slots, "                & safe\n", "", "ahead_of_the_writer"),
        (
            Overwritten,
            "(2 * GROUPS * (left + 2))",
            "(GROUPS * (left + 2))",
            "written_before_its_last_beat_was_read",
        ),
        (
            Slots,
            "                & (self.free >= GROUPS * left)\n",
            "",
            "only_credits_are_reserved",
        ),
    ],
    ids=["no bound", "half the bound", "no credits"],
)
def test_early_grants_that_are_not_safe_are_found(of, old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(of(control=control(of, (old, new))), mode="bmc")
