"""Bench of one die controller: NAND, lane, drains, requesters and tracker in Python.

Beside the NAND model, which judges commands and data, :class:`Rules` keeps books of its own.
"""

import dataclasses
import random
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from amaranth.hdl import Module, Signal

from hw.hbf.die_controller import DieController
from hw.hbf.layouts import CLOCK_BITS, Command
from hw.params import NandTiming, Sensing, Tsv
from hw.ucie.codes import Owner
from hw.ucie.transaction import Operation
from tb.vip.content import beat_lanes
from tb.vip.nand_model import NandModel
from tests.hw.beats import Quiet
from tests.hw.machines import TINY

DIE, DIES, SUBARRAYS = 1, 4, 4
DIRECT, RELAY, WRITE = 0, 1, 2
LINKS = 2
BEAT_CLOCKS = 2  # of the lane, at least
# The lane of the bench is the judge of its own rate, so that of the NAND model is the fastest.
MACHINE = dataclasses.replace(TINY, tsv=Tsv(bytes_per_s=TINY.max_tsv_bytes_per_s))


@dataclass(eq=False)
class Page:
    """A page on its way between a subarray and a link."""

    subarray: int
    row: int
    owner: int  # DIRECT, RELAY or WRITE
    label: tuple[int, int]
    beats: tuple[int, int] = (0, 3)
    sensed_at: int = -1
    region: int = -1

    @property
    def slot(self) -> dict[str, int]:
        return {"subarray": self.subarray, "region": self.region}

    @property
    def number(self) -> int:
        return (self.row * SUBARRAYS + self.subarray) * DIES + DIE


def places(first: int, pages: int):
    """Page of the transaction, subarray and row of the pages that are of die ``DIE``."""
    for k in range(pages):
        local, die = divmod(first + k, DIES)
        if die == DIE:
            yield k, local % SUBARRAYS, local // SUBARRAYS


def reads_of(pick: random.Random, path: int, *, count: int, sizes: tuple[int, ...]) -> list[dict]:
    """Reads in the half of the stack that belongs to ``path``."""
    reads = []
    for tag in range(count):
        pages = pick.choice(sizes)
        first = path * 128 + pick.randrange(128 - pages + 1)
        read = {"first": first, "pages": pages, "tag": path * 2048 + tag}
        if pages == 1:
            beats = sorted(pick.choices(range(4), k=2))
            read |= {"first_beat": beats[0], "last_beat": beats[1]}
        reads.append({"first_beat": 0, "last_beat": 3, **read})
    return reads


class Rules:
    """What the controller promises of reads and slots, kept apart from how it does it."""

    def __init__(self, reads: tuple[list[dict], list[dict]], *, cache_read: bool):
        self.cache_read = cache_read
        # Pages still to issue by path and subarray, in order.
        self.due = defaultdict(deque)
        for path, of_path in enumerate(reads):
            for read in of_path:
                self.expect(path, read)
        self.sensed: dict[int, Page] = {}  # by subarray: issued and not latched
        self.slots: dict[int, list[Page]] = defaultdict(list)
        self.latched: deque[Page] = deque()
        self.issued: list[tuple[int, Page]] = []
        self.drained = [0, 0, 0]

    def expect(self, path: int, read: dict) -> None:
        for k, subarray, row in places(read["first"], read["pages"]):
            beats = read.get("first_beat", 0), read.get("last_beat", 3)
            page = Page(subarray, row, path, (read["tag"], k), beats)
            self.due[path, subarray].append(page)

    @property
    def done(self) -> bool:
        return not any(self.due.values()) and not any(self.slots.values())

    def sense(self, clock: int, subarray: int, row: int, path: int, region: int) -> Page:
        due = self.due[path, subarray]
        assert due and due[0].row == row, f"row {row} of {subarray} issued, not the one due: {due}"
        page = due.popleft()
        page.sensed_at = clock
        self.sensed[subarray] = page
        self.take(page, region)
        self.issued.append((clock, page))
        return page

    def latch(self, subarray: int) -> None:
        self.latched.append(self.sensed.pop(subarray))

    def take(self, page: Page, region: int) -> None:
        others = [other for other in self.slots[page.subarray] if other.region == region]
        assert not others, f"{page} gets the slot of {others}"
        page.region = region
        self.slots[page.subarray].append(page)

    def freed(self, page: Page) -> None:
        self.slots[page.subarray].remove(page)
        self.drained[page.owner] += 1


