"""Fill over the TSVs: lane rate, bank groups and their time slots, order, and full throughput."""

import random
from collections import deque

import pytest

from hw.hbf.tsv_fill import TsvFill
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

DIES, GROUPS = 4, 4


class FillBench:
    """Feeds pages to the lanes and checks every read-out and every write.

    A lane has a list of (clock from which it is there, slot, path), with slots named by
    subarray and region.
    """

    def __init__(self, pages: list[list], *, rate: int):
        self.dut = TsvFill(TINY)
        self.left = [deque(of_die) for of_die in pages]
        self.rate = rate
        self.written = [0] * DIES  # beats
        self.transferred: list[list[int]] = [[] for _ in range(DIES)]
        self.beats_at: dict[int, int] = {}  # read-outs by clock
        self.clock = 0

    async def run(self, ctx, until) -> None:
        dut = self.dut
        on_lane = [deque() for _ in range(DIES)]  # pages that made room but have not left
        filling = [deque() for _ in range(DIES)]  # pages that left but are not filled
        asked = [None] * GROUPS  # read-outs of the clock before
        beats = [0] * DIES
        ctx.set(dut.rate, self.rate)
        while not until():
            now = self.clock % 4
            ctx.set(dut.now, now)
            for d, queue in enumerate(self.left):
                valid = bool(queue) and queue[0][0] <= self.clock
                ctx.set(dut.i[d].valid, valid)
                if valid:
                    _, (subarray, region), path = queue[0]
                    payload = {"slot": {"subarray": subarray, "region": region}, "path": path}
                    ctx.set(dut.i[d].payload, payload)

            # Writes come one clock after their read-out, in a fill clock of the group.
            for g in range(GROUPS):
                write = dut.write[g]
                assert ctx.get(write.en) == (asked[g] is not None), f"clock {self.clock}"
                if asked[g] is not None:
                    assert (now - g) % 4 in (0, 2), f"group {g} written in clock {now} of the slot"
                    row, region, die = asked[g]
                    assert (ctx.get(write.row), ctx.get(write.region)) == (row, region)
                    self.written[die] += 1
            for d in range(DIES):
                filled = ctx.get(dut.filled[d])
                assert filled.valid == bool(filling[d] and filling[d][0][0] == self.clock)
                if filled.valid:
                    _, page = filling[d].popleft()
                    self._is(filled.page, page)
                    assert self.written[d] % 4 == 0  # its last beat was written in this clock

            asked = [None] * GROUPS
            for g in range(GROUPS):
                port = dut.readout[g]
                if ctx.get(port.valid):
                    die, beat = ctx.get(port.die), ctx.get(port.beat)
                    assert (die + beat) % 4 == g and beat == beats[die] % 4
                    # The last beat is read out one clock after its page has left.
                    page = filling[die][0][1] if beat == 3 else on_lane[die][0]
                    assert ctx.get(port.subarray) == page[1][0]
                    asked[g] = (page[1][0] * DIES + die, page[1][1], die)
                    beats[die] += 1
                    self.beats_at[self.clock] = self.beats_at.get(self.clock, 0) + 1

            for d, queue in enumerate(self.left):
                # A page is on the lane from its first clock there.
                if queue and queue[0][0] <= self.clock and queue[0] not in on_lane[d]:
                    on_lane[d].append(queue[0])
                left = ctx.get(dut.transferred[d])
                if left.valid:
                    page = on_lane[d].popleft()
                    assert (left.slot.subarray, left.slot.region) == page[1]
                    filling[d].append((self.clock + 2, page))
                    self.transferred[d].append(self.clock)
                if ctx.get(dut.i[d].valid) and ctx.get(dut.i[d].ready):
                    queue.popleft()
            await ctx.tick()
            self.clock += 1

    @staticmethod
    def _is(found, page) -> None:
        assert ((found.slot.subarray, found.slot.region), found.path) == page[1:]


def run(pages, *, rate, clocks, until) -> FillBench:
    bench = FillBench(pages, rate=rate)

    async def drive(ctx):
        await bench.run(ctx, lambda: until(bench))

    simulate(bench.dut, drive, clocks=clocks)
    return bench


@pytest.mark.parametrize("seed", range(3))
def test_every_beat_goes_to_its_group_in_its_slot(seed):
    pick = random.Random(seed)
    pages = [
        [
            (40 * k + pick.randrange(60), (pick.randrange(4), k % 2), pick.randrange(2))
            for k in range(20)
        ]
        for _ in range(DIES)
    ]
    bench = run(
        pages, rate=(9000, 20_000, 32_768)[seed], clocks=3000,
        until=lambda bench: sum(bench.written) == DIES * 20 * 4 and bench.clock % 50 == 0,
    )  # fmt: skip
    assert [len(times) for times in bench.transferred] == [20] * DIES


@pytest.mark.parametrize("rate", [6400, 11_111, 31_000])
def test_a_busy_lane_keeps_its_rate_over_many_pages(rate):
    # 6400 is `paper`: 100 B of 1024 B a clock. A page rounded up by itself would need 41 clocks
    # instead of 40.96, which is 4 clocks too many at the end of these pages.
    pages = [[], [(0, (k % 4, k % 2), 0) for k in range(100)], [], []]
    bench = run(pages, rate=rate, clocks=8000, until=lambda bench: len(bench.transferred[1]) == 100)
    assert len(set(bench.transferred[1])) == 100
    beat = 65_536 / rate
    for count, clock in enumerate(bench.transferred[1], 1):
        # One clock into the lane's register, at most one until the fill clock of the group.
        assert 0 <= clock - 4 * count * beat < 3, f"page {count}"


def test_all_lanes_together_fill_two_beats_a_clock():
    pages = [[(0, (k % 4, k % 2), d % 2) for k in range(200)] for d in range(DIES)]
    bench = run(pages, rate=32_768, clocks=2000, until=lambda bench: bench.clock == 600)
    steady = [bench.beats_at.get(clock, 0) for clock in range(100, 500)]
    assert sum(steady) == 2 * 400
    assert max(steady) == 2
