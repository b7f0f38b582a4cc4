"""Choice of pages: every gate alone and together, hazards, turns of the paths, slots of writes."""

import itertools
import random
from collections import defaultdict, deque
from dataclasses import dataclass

import pytest

from hw.hbf.read_issue import Blocked, ReadIssue
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

DIE, DIES, SUBARRAYS = 1, 4, 4
ALL = (1 << SUBARRAYS) - 1
DIRECT, RELAY = 0, 1
ORDER = (Blocked.PLANE, Blocked.SRAM, Blocked.PATH, Blocked.DIE)  # as a page meets them


@dataclass(frozen=True)
class Page:
    """A page of a read that die ``DIE`` holds."""

    number: int  # in the stack
    tag: int
    page: int
    beats: tuple[int, int]
    epoch: int

    @property
    def subarray(self) -> int:
        return self.number // DIES % SUBARRAYS

    @property
    def row(self) -> int:
        return self.number // (DIES * SUBARRAYS)


def pages_of(read: dict) -> list[Page]:
    beats = read.get("first_beat", 0), read.get("last_beat", 3)
    return [
        Page(number, read["tag"], k, beats, read.get("epoch", 0))
        for k, number in enumerate(range(read["first"], read["first"] + read["pages"]))
        if number % DIES == DIE
    ]


def open_all(ctx, dut) -> None:
    ctx.set(dut.port_free, 1)
    ctx.set(dut.plane_free, ALL)
    for r in range(2):
        ctx.set(dut.slot_free[r], ALL)
    ctx.set(dut.path_open, 3)


async def wait_for(ctx, dut, *reads: tuple[int, dict]) -> None:
    """Let the pages of some reads wait at their subarrays, with the port closed."""
    ctx.set(dut.port_free, 0)
    for path, read in reads:
        stream = (dut.direct, dut.relay)[path]
        ctx.set(stream.payload, {"last_beat": 3, **read})
        ctx.set(stream.valid, 1)
        await ctx.tick()
        ctx.set(stream.valid, 0)
    for _ in range(8):
        await ctx.tick()


@pytest.mark.parametrize("path", [DIRECT, RELAY])
def test_each_gate_alone_and_together(path):
    """One page waits: it is issued if all gates are open, and else blocked by the first."""
    dut = ReadIssue(TINY, die=DIE)
    met = []

    async def bench(ctx):
        await wait_for(ctx, dut, (path, {"first": DIE, "pages": 1, "tag": 5}))
        here = 1
        for shut in itertools.product((False, True), repeat=4):
            plane, sram, path_shut, port = shut
            # What belongs to other subarrays and to the other path does not matter.
            for others in (0, ALL & ~here):
                ctx.set(dut.plane_free, others | (0 if plane else here))
                for r in range(2):
                    ctx.set(dut.slot_free[r], others | (0 if sram else here))
                ctx.set(dut.path_open, (0 if path_shut else 1 << path) | (others and 2 - path))
                ctx.set(dut.port_free, not port)
                closed = [gate for gate, is_shut in zip(ORDER, shut, strict=True) if is_shut]
                blocked = closed[0] if closed else 0
                assert ctx.get(dut.issue) == (not any(shut)), shut
                assert ctx.get(dut.blocked_on) == blocked, shut
                met.append(blocked)
        await ctx.tick()

    simulate(dut, bench, clocks=50)
    assert set(met) == {*ORDER, 0}


@pytest.mark.parametrize("free", [(0,), (1,), (0, 1)])
def test_a_page_takes_a_free_slot(free):
    dut = ReadIssue(TINY, die=DIE)

    async def bench(ctx):
        await wait_for(ctx, dut, (DIRECT, {"first": 8 + DIE, "pages": 1, "tag": 5}))
        open_all(ctx, dut)
        for r in range(2):
            ctx.set(dut.slot_free[r], 0b0100 if r in free else 0b1011)
        assert ctx.get(dut.issue) and ctx.get(dut.slot.subarray) == 2
        assert ctx.get(dut.slot.region) == free[0]
        await ctx.tick()
        assert not ctx.get(dut.issue)

    simulate(dut, bench, clocks=50)


def test_reads_leave_the_last_free_slot_to_a_write_that_waits():
    dut = ReadIssue(TINY, die=DIE)

    async def bench(ctx):
        await wait_for(ctx, dut, (RELAY, {"first": DIE, "pages": 1, "tag": 5}))
        open_all(ctx, dut)
        for slots, waits in itertools.product(range(4), (0, 1)):
            ctx.set(dut.write_waits, waits)
            for r in range(2):
                ctx.set(dut.slot_free[r], slots >> r & 1)
            may = slots == 3 if waits else slots != 0
            assert ctx.get(dut.issue) == may, (slots, waits)
            assert ctx.get(dut.blocked_on) == (0 if may else Blocked.SRAM), (slots, waits)
        ctx.set(dut.write_waits, ALL & ~1)  # at other subarrays
        assert ctx.get(dut.issue)
        await ctx.tick()

    simulate(dut, bench, clocks=50)