class Lane:
    """Takes pages of both directions, a beat at a time.

    As in the RTL a page makes room as its last beat completes, before that is moved, and a
    read-out is one clock behind the choice of a beat.
    """

    def __init__(self, bench: "DieBench"):
        self.bench = bench
        self.page: Page | None = None
        self.beats: deque[int] = deque()
        self.made_room = False
        self.rests = self.gap = 0  # clocks until the next beat, until the next page
        self.reads: tuple[Page, int, bool] | None = None  # chosen in the clock before
        self.filled: tuple[list[Page], list[Page]] = ([], [])

    def step(self, ctx) -> None:
        bench, dut = self.bench, self.bench.dut
        ready, transferred, written = 0, {"valid": 0}, {"valid": 0}
        self.rests, self.gap = max(0, self.rests - 1), max(0, self.gap - 1)
        if self.reads:
            page, beat, last = self.reads
            number, _ = bench.nand.readout(DIE, page.subarray, beat, last)
            assert number == page.number * 4 + beat
            if last:
                self.filled[page.owner].append(page)
            self.reads = None
        if self.page is None:
            if not self.gap and ctx.get(dut.transfer.valid):
                self._begin(ctx.get(dut.transfer.payload))
        elif not self.made_room and len(self.beats) == 1:
            self.made_room = ready = bench.pick.random() < bench.lane
        elif not self.rests and bench.pick.random() < bench.lane:
            page, beat = self.page, self.beats.popleft()
            last, self.rests = not self.beats, BEAT_CLOCKS
            if page.owner != WRITE:
                self.reads = page, beat, last
                transferred = {"valid": last, "slot": page.slot}
            else:
                lanes = beat_lanes(0, page.number * 4 + beat, MACHINE.lanes, page.label[0])
                bench.nand.writein(DIE, page.subarray, beat, lanes)
                poison = bench.tracker.spoils(page)
                written = {"valid": last, "slot": page.slot, "poison": last and poison}
            if last:
                self.page, self.gap = None, bench.times["t_ccs"]
                if page.owner == WRITE and not bench.registers.get("hold_until_programmed"):
                    bench.leaves.append(page)
        ctx.set(dut.transfer.ready, ready)
        ctx.set(dut.transferred, transferred)
        ctx.set(dut.written_in, written)

    def _begin(self, head) -> None:
        bench = self.bench
        if head.write:
            page = bench.tracker.to_load.pop(head.slot.subarray)
        else:
            page = bench.rules.latched.popleft()
            assert head.path == page.owner
        assert (head.slot.subarray, head.slot.region) == (page.subarray, page.region)
        assert (head.first_beat, head.last_beat) == page.beats
        self.page, self.made_room = page, False
        self.beats = deque(range(page.beats[0], page.beats[1] + 1))


@dataclass
class WriteJob:
    """A write, trim or release at the dies."""

    first: int
    pages: int
    index: int
    operation: int = Operation.WRITE
    owner: int = Owner.KV
    version: int = 1
    alone: bool = False  # after all before it have ended

    @property
    def end(self) -> int:
        return self.first + self.pages

    @property
    def span(self) -> range:
        return range(self.first, self.end)

    @property
    def payload(self) -> dict:
        names = ("first", "pages", "index", "operation", "owner")
        return {name: getattr(self, name) for name in names}


