# amaranth: UnusedElaboratable=no
"""Writes, trims and releases of a die: each page has exactly one event, in turn."""

import pytest
from amaranth.hdl import Assert, Cat, Cover, Module, Signal
from amaranth.lib.wiring import In

from hw.ucie.transaction import Status
from tests.formal.die_parts import controller
from tests.formal.die_phases import Phases
from tests.formal.die_properties import DieProperties
from tests.formal.harness import Counterexample, constant, prove
from tests.formal.order import in_order

PAGE_BITS = 2  # of the number of a page: the others go the same way


class Writes(DieProperties):
    """Any page of a request to one subarray is followed, from its request to its event."""

    def __init__(self, die: type | None = None) -> None:
        super().__init__(die, {"pick": In(1)})

    def describe(self, m: Module) -> None:
        die = self._die
        around = self.surround(m)
        writes = die.seen[3]
        at = constant(m, "at", range(around.subarrays))
        request, event = die.write.payload, die.event.payload
        hand = writes.seen[5]
        inside = in_order(
            m,
            pick=self.pick,
            put=die.write.valid & die.write.ready & (request.first % around.subarrays == at),
            sent=Cat(request.index, request.pages[:PAGE_BITS]),
            take=die.event.valid & die.event.ready & (hand == at),
            received=Cat(event.index, event.page[:PAGE_BITS]),
            limit=2,
        )
        # Only a page that has arrived is programmed.
        start = writes.start
        programs = start.valid & ~start.payload.erase & (start.payload.slot.subarray == at)
        ends = die.event.valid & die.event.ready & (hand == at)
        there, cut = Signal(), Signal()
        with m.If(ends):
            m.d.sync += [there.eq(0), cut.eq(0)]
        with m.Elif(around.arrives.bit_select(at, 1)):
            m.d.sync += there.eq(1)
        with m.Elif(around.cuts.bit_select(at, 1)):
            m.d.sync += cut.eq(1)
        m.d.comb += [
            Assert(~programs | there, "programs only what has arrived"),
            Assert(~(there & cut), "cuts nothing that has arrived"),
            Cover(die.event.valid & (event.status != Status.OK), "a page fails"),
            Cover(ends & cut, "a page that was cut ends"),
            Cover(ends & (event.status == Status.LINK_RESET), "a page ends where it waits"),
            Cover(writes.granted.any() & there, "one has arrived, another is awaited"),
        ]
        if self._lemmas:
            phases = Phases(m, die, around, at)
            phases.state(m)
            waits = writes.pending.waiting.bit_select(at, 1)
            m.d.comb += Assert(
                inside == waits + (phases.active & ~phases.collecting), "waits or is under way"
            )


@pytest.mark.formal
def test_events() -> None:
    prove(Writes())
    prove(Writes(), mode="cover", depth=25)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("part", "old", "new", "violated"),
    [
        # A second page of the subarray starts beside the first.
        ("WriteAdmission", "pending.waiting & ~active", "pending.waiting", "fit|turn|one_item"),
        ("WriteAdmission", "self.event.payload.index.eq(job.index)",
         "self.event.payload.index.eq(rest.index)", "turn"),
        ("WriteAdmission", "job_write.data.page.eq(pending.page)", "job_write.data.page.eq(0)",
         "turn"),
        # A page is cut that has arrived, or was not granted.
        ("WriteAdmission", "of_link = granted &", "of_link = active &",
         "arrived|one_item|turn|fit"),
        # What was cut is programmed.
        ("WriteAdmission", "bad | given_up | left_bad", "bad | left_bad", "only_what_has_arrived"),
    ],
)  # fmt: skip
def test_broken_events_are_found(part: str, old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Writes(controller(**{part: ((old, new),)})), mode="bmc", depth=12)
