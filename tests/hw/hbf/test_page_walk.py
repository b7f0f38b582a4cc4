"""Address map and page walks: every page asked for, once, on the die that holds it."""

import itertools
import random

import pytest

from hw.hbf.layouts import descriptor_layout
from hw.hbf.page_walk import PageWalk, locate
from hw.presets import preset
from tests.hw.beats import side_by_side
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

DESCRIPTOR = descriptor_layout(TINY)
REST = ("tag", "first_beat", "last_beat", "epoch")  # what every page carries along


def test_every_place_holds_one_page():
    g = TINY.geometry
    places = [locate(TINY, page) for page in range(g.stack_pages)]
    every_place = itertools.product(range(g.dies), range(g.planes * g.subarrays), range(g.rows))
    assert sorted(places) == sorted(every_place)


@pytest.mark.parametrize(
    ("machine", "starts"), [(TINY, range(256 - 16)), (preset("paper"), (0, 1, 777, 2047, 9999))]
)
def test_any_wave_of_pages_is_one_page_from_every_subarray(machine, starts):
    # DASH section V-A2 counts 16 dies of 32 planes of 4 subarrays.
    wave = 16 if machine is TINY else 16 * 32 * 4
    for start in starts:
        subarrays = {locate(machine, page)[:2] for page in range(start, start + wave)}
        assert len(subarrays) == wave, f"from page {start}"


def descriptors(pick):
    """Reads of all sizes, shorter than the dies are many and up to two waves."""
    for tag in range(60):
        pages = pick.choice((1, 2, 3, 5, 16, pick.randint(1, 33)))
        yield {
            "first": pick.randrange(256 - pages + 1),
            "pages": pages,
            "tag": 4000 - tag,
            "first_beat": pick.randrange(4),
            "last_beat": pick.randrange(4),
            "epoch": pick.randrange(2),
        }


@pytest.mark.parametrize("seed", range(4))
def test_dies_walk_exactly_the_pages_asked_for(seed):
    pick = random.Random(seed)
    asked = list(descriptors(pick))
    walks = [PageWalk(TINY, die=d, depth=4, descriptor=DESCRIPTOR) for d in range(4)]
    walked = [[] for _ in walks]  # (page of the read, subarray, row), and what goes with it
    expected = [[] for _ in walks]
    for read in asked:
        for page in range(read["pages"]):
            # Consecutive pages lie on consecutive dies, then subarrays, then rows.
            stack_page = read["first"] + page
            place = (stack_page // 4 % 4, stack_page // 16)
            rest = tuple(read[name] for name in REST)
            expected[stack_page % 4].append(((page, *place), rest))

    async def bench(ctx):
        left = list(asked)
        eagerness = pick.choice((0.2, 0.7, 1.0))
        while walked != expected:
            all_ready = all(ctx.get(walk.i.ready) for walk in walks)
            send = bool(left) and all_ready and pick.random() < 0.5
            for die, walk in enumerate(walks):
                ctx.set(walk.i.valid, send)
                if send:
                    ctx.set(walk.i.payload, left[0])
                ready = pick.random() < eagerness
                ctx.set(walk.o.ready, ready)
                if ready and ctx.get(walk.o.valid):
                    page = ctx.get(walk.o.payload)
                    rest = tuple(getattr(page.rest, name) for name in REST)
                    walked[die].append(((page.page, page.subarray, page.row), rest))
                    assert walked[die] == expected[die][: len(walked[die])], f"seed {seed}"
            if send:
                left.pop(0)
            await ctx.tick()
        for _ in range(20):
            assert not any(ctx.get(walk.o.valid) for walk in walks), f"seed {seed}: too many"
            await ctx.tick()

    simulate(side_by_side(*walks), bench, clocks=8000)


def test_first_page_after_three_clocks_and_two_from_read_to_read():
    dut = PageWalk(TINY, die=1, depth=4, descriptor=DESCRIPTOR)
    valid = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.i.payload, {"first": 0, "pages": 8})  # two pages of each die
        for clock in range(12):
            ctx.set(dut.i.valid, clock < 2)
            valid.append(ctx.get(dut.o.valid))
            await ctx.tick()

    simulate(dut, bench, clocks=100)
    assert valid == [0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0]
