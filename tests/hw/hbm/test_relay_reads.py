"""Reads that the HBM base die has passed on, against a table of their pages."""

import random
from collections import Counter

import pytest

from hw.hbm.relay_reads import RelayReads
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SLOTS, PAGE_UNITS = TINY.credits.descriptors, TINY.geometry.page_bytes // 64


@pytest.mark.parametrize("seed", [0, 1])
def test_reads_are_open_till_their_last_page_answer_or_end(seed):
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = RelayReads(TINY)
    seen = Counter()

    async def bench(ctx):
        ctx = Quiet(ctx)
        left = {}  # pages by slot
        aborts, until = False, 150
        for clock in range(5000):
            say = f"clock {clock}, seed {seed}"
            if clock == until:
                aborts = not aborts
                until = clock + pick.randrange(5, 20 if aborts else 200)
            ctx.set(dut.abort, aborts)
            # Pages, answers and new reads come while the link is up, all in one clock if they like.
            page, answer, passed = {"valid": 0}, {"valid": 0, "tag": pick.randrange(SLOTS)}, {}
            free = sorted(set(range(SLOTS)) - set(left))
            slots = pick.sample(sorted(left), len(left))
            if not aborts:
                if slots and pick.random() < 0.5:
                    page = {"valid": 1, "slot": slots.pop()}
                if slots and pick.random() < 0.05:
                    answer = {"valid": 1, "tag": slots.pop(), "status": 1}
                if free and pick.random() < 0.3:
                    pages = pick.choice((1, 1, 2, 3, 4096, 0))
                    length = pages * PAGE_UNITS or pick.randrange(1, PAGE_UNITS)
                    passed = {"slot": pick.choice(free), "pages": pages or 1}
                    seen["piece of a page"] += not pages
                    ctx.set(dut.passed.header, {"tag": passed["slot"], "length": length})
            ctx.set(dut.passed.valid, bool(passed))
            ctx.set(dut.page_end, page)
            ctx.set(dut.answer, answer)
            ready = pick.random() < 0.4
            ctx.set(dut.end.ready, ready)
            assert ctx.get(dut.idle) == (not left), say
            ends = ctx.get(dut.end.valid)
            assert ends == (aborts and bool(left)), say
            if ends:
                slot = ctx.get(dut.end.payload)
                assert slot in left, say
                if ready:
                    seen["ended"] += 1
                    del left[slot]
            if page["valid"]:
                slot = page["slot"]
                left[slot] -= 1
                if not left[slot]:
                    seen["whole"] += 1
                    del left[slot]
            if answer["valid"]:
                seen["answered"] += 1
                seen["answer and page"] += page["valid"]
                del left[answer["tag"]]
            if passed:
                left[passed["slot"]] = passed["pages"]
            await ctx.tick()

    simulate(dut, bench, clocks=5010)
    names = ("piece of a page", "ended", "whole", "answered", "answer and page")
    assert min(seen[name] for name in names) > 10, seen
