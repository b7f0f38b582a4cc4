"""Traffic over the TSVs: lane rate, groups and their clocks, both directions, links and lanes."""

import itertools
import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass

import pytest

from hw.hbf.tsv_transfer import PATIENCE_CLOCKS, PROGRAM_CLOCKS, READOUT_CLOCKS, TsvTransfer
from hw.sram.regions import FILL_CLOCKS, READ_CLOCKS
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

DIES, GROUPS, SUBARRAYS, LINKS = 4, 4, 4, 2


@dataclass(frozen=True)
class Page:
    """A page for a lane; ``name`` tells pages with the same fields apart."""

    name: int
    starts: int  # clock from which it is there
    slot: tuple[int, int]  # subarray, region
    path: int = 0
    write: bool = False
    beats: tuple[int, int] = (0, 3)

    @property
    def payload(self) -> dict:
        subarray, region = self.slot
        return {
            "slot": {"subarray": subarray, "region": region},
            "path": self.path,
            "write": self.write,
            "first_beat": self.beats[0],
            "last_beat": self.beats[1],
        }

    def row(self, die: int) -> int:
        return self.slot[0] * DIES + die


@dataclass(frozen=True)
class Want:
    """A beat of a link that wants to get into the regions."""

    starts: int
    group: int
    region: int
    row: int


