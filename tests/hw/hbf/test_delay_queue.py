"""Delay queue: every item is offered in exactly the clock that its contract says."""

import random
from collections import deque

import pytest
from amaranth.lib import data

from hw.hbf.delay_queue import DelayQueue
from hw.hbf.layouts import CLOCK_BITS
from tests.hw.pysim import simulate

LEAST_CLOCKS = 2
ITEM = data.StructLayout({"name": 8})


@pytest.mark.parametrize("take", [1.0, 0.4], ids=["taken at once", "slow taker"])
@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("delay", [0, 1, 2, 3, 7, 30])
def test_items_are_offered_in_order_after_their_delay(delay, depth, take):
    pick = random.Random(f"{delay}/{depth}/{take}")
    dut = DelayQueue(ITEM, depth=depth, delay_bits=6)
    early = (1 << CLOCK_BITS) - 60  # the clock count wraps on the way
    left_at = []

    async def bench(ctx):
        held: deque[tuple[int, int]] = deque()  # clock from which it is offered, item
        ctx.set(dut.delay, delay)
        count, last_left = 0, 0
        for clock in range(300):
            ctx.set(dut.clock, (early + clock) % (1 << CLOCK_BITS))
            ready = pick.random() < take
            ctx.set(dut.o.ready, ready)
            due = max(held[0][0], last_left + 1) if held else None
            offered = due is not None and clock >= due
            assert ctx.get(dut.i.ready) == 1
            assert ctx.get(dut.o.valid) == offered, f"clock {clock}"
            enters = len(held) < depth and pick.random() < 0.6
            ctx.set(dut.i.valid, enters)
            ctx.set(dut.i.payload.name, count % 256)
            if offered:
                assert ctx.get(dut.o.payload.name) == held[0][1], f"clock {clock}"
                if ready:
                    held.popleft()
                    last_left = clock
                    left_at.append(clock)
            if enters:
                held.append((clock + max(delay, LEAST_CLOCKS), count % 256))
                count += 1
            await ctx.tick()

    simulate(dut, bench, clocks=400)
    assert len(left_at) > 250 * min(take, depth / (max(delay, 2) + 2)) / 3