@pytest.mark.parametrize("path", [DIRECT, RELAY])
def test_a_path_leaves_its_second_slot_to_the_other_that_waits_there(path):
    dut = ReadIssue(TINY, die=DIE)
    reads = [(p, {"first": DIE, "pages": 1, "tag": p}) for p in (DIRECT, RELAY)]

    async def bench(ctx):
        await wait_for(ctx, dut, *reads)
        open_all(ctx, dut)
        ctx.set(dut.path_open, 1 << path)
        ctx.set(dut.holds[path], 1)
        assert not ctx.get(dut.issue)
        assert ctx.get(dut.blocked_on) == Blocked.PATH
        ctx.set(dut.holds[path], ALL & ~1)
        ctx.set(dut.holds[1 - path], ALL)
        assert ctx.get(dut.issue) and ctx.get(dut.path) == path
        await ctx.tick()
        # The other one waits alone now, so that nothing is left to anybody.
        ctx.set(dut.path_open, 3)
        assert ctx.get(dut.issue) and ctx.get(dut.path) == 1 - path
        await ctx.tick()

    simulate(dut, bench, clocks=50)


def test_paths_alternate():
    dut = ReadIssue(TINY, die=DIE)
    came = []

    async def bench(ctx):
        reads = [(p, {"first": 0, "pages": 64, "tag": p}) for p in (DIRECT, RELAY)]
        await wait_for(ctx, dut, *reads)
        open_all(ctx, dut)
        for _ in range(20):
            if ctx.get(dut.issue):
                came.append(ctx.get(dut.path))
            await ctx.tick()

    simulate(dut, bench, clocks=50)
    assert len(came) >= 16
    assert all(a != b for a, b in itertools.pairwise(came[:12]))


HAZARD = {"first": 5, "end": 8, "valid": 1}  # page 5 is subarray 1, row 0 of the die


def test_a_covered_page_is_held_until_the_write_retires():
    dut = ReadIssue(TINY, die=DIE)
    issued = []

    async def bench(ctx):
        await wait_for(ctx, dut, (DIRECT, {"first": 0, "pages": 16, "tag": 1}))
        open_all(ctx, dut)
        ctx.set(dut.ranges[3], HAZARD)
        held = 0
        for clock in range(12):
            held += ctx.get(dut.held)
            if ctx.get(dut.issue):
                issued.append((clock, ctx.get(dut.slot.subarray)))
            ctx.set(dut.retired, clock in (5, 9))
            if clock == 9:  # in the clock of `retired` the range is still there
                await ctx.tick()
                ctx.set(dut.ranges[3], {"valid": 0})
                ctx.set(dut.retired, 0)
                continue
            await ctx.tick()
        assert held == 2  # found once, and again after another write has retired

    simulate(dut, bench, clocks=50)
    assert [subarray for _, subarray in issued] == [0, 2, 3, 1]
    assert issued[2][0] < 6 and issued[3][0] >= 10


@pytest.mark.parametrize(
    ("first", "end", "covers"),
    [(5, 6, True), (0, 5, False), (6, 200, False), (0, 256, True), (4, 6, True), (5, 5, False)],
)
def test_bounds_of_a_range(first, end, covers):
    dut = ReadIssue(TINY, die=DIE)

    async def bench(ctx):
        await wait_for(ctx, dut, (RELAY, {"first": 5, "pages": 1, "tag": 1}))
        open_all(ctx, dut)
        ctx.set(dut.ranges[7], {"valid": 1, "first": first, "end": end})
        assert ctx.get(dut.issue) == (not covers)
        ctx.set(dut.ranges[7].valid, 0)
        assert ctx.get(dut.issue)
        await ctx.tick()

    simulate(dut, bench, clocks=50)


def test_older_reads_pass_the_write_that_waits_for_them():
    dut = ReadIssue(TINY, die=DIE)

    async def bench(ctx):
        await wait_for(ctx, dut, (RELAY, {"first": 5, "pages": 1, "tag": 1, "epoch": 1}))
        open_all(ctx, dut)
        ctx.set(dut.ranges[2], HAZARD)
        for entry, ordered, epoch in itertools.product((0, 1 << 2, 1 << 4), (0, 1), (0, 1)):
            ctx.set(dut.ordering, entry)
            ctx.set(dut.ordered, ordered)
            ctx.set(dut.epoch, epoch)
            # Before it is ordered all reads are older; then those of the other epoch are.
            older = entry == 1 << 2 and not (ordered and epoch == 1)
            assert ctx.get(dut.issue) == older, (entry, ordered, epoch)
        await ctx.tick()

    simulate(dut, bench, clocks=50)


