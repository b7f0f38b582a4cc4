# amaranth: UnusedElaboratable=no
"""Slots of a die: one page each, reads and writes, from the choice of the page to its end."""

import pytest
from amaranth.hdl import Assert, Cover, Module, Signal

from tests.formal.die_parts import controller
from tests.formal.die_phases import Phases, at_most_one, one
from tests.formal.die_properties import DieProperties
from tests.formal.harness import Counterexample, constant, prove


class Slots(DieProperties):
    """One slot is watched, any of them, through all that happens to it."""

    def describe(self, m: Module) -> None:
        die = self._die
        around = self.surround(m)
        state, reads, _, writes, _ = die.seen
        subarrays = around.subarrays
        at, region = constant(m, "at", range(subarrays)), constant(m, "region", 1)
        phases = Phases(m, die, around, at)

        def same(slot):
            return (slot.subarray == at) & (slot.region == region)

        senses = reads.issue & same(reads.slot)
        reserves = writes.reserve.valid & same(writes.reserve.slot)
        drained = [f.valid & same(f.slot) for f in (die.free_direct, die.free_relay)]
        given_back = writes.free.valid & same(writes.free.slot)
        read, written = Signal(), Signal()  # the slot holds, or waits for, a page that is
        with m.If(senses):
            m.d.sync += read.eq(1)
        with m.Elif(drained[0] | drained[1]):
            m.d.sync += read.eq(0)
        with m.If(reserves):
            m.d.sync += written.eq(1)
        with m.Elif(given_back):
            m.d.sync += written.eq(0)
        busy = state.slot_busy[1].bit_select(at, 1)
        busy = (region & busy) | (~region & state.slot_busy[0].bit_select(at, 1))
        m.d.comb += [
            Assert(~(read & written), "never a read and a write"),
            Assert(~(senses & reserves), "never taken twice in a clock"),
            Assert(~(senses | reserves) | ~(read | written), "taken only while free"),
            Assert(~(drained[0] & drained[1]), "drained once"),
            Assert(~(drained[0] | drained[1]) | read, "reads free what reads hold"),
            Assert(~given_back | written, "writes free what writes hold"),
            Assert(busy == (read | written), "busy exactly while held"),
            Assert(one(*phases.read_places(region)) == read, "a page is at its place"),
            Assert(at_most_one(*phases.read_places(region)), "at one place"),
            Assert(written == (phases.reserved & (phases.region == region)), "the slot of a write"),
            Cover(read & before_free(m, given_back), "a read after a write"),
            Cover(written & before_free(m, drained[0] | drained[1]), "a write after a read"),
            Cover(senses & writes.reserve.valid, "a read and a write in one clock"),
        ]
        if self._lemmas:
            phases.state(m)


def before_free(m: Module, event) -> Signal:
    """``event`` has happened before."""
    past = Signal()
    with m.If(event):
        m.d.sync += past.eq(1)
    return past


@pytest.mark.formal
def test_slots() -> None:
    prove(Slots())
    prove(Slots(), mode="cover", depth=25)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("part", "old", "new", "violated"),
    [
        ("ReadIssue", "~self.slot_free[0].bit_select(self.slot.subarray, 1)", "0", "free|busy"),
        # Reads take the last free slot although a write takes it in the same clock.
        ("ReadIssue", "any_slot & ~(self.write_waits & ~both_slots)", "any_slot", "twice"),
        ("WriteAdmission", "eligible.eq(self.waits & free_slot)", "eligible.eq(self.waits)",
         "free|twice"),
        # A page that is refused gives back a slot of the other region.
        ("WriteAdmission", "self.free.slot.region.eq(region.bit_select(at, 1))",
         "self.free.slot.region.eq(0)", "writes_free"),
        # A page that ends where it waits keeps a slot.
        ("WriteAdmission", "picks & writes & ~orphaned", "picks & writes", "slot_of_a_write"),
        ("SubarrayState", "(freed[0] | freed[1] | freed[2])", "(freed[0] | freed[1])", "busy"),
        ("SubarrayState", "event.valid & (event.slot.region == r)", "event.valid", "busy"),
        ("DieController", "state.free_relay.eq(self.free_relay)", "state.free_relay.eq(0)", "busy"),
    ],
)  # fmt: skip
def test_broken_slots_are_found(part: str, old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Slots(controller(**{part: ((old, new),)})), mode="bmc", depth=12)
