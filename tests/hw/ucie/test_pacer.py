"""The frame pacer: its share in the long run, and how evenly it is spread."""

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from hw.ucie.pacer import FramePacer
from tests.hw.pysim import simulate

Use = Callable[[int], bool]


def run_frames(rate: int, frames: int, use: Use, ticks: Use = lambda clock: True) -> list[bool]:
    """Which frames were granted and used."""
    pacer = FramePacer()
    used: list[bool] = []

    async def bench(ctx: Any) -> None:
        ctx.set(pacer.rate, rate)
        clock = 0
        while len(used) < frames:
            tick = ticks(clock)
            ctx.set(pacer.tick, tick)
            grant = ctx.get(pacer.grant)
            assert tick or not grant, clock
            uses = bool(grant) and use(len(used))
            ctx.set(pacer.use, uses)
            if tick:
                used.append(uses)
            await ctx.tick()
            clock += 1

    simulate(pacer, bench, clocks=20 * frames)
    return used


def excess(used: Sequence[bool], share: Fraction) -> tuple[Fraction, Fraction]:
    """The most by which any stretch has more, and less, used frames than its share."""
    ahead = [Fraction(0)]
    for frame in used:
        ahead.append(ahead[-1] + frame - share)
    most = least = low = high = Fraction(0)
    for value in ahead:
        low, high = min(low, value), max(high, value)
        most, least = max(most, value - low), max(least, high - value)
    return most, least


# The rates of a link, of a TSV lane, the ends, and neighbours of both.
RATES = [0, 1, 6400, 21845, 32768, 51200, 51201, 65535, 65536]


def test_the_link_carries_25_of_32_pages() -> None:
    used = run_frames(51200, 320, lambda frame: True)
    for start in range(0, 320, 32):
        assert sum(used[start : start + 32]) == 25


@pytest.mark.parametrize("rate", RATES)
def test_any_stretch_has_its_share_to_within_one(rate: int) -> None:
    used = run_frames(rate, 300, lambda frame: True)
    most, least = excess(used, Fraction(rate, 65536))
    assert most <= 1
    assert least <= 1


@pytest.mark.parametrize("rate", [6400, 21845, 51200])
def test_gaps_differ_by_one_frame_at_most(rate: int) -> None:
    used = run_frames(rate, 300, lambda frame: True)
    places = [k for k, grant in enumerate(used) if grant]
    assert len({after - before for before, after in pairwise(places)}) <= 2


def test_long_run_share_is_exact() -> None:
    # 2531/4096 of the frames: after 4096 of them every fraction of a page has come up.
    assert sum(run_frames(2531 * 16, 4096, lambda frame: True)) == 2531


USES: dict[str, Use] = {
    "random": lambda frame: random.Random(frame).random() < 0.5,
    "rarely": lambda frame: random.Random(frame).random() < 0.05,
    "after a long rest": lambda frame: frame > 100,
    "in bursts": lambda frame: frame // 37 % 2 == 1,
}


@pytest.mark.parametrize("rate", [6400, 32768, 51200, 65535])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_unused_grants_do_not_add_up(rate: int, use: Use) -> None:
    most, _ = excess(run_frames(rate, 300, use), Fraction(rate, 65536))
    assert most <= 1


def test_one_unused_grant_is_kept() -> None:
    used = run_frames(16384, 20, lambda frame: frame >= 10)
    # One frame in four; the grant of frame 3 waits until 10, its successors count from there.
    assert [k for k, grant in enumerate(used) if grant] == [10, 13, 17]


def test_time_without_frames_does_not_count() -> None:
    assert run_frames(51200, 64, lambda frame: True) == run_frames(
        51200, 64, lambda frame: True, ticks=lambda clock: clock % 4 == 2
    )
