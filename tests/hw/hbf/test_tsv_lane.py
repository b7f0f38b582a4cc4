"""The TSV lane of a die: its rate, and what passes between pages of the two directions."""

import itertools

import pytest

from hw.hbf.tsv_lane import TsvLane
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

WRITE_CLOCKS = 7  # that the beats of a write reach the die later than those of a read


def arrivals(pages, *, rate=1 << 16, t_ccs=0):
    """Clock in which each beat is on the wires of the die, with its direction and page."""
    dut = TsvLane(TINY, write_clocks=WRITE_CLOCKS)
    beats = []

    async def feed(ctx):
        ctx.set(dut.rate, rate)
        ctx.set(dut.t_ccs, t_ccs)
        ctx.set(dut.take, 1)
        for k, write in enumerate(pages):
            page = {"slot": {"subarray": k, "region": 0}, "write": write, "last_beat": 3}
            ctx.set(dut.i.payload, page)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def watch(ctx):
        for clock in range(100):
            *_, valid, page = await ctx.tick().sample(dut.valid, dut.page)
            if valid:
                beats.append((clock + WRITE_CLOCKS * page.write, page.write, page.slot.subarray))

    simulate(dut, feed, watch, clocks=200)
    assert len(beats) == 4 * len(pages)
    return beats


@pytest.mark.parametrize("t_ccs", [0, 3])
@pytest.mark.parametrize("pages", list(itertools.product((0, 1), repeat=3)), ids=str)
def test_beats_never_share_the_wires(pages, t_ccs):
    beats = arrivals(pages, t_ccs=t_ccs)
    clocks = [clock for clock, _, _ in beats]
    assert clocks == sorted(set(clocks))  # one at a time, in the order of the pages
    for (before, _, page), (after, _, other) in itertools.pairwise(beats):
        if page != other:
            assert after - before >= max(t_ccs, 1)


def test_pages_of_one_direction_follow_each_other_without_a_gap():
    for write in (0, 1):
        clocks = [clock for clock, _, _ in arrivals([write] * 3)]
        assert clocks == list(range(clocks[0], clocks[0] + 12))