class Tracker:
    """Hands writes to the die, answers grants with data, collects events."""

    def __init__(self, bench: "DieBench", jobs: list[WriteJob]):
        self.bench, self.waiting = bench, deque(jobs)
        self.open: dict[int, WriteJob] = {}
        self.left: dict[int, set[int]] = {}  # pages without their event
        self.granted: dict[tuple[int, int], Page] = {}
        self.to_send: list[Page] = []
        self.to_load: dict[int, Page] = {}  # by subarray: in the slot, not on the lane
        self.ended: list[tuple[WriteJob, int, int]] = []  # page of the transaction, status

    @property
    def idle(self) -> bool:
        return not (self.waiting or self.open)

    def spoils(self, page: Page) -> bool:
        """Whether a page turns out to be wrong when it is read for the lane."""
        return self.bench.poisons(page) == "read"

    def step(self, ctx) -> None:
        bench, dut, pick = self.bench, self.bench.dut, self.bench.pick
        ready = pick.random() < bench.answers
        ctx.set(dut.grant.ready, ready)
        ctx.set(dut.event.ready, ready)
        # A range is there with its write, and stays until the clock of `retired`.
        self._begin(ctx)
        retired = [index for index in self.open if not self.left[index]]
        ctx.set(dut.retired, bool(retired))
        for k, span in enumerate(dut.ranges):
            job = self.open.get(k)
            ctx.set(span, {"valid": 1, "first": job.first, "end": job.end} if job else {"valid": 0})
        for index in retired:
            del self.open[index]
        if ready and ctx.get(dut.grant.valid):
            self._grant(ctx.get(dut.grant.payload))
        if ready and ctx.get(dut.event.valid):
            event = ctx.get(dut.event.payload)
            self.left[event.index].remove(event.page)
            self.ended.append((self.open[event.index], event.page, event.status))
            page = self.granted.pop((event.index, event.page), None)
            if page and page in bench.rules.slots[page.subarray]:
                bench.rules.freed(page)
        for arrived in dut.arrived:
            arrives = {"valid": 0}
            if self.to_send and pick.random() < bench.data:
                page = self.to_send.pop(pick.randrange(len(self.to_send)))
                bad = bench.poisons(page) == "arrival"
                arrives = {"valid": 1, "slot": page.slot, "poison": bad}
                if not bad:
                    self.to_load[page.subarray] = page
            ctx.set(arrived, arrives)

    def _begin(self, ctx) -> None:
        dut, job = self.bench.dut, self.waiting[0] if self.waiting else None
        begins = (
            job is not None
            and job.index not in self.open
            and not any(job.first < o.end and o.first < job.end for o in self.open.values())
            and not (job.alone and self.open)
            and ctx.get(dut.write.ready)
        )
        ctx.set(dut.write.valid, bool(begins))
        if begins:
            ctx.set(dut.write.payload, job.payload)
            self.open[job.index] = self.waiting.popleft()
            self.left[job.index] = {k for k, *_ in places(job.first, job.pages)}

    def _grant(self, grant) -> None:
        job = self.open[grant.index]
        die, place = grant.token % DIES, grant.token // DIES
        subarray, region = place % SUBARRAYS, place // SUBARRAYS
        where = {k: (s, row) for k, s, row in places(job.first, job.pages)}
        assert die == DIE and where[grant.page][0] == subarray
        assert job.operation == Operation.WRITE and grant.page in self.left[grant.index]
        assert (grant.index, grant.page) not in self.granted
        page = Page(subarray, where[grant.page][1], WRITE, (job.version, grant.page))
        self.granted[grant.index, grant.page] = page
        self.bench.rules.take(page, region)
        self.to_send.append(page)


