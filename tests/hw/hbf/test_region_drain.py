"""Whole-region draining: nothing leaves a region into which pages are still coming."""

import random
from dataclasses import dataclass

import pytest

from hw.hbf.region_drain import RegionDrain
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

DIES, SUBARRAYS, REGIONS = 4, 4, 2


@dataclass
class Page:
    die: int
    subarray: int
    region: int
    path: int
    filled: bool = False


def run(*, whole: bool, seed: int, clocks: int = 3000, load: float = 0.5):
    """Pages that drain, with clock and number of pages on their way into their region."""
    pick = random.Random(seed)
    dut = RegionDrain(TINY)
    leaving: list[tuple[int, Page, int]] = []  # clock, page, pages coming into its region

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.enable, whole)
        pages: list[Page] = []
        # Clocks for which a region has been so; whether it took pages in the clock before.
        empty, full, filled_before = [0, 0], [0, 0], [1, 1]
        for clock in range(clocks):
            say = f"clock {clock}, seed {seed}"
            fills, drains = ctx.get(dut.fills), ctx.get(dut.drains)
            if not whole:
                assert fills == drains == 3, say
            for r in range(REGIONS):
                inside = [page for page in pages if page.region == r]
                coming = [page for page in inside if not page.filled]
                can_fill, can_drain = fills >> r & 1, drains >> r & 1
                if whole:
                    assert can_fill != can_drain, say
                    assert not (can_drain and coming), f"{say}: drains before it is filled"
                    # It changes over in the clock after the last page has come, or gone.
                    assert can_fill or empty[r] < 2, say
                    assert can_drain or full[r] < 2, say
                    if can_fill and not filled_before[r]:
                        assert not inside, f"{say}: refilled before it was empty"
                empty[r] = 0 if inside else empty[r] + 1
                full[r] = full[r] + 1 if inside and not coming else 0
                filled_before[r] = can_fill

            taken = {(page.die, page.subarray, page.region) for page in pages}
            new = []
            for d in range(DIES):
                free = [
                    (s, r)
                    for s in range(SUBARRAYS)
                    for r in range(REGIONS)
                    if fills >> r & 1 and (d, s, r) not in taken
                ]
                issue = {"valid": 0}
                if free and pick.random() < load / 4:
                    s, r = pick.choice(free)
                    new.append(Page(d, s, r, pick.randrange(2)))
                    issue = {"valid": 1, "region": r}
                ctx.set(dut.issued[d], issue)

                coming = [page for page in pages if page.die == d and not page.filled]
                fill = {"valid": 0}
                done = pick.choice(coming) if coming and pick.random() < 0.3 else None
                if done:
                    slot = {"subarray": done.subarray, "region": done.region}
                    fill = {"valid": 1, "page": {"slot": slot, "path": done.path}}
                ctx.set(dut.filled[d], fill)
                for path in range(2):
                    able = [
                        page
                        for page in pages
                        if page.die == d and page.path == path and page.filled
                        if drains >> page.region & 1
                    ]
                    free = {"valid": 0}
                    if able and pick.random() < 0.4:
                        page = pick.choice(able)
                        ahead = sum(p.region == page.region and not p.filled for p in pages)
                        leaving.append((clock, page, ahead))
                        pages.remove(page)
                        free = {
                            "valid": 1,
                            "slot": {"subarray": page.subarray, "region": page.region},
                        }
                    ctx.set(dut.free[path][d], free)
                if done:
                    done.filled = True
            pages += new
            await ctx.tick()

    simulate(dut, bench, clocks=clocks + 10)
    return leaving


@pytest.mark.parametrize("load", [0.1, 2.0])
@pytest.mark.parametrize("seed", range(2))
def test_pages_leave_a_region_only_once_it_has_filled(seed, load):
    leaving = run(whole=True, seed=seed, load=load)
    assert all(coming == 0 for _, _, coming in leaving)
    # Both regions do it, again and again.
    assert all(sum(page.region == r for _, page, _ in leaving) > 100 for r in range(REGIONS))


def test_otherwise_pages_leave_while_others_come():
    leaving = run(whole=False, seed=0)
    assert sum(coming > 0 for _, _, coming in leaving) > 100
