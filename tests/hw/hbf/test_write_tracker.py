# amaranth: UnusedElaboratable=no
"""The tracker of writes against a plain model: verdicts, order, replies, fairness."""

import dataclasses
import itertools
import random

import pytest
from amaranth.back import rtlil

from hw.hbf.write_tracker import WriteTracker
from hw.params import KIB, Geometry, Sram
from hw.presets import preset
from hw.ucie.transaction import MessageClass, Operation, Owner, Status
from tests.hw.hbf.tracker_bench import Request, TrackerBench, page_span
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

PAGE = 4  # address units of a page of the small machines

# 8 pages in all.
EIGHT = dataclasses.replace(
    preset("formal"),
    geometry=Geometry(
        dies=2, planes=2, subarrays=1, page_bytes=256, pages_per_block=2, blocks_per_subarray=1
    ),
    sram=Sram(hbf_region_bytes=KIB, relay_region_bytes=KIB // 2, bank_bytes=16),
)


def pages(tag: int, first: int, count: int, **fields) -> Request:
    return Request(tag=tag, address=PAGE * first, length=PAGE * count, **fields)


def run(machine, scenario, *, links=2, clocks, seed=0):
    tracker = WriteTracker(machine, links=links)

    async def bench(ctx):
        await scenario(TrackerBench(ctx, tracker, machine, links=links, seed=seed))

    simulate(tracker, bench, clocks=clocks)


def test_overlap_of_every_two_ranges_of_a_small_stack():
    """One range stays outstanding while all others are tried, over both links."""
    ranges = [(first, end) for first in range(8) for end in range(first + 1, 9)]
    assert len(ranges) == 36

    async def scenario(bench):
        tag = itertools.count()
        bench.hold_events = lambda life: life.request.owner == Owner.WEIGHT
        for first, end in ranges:
            held = next(tag)
            bench.requests[0].append(pages(held, first, end - first, owner=Owner.WEIGHT))
            while not bench.lives:
                await bench.clock()
            asked = {}
            for other, other_end in ranges:
                asked[next(tag)] = bool(set(range(first, end)) & set(range(other, other_end)))
                request = pages(max(asked), other, other_end - other, operation=Operation.TRIM)
                bench.requests[1].append(request)
                while (1, request.tag) not in bench.statuses:
                    await bench.clock()
            for number, overlaps in asked.items():
                assert bench.statuses[1, number] == (Status.OVERLAP if overlaps else Status.OK)
            assert (0, held) not in bench.statuses
            bench.hold_events = lambda life: False
            while not bench.idle:
                await bench.clock()
            assert bench.statuses[0, held] == Status.OK
            bench.hold_events = lambda life: life.request.owner == Owner.WEIGHT

    run(EIGHT, scenario, clocks=60_000)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (Request(tag=1, address=0, length=0), Status.BAD_ADDRESS),
        (Request(tag=1, address=2, length=PAGE), Status.BAD_ADDRESS),
        (Request(tag=1, address=0, length=PAGE - 1), Status.BAD_ADDRESS),
        (Request(tag=1, address=2, length=2), Status.BAD_ADDRESS),
        (pages(1, 256, 1), Status.BAD_ADDRESS),
        (pages(1, 255, 2), Status.BAD_ADDRESS),
        (pages(1, 0, 257), Status.BAD_ADDRESS),
        (pages(1, 0, 4097), Status.BAD_ADDRESS),
        (Request(tag=1, address=2**40 - PAGE, length=PAGE), Status.BAD_ADDRESS),
        (pages(1, 256, 1, owner=Owner.NONE), Status.BAD_ADDRESS),
        (pages(1, 0, 1, owner=Owner.NONE), Status.ILLEGAL_OWNER),
        (pages(1, 0, 1, owner=3), Status.ILLEGAL_OWNER),
        (pages(1, 0, 1, operation=Operation.READ), Status.ILLEGAL_OWNER),
        (pages(1, 0, 1, operation=9), Status.ILLEGAL_OWNER),
        (pages(1, 7, 1, owner=Owner.NONE), Status.ILLEGAL_OWNER),
        (pages(1, 7, 1), Status.OVERLAP),
        (pages(1, 0, 256), Status.OVERLAP),
        (pages(1, 7, 1, operation=Operation.RELEASE, owner=Owner.NONE), Status.OVERLAP),
        (pages(1, 0, 7), Status.OK),
        (pages(1, 8, 248, owner=Owner.WEIGHT, relocated=1), Status.OK),
        (pages(1, 0, 1, operation=Operation.TRIM, owner=Owner.NONE), Status.OK),
        (pages(1, 0, 1, operation=Operation.RELEASE, owner=Owner.NONE), Status.OK),
    ],
)
def test_each_verdict_of_acceptance(request_, status):
    """Beside an outstanding write of page 7, and what applies first wins."""

    async def scenario(bench):
        bench.hold_events = lambda life: life.request.tag == 0
        bench.requests[0].append(pages(0, 7, 1))
        while not bench.lives:
            await bench.clock()
        bench.requests[1].append(request_)
        while (1, 1) not in bench.statuses:
            await bench.clock()
        assert bench.statuses == {(1, 1): status}
        assert len(bench.replies[0]) == 0
        grants = [reply for reply in bench.replies[1] if reply[0] == MessageClass.GRANT]
        writes = request_.operation == Operation.WRITE and status == Status.OK
        assert len(grants) == (request_.length // PAGE if writes else 0)

    run(TINY, scenario, clocks=1500)


def test_longest_write_of_the_largest_stack():
    machine = preset("paper")
    last = machine.geometry.stack_pages
    sizes = [(last - 4096, 4096, 0), (last - 4095, 4096, 1), (0, 4097, 1), (last - 1, 1, 2)]

    async def scenario(bench):
        bench.hold_events = lambda life: True
        for tag, (first, count, _) in enumerate(sizes):
            request = Request(tag=tag, address=64 * first, length=64 * count)
            if count <= 4096 and first + count <= last:
                assert page_span(machine, request) == set(range(first, first + count))
            bench.requests[0].append(request)
        for _ in range(20):
            await bench.clock()
        statuses = [bench.statuses.get((0, tag), Status.OK) for tag in range(len(sizes))]
        assert statuses == [status for *_, status in sizes]

    run(machine, scenario, links=1, clocks=100)


@pytest.mark.parametrize("order", list(itertools.permutations([0, 6, 7])))
def test_last_status_is_that_of_the_first_failure(order):
    async def scenario(bench):
        bench.requests[0].append(pages(5, 4, 3, operation=Operation.TRIM))
        while not bench.lives:
            await bench.clock(finish=0)
        await bench.clock(finish=0)
        for page, status in enumerate(order):
            bench.events[page][0][2]["status"] = status
        while not bench.idle:
            await bench.clock()
        assert [die for _, what, die in bench.log if what == "event"] == [0, 1, 2]
        first = next(status for status in order if status)
        assert bench.replies[0] == [
            *(
                (MessageClass.COMPLETION, Operation.TRIM, 5, page, status, 0)
                for page, status in enumerate(order)
                if status
            ),
            (MessageClass.COMPLETION, Operation.TRIM, 5, 0, first, 1),
        ]

    run(TINY, scenario, clocks=200)


SHARES = {
    "eager": {},
    "slow requesters": {"give": 0.1},
    "slow dies": {"finish": 0.1, "ready": 0.3},
    "one slow requester": {"give": [0.05, 1.0]},
    "all": {"ask": 0.3, "give": 0.4, "ready": 0.5, "finish": 0.4},
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_random_traffic(shares, seed):
    """Every message of the model, and no other; entries are all used and all come back."""
    rng = random.Random(seed)
    print(f"seed {seed}")
    asked = []

    def request(tag):
        count = rng.choice([1, 1, 2, 3, 5, 17])
        kind = rng.random()
        if kind < 0.05:
            return Request(tag=tag, address=rng.randrange(1100), length=rng.randrange(20))
        operation = rng.choice([1, 1, 1, 2, 3]) if kind < 0.95 else rng.choice([0, 4, 15])
        owner = rng.choice([1, 2]) if kind < 0.9 else rng.choice([0, 3])
        first = rng.randrange(256 - count + 1)
        return pages(tag, first, count, operation=operation, owner=owner)

    async def scenario(bench):
        bench.fail_share = 0.2
        most = 0
        for tag in range(40):
            for k in range(2):
                asked.append((k, tag))
                bench.requests[k].append(request(tag))
            if rng.random() < 0.3:
                bench.read_refusals[tag % 2].append(1000 + tag)
                asked.append((tag % 2, 1000 + tag))
        while not bench.idle:
            await bench.clock(**shares)
            most = max(most, len(bench.lives))
        assert sorted(bench.statuses) == sorted(asked)
        assert {0, 1, 2, 3} < set(bench.statuses.values())
        assert most == TINY.credits.writes if shares.get("finish") else most > 2
        for _ in range(4 * TINY.credits.descriptors):
            await bench.clock()
        assert bench.held == [0, 0]

    run(TINY, scenario, clocks=40_000, seed=seed)


def test_a_requester_that_takes_no_replies_stalls_only_its_own_link():
    async def scenario(bench):
        bench.requests[0].append(pages(0, 0, 32))
        bench.requests[1].extend(pages(tag, 32 * tag, 32) for tag in range(1, 8))
        # What link 0 waits for would stand before the others in the streams of the dies.
        bench.hold_events = lambda life: life.link == 0
        while len(bench.statuses) < 7:
            await bench.clock(give=[0, 1])
        bench.hold_events = lambda life: False
        for _ in range(60):
            await bench.clock(give=[0, 1])
        assert bench.held == [TINY.credits.descriptors, 0]
        bench.requests[1].append(pages(9, 40, 8, operation=Operation.TRIM))
        while (1, 9) not in bench.statuses:
            await bench.clock(give=[0, 1])
        assert (0, 0) not in bench.statuses
        while not bench.idle:
            await bench.clock()

    run(TINY, scenario, clocks=2000)


def test_failures_of_a_link_that_takes_no_replies_stall_no_other():
    async def scenario(bench):
        bench.fail_share = 1.0
        dies = TINY.geometry.dies
        for tag in range(4):  # all in die 0, two replies each
            bench.requests[0].append(pages(tag, dies * tag, 1, operation=Operation.TRIM))
        for _ in range(60):
            await bench.clock(give=[0, 1])
        assert bench.held == [TINY.credits.descriptors, 0]
        assert bench.events[0]
        for tag in range(8):  # in the others
            bench.requests[1].append(pages(tag, dies * (8 + tag) + 1, 3, operation=Operation.TRIM))
        while len(bench.statuses) < 2 + 8:
            await bench.clock(give=[0, 1])
        while not bench.idle:
            await bench.clock()

    run(TINY, scenario, clocks=400)


def test_refusals_wait_for_a_requester_that_takes_no_replies():
    async def scenario(bench):
        count = 3 * TINY.credits.descriptors
        for tag in range(count):
            bench.requests[0].append(pages(tag, 256, 1))
            bench.requests[1].append(pages(tag, 8 * tag, 1))
        for _ in range(200):
            await bench.clock(give=[0, 1])
        # All credits and the one that waits; the next is not even taken, and link 1 is done.
        assert bench.held == [TINY.credits.descriptors, 0]
        assert len(bench.requests[0]) == count - TINY.credits.descriptors - 2
        assert len([1 for link, _ in bench.statuses if link == 1]) == count
        while not bench.idle:
            await bench.clock()
        assert len(bench.statuses) == 2 * count

    run(TINY, scenario, clocks=600)


def test_grants_and_events_come_one_a_clock_and_dies_take_turns():
    machine = dataclasses.replace(
        TINY, credits=dataclasses.replace(TINY.credits, descriptors=32), name="deep"
    )

    async def scenario(bench):
        bench.requests[0].append(pages(0, 0, 128))
        bench.requests[1].append(pages(1, 128, 128, operation=Operation.TRIM))
        while len(bench.lives) < 2:
            await bench.clock(finish=0)
        await bench.clock(finish=0)
        while not bench.idle:
            await bench.clock()
        grants = [(clock, die) for clock, what, die in bench.log if what == "grant"]
        events = [(clock, die) for clock, what, die in bench.log if what == "event"]
        assert (len(grants), len(events)) == (128, 256)
        assert grants[-1][0] - grants[0][0] == 127
        assert events[-1][0] - events[0][0] == 255
        for done in (grants, events):
            for k in range(0, len(done), 4):
                assert sorted(die for _, die in done[k : k + 4]) == [0, 1, 2, 3]

    run(machine, scenario, clocks=1000)


def test_clocks_from_request_to_completion():
    """Taken, judged, offered and in `ranges`; event, counted, retired, completed."""

    async def scenario(bench):
        bench.requests[0].append(pages(3, 9, 1, operation=Operation.TRIM))
        bench.requests[0].append(pages(4, 10, 1, operation=Operation.TRIM))
        seen = []
        while not bench.idle:
            valid = [bool(bench.ctx.get(entry.valid)) for entry in bench.tracker.ranges]
            if any(valid) and "ranges" not in [what for _, what in seen]:
                seen.append((bench.clocks, "ranges"))
            await bench.clock()
        assert seen == [(2, "ranges")]
        log = sorted((clock, what) for clock, what, _ in bench.log)
        assert log == [
            (3, "event"),
            (5, "event"),
            (5, "retired"),
            (6, "reply"),
            (7, "retired"),
            (8, "reply"),
        ]

    run(TINY, scenario, links=1, clocks=50)


@pytest.mark.parametrize("links", [1, 2])
@pytest.mark.parametrize("name", ["formal", "mini", "paper"])
def test_converts(name, links):
    rtlil.convert(WriteTracker(preset(name), links=links))


def test_needs_a_link():
    with pytest.raises(ValueError, match="at least 1 link"):
        WriteTracker(TINY, links=0)
