"""Bench of one die scheduler: lane and drains in Python, and a second bookkeeping of its rules."""

import random
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from amaranth.hdl import Module, Signal

from hw.hbf.die_scheduler import DieScheduler
from hw.hbf.layouts import Command
from tb.vip.nand import NandDie
from tests.hw.beats import Quiet
from tests.hw.machines import TINY

DIE = 1
DIRECT, RELAY = 0, 1


@dataclass
class Page:
    """A page on its way. Those of Direct are in rows 0 to 7, those of Relay above."""

    subarray: int
    row: int
    label: tuple[int, int]
    sensed_at: int = -1
    region: int = -1

    @property
    def path(self) -> int:
        return int(self.row >= 8)

    @property
    def slot(self) -> dict[str, int]:
        return {"subarray": self.subarray, "region": self.region}


def reads_of(pick: random.Random, path: int, *, count: int, sizes: tuple[int, ...]) -> list[dict]:
    """Reads in the half of the stack that belongs to ``path``."""
    reads = []
    for tag in range(count):
        pages = pick.choice(sizes)
        first = path * 128 + pick.randrange(128 - pages + 1)
        reads.append({"first": first, "pages": pages, "tag": path * 2048 + tag})
    return reads


class Rules:
    """What the scheduler promises, kept apart from how it does it."""

    def __init__(self, reads: tuple[list[dict], list[dict]], *, t_read: int, cache_read: bool):
        self.t_read, self.cache_read = t_read, cache_read
        # Pages still to issue by path and subarray, in order.
        self.due = defaultdict(deque)
        for path, of_path in enumerate(reads):
            for read in of_path:
                for k in range(read["pages"]):
                    local, die = divmod(read["first"] + k, 4)
                    if die == DIE:
                        page = Page(local % 4, local // 4, (read["tag"], k))
                        self.due[path, local % 4].append(page)
        self.data: dict[int, Page] = {}  # registers that hold a page
        self.cache: dict[int, Page] = {}
        self.slots: dict[int, list[Page]] = defaultdict(list)
        self.latched: deque[Page] = deque()
        self.issued: list[tuple[int, Page]] = []
        self.drained = [0, 0]

    @property
    def done(self) -> bool:
        return not any(self.due.values()) and not any(self.slots.values())

    def sense(self, clock: int, subarray: int, row: int) -> None:
        due = self.due[int(row >= 8), subarray]
        assert due and due[0].row == row, f"row {row} of {subarray} issued, not the one due: {due}"
        assert subarray not in self.data, f"SENSE over {self.data[subarray]}"
        assert len(self.slots[subarray]) < 2, f"no slot free: {self.slots[subarray]}"
        page = due.popleft()
        page.sensed_at = clock
        self.data[subarray] = page
        self.slots[subarray].append(page)
        self.issued.append((clock, page))

    def latch(self, clock: int, subarray: int) -> None:
        assert subarray not in self.cache, f"LATCH over {self.cache[subarray]}"
        page = self.data[subarray]
        assert clock - page.sensed_at >= self.t_read, f"{page} latched at {clock}, too early"
        self.cache[subarray] = page
        self.latched.append(page)
        if self.cache_read:
            del self.data[subarray]

    def left(self, page: Page) -> None:
        del self.cache[page.subarray]
        if not self.cache_read:
            del self.data[page.subarray]

    def placed(self, page: Page, region: int) -> None:
        others = [other for other in self.slots[page.subarray] if other is not page]
        assert region not in [other.region for other in others], f"{page} over {others}"
        page.region = region

    def freed(self, page: Page) -> None:
        self.slots[page.subarray].remove(page)
        self.drained[page.path] += 1


class Lane:
    """Takes latched pages, four beats each; the last beat leaves after the page made room."""

    def __init__(self, bench: "DieBench"):
        self.bench = bench
        self.page: Page | None = None
        self.beats = 0
        self.made_room = False
        self.filled: tuple[list[Page], list[Page]] = ([], [])

    def step(self, ctx) -> Page | None:
        """Drive one clock; the page whose last beat leaves in it."""
        scheduler, judge = self.bench.scheduler, self.bench.judge
        ctx.set(judge.read, 0)
        ctx.set(scheduler.transfer.ready, 0)
        ctx.set(scheduler.transferred, {"valid": 0})
        if self.page is None:
            if ctx.get(scheduler.transfer.valid):
                self.page, self.beats, self.made_room = self.bench.rules.latched[0], 0, False
                head = ctx.get(scheduler.transfer.payload)
                self.bench.rules.placed(self.page, head.slot.region)
                assert (head.slot.subarray, head.path) == (self.page.subarray, self.page.path)
        elif self.beats == 4:  # the read-out is one clock behind the choice of a beat
            self._read(ctx, 3)
            self.filled[self.page.path].append(self.page)
            self.page = None
        elif self.bench.pick.random() < self.bench.lane:
            if self.beats < 3:
                self._read(ctx, self.beats)
                self.beats += 1
            elif not self.made_room:
                self.made_room = True
                ctx.set(scheduler.transfer.ready, 1)
                self.bench.rules.latched.popleft()
            else:
                self.beats = 4
                ctx.set(scheduler.transferred, {"valid": 1, "slot": self.page.slot})
                return self.page
        return None

    def _read(self, ctx, beat: int) -> None:
        judge = self.bench.judge
        ctx.set(judge.read, 1)
        ctx.set(judge.read_subarray, self.page.subarray)
        ctx.set(judge.read_beat, beat)


@dataclass
class DieBench:
    """Drives a scheduler clock by clock.

    Attributes:
        reads: Of both paths.
        lane: Chance a clock that the lane moves.
        drains: Chance a clock that a filled page is drained, per path; 0 stalls the path.
        wave: Whether a wave is open in a clock, and its region; ``None`` is no lockstep.
        starts: Clock of the first read, per path.
    """

    reads: tuple[list[dict], list[dict]]
    seed: int
    t_read: int = 20
    cache_read: bool = True
    lane: float = 0.7
    drains: tuple[float, float] = (0.5, 0.5)
    wave: Callable[[int], tuple[bool, int]] | None = None
    starts: tuple[int, int] = (0, 0)
    clock: int = field(default=0, init=False)

    def __post_init__(self):
        self.pick = random.Random(self.seed)
        self.scheduler, self.judge = DieScheduler(TINY, die=DIE), NandDie(TINY)
        self.rules = Rules(self.reads, t_read=self.t_read, cache_read=self.cache_read)
        self.waiting = [deque(reads) for reads in self.reads]
        self.lane_model = Lane(self)
        self.asked: Page | None = None  # whose label was asked for in the clock before

    def top(self) -> Module:
        m = Module()
        m.submodules.scheduler, m.submodules.judge = scheduler, judge = self.scheduler, self.judge
        clock = Signal(24)
        m.d.sync += clock.eq(clock + 1)
        m.d.comb += [
            scheduler.clock.eq(clock),
            judge.clock.eq(clock),
            judge.t_read.eq(scheduler.t_read),
            judge.cache_read.eq(scheduler.cache_read),
            *(
                getattr(judge.command, name).eq(getattr(scheduler.command, name))
                for name in ("valid", "command", "subarray", "row")
            ),
        ]
        return m

    async def run(self, ctx, *, until: Callable[[], bool]) -> None:
        ctx = Quiet(ctx)
        scheduler, rules, lane = self.scheduler, self.rules, self.lane_model
        ctx.set(scheduler.t_read, self.t_read)
        ctx.set(scheduler.cache_read, self.cache_read)
        ctx.set(scheduler.lockstep, self.wave is not None)
        while not until():
            self._send(ctx)
            is_open, region = self.wave(self.clock) if self.wave else (True, None)
            ctx.set(scheduler.wave_open, is_open)
            ctx.set(scheduler.wave_region, region or 0)
            left = lane.step(ctx)
            freed = self.asked
            if freed:
                label = ctx.get(scheduler.label)
                assert (label.tag, label.page) == freed.label, f"{freed}, seed {self.seed}"
            self._free(ctx, freed)
            self.asked = self._choose(lane.filled)
            if self.asked:
                ctx.set(scheduler.label_slot, self.asked.slot)

            command = scheduler.command
            if ctx.get(command.valid):
                if ctx.get(command.command) == Command.LATCH:
                    rules.latch(self.clock, ctx.get(command.subarray))
                else:
                    assert is_open, f"SENSE at {self.clock} outside the wave, seed {self.seed}"
                    rules.sense(self.clock, ctx.get(command.subarray), ctx.get(command.row))
            if left:
                rules.left(left)
            if freed:
                rules.freed(freed)
            await ctx.tick()
            self.clock += 1
            assert not ctx.get(self.judge.violation), f"clock {self.clock}, seed {self.seed}"

    def _send(self, ctx) -> None:
        for path, stream in enumerate((self.scheduler.direct, self.scheduler.relay)):
            queue = self.waiting[path]
            valid = bool(queue) and self.clock >= self.starts[path]
            ctx.set(stream.valid, valid)
            if valid:
                ctx.set(stream.payload, queue[0])
                if ctx.get(stream.ready):
                    queue.popleft()

    def _choose(self, filled: tuple[list[Page], list[Page]]) -> Page | None:
        """A page to drain next: any, since drains take pages out of order over subarrays."""
        able = [p for p in (DIRECT, RELAY) if filled[p] and self.pick.random() < self.drains[p]]
        if not able:
            return None
        of_path = filled[self.pick.choice(able)]
        return of_path.pop(self.pick.randrange(len(of_path)))

    def _free(self, ctx, page: Page | None) -> None:
        for path, port in enumerate((self.scheduler.free_direct, self.scheduler.free_relay)):
            frees = page is not None and page.path == path
            ctx.set(port, {"valid": 1, "slot": page.slot} if frees else {"valid": 0})