class TransferBench:
    """Feeds lanes and links, and checks every access of the regions, read-out and event.

    Expectations are a calendar: what must happen in which clock follows from read-outs of lanes
    and takes of links alone, so that nothing else may happen.
    """

    def __init__(self, pages: list[list[Page]], wants=((), ()), *, rate: int, t_ccs: int = 0):
        self.dut = TsvTransfer(TINY, links=LINKS)
        self.left = [deque(of_die) for of_die in pages]
        self.wants = [deque(of_link) for of_link in wants]
        self.rate, self.t_ccs = rate, t_ccs
        self.clock = 0
        self.transferred: list[list[int]] = [[] for _ in range(DIES)]
        self.sent: list[list[int]] = [[] for _ in range(DIES)]
        self.filled: list[list[int]] = [[] for _ in range(DIES)]
        self.waited: list[list[int]] = [[] for _ in range(LINKS)]
        self.beats_at: Counter[int] = Counter()  # over the lanes, by clock
        self.fills_at: Counter[int] = Counter()  # into the regions
        self.presented: dict[int, set[int]] = defaultdict(set)  # clocks of fills, by group
        self.under_way = 1  # beats and events that are still to come
        self.bus: list[list[tuple[int, int]]] = [[] for _ in range(DIES)]  # clock, subarray
        self.chosen: list[list[tuple[int, int]]] = [[] for _ in range(DIES)]  # clock, page

    @property
    def done(self) -> bool:
        return not any(self.left) and not any(self.wants) and not self.under_way

    async def run(self, ctx, until) -> None:
        ctx = Quiet(ctx)
        dut = self.dut
        # Pages on their lanes with the beats that are still to be moved, by die and direction:
        # a beat of a write shows later than one of a read that was chosen after it.
        lanes = {(d, write): deque() for d in range(DIES) for write in (False, True)}
        on_lane: list[Page | None] = [None] * DIES  # what is offered, and counted in `lanes`
        calendar = defaultdict(list)  # what must happen, by clock
        since = [0] * LINKS  # a beat of the link is wanted
        ctx.set(dut.rate, self.rate)
        ctx.set(dut.t_ccs, self.t_ccs)
        while not until():
            now, clock = self.clock % 4, self.clock
            ctx.set(dut.now, now)
            for d, queue in enumerate(self.left):
                valid = bool(queue) and queue[0].starts <= clock
                ctx.set(dut.i[d].valid, valid)
                if valid:
                    ctx.set(dut.i[d].payload, queue[0].payload)
                    if on_lane[d] is not queue[0]:
                        on_lane[d] = queue[0]
                        first, last = queue[0].beats
                        beats = deque(range(first, last + 1))
                        lanes[d, queue[0].write].append((queue[0], beats))
            for k, queue in enumerate(self.wants):
                valid = bool(queue) and queue[0].starts <= clock
                want = queue[0] if valid else None
                fields = (
                    {"group": want.group, "region": want.region, "row": want.row} if want else {}
                )
                ctx.set(dut.want[k], {"valid": valid, **fields})

            self._reads(ctx, lanes, calendar)
            self._programs(ctx, lanes, calendar)
            taken = self._links(ctx, now, since)
            self._accesses(ctx, now, taken, calendar[clock])
            self._events(ctx, calendar[clock])
            del calendar[clock]
            self.under_way = sum(map(len, lanes.values())) + sum(map(len, calendar.values()))
            for d, queue in enumerate(self.left):
                if queue and queue[0].starts <= clock and ctx.get(dut.i[d].ready):
                    queue.popleft()
            await ctx.tick()
            self.clock += 1

    def _next_beat(self, lanes, die: int, beat: int, subarray: int, *, write: bool):
        """The beat is the next one of the lane; its page, and whether that ends."""
        page, beats = lanes[die, write][0]
        assert page.slot[0] == subarray, f"clock {self.clock}: {page}"
        assert beats.popleft() == beat, f"clock {self.clock}: {page}"
        if not beats:
            lanes[die, write].popleft()
        clocks = PROGRAM_CLOCKS if write else READOUT_CLOCKS - 1
        self.chosen[die].append((self.clock - clocks, page.name))
        self.beats_at[self.clock] += 1
        return page, not beats

    def _reads(self, ctx, lanes, calendar) -> None:
        """A read-out is written one clock later, and seen by reads FILL_CLOCKS after that."""
        for g, port in enumerate(self.dut.readout):
            if not ctx.get(port.valid):
                continue
            die, beat, subarray = ctx.get(port.die), ctx.get(port.beat), ctx.get(port.subarray)
            assert (die + beat) % 4 == g, f"clock {self.clock}"
            page, last = self._next_beat(lanes, die, beat, subarray, write=False)
            assert ctx.get(port.last) == last
            self.bus[die].append((self.clock, subarray))
            assert READOUT_CLOCKS == 2  # a choice, then the read-out, then the write
            calendar[self.clock + 1].append(("fill", g, page.slot[1], page.row(die)))
            if last:
                # The page has left the register with the choice, one clock before.
                assert self.transferred[die][-1] == self.clock - 1
                calendar[self.clock + 1 + FILL_CLOCKS].append(("filled", die, page))

    def _programs(self, ctx, lanes, calendar) -> None:
        port = self.dut.program
        if not ctx.get(port.en):
            return
        g, row = ctx.get(port.group), ctx.get(port.row)
        die, subarray = row % DIES, row // DIES
        page, last = self._next_beat(lanes, die, (g - die) % 4, subarray, write=True)
        assert ctx.get(port.region) == page.slot[1]
        sent = ("sent", die, page, (g - die) % 4, last)
        calendar[self.clock + READ_CLOCKS].append(sent)
        calendar[self.clock].append(("program", g))

    def _links(self, ctx, now: int, since: list[int]) -> list[tuple[int, Want]]:
        taken = []
        for k, queue in enumerate(self.wants):
            valid = bool(queue) and queue[0].starts <= self.clock
            if not ctx.get(self.dut.take[k]):
                since[k] = since[k] + 1 if valid else 0
                continue
            assert valid, f"clock {self.clock}: link {k} wants nothing"
            self.waited[k].append(since[k])
            since[k] = 0
            taken.append((k, queue.popleft()))
        return taken

    def _accesses(self, ctx, now: int, taken, due) -> None:
        """Every group does what it must, in its clocks, and one thing at a time."""
        want = {g: [] for g in range(GROUPS)}
        for what, *rest in due:
            if what == "fill":
                want[rest[0]].append((rest[1], rest[2], 0))
        for k, beat in taken:
            want[beat.group].append((beat.region, beat.row, 1 << k))
        programs = [rest[0] for what, *rest in due if what == "program"]
        assert len(programs) <= 1
        for g, write in enumerate(self.dut.write):
            found = ctx.get(write.en)
            assert found == len(want[g]), f"clock {self.clock}, group {g}: {want[g]}"
            if programs == [g]:
                assert (now - g) % 4 == 0, f"clock {self.clock}: program in clock {now}"
            if found:
                assert (now - g) % 2 == 0, f"clock {self.clock}: fill of {g} in clock {now}"
                place = ctx.get(write.region), ctx.get(write.row), ctx.get(self.dut.of_link[g])
                assert place == want[g][0], f"clock {self.clock}"
                self.fills_at[self.clock] += 1
                self.presented[g].add(self.clock)
            if programs == [g]:
                # What was presented FILL_CLOCKS ago is written in the clock of this read.
                before = self.clock - FILL_CLOCKS
                assert before not in self.presented[g], f"clock {self.clock}: two accesses"

    def _events(self, ctx, due) -> None:
        filled = {rest[0]: rest[1] for what, *rest in due if what == "filled"}
        sent = [rest for what, *rest in due if what == "sent"]
        for d in range(DIES):
            event = ctx.get(self.dut.filled[d])
            assert event.valid == (d in filled), f"clock {self.clock}, die {d}"
            if d in filled:
                slot = event.page.slot
                found = (slot.subarray, slot.region), event.page.path
                found += ((event.page.first_beat, event.page.last_beat),)
                page = filled[d]
                assert found == (page.slot, page.path, page.beats), f"clock {self.clock}"
                self.filled[d].append(self.clock)
            left = ctx.get(self.dut.transferred[d])
            if left.valid:
                self.transferred[d].append(self.clock)
        event = ctx.get(self.dut.sent)
        assert event.valid == len(sent), f"clock {self.clock}"
        for die, page, beat, last in sent:
            slot = event.slot.subarray, event.slot.region
            assert (event.die, slot, event.beat, event.last) == (die, page.slot, beat, last)
            self.bus[die].append((self.clock, page.slot[0]))
            if last:
                self.sent[die].append(self.clock)


