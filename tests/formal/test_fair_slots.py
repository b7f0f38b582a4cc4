# amaranth: UnusedElaboratable=no
"""Reads and writes share the slots of a die: neither keeps the other from its own for long."""

import pytest
from amaranth.hdl import Assert, Cat, Cover, Module, Signal

from tests.formal.die_parts import controller
from tests.formal.die_phases import Phases
from tests.formal.die_properties import DieProperties
from tests.formal.harness import Counterexample, before, constant, prove


class Fair(DieProperties):
    """One subarray is watched, any of them; both its slots, those who hold and those who wait.

    Waits are counted in steps of those who go first, whose own time is not looked at: a page of a
    write waits for one slot to come free and then for one page of each other subarray; a page that
    is read waits for the slots of other reads and for no write; on the lane they take turns. With
    one region shut to reads they do wait for a write, until it begins.
    """

    def describe(self, m: Module) -> None:
        die = self._die
        around = self.surround(m)
        state, reads, array, writes, submodules = die.seen
        subarrays = around.subarrays
        at = constant(m, "at", range(subarrays))

        def here(bits):
            return bits.bit_select(at, 1)

        busy = Cat(here(state.slot_busy[r]) for r in range(2))
        free = Signal()
        waits, takes, senses = Signal(), Signal(), Signal()
        m.d.comb += [
            free.eq(~busy.all()),
            waits.eq(here(writes.waits)),
            takes.eq(writes.reserve.valid & (writes.reserve.slot.subarray == at)),
            senses.eq(reads.issue & (reads.slot.subarray == at)),
        ]
        written = Signal(2)  # slots that hold pages of writes, or wait for them
        frees = []
        for r in range(2):
            frees += [
                event.valid & (event.slot.subarray == at) & (event.slot.region == r)
                for event in (writes.free, die.free_direct, die.free_relay)
            ]
            with m.If(takes & (writes.reserve.slot.region == r)):
                m.d.sync += written[r].eq(1)
            with m.Elif(frees[-3]):
                m.d.sync += written[r].eq(0)

        # A write ----------------------------------------------------------------------------------
        begins = writes.pending.take & (writes.pending.subarray == at)
        released = Signal()  # a slot came free while it waits
        passed = Signal(range(subarrays + 1))  # pages of others begun while it could have
        with m.If(~waits | begins):
            m.d.sync += released.eq(0)
        with m.Elif(Cat(frees).any()):
            m.d.sync += released.eq(1)
        with m.If(~(waits & free) | begins):
            m.d.sync += passed.eq(0)
        with m.Elif(writes.pending.take):
            m.d.sync += passed.eq(passed + 1)
        kept = before(m, waits & free & ~begins)

        both_open = die.region_open.all() & ~die.registers.lockstep

        # The lane ---------------------------------------------------------------------------------
        lane = die.transfer
        moves = lane.valid & before(m, ~lane.valid | lane.ready, init=1)
        last_write = Signal()
        with m.If(lane.valid):
            m.d.sync += last_write.eq(lane.payload.write)
        stands = [submodules.latched.o.valid, array.loaded.valid]
        m.d.comb += [
            Assert(~released | free, "the first slot that comes free is for the write"),
            Assert(~(kept & waits) | free, "a free slot is kept for the write"),
            Assert(~(waits & senses) | ~busy.any(), "reads leave it the last one"),
            Assert(passed < subarrays, "and then it begins in its turn"),
            Assert(~written.all(), "writes take one slot of two"),
            Assert(~takes | ~written.any(), "and no second one before it is free again"),
            Assert(
                ~both_open | here(reads.slot_gate) | (busy & ~written).any(),
                "reads wait for reads only",
            ),
            Assert(~(moves & last_write & stands[0]) | ~lane.payload.write, "turns on the lane"),
            Assert(~(moves & ~last_write & stands[1]) | lane.payload.write, "turns of the write"),
            Cover(waits & busy.all() & ~written.any(), "reads hold both, a write waits"),
            Cover(takes & released & busy.any(), "a write gets what a read leaves"),
            Cover(takes & (passed == subarrays - 1), "a write begins last"),
            Cover(senses & written.any(), "a read beside a write"),
            Cover(moves & last_write & ~lane.payload.write, "a read behind a write"),
        ]
        if self._lemmas:
            phases = Phases(m, die, around, at)
            phases.state(m)
            for r in range(2):
                holds = phases.reserved & (phases.region == r)
                m.d.comb += Assert(written[r] == holds, f"knows what writes hold {r}")


@pytest.mark.formal
def test_neither_side_takes_what_the_other_waits_for() -> None:
    prove(Fair())
    prove(Fair(), mode="cover", depth=25)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("part", "old", "new", "violated"),
    [
        ("ReadIssue", "any_slot & ~(self.write_waits & ~both_slots)", "any_slot", "kept|leave"),
        # While writes wait, reads do.
        ("ReadIssue", "any_slot & ~(self.write_waits & ~both_slots)",
         "any_slot & ~self.write_waits", "reads_only"),
        ("WriteAdmission", "self.waits.eq(pending.waiting & ~active)",
         "self.waits.eq(pending.waiting)", "reads_only|one_slot|second"),
        # The lowest subarray goes first.
        ("WriteAdmission", "turns.take.eq(picks)", "turns.take.eq(0)", "in_its_turn"),
        ("DieController", "(~read.valid | ~last)", "1", "turns_on"),
        ("DieController", "write.valid & (~read.valid | ~last)", "write.valid & ~read.valid",
         "turns_of"),
    ],
)  # fmt: skip
def test_an_unfair_die_is_found(part: str, old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Fair(controller(**{part: ((old, new),)})), mode="bmc", depth=20)
