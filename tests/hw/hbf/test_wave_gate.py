"""When a lockstep wave may start: against a plain model of the gate's promise."""

import random

import pytest

from hw.hbf.wave_gate import WaveGate
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

WINDOW = 8  # two clocks for each of the four subarrays of a die


@pytest.mark.parametrize("cache_read", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_opens_for_a_wave_when_the_last_is_sensed_and_its_region_is_free(seed, cache_read):
    pick = random.Random(f"{seed}/{cache_read}")
    dut = WaveGate(TINY)
    opened = []
    t_read = pick.choice((3, 17, 40))

    async def bench(ctx):
        ctx.set(dut.t_read, t_read)
        ctx.set(dut.cache_read, cache_read)
        left, region, began = 0, 0, 0
        sensing, stuck, pending, busy = 1, 0, 0, 0
        for clock in range(2000):
            # Inputs that stay for a while, so that all their combinations are met.
            sensing ^= pick.random() < 0.2
            stuck ^= pick.random() < 0.2
            pending ^= pick.random() < 0.2
            busy ^= (pick.random() < 0.1) | (pick.random() < 0.1) << 1
            for name, value in (("clock", clock), ("sensing", sensing), ("stuck", stuck)):
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.pending, pending)
            ctx.set(dut.region_busy, busy)
            assert ctx.get(dut.open) == (left > 0), f"clock {clock}, seed {seed}"
            waits = sensing and (not cache_read or stuck or clock - began < t_read)
            if left:
                assert ctx.get(dut.region) == region, f"clock {clock}, seed {seed}"
                left -= 1
                region ^= left == 0
            elif pending and not waits and not busy >> region & 1:
                left, began = WINDOW, clock + 1
                opened.append((busy, region, sensing))
            await ctx.tick()

    simulate(dut, bench, clocks=3000)
    # Waves alternate, and the other region may be busy as it likes.
    assert [region for _, region, _ in opened] == [k % 2 for k in range(len(opened))]
    assert {(0b10, 0), (0b01, 1), (0, 0), (0, 1)} == {(busy, r) for busy, r, _ in opened}
    # With cache read a wave may begin while the last pages of the one before still sense.
    assert any(sensing for *_, sensing in opened) == cache_read
