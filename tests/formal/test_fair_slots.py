# amaranth: UnusedElaboratable=no
"""Reads of the relay and writes of link C share a die: neither keeps the other from its slots."""

import pytest
from amaranth.hdl import Assert, Cover, Module, Signal

from hw.presets import preset
from tests.formal.die import LINKS, Surroundings
from tests.formal.die_parts import controller
from tests.formal.die_phases import Phases
from tests.formal.harness import Counterexample, Properties, before, constant, prove

MACHINE = preset("formal")


class Fair(Properties):
    """One subarray is watched, any of them; both its slots, those who hold and those who wait.

    Every step in which one side could pass the other over is looked at. What a slot or a place on
    the lane is taken by, and in which order, is the controller's; when it is free again is not.
    """

    def __init__(self, die: type | None = None) -> None:
        self._lemmas = die is None
        self._die = (die or controller())(MACHINE, links=LINKS)
        super().__init__({})

    def describe(self, m: Module) -> None:
        die = self._die
        m.submodules.die = die.elaborate("formal")
        state, reads, _, writes, submodules = die.seen
        around = Surroundings(m, die, MACHINE)
        at = constant(m, "at", range(around.subarrays))
        phases = Phases(m, die, around, at)

        def here(bits):
            return bits.bit_select(at, 1)

        busy = [here(state.slot_busy[r]) for r in range(2)]
        free = Signal()
        m.d.comb += free.eq(~(busy[0] & busy[1]))
        waits, takes = Signal(), Signal()
        m.d.comb += [
            waits.eq(here(writes.waits)),
            takes.eq(writes.reserve.valid & (writes.reserve.slot.subarray == at)),
        ]
        senses = Signal()
        m.d.comb += senses.eq(reads.issue & (reads.slot.subarray == at))
        written = Signal(2)  # slots that hold pages of writes
        for r in range(2):
            with m.If(takes & (writes.reserve.slot.region == r)):
                m.d.sync += written[r].eq(1)
            with m.Elif(
                writes.free.valid
                & (writes.free.slot.subarray == at)
                & (writes.free.slot.region == r)
            ):
                m.d.sync += written[r].eq(0)
        left = before(m, waits & free & ~takes)
        lane = die.transfer
        goes = lane.valid & lane.ready
        begins = lane.valid & before(m, ~lane.valid | lane.ready, init=1)
        last_write = Signal()
        with m.If(lane.valid):
            m.d.sync += last_write.eq(lane.payload.write)
        read_stands = submodules.latched.o.valid
        m.d.comb += [
            # A write that waits: the first slot that comes free is its own.
            Assert(~left | ~waits | free, "a free slot is kept for the write that waits"),
            Assert(~(waits & senses) | ~(busy[0] | busy[1]), "reads leave it the last one"),
            # A read that waits: writes have one slot of the subarray at most, reads the other.
            Assert(~(written[0] & written[1]), "writes take one slot of two"),
            Assert(~takes | ~written.any(), "and no second one before it is free again"),
            # The way to and from the NAND: a read that stands there goes before the next write.
            Assert(~(begins & last_write & read_stands) | ~lane.payload.write, "turns on the lane"),
            Cover(waits & busy[0] & busy[1] & ~written.any(), "reads hold both, a write waits"),
            Cover(takes & (busy[0] | busy[1]), "a write beside a read"),
            Cover(senses & written.any(), "a read beside a write"),
            Cover(goes & last_write & ~lane.payload.write, "a read behind a write"),
        ]
        if self._lemmas:
            phases.state(m)


@pytest.mark.formal
def test_neither_side_takes_what_the_other_waits_for() -> None:
    prove(Fair())
    prove(Fair(), mode="cover", depth=25)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("part", "old", "new", "violated"),
    [
        ("ReadIssue", "any_slot & ~(self.write_waits & ~both_slots)", "any_slot", "kept|leave"),
        ("WriteAdmission", "self.waits.eq(pending.waiting & ~active)",
         "self.waits.eq(pending.waiting)", "one_slot|second"),
        ("DieController", "(~read.valid | ~last)", "1", "turns"),
    ],
)  # fmt: skip
def test_an_unfair_die_is_found(part: str, old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Fair(controller(**{part: ((old, new),)})), mode="bmc", depth=12)
