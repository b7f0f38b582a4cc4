"""A path's availability: without credit at most about one wave of its pages is under way."""

import random

import pytest

from hw.hbf.path_gate import PathGate
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

DIES, WAVE = 4, 16


@pytest.mark.parametrize("seed", range(2))
def test_a_path_without_credit_prepares_one_wave(seed):
    pick = random.Random(seed)
    dut = PathGate(TINY)
    most = shut = 0

    async def bench(ctx):
        nonlocal most, shut
        under_way, flows = 0, True
        for clock in range(2000):
            flows ^= pick.random() < 0.02
            ctx.set(dut.flows, flows)
            is_open = ctx.get(dut.open)
            assert is_open == (flows or under_way < WAVE), f"clock {clock}, seed {seed}"
            shut += not is_open
            # Two waves of slots are all there is.
            issues = is_open and pick.random() < 0.4
            issued = min(pick.randint(0, DIES), 2 * WAVE - under_way) if issues else 0
            sent = int(under_way > 0 and flows and pick.random() < 0.9)
            ctx.set(dut.issued, issued)
            ctx.set(dut.sent, sent)
            under_way += issued - sent
            if issued and not flows:
                most = max(most, under_way)
            await ctx.tick()

    simulate(dut, bench, clocks=3000)
    assert shut > 100 and WAVE <= most < WAVE + DIES