@dataclass
class DieBench:
    """Drives a controller clock by clock.

    Attributes:
        reads: Of both paths.
        writes: One after the other, as far as their ranges overlap.
        lane: Chance a clock that the lane moves.
        drains: Chance a clock that a filled page is drained, per path; 0 stalls the path.
        wave: Whether a wave is open in a clock, and its region; ``None`` is no lockstep.
        starts: Clock of the first read, per path.
        data: Chance a clock that a granted page arrives; answers: that the tracker takes answers.
        registers: That differ from zero, and times of the NAND.
        fails: Which programs and erases fail, see :class:`tb.vip.nand_model.NandModel`.
        poisons: Which written pages are bad: on "arrival", or when they are "read" for the lane.
    """

    reads: tuple[list[dict], list[dict]]
    seed: int | str
    writes: list[WriteJob] = field(default_factory=list)
    t_read: int = 20
    cache_read: bool = True
    lane: float = 0.7
    drains: tuple[float, float] = (0.5, 0.5)
    wave: Callable[[int], tuple[bool, int]] | None = None
    starts: tuple[int, int] = (0, 0)
    data: float = 0.3
    answers: float = 0.7
    registers: dict[str, int] = field(default_factory=dict)
    fails: Callable[[bool, int, int, int], bool] = lambda *_: False
    poisons: Callable[[Page], str] = lambda _: ""
    slice_clocks: int = 40
    clock: int = field(default=0, init=False)

    def __post_init__(self):
        self.pick = random.Random(self.seed)
        self.dut = DieController(MACHINE, links=LINKS)
        times = {"t_program": 60, "t_erase": 150, "t_suspend": 9, **self.registers}
        times = {name: clocks for name, clocks in times.items() if name.startswith("t_")}
        self.times = {"t_ccs": 0, **times, "t_read": self.t_read}
        nand = NandTiming(
            **{f"{name}_ns": clocks / 2 for name, clocks in self.times.items()},
            sensing=Sensing.INDEPENDENT,
            cache_read=self.cache_read,
        )
        machine = dataclasses.replace(MACHINE, nand=nand)
        self.nand = NandModel(machine, fails=self.fails)
        self.rules = Rules(self.reads, cache_read=self.cache_read)
        self.waiting = [deque(reads) for reads in self.reads]
        self.lane_model = Lane(self)
        self.tracker = Tracker(self, self.writes)
        self.asked: Page | None = None  # whose label was asked for in the clock before
        self.leaves: list[Page] = []  # written pages whose slot is given back in this clock
        self.commands: list[tuple[int, Command, int]] = []
        self.entries: dict = {}  # of the block table at the end, by subarray and block

    @property
    def done(self) -> bool:
        return self.rules.done and self.tracker.idle

    def top(self) -> Module:
        m = Module()
        m.submodules.dut = dut = self.dut
        m.d.comb += dut.number.eq(DIE)
        clock = Signal(CLOCK_BITS)
        m.d.sync += clock.eq(clock + 1)
        ticks = Signal(range(self.slice_clocks))
        with m.If(ticks == self.slice_clocks - 1):
            m.d.sync += ticks.eq(0)
        with m.Else():
            m.d.sync += ticks.eq(ticks + 1)
        m.d.comb += [dut.clock.eq(clock), dut.slice_tick.eq(ticks == 0)]
        return m

    async def run(self, ctx, *, until: Callable[[], bool]) -> None:
        ctx = Quiet(ctx)
        dut, rules, lane = self.dut, self.rules, self.lane_model
        modes = {"cache_read": self.cache_read, "lockstep": self.wave is not None}
        for name, value in ({"poll_clocks": 5, **self.registers, **self.times} | modes).items():
            ctx.set(getattr(dut.registers, name), value)
        ctx.set(dut.region_open, 3)
        ctx.set(dut.path_open, 3)
        statused = None
        while not until():
            say = f"clock {self.clock}, seed {self.seed}"
            self.nand.step()
            self._send(ctx)
            is_open, region = self.wave(self.clock) if self.wave else (True, None)
            ctx.set(dut.wave_open, is_open)
            ctx.set(dut.wave_region, region or 0)
            if statused:
                ctx.set(dut.command.ready, statused[0])
                ctx.set(dut.command.fail, statused[1])
            lane.step(ctx)
            freed = self.asked
            if freed:
                label = ctx.get(dut.label)
                assert (label.tag, label.page) == freed.label, f"{freed}, {say}"
            self._free(ctx, freed)
            self.asked = self._choose(lane.filled)
            if self.asked:
                ctx.set(dut.label_slot, self.asked.slot)
            self.tracker.step(ctx)

            statused = self._command(ctx, is_open, say)
            for page in [*self.leaves, *([freed] if freed else [])]:
                rules.freed(page)
            self.leaves.clear()
            await ctx.tick()
            self.clock += 1

    def _command(self, ctx, is_open: bool, say: str):
        command = self.dut.command
        if not ctx.get(command.valid):
            return None
        kind, subarray = ctx.get(command.command), ctx.get(command.subarray)
        row = ctx.get(command.row)
        answer = self.nand.command(DIE, kind, subarray, row)
        self.commands.append((self.clock, kind, subarray))
        if kind == Command.SENSE:
            assert is_open, f"SENSE outside the wave, {say}"
            issued = ctx.get(self.dut.issued)
            assert issued.valid, say
            page = self.rules.sense(self.clock, subarray, row, issued.path, issued.region)
            covers = [job for job in self.tracker.open.values() if page.number in job.span]
            assert not covers, f"{page} is read during {covers}, {say}"
        elif kind == Command.LATCH:
            self.rules.latch(subarray)
        return answer

    def _send(self, ctx) -> None:
        for path, stream in enumerate((self.dut.direct, self.dut.relay)):
            queue = self.waiting[path]
            valid = bool(queue) and self.clock >= self.starts[path]
            ctx.set(stream.valid, valid)
            if valid:
                ctx.set(stream.payload, {"last_beat": 3, **queue[0]})
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
        for path, port in enumerate((self.dut.free_direct, self.dut.free_relay)):
            frees = page is not None and page.owner == path
            ctx.set(port, {"valid": 1, "slot": page.slot} if frees else {"valid": 0})