def run(pages, wants=((), ()), *, rate, clocks, t_ccs=0, until=None) -> TransferBench:
    bench = TransferBench(pages, wants, rate=rate, t_ccs=t_ccs)
    quiet = 0

    def done() -> bool:
        nonlocal quiet
        quiet = quiet + 1 if bench.done else 0
        return quiet > 12

    async def drive(ctx):
        await bench.run(ctx, (lambda: until(bench)) if until else done)

    simulate(bench.dut, drive, clocks=clocks)
    for of_die in bench.chosen:
        names = [name for _, name in sorted(of_die)]
        assert names == sorted(names), "a page overtakes another on its lane"
    return bench


def some_pages(pick, count: int, *, every: int, writes: float = 0.0, partial: float = 0.0):
    pages = []
    for k in range(count):
        beats = (0, 3)
        write = pick.random() < writes
        if not write and pick.random() < partial:
            first = pick.randrange(4)
            beats = first, pick.randrange(first, 4)
        slot = pick.randrange(SUBARRAYS), k % 2
        starts = every * k + pick.randrange(every + every // 2)
        pages.append(Page(k, starts, slot, pick.randrange(2), write, beats))
    return pages


def some_wants(pick, count: int, *, every: int) -> list[Want]:
    """Beats of pages, in groups that follow each other."""
    wants = []
    for k in range(0, count, 4):
        die, subarray, region = pick.randrange(DIES), pick.randrange(SUBARRAYS), pick.randrange(2)
        for b in range(4):
            row = subarray * DIES + die
            wants.append(Want(every * k, (b + die) % 4, region, row))
    return wants


def no_shorter_gap(bench: TransferBench, t_ccs: int) -> bool:
    """Whether beats of different subarrays of a die are as far apart as they must be."""
    gaps = []
    for beats in bench.bus:
        beats.sort()
        gaps += [b - a for (a, s), (b, r) in itertools.pairwise(beats) if s != r]
    return min(gaps) >= t_ccs


@pytest.mark.parametrize("t_ccs", [0, 6])
@pytest.mark.parametrize(
    ("rate", "writes", "partial", "every"),
    [(9000, 0.0, 0.0, 40), (20_000, 0.5, 0.5, 20), (32_768, 0.3, 0.3, 8), (65_536, 0.5, 0.3, 4)],
)
def test_every_beat_goes_its_way_in_its_clock(rate, writes, partial, every, t_ccs):
    pick = random.Random(f"{rate}/{t_ccs}")
    pages = [some_pages(pick, 12, every=every, writes=writes, partial=partial) for _ in range(DIES)]
    wants = [some_wants(pick, 48, every=2 + k) for k in range(LINKS)]
    bench = run(pages, wants, rate=rate, t_ccs=t_ccs, clocks=4000)
    reads = [sum(not page.write for page in of_die) for of_die in pages]
    assert [len(times) for times in bench.transferred] == reads
    assert [len(times) for times in bench.filled] == reads
    assert [len(times) for times in bench.sent] == [12 - count for count in reads]
    assert [len(waits) for waits in bench.waited] == [48, 48]
    assert no_shorter_gap(bench, t_ccs)


@pytest.mark.parametrize("rate", [6400, 11_111, 31_000])
def test_a_busy_lane_keeps_its_rate_over_many_pages(rate):
    # 6400 is `paper`: 100 B of 1024 B a clock. A page rounded up by itself would need 41 clocks
    # instead of 40.96, which is 2 clocks too many at the end of these pages.
    pages = [[], [Page(k, 0, (k % 4, k % 2)) for k in range(60)], [], []]
    bench = run(pages, rate=rate, clocks=8000)
    assert len(set(bench.transferred[1])) == 60
    beat = 65_536 / rate
    for count, clock in enumerate(bench.transferred[1], 1):
        # One clock into the lane's register, at most one until the fill clock of the group.
        assert 0 <= clock - 4 * count * beat < 3, f"page {count}"


def test_all_lanes_together_fill_two_beats_a_clock():
    pages = [[Page(k, 0, (k % 4, k % 2), d % 2) for k in range(200)] for d in range(DIES)]
    bench = run(pages, rate=32_768, clocks=2000, until=lambda bench: bench.clock == 300)
    steady = [bench.beats_at[clock] for clock in range(60, 260)]
    assert sum(steady) == 2 * 200
    assert max(steady) == 2


def test_writes_go_at_one_beat_a_clock_beside_the_fills_of_a_link():
    """Programs read in half of the fill clocks; the other half takes a beat of a link a clock."""
    pick = random.Random(5)
    pages = [[Page(k, 0, (k % 4, k % 2), write=True) for k in range(100)] for _ in range(DIES)]
    wants = [some_wants(pick, 600, every=0), []]
    bench = run(pages, wants, rate=32_768, clocks=3000, until=lambda bench: bench.clock == 300)
    programs = [bench.beats_at[clock] for clock in range(60, 260)]
    fills = [bench.fills_at[clock] for clock in range(60, 260)]
    assert sum(programs) > 0.9 * 200 and max(programs) == 1
    assert sum(fills) > 0.4 * 200


@pytest.mark.parametrize("write", [False, True])
def test_a_link_gets_through_busy_lanes(write):
    """Lanes that want every fill clock leave one to a link that has waited long enough."""
    pages = [[Page(k, 0, (k % 4, k % 2), write=write) for k in range(300)] for _ in range(DIES)]
    wants = [some_wants(random.Random(k), 40, every=0) for k in range(LINKS)]
    bench = run(pages, wants, rate=65_536, clocks=9000, until=lambda bench: not any(bench.wants))
    # When its patience is over, what is on its way comes first, then two fill clocks for two links.
    longest = PATIENCE_CLOCKS + PROGRAM_CLOCKS + 2 * 4
    assert max(map(max, bench.waited)) <= longest
    # And the lanes do not stand still.
    steady = sum(bench.beats_at[clock] for clock in range(50, bench.clock - 50))
    assert steady > (0.5 if write else 1.0) * (bench.clock - 100) / 2


def test_two_links_share_a_group():
    same = [[Want(0, 2, k, row % 16) for row in range(60)] for k in range(LINKS)]
    bench = run([[]] * DIES, same, rate=6400, clocks=500)
    # Every second clock is a fill clock: the other one has every second of them.
    assert all(max(waits[1:]) <= 3 for waits in bench.waited)
