# amaranth: UnusedElaboratable=no
"""Policies of the router by themselves, and in it, against what they say they do."""

import random
from collections import Counter

import pytest

from hw.gpu.path_policy import Alternate, LeastOutstanding
from hw.gpu.router import Choice, RequestRouter
from tests.hw.beats import Quiet, clocked
from tests.hw.machines import TINY
from tests.hw.pysim import simulate


def least(outstanding, last):
    return 1 if outstanding[1] < outstanding[0] else 0


def alternate(outstanding, last):
    return 1 - last


POLICIES = {LeastOutstanding: least, Alternate: alternate}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_chooses_as_it_says_among_paths_that_are_not_lost(policy):
    pick = random.Random(policy.__name__)
    dut = policy()
    chosen = Counter()

    async def bench(ctx):
        for _ in range(500):
            base = pick.choice((0, 5, 2**23))
            outstanding = [base + pick.randrange(3) for _ in range(2)]
            lost, last = pick.randrange(4), pick.randrange(2)
            for p in range(2):
                ctx.set(dut.outstanding[p], outstanding[p])
            ctx.set(dut.lost, lost)
            ctx.set(dut.last, last)
            path = ctx.get(dut.path)
            if lost in (1, 2):
                assert path == (lost == 1)
            elif lost == 0:
                assert path == POLICIES[policy](outstanding, last), (outstanding, last)
            chosen[lost, path] += 1
            await ctx.tick()

    simulate(clocked(dut), bench, clocks=510)
    assert min(chosen[0, 0], chosen[0, 1]) > 20


@pytest.mark.parametrize("policy", POLICIES)
def test_the_router_follows_its_policy(policy):
    """Reads that name their path change what is outstanding, but not whose turn it is."""
    seed = policy.__name__
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = RequestRouter(TINY, pairs=1, direct=True, relay=True, policy=policy)
    taken = Counter()

    async def bench(ctx):
        ctx = Quiet(ctx)
        open_ = [[], []]  # slot and pages
        last, lost = 1, 0
        ctx.set(dut.may_send, 3)
        ctx.set(dut.window, 1000)
        for clock in range(1500):
            if pick.random() < 0.03:
                lost = pick.choice((0, 0, 1, 2))
            choice, pages = Choice(pick.randrange(3)), pick.randint(1, 9)
            valid = pick.random() < 0.8
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.payload, {"pages": pages, "choice": choice})
            ctx.set(dut.lost, lost)
            outstanding = [sum(pages for _, pages in reads) for reads in open_]
            for p, reads in enumerate(open_):  # a read comes at once and as a whole
                ends = bool(reads) and pick.random() < 0.3
                slot, came = reads.pop(pick.randrange(len(reads))) if ends else (0, 0)
                ctx.set(dut.completed[p], {"valid": ends, "slot": slot})
                ctx.set(dut.received[p], came)
            accepted = ctx.get(dut.accepted)
            if accepted.valid:
                path = int(choice)
                if choice == Choice.LEAST_LOADED:
                    path = POLICIES[policy](outstanding, last)
                    path = path ^ (lost >> path & 1)
                    last = path
                    taken[path, lost] += 1
                assert accepted.path == path, f"clock {clock}, seed {seed}"
                open_[path].append((accepted.slot, pages))
            await ctx.tick()

    simulate(dut, bench, clocks=1510)
    assert min(taken[0, 0], taken[1, 0], taken[1, 1], taken[0, 2]) > 5, taken
