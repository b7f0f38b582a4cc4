"""A path's availability: without credit at most about one wave of its pages is under way.

It is idle when it owes nothing.
"""

import random

import pytest

from hw.hbf.layouts import MAX_PAGES
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


@pytest.mark.parametrize("seed", range(2))
def test_idle_exactly_while_no_accepted_page_is_still_to_be_sent(seed):
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = PathGate(TINY)
    idle = longest = 0

    async def bench(ctx):
        nonlocal idle, longest
        left = waiting = 0  # pages accepted and not sent, and of these not issued
        for clock in range(3000):
            accepts = pick.random() < (0.02 if clock % 600 < 300 else 0)
            accepted = pick.choice((1, 2, 7, 40)) if accepts else 0
            issued = min(pick.randint(0, DIES), waiting, 2 * WAVE - (left - waiting))
            sent = int(left > waiting and pick.random() < 0.9)
            ctx.set(dut.accepted, accepted)
            ctx.set(dut.issued, issued)
            ctx.set(dut.sent, sent)
            assert ctx.get(dut.idle) == (left == 0), f"clock {clock}"
            idle += left == 0
            longest = max(longest, left)
            left += accepted - sent
            waiting += accepted - issued
            await ctx.tick()

    simulate(dut, bench, clocks=4000)
    assert idle > 100 and longest > 40


def test_counts_all_the_pages_that_the_dies_can_hold_before_they_issue_one():
    """The longest reads, more of them than the queues of the walks hold."""
    dut = PathGate(TINY)
    reads = 600

    async def bench(ctx):
        ctx.set(dut.accepted, MAX_PAGES)
        for _ in range(reads):
            await ctx.tick()
            assert not ctx.get(dut.idle)

    simulate(dut, bench, clocks=reads + 1)
