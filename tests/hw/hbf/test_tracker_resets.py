# amaranth: UnusedElaboratable=no
"""A tracker whose links are reset: what was theirs ends without a word, all else goes on."""

import random

import pytest

from hw.hbf.write_tracker import WriteTracker
from hw.ucie.transaction import Operation, Status
from tests.hw.hbf.test_write_tracker import pages, run
from tests.hw.machines import TINY

LOST_CLOCKS = 33  # at least
SHARES = {
    "eager": {},
    "slow requesters": {"give": 0.1},
    "slow dies": {"finish": 0.1, "ready": 0.2},
    "all": {"ask": 0.3, "give": 0.4, "ready": 0.5, "finish": 0.4},
}


async def lose(bench, *links: int, clocks: int = LOST_CLOCKS, **shares) -> None:
    for k in links:
        bench.lost[k] = True
    for _ in range(clocks):
        await bench.clock(**shares)
    for k in links:
        bench.lost[k] = False


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_random_traffic_over_links_that_are_reset(shares, seed):
    """Each request is answered as ever or lost with its link, and then no message comes of it."""
    rng = random.Random(seed)
    print(f"seed {seed}")
    asked = []

    async def scenario(bench):
        bench.fail_share = 0.2
        for tag in range(60):
            for k in range(2):
                count = rng.choice([1, 2, 5, 17])
                operation = rng.choice([1, 1, 1, 2, 3, 9])
                first = rng.randrange(256 - count + 1)
                bench.requests[k].append(pages(tag, first, count, operation=operation))
                asked.append((k, tag))
            if rng.random() < 0.3:
                bench.read_refusals[tag % 2].append(1000 + tag)
                asked.append((tag % 2, 1000 + tag))
        until, orphans, resets = [0, 0], 0, 0
        while not bench.idle:
            for k in range(2):
                if bench.lost[k]:
                    bench.lost[k] = bench.clocks < until[k]
                elif bench.requests[k] and rng.random() < 0.02:
                    bench.lost[k] = True
                    until[k] = bench.clocks + rng.randrange(LOST_CLOCKS, 80)
                    resets += 1
            await bench.clock(**shares)
            orphans = max(orphans, sum(life.orphan for life in bench.lives.values()))
        bench.lost = [False, False]
        assert not bench.gone & bench.statuses.keys()
        assert sorted(bench.gone | bench.statuses.keys()) == sorted(asked)
        assert resets > 2 and orphans and bench.gone
        assert len(bench.statuses) > 20
        for _ in range(4 * TINY.credits.descriptors):
            await bench.clock()
        assert bench.held == [0, 0]

    run(TINY, scenario, clocks=40_000, seed=seed)


@pytest.mark.parametrize("after", range(14))
def test_a_link_is_lost_in_every_clock_of_a_request(after):
    """A write of a page that fails, a trim and a refusal of link 0, beside the same of link 1."""

    async def scenario(bench):
        bench.fail_share = 1.0
        for k in range(2):
            bench.requests[k].append(pages(0, 10 * k, 2))
            bench.requests[k].append(pages(1, 10 * k + 5, 1, operation=Operation.TRIM))
            bench.requests[k].append(pages(2, 10 * k, 1, operation=9))
            bench.read_refusals[k].append(3)
        for _ in range(after):
            await bench.clock()
        await lose(bench, 0)
        while not bench.idle:
            await bench.clock()
        assert {tag for link, tag in bench.statuses if link == 1} == {0, 1, 2, 3}
        of_0 = {tag for link, tag in bench.statuses if link == 0}
        assert of_0 | {tag for _, tag in bench.gone} == {0, 1, 2, 3}
        assert not of_0 & {tag for _, tag in bench.gone}
        # The link and its entries serve again.
        bench.fail_share = 0.0
        for tag in range(10, 10 + 2 * TINY.credits.writes):
            bench.requests[0].append(pages(tag, tag, 1))
        while not bench.idle:
            await bench.clock()
        assert all(bench.statuses[0, tag] == Status.OK for tag in range(10, 18))
        for _ in range(8):
            await bench.clock()
        assert bench.held == [0, 0]

    run(TINY, scenario, clocks=500)


def test_a_lost_link_without_credit_takes_nothing_back_and_holds_up_nothing():
    """Replies that wait for credit, and failures of orphans: none leaves, all entries come back."""

    async def scenario(bench):
        bench.fail_share = 1.0
        for tag in range(TINY.credits.writes):
            bench.requests[0].append(pages(tag, 8 * tag, 8, operation=Operation.TRIM))
        for _ in range(60):
            await bench.clock(give=[0, 1])
        assert bench.held == [TINY.credits.descriptors, 0] and bench.lives
        sent = len(bench.replies[0])
        await lose(bench, 0, clocks=150)
        assert not bench.lives and len(bench.replies[0]) == sent
        bench.fail_share = 0.0
        for tag in range(4):
            bench.requests[1].append(pages(tag, 8 * tag, 8))
        while not bench.idle:
            await bench.clock(give=[0, 1])
        assert len(bench.statuses) == 4 and len(bench.replies[0]) == sent

    run(TINY, scenario, clocks=1000)


def test_an_orphan_stays_until_its_pages_are_finished_and_ranges_say_so():
    """A request of its pages is refused meanwhile, also over the link that came back."""

    async def scenario(bench):
        bench.hold_events = lambda life: life.request.tag == 0
        bench.requests[0].append(pages(0, 4, 2, operation=Operation.TRIM))
        while not bench.lives:
            await bench.clock()
        await lose(bench, 0)
        for k in range(2):
            bench.requests[k].append(pages(1, 5, 1))
        while len(bench.statuses) < 2:
            await bench.clock()
        assert set(bench.statuses.values()) == {Status.OVERLAP}
        assert [life.orphan for life in bench.lives.values()] == [True]
        bench.hold_events = lambda life: False
        while bench.lives:
            await bench.clock()
        bench.requests[0].append(pages(2, 5, 1))
        while not bench.idle:
            await bench.clock()
        assert bench.statuses[0, 2] == Status.OK
        assert (0, 0) in bench.gone and (0, 0) not in bench.statuses

    run(TINY, scenario, clocks=500)


def test_the_only_link_of_a_stack():
    async def scenario(bench):
        for tag in range(6):
            bench.requests[0].append(pages(tag, 4 * tag, 4))
        for _ in range(9):
            await bench.clock()
        await lose(bench, 0)
        while not bench.idle:
            await bench.clock()
        assert bench.gone and len(bench.gone | bench.statuses.keys()) == 6

    run(TINY, scenario, links=1, clocks=300)
    assert WriteTracker(TINY, links=1).o.payload.link.shape().width == 1