@pytest.mark.parametrize("seed", range(3))
def test_any_gates_any_pages(seed):
    """Random gates against a plain judgement of every page that waits."""
    pick = random.Random(seed)
    dut = ReadIssue(TINY, die=DIE)
    reads = []
    for path in (DIRECT, RELAY):
        of_path = []
        for tag in range(30):
            pages = pick.choice((1, 3, 16, 40))
            first_beat = pick.randrange(4)
            of_path.append(
                {
                    "first": pick.randrange(256 - pages + 1),
                    "pages": pages,
                    "tag": 100 * path + tag,
                    "first_beat": first_beat,
                    "last_beat": pick.randrange(first_beat, 4),
                }
            )
        reads.append(of_path)
    due = defaultdict(deque)
    for path, of_path in enumerate(reads):
        for read in of_path:
            for page in pages_of(read):
                due[path, page.subarray].append(page)
    seen = {gate: 0 for gate in (*ORDER, 0)}
    total = sum(map(len, due.values()))
    done = 0

    async def bench(ctx):
        nonlocal done
        ctx = Quiet(ctx)
        left = [deque(of_path) for of_path in reads]
        held: set[tuple[int, int]] = set()
        last_path = None
        span = None
        open_chance = 0.5
        for clock in range(8000):
            if clock % 100 == 0:
                open_chance = pick.choice((0.3, 0.6, 0.95))
            if done == total:
                return
            say = f"clock {clock}, seed {seed}"
            for stream, queue in zip((dut.direct, dut.relay), left, strict=True):
                ctx.set(stream.valid, bool(queue))
                if queue:
                    ctx.set(stream.payload, queue[0])
                    if ctx.get(stream.ready):
                        queue.popleft()

            lines = [
                sum((pick.random() < open_chance) << s for s in range(SUBARRAYS)) for _ in range(10)
            ]
            plane_free, slots = lines[0], lines[1:3]
            holds = lines[3] & lines[4], lines[5] & lines[6]
            waits = lines[7] & lines[8] & lines[9]
            path_open, port = pick.choice((3, 3, 1, 2, 0)), pick.random() < 0.8
            retires = span is not None and pick.random() < 0.05
            if span is None and pick.random() < 0.1:
                first = pick.randrange(256)
                span = first, min(256, first + pick.choice((1, 8, 64)))
            ctx.set(dut.plane_free, plane_free)
            for k in range(2):
                ctx.set(dut.slot_free[k], slots[k])
                ctx.set(dut.holds[k], holds[k])
            ctx.set(dut.write_waits, waits)
            ctx.set(dut.path_open, path_open)
            ctx.set(dut.port_free, port)
            ctx.set(
                dut.ranges[0],
                {"valid": 1, "first": span[0], "end": span[1]} if span else {"valid": 0},
            )
            ctx.set(dut.retired, retires)

            waiting = [ctx.get(dut.waiting[p]) for p in range(2)]
            stand = {}  # number of gates passed, by path and subarray
            for p, s in itertools.product(range(2), range(SUBARRAYS)):
                if not waiting[p] >> s & 1:
                    continue
                assert due[p, s], f"{say}: more pages than there are"
                free = (slots[0] >> s & 1) + (slots[1] >> s & 1)
                gates = [
                    plane_free >> s & 1 and (p, s) not in held,
                    free == 2 if waits >> s & 1 else free > 0,
                    path_open >> p & 1 and not (holds[p] & waiting[1 - p]) >> s & 1,
                ]
                stand[p, s] = next((k for k, ok in enumerate(gates) if not ok), 3)
            wants = {
                s
                for (p, s) in stand
                if (p, s) not in held
                and (slots[0] >> s & 1) + (slots[1] >> s & 1) > (waits >> s & 1)
                and path_open >> p & 1
                and not (holds[p] & waiting[1 - p]) >> s & 1
            }
            assert ctx.get(dut.wants) == sum(1 << s for s in wants), say
            able = [[s for s in range(SUBARRAYS) if stand.get((p, s)) == 3] for p in range(2)]

            # Covered pages are found as they come to the head of the line.
            heads = [(p, min(able[p])) for p in range(2) if able[p]]
            covered = range(*span) if span else range(0)
            found = [head for head in heads if due[head][0].number in covered]
            goes = [head for head in heads if head not in found and port]
            assert ctx.get(dut.held) == bool(found), say
            assert ctx.get(dut.issue) == bool(goes), say
            gone = None
            if goes:
                gone = ctx.get(dut.path), ctx.get(dut.slot.subarray)
                assert gone in goes, say
                assert len(goes) == 1 or gone[0] != last_path, f"{say}: paths do not alternate"
                last_path = gone[0]
                page = due[gone].popleft()
                assert slots[ctx.get(dut.slot.region)] >> gone[1] & 1, say
                label = ctx.get(dut.label)
                found_page = label.tag, label.page, ctx.get(dut.row)
                assert found_page == (page.tag, page.page, page.row), say
                assert (ctx.get(dut.first_beat), ctx.get(dut.last_beat)) == page.beats, say
                done += 1
            stay = [gates for at, gates in stand.items() if at != gone]
            blocked = ORDER[max(stay)] if stay else 0
            assert ctx.get(dut.blocked_on) == blocked, say
            seen[blocked] += 1
            if retires:
                span = None
                held.clear()
            else:
                held |= set(found)
            await ctx.tick()

    simulate(dut, bench, clocks=9000)
    assert done == total
    assert min(seen.values()) > 5, seen
