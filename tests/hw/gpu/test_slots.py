# amaranth: UnusedElaboratable=no
"""Slots against a set of those that are free."""

import random

import pytest

from hw.gpu.slots import Slots
from tests.hw.beats import Quiet
from tests.hw.pysim import simulate


@pytest.mark.parametrize("slots", [1, 2, 5, 8])
def test_the_lowest_free_slot_is_handed_out(slots):
    pick = random.Random(slots)
    print(f"seed {slots}")
    dut = Slots(slots=slots)
    seen = {"full": 0, "empty": 0}

    async def bench(ctx):
        ctx = Quiet(ctx)
        free, takes = set(range(slots)), 0.5
        for clock in range(800):
            if pick.random() < 0.02:
                takes = pick.choice((0.1, 0.5, 1.0))
            assert ctx.get(dut.room) == bool(free), f"clock {clock}"
            if free:
                assert ctx.get(dut.slot) == min(free), f"clock {clock}"
            seen["full"] += not free
            seen["empty"] += len(free) == slots
            taken = sorted(set(range(slots)) - free)
            freed = pick.choice(taken) if taken and pick.random() < 0.5 else None
            take = bool(free) and pick.random() < takes
            ctx.set(dut.take, take)
            # Without `valid` the slot says nothing.
            slot = pick.randrange(slots) if freed is None else freed
            ctx.set(dut.free, {"valid": freed is not None, "slot": slot})
            if take:
                free.remove(min(free))
            free |= {freed} - {None}
            await ctx.tick()

    simulate(dut, bench, clocks=810)
    assert min(seen.values()) > 10, seen


def test_a_slot_is_needed():
    with pytest.raises(ValueError, match="slots must be at least 1, not 0"):
        Slots(slots=0)
