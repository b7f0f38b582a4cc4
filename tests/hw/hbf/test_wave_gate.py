"""When a lockstep wave may start: against a plain model of the gate's promise."""

import random

import pytest

from hw.hbf.wave_gate import WaveGate
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

WINDOW = 4  # subarrays of a die


@pytest.mark.parametrize("seed", range(3))
def test_opens_for_a_wave_when_nothing_senses_and_its_region_is_free(seed):
    pick = random.Random(seed)
    dut = WaveGate(TINY)
    opened = []

    async def bench(ctx):
        left, region = 0, 0
        sensing, pending, busy = 1, 0, 0
        for clock in range(2000):
            # Inputs that stay for a while, so that all their combinations are met.
            sensing ^= pick.random() < 0.2
            pending ^= pick.random() < 0.2
            busy ^= (pick.random() < 0.1) | (pick.random() < 0.1) << 1
            ctx.set(dut.sensing, sensing)
            ctx.set(dut.pending, pending)
            ctx.set(dut.region_busy, busy)
            assert ctx.get(dut.open) == (left > 0), f"clock {clock}, seed {seed}"
            if left:
                assert ctx.get(dut.region) == region, f"clock {clock}, seed {seed}"
                left -= 1
                region ^= left == 0
            elif pending and not sensing and not busy >> region & 1:
                left = WINDOW
                opened.append((busy, region))
            await ctx.tick()

    simulate(dut, bench, clocks=3000)
    # Waves alternate, and the other region may be busy as it likes.
    assert [region for _, region in opened] == [k % 2 for k in range(len(opened))]
    assert {(0b10, 0), (0b01, 1), (0, 0), (0, 1)} == set(opened)
