"""Weighted choice: shares, bounds of waiting and what a lone request gets, against plain counts."""

import itertools
import random
from fractions import Fraction
from math import ceil
from typing import Any

import pytest

from hw.weighted import WEIGHT_BITS, WeightedPair
from tests.hw.pysim import simulate

WEIGHTS = [(1, 1), (1, 15), (15, 1), (3, 5), (7, 7), (12, 9)]


@pytest.mark.parametrize("weights", WEIGHTS)
def test_contended_takes_are_shared_by_weight(weights: tuple[int, int]) -> None:
    """In every stretch the share is the weight's to within one take, others being free between."""
    pick = random.Random(f"{weights}")
    print(f"seed {weights}")
    dut = WeightedPair()
    taken: list[int] = []

    async def bench(ctx: Any) -> None:
        for k, weight in enumerate(weights):
            ctx.set(dut.weight[k], weight)
        while len(taken) < 600:
            request, take = pick.choice([3, 3, 3, 2, 1, 0]), pick.random() < 0.7
            ctx.set(dut.request, request)
            ctx.set(dut.take, take)
            grant = ctx.get(dut.grant)
            if request != 3:
                assert grant == request
            else:
                assert grant in (1, 2)
                if take:
                    taken.append(grant >> 1)
            await ctx.tick()

    simulate(dut, bench, clocks=4000)
    share = Fraction(weights[1], sum(weights))
    for begin, end in itertools.combinations(range(0, 601, 30), 2):
        of_second = sum(taken[begin:end])
        assert abs(of_second - share * (end - begin)) < 2, (begin, end)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_nobody_waits_longer_than_the_ratio_of_weights(weights: tuple[int, int]) -> None:
    dut = WeightedPair()
    longest = [0, 0]

    async def bench(ctx: Any) -> None:
        for k, weight in enumerate(weights):
            ctx.set(dut.weight[k], weight)
        ctx.set(dut.request, 3)
        ctx.set(dut.take, 1)
        waits = [0, 0]
        for _ in range(200):
            served = ctx.get(dut.grant) >> 1
            waits[served], waits[1 - served] = 0, waits[1 - served] + 1
            for k in range(2):
                longest[k] = max(longest[k], waits[k])
            await ctx.tick()

    simulate(dut, bench, clocks=300)
    assert longest == [ceil(Fraction(weights[1 - k], weights[k])) for k in range(2)]


def test_a_weight_of_zero_is_one() -> None:
    dut = WeightedPair()
    grants = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.weight[0], (1 << WEIGHT_BITS) - 1)
        ctx.set(dut.weight[1], 0)
        ctx.set(dut.request, 3)
        ctx.set(dut.take, 1)
        for _ in range(64):
            grants.append(ctx.get(dut.grant))
            await ctx.tick()

    simulate(dut, bench, clocks=100)
    assert grants.count(2) == 4
