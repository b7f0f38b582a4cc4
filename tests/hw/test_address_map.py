"""The Python address map: the same as the RTL's page walks, one to one, and counted right."""

import itertools
import random

import numpy as np
import pytest

from hw.address_map import AddressMap, Place, Run
from hw.errors import InputError
from hw.hbf.layouts import descriptor_layout
from hw.hbf.page_walk import PageWalk, locate
from hw.params import Geometry
from hw.presets import preset
from tests.hw.beats import side_by_side
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

MINI = preset("mini").geometry
PAPER = preset("paper").geometry
MAPS = {name: AddressMap(g) for name, g in (("tiny", TINY.geometry), ("mini", MINI))}


@pytest.fixture(params=MAPS.values(), ids=MAPS)
def small(request):
    return request.param


def test_every_place_has_one_page_and_back(small):
    g = small.geometry
    pages = np.arange(g.stack_pages)
    places = small.place(pages)
    sizes = (g.dies, g.planes, g.subarrays, g.blocks_per_subarray, g.pages_per_block)
    number = np.ravel_multi_index([np.asarray(x) for x in places], sizes)
    assert np.array_equal(np.sort(number), pages)
    assert np.array_equal(small.page(places), pages)


def test_pages_go_to_dies_then_planes_then_subarrays_then_rows(small):
    """Counted up digit by digit, as the paper deals pages out."""
    g = small.geometry
    digits = itertools.product(
        range(g.blocks_per_subarray),
        range(g.pages_per_block),
        range(g.subarrays),
        range(g.planes),
        range(g.dies),
    )
    step = max(1, g.stack_pages // 5000) | 1
    for page, (block, row, subarray, plane, die) in enumerate(digits):
        if page % step == 0:
            assert small.place(page) == Place(die, plane, subarray, block, row), f"page {page}"


@pytest.mark.parametrize("seed", range(3))
def test_twin_says_where_the_rtl_walks(seed):
    machine = preset("mini")
    g, at = machine.geometry, AddressMap(machine.geometry)
    pick = random.Random(seed)
    sizes = [pick.choice((1, 2, 5, g.wave_pages, pick.randint(1, 300))) for _ in range(8)]
    reads = [(pick.randrange(g.stack_pages - n + 1), n) for n in sizes]
    descriptor = descriptor_layout(machine)
    walks = [PageWalk(machine, die=d, depth=4, descriptor=descriptor) for d in range(g.dies)]
    found = {}  # (read, page of the read) -> where it was walked

    async def bench(ctx):
        left = list(enumerate(reads))
        for walk in walks:
            ctx.set(walk.o.ready, 1)
        while len(found) < sum(sizes):
            send = bool(left) and all(ctx.get(walk.i.ready) for walk in walks)
            for die, walk in enumerate(walks):
                ctx.set(walk.i.valid, send)
                if send:
                    tag, (first, pages) = left[0]
                    ctx.set(walk.i.payload, {"first": first, "pages": pages, "tag": tag})
                if ctx.get(walk.o.valid):
                    page = ctx.get(walk.o.payload)
                    found[page.rest.tag, page.page] = (die, page.subarray, page.row)
            if send:
                left.pop(0)
            await ctx.tick()

    simulate(side_by_side(*walks), bench, clocks=6000)
    for tag, (first, pages) in enumerate(reads):
        die, plane, subarray, block, row = at.place(first + np.arange(pages))
        expected = zip(
            die, subarray * g.planes + plane, block * g.pages_per_block + row, strict=True
        )
        for page, place in enumerate(expected):
            assert found[tag, page] == place, f"seed {seed}: page {page} of read {tag}"
            assert locate(machine, first + page) == place


def test_erase_blocks_part_the_pages(small):
    g = small.geometry
    seen = np.full(g.stack_pages, -1)
    for block in range(small.blocks):
        pages = np.array(small.block_pages(block))
        assert len(pages) == g.pages_per_block
        assert (seen[pages] == -1).all()
        seen[pages] = block
        die, plane, subarray, number, row = small.place(pages)
        for same in (die, plane, subarray, number):
            assert len(set(same.tolist())) == 1, f"block {block}"
        assert row.tolist() == list(range(g.pages_per_block))  # in the order of programming
    assert np.array_equal(small.block(np.arange(g.stack_pages)), seen)


def test_an_eighth_of_the_planes_is_64_pages_in_every_512():
    runs = AddressMap(PAPER).plane_runs(range(8, 12), range(5, 7))
    assert {run.pages for run in runs} == {64}
    firsts = [run.first for run in runs]
    assert firsts == [5 * 2048 + 8 * 16 + 512 * k for k in range(8)]


@pytest.mark.parametrize("planes", [range(1), range(3, 7), range(8), range(6, 8)])
def test_plane_runs_are_all_pages_of_the_planes(planes):
    at, rows = MAPS["mini"], range(3, 6)
    pages = [p for first, n in at.plane_runs(planes, rows) for p in range(first, first + n)]
    every = np.arange(MINI.stack_pages)
    place = at.place(every)
    wanted = np.isin(place.plane, planes) & np.isin(at.row(every), rows)
    assert pages == every[wanted].tolist()


def test_split_keeps_pages_and_their_order():
    runs = [Run(7, 10), Run(40, 4), Run(100, 1)]
    split = MAPS["mini"].split(runs, 4)
    assert max(run.pages for run in split) == 4

    def pages(of):
        return [p for first, n in of for p in range(first, first + n)]

    assert pages(split) == pages(runs)
    assert len(split) == 3 + 1 + 1


@pytest.mark.parametrize("seed", range(5))
def test_load_is_what_counting_pages_gives(small, seed):
    pick = random.Random(seed)
    g = small.geometry
    runs = []
    for _ in range(pick.randint(1, 6)):
        pages = pick.randint(1, min(5 * g.wave_pages, g.stack_pages // 2))
        runs.append(Run(pick.randrange(g.stack_pages - pages + 1), pages))
    counted = np.zeros(g.wave_pages, int)
    for first, pages in runs:
        for page in range(first, first + pages):
            die, plane, subarray, _, _ = small.place(page)
            counted[(subarray * g.planes + plane) * g.dies + die] += 1
    assert small.load(runs).tolist() == counted.tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda at: at.place(-1), "page is -1: must be 0 to 32767"),
        (lambda at: at.place(np.array([5, 32768])), "page is 32768"),
        (lambda at: at.page(Place(0, 8, 0, 0, 0)), "plane is 8: must be 0 to 7"),
        (lambda at: at.block_pages(2048), "block is 2048: must be 0 to 2047"),
        (lambda at: at.plane_runs(range(8, 9), range(1)), r"planes is range\(8, 9\)"),
        (lambda at: at.plane_runs(range(0), range(1)), r"planes is range\(0, 0\)"),
        (lambda at: at.plane_runs(range(2), range(250, 257)), "rows is range"),
        (lambda at: at.load([Run(32760, 9)]), "run of 9 pages from 32760"),
        (lambda at: at.split([Run(0, 4)], 0), "longest is 0"),
    ],
)
def test_what_is_not_there_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(
            AddressMap(
                Geometry(
                    dies=4, planes=8, page_bytes=256, pages_per_block=16, blocks_per_subarray=16
                )
            )
        )
