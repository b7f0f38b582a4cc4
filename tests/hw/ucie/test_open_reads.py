# amaranth: UnusedElaboratable=no
"""Reads that are open, against a table of their pages."""

import random

import pytest

from hw.hbf.layouts import MAX_PAGES
from hw.ucie.open_reads import OpenReads
from tests.hw.beats import Quiet
from tests.hw.pysim import simulate

NONE = {"valid": 0}


@pytest.mark.parametrize("slots", [1, 4, 5])
def test_slots_are_open_till_their_last_page_or_their_end(slots):
    """Begins, pages and ends in any clocks, of different slots in one; slots are used again."""
    pick = random.Random(slots)
    print(f"seed {slots}")
    dut = OpenReads(slots=slots)
    seen = {"whole": 0, "untouched": 0, "cut": 0, "page and end": 0, "all at once": 0, "anew": 0}

    async def bench(ctx):
        ctx = Quiet(ctx)
        left, asked = {}, {}  # pages by slot
        closed = None  # in the clock before
        for clock in range(4000):
            say = f"clock {clock}, slots {slots}"
            assert ctx.get(dut.open) == sum(1 << slot for slot in left), say
            used = set(left)
            page, end = dict(NONE), {"valid": 0, "slot": pick.randrange(slots)}
            whole = None
            if left and pick.random() < 0.7:
                slot = pick.choice(sorted(left))
                page = {"valid": 1, "slot": slot}
                if left[slot] == 1:
                    whole = slot
            others = sorted(set(left) - {page.get("slot")})
            if others and pick.random() < 0.15:
                end = {"valid": 1, "slot": pick.choice(others)}
            free = sorted(set(range(slots)) - used)
            begin = dict(NONE)
            if free and pick.random() < 0.5:
                pages = pick.choice((1, 1, 2, 3, 9, MAX_PAGES))
                begin = {"valid": 1, "slot": pick.choice(free), "pages": pages}
            for port, value in ((dut.begin, begin), (dut.page, page), (dut.end, end)):
                ctx.set(port, value)
            assert ctx.get(dut.whole) == (whole is not None), say
            if end["valid"]:
                slot = end["slot"]
                assert ctx.get(dut.missing) == left[slot], say
                seen["untouched" if left[slot] == asked[slot] else "cut"] += 1
                del left[slot]
            if page["valid"]:
                left[page["slot"]] -= 1
                if whole is not None:
                    seen["whole"] += 1
                    del left[whole]
            if begin["valid"]:
                left[begin["slot"]] = asked[begin["slot"]] = begin["pages"]
                seen["anew"] += begin["slot"] == closed
            seen["page and end"] += page["valid"] and end["valid"]
            seen["all at once"] += page["valid"] and end["valid"] and begin["valid"]
            closed = end["slot"] if end["valid"] else whole
            await ctx.tick()

    simulate(dut, bench, clocks=4010)
    needed = {"whole", "untouched", "cut", "anew"}
    if slots > 2:
        needed = set(seen)
    assert all(seen[name] >= 10 for name in needed), seen


def test_the_longest_read_is_counted_to_its_end():
    dut = OpenReads(slots=2)

    async def bench(ctx):
        ctx.set(dut.begin, {"valid": 1, "slot": 1, "pages": MAX_PAGES})
        await ctx.tick()
        ctx.set(dut.begin.valid, 0)
        ctx.set(dut.page, {"valid": 1, "slot": 1})
        ctx.set(dut.end.slot, 1)  # `missing` shows it all the time
        for come in range(MAX_PAGES):
            assert ctx.get(dut.open) == 2
            assert ctx.get(dut.missing) == MAX_PAGES - come
            assert ctx.get(dut.whole) == (come == MAX_PAGES - 1)
            await ctx.tick()
        assert ctx.get(dut.open) == 0

    simulate(dut, bench, clocks=MAX_PAGES + 10)


@pytest.mark.parametrize("slots", [0, -1])
def test_there_is_a_slot(slots):
    with pytest.raises(ValueError, match=rf"slots must be at least 1, not {slots}"):
        OpenReads(slots=slots)
