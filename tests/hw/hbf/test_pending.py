"""Pages that wait for their subarray: one a subarray, in order, and only those hold up others."""

import random

import pytest

from hw.hbf.layouts import descriptor_layout
from hw.hbf.pending import PendingPages
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

DIE = 2


def pages_of(die, reads):
    """(subarray, row, tag, page of the read) in the order of the walk."""
    return [
        ((read["first"] + k) // 4 % 4, (read["first"] + k) // 16, read["tag"], k)
        for read in reads
        for k in range(read["pages"])
        if (read["first"] + k) % 4 == die
    ]


@pytest.mark.parametrize("seed", range(4))
def test_each_page_waits_at_its_subarray_and_is_taken_in_order(seed):
    pick = random.Random(seed)
    reads = [
        {"first": pick.randrange(200), "pages": pick.choice((4, 7, 20, 40)), "tag": tag}
        for tag in range(40)
    ]
    walk = pages_of(DIE, reads)
    dut = PendingPages(TINY, die=DIE, depth=4, descriptor=descriptor_layout(TINY))
    # A slow subarray, others quick: its pages must not hold up theirs.
    chance = [1.0, 0.9, 0.04, 0.5] if seed % 2 else [0.6] * 4

    async def bench(ctx):
        left, stored, taken = list(reads), 0, 0
        waits_at = [None] * 4  # the page that waits at each subarray
        free_clocks = 0
        while taken < len(walk):
            ctx.set(dut.i.valid, bool(left))
            if left:
                ctx.set(dut.i.payload, left[0])
                if ctx.get(dut.i.ready):
                    left.pop(0)
            waiting = ctx.get(dut.waiting)
            for s in range(4):
                if waiting >> s & 1 and waits_at[s] is None:
                    page = walk[stored]
                    assert page[0] == s, f"seed {seed}: page {page} came to subarray {s}"
                    waits_at[s], stored, free_clocks = page, stored + 1, 0
                assert (waits_at[s] is not None) == bool(waiting >> s & 1), f"seed {seed}"
            # The walk needs at most two clocks from read to read; else only a taken place stops it.
            if stored < len(walk) and waits_at[walk[stored][0]] is None and stored:
                free_clocks += 1
                assert free_clocks <= 1 + 2 * 3, f"seed {seed}: page {walk[stored]} is held up"
            else:
                free_clocks = 0
            able = [s for s in range(4) if waits_at[s] and pick.random() < chance[s]]
            ctx.set(dut.take, bool(able))
            if able:
                s = pick.choice(able)
                ctx.set(dut.subarray, s)
                found = s, ctx.get(dut.row), ctx.get(dut.rest).tag, ctx.get(dut.page)
                assert found == waits_at[s], f"seed {seed}"
                waits_at[s] = None
                taken += 1
            await ctx.tick()
        assert stored == len(walk)

    simulate(dut, bench, clocks=20_000)


def test_a_busy_subarray_stops_the_walk_a_wave_later():
    dut = PendingPages(TINY, die=DIE, depth=4, descriptor=descriptor_layout(TINY))
    taken = []

    async def bench(ctx):
        ctx.set(dut.i.payload, {"first": 0, "pages": 64})
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        for _ in range(40):
            others = ctx.get(dut.waiting) & ~0b0010
            ctx.set(dut.take, others != 0)
            if others:
                subarray = (others & -others).bit_length() - 1
                ctx.set(dut.subarray, subarray)
                taken.append((ctx.get(dut.row), subarray))
            await ctx.tick()
        assert ctx.get(dut.waiting) == 0b0010

    simulate(dut, bench, clocks=100)
    # Row 0 but for subarray 1, and row 1 up to there.
    assert sorted(taken) == [(0, 0), (0, 2), (0, 3), (1, 0)]
