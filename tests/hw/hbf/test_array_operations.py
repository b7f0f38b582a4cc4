"""Programs and erases of one die, with the NAND model as judge of every command."""

import dataclasses
import itertools
import random
from dataclasses import dataclass, field

import pytest

from hw.hbf.array_operations import ArrayOperations
from hw.hbf.layouts import Command
from hw.params import NandTiming
from tb.vip.content import beat_lanes
from tb.vip.nand_model import NandModel
from tests.hw.beats import Quiet
from tests.hw.hbf.die_bench import MACHINE
from tests.hw.pysim import simulate

DIE, DIES, SUBARRAYS, PLANES = 1, 4, 4, 2
BLOCK_ROWS, ROWS = 4, 16
TIMES = {"t_read": 10, "t_program": 70, "t_erase": 160, "t_suspend": 8, "t_adl": 0,
         "t_plane_busy": 0}  # fmt: skip
SLOW = TIMES | {"t_adl": 9, "t_plane_busy": 6, "t_latch": 4, "t_rr": 3, "t_ccs": 3, "t_wb": 5}
POLL, SLICE = 7, 25


@dataclass
class Work:
    """An operation that was started, and what became of it."""

    erase: bool
    row: int
    region: int
    fails: bool
    commands: list[tuple[int, Command]] = field(default_factory=list)
    ready: bool = False  # as the last STATUS said


@dataclass
class Read:
    """A page that the bench reads, by stages as its own little scheduler."""

    row: int
    sensed: int
    latched: int = -1


class ArrayBench:
    """Starts operations at random and plays reads, lane and scoreboard."""

    def __init__(self, *, seed: int, times: dict, suspend: bool, grant: float, reads: float):
        self.pick, self.times = random.Random(seed), {"t_wb": 0, **times}
        self.suspend, self.grant, self.read_chance = suspend, grant, reads
        self.dut = ArrayOperations(MACHINE)
        nand = NandTiming(**{f"{name}_ns": clocks / 2 for name, clocks in times.items()})
        self.nand = NandModel(dataclasses.replace(MACHINE, nand=nand), fails=self._fails)
        self.works: dict[int, Work] = {}
        self.ended: list[tuple[int, int, Work]] = []  # clock, subarray
        self.next_page = {(s, b): 0 for s in range(SUBARRAYS) for b in range(ROWS // BLOCK_ROWS)}
        self.reads: dict[int, Read] = {}
        self.read_while_paused = 0
        self.loading: set[int] = set()
        self.lane: list | None = None  # subarray, beats moved, clocks to rest
        self.plane_used = {p: -1000 for p in range(PLANES)}
        self.asked = (0, 0)
        self.bus_used = -1000  # clock of the last beat
        self.clock = 0

    def _fails(self, erase: bool, die: int, subarray: int, row: int) -> bool:
        work = self.works[subarray]
        assert (erase, row) == (work.erase, work.row)
        return work.fails

    def plane_busy(self, s: int) -> bool:
        return self.clock - self.plane_used[s % PLANES] < self.times["t_plane_busy"]

    async def run(self, ctx, *, starts: int) -> None:
        ctx, dut, pick = Quiet(ctx), self.dut, self.pick
        for name in ("t_program", "t_erase", "t_suspend", "t_adl"):
            ctx.set(getattr(dut, name), self.times[name])
        ctx.set(dut.poll_clocks, POLL)
        ctx.set(dut.suspend_enable, self.suspend)
        wants = [False] * SUBARRAYS  # a read waits there
        while starts or self.works:
            self.nand.step()
            ctx.set(dut.clock, self.clock)
            ctx.set(dut.slice_tick, self.clock % SLICE == 0)
            # Nobody may look at the answer but one clock after STATUS.
            ready, fail = self.asked or (pick.randrange(2), pick.randrange(2))
            ctx.set(dut.ready, ready)
            ctx.set(dut.fail, fail)
            self._lane(ctx)
            starts -= self._start(ctx, starts)
            for s in range(SUBARRAYS):
                wants[s] |= s not in self.reads and pick.random() < self.read_chance
            data = [s in self.reads and self.reads[s].latched < 0 for s in range(SUBARRAYS)]
            cache = [
                s in self.loading or (s in self.reads and self.reads[s].latched >= 0)
                for s in range(SUBARRAYS)
            ]
            planes = [self.plane_busy(s) for s in range(SUBARRAYS)]
            for name, lines in (
                ("reads_wait", wants), ("data_busy", data), ("cache_busy", cache),
                ("plane_busy", planes),
            ):  # fmt: skip
                ctx.set(getattr(dut, name), sum(line << s for s, line in enumerate(lines)))
            used = self._read(ctx, wants)
            granted = not used and pick.random() < self.grant
            ctx.set(dut.grant, granted)
            self._done(ctx)
            self.asked = self._command(ctx, wants) if granted and ctx.get(dut.valid) else None
            assert ctx.get(dut.load.valid) + ctx.get(dut.program.valid) <= granted
            await ctx.tick()
            self.clock += 1
        assert ctx.get(dut.claimed) == 0 and not ctx.get(dut.valid)

    def _start(self, ctx, starts: int) -> bool:
        free = [s for s in range(SUBARRAYS) if s not in self.works]
        begins = bool(starts and free) and self.pick.random() < 0.1
        ctx.set(self.dut.start.valid, begins)
        if not begins:
            return False
        s, block = self.pick.choice(free), self.pick.randrange(ROWS // BLOCK_ROWS)
        page = self.next_page[s, block]
        fails = self.pick.random() < 0.2
        erase = page in (BLOCK_ROWS, -1) or self.pick.random() < 0.2
        row = block * BLOCK_ROWS + (0 if erase else page)
        # After a failure the block must be erased first.
        self.next_page[s, block] = -1 if fails else 0 if erase else page + 1
        self.works[s] = work = Work(erase, row, self.pick.randrange(2), fails)
        slot = {"subarray": s, "region": work.region}
        ctx.set(self.dut.start.payload, {"slot": slot, "row": row, "erase": erase})
        return True

    def _lane(self, ctx) -> None:
        dut = self.dut
        takes = self.lane is None and self.pick.random() < 0.4
        ctx.set(dut.loaded.ready, takes)
        left = {"valid": 0}
        if self.lane:
            self.lane[2] -= 1
            if self.lane[2] <= 0 and self._bus_free():
                s, beat, _ = self.lane
                number = (self.works[s].row * SUBARRAYS + s) * DIES + DIE
                lanes = beat_lanes(0, 4 * number + beat, MACHINE.lanes, 1)
                self.nand.writein(DIE, s, beat, lanes)
                self.bus_used = self.clock
                self.lane[1:] = [beat + 1, 2]
                if beat == 3:
                    left, self.lane = {"valid": 1, "subarray": s}, None
        elif takes and ctx.get(dut.loaded.valid):
            page = ctx.get(dut.loaded.payload)
            s = page.slot.subarray
            assert s in self.loading and page.write and not self.works[s].erase
            assert (page.first_beat, page.last_beat) == (0, 3)
            assert page.slot.region == self.works[s].region
            self.lane = [s, 0, 1]
        ctx.set(dut.left, left)

    def _bus_free(self) -> bool:
        return self.clock - self.bus_used >= max(2, self.times.get("t_ccs", 0))

    def _read(self, ctx, wants) -> bool:
        """One step of the reads; whether it took the command port."""
        claimed, paused = ctx.get(self.dut.claimed), ctx.get(self.dut.paused)
        times, pick = self.times, self.pick
        for s, read in list(self.reads.items()):
            out = read.latched >= 0 and self.lane is None and self._bus_free()
            waits = times.get("t_latch", 0) + times.get("t_rr", 0)
            if out and self.clock - read.latched >= waits and pick.random() < 0.3:
                self.nand.readout(DIE, s, 3, True)  # its last beat alone empties the register
                self.bus_used = self.clock
                del self.reads[s]
                break
        for s in pick.sample(range(SUBARRAYS), SUBARRAYS):
            if self.plane_busy(s) or pick.random() < 0.4:
                continue
            read = self.reads.get(s)
            if read and read.latched < 0 and self.clock - read.sensed >= times["t_read"]:
                if s in self.loading:
                    continue
                self.nand.command(DIE, Command.LATCH, s, 0)
                read.latched = self.clock
            elif not read and wants[s] and (not claimed >> s & 1 or paused >> s & 1):
                assert s not in self.loading
                row = pick.randrange(ROWS)
                self.nand.command(DIE, Command.SENSE, s, row)
                self.reads[s], wants[s] = Read(row, self.clock), False
                self.read_while_paused += claimed >> s & 1
            else:
                continue
            self.plane_used[s % PLANES] = self.clock
            return True
        return False

    def _command(self, ctx, wants):
        dut = self.dut
        kind, s, row = ctx.get(dut.command), ctx.get(dut.subarray), ctx.get(dut.row)
        work = self.works[s]
        assert ctx.get(dut.claimed) >> s & 1
        assert kind not in (Command.SENSE, Command.LATCH)
        if kind in (Command.ERASE, Command.LOAD, Command.PROGRAM):
            assert row == work.row and work.erase == (kind == Command.ERASE)
        answer = self.nand.command(DIE, kind, s, row)
        if kind == Command.SUSPEND:
            assert wants[s]
        assert bool(ctx.get(dut.suspends)) == (kind == Command.SUSPEND)
        if kind in (Command.LOAD, Command.PROGRAM):
            event = ctx.get(dut.load if kind == Command.LOAD else dut.program)
            assert (event.valid, event.subarray) == (1, s)
            (self.loading.add if kind == Command.LOAD else self.loading.remove)(s)
        if kind != Command.STATUS:
            self.plane_used[s % PLANES] = self.clock
        else:
            work.ready = answer[0]
        work.commands.append((self.clock, kind))
        return answer

    def _done(self, ctx) -> None:
        done = ctx.get(self.dut.done)
        if not done.valid:
            return
        work = self.works.pop(done.subarray)
        assert work.commands[-1] == (self.clock - 1, Command.STATUS) and work.ready
        assert (done.erase, done.fail) == (work.erase, work.fails)
        self.ended.append((self.clock, done.subarray, work))


def run(*, seed: int, times=TIMES, suspend=False, grant=0.7, reads=0.02, starts=60) -> ArrayBench:
    bench = ArrayBench(seed=seed, times=times, suspend=suspend, grant=grant, reads=reads)

    async def drive(ctx):
        await bench.run(ctx, starts=starts)

    simulate(bench.dut, drive, clocks=60_000)
    assert len(bench.ended) == starts
    return bench


def kinds(work: Work) -> list[Command]:
    return [kind for _, kind in work.commands]


@pytest.mark.parametrize("grant", [1.0, 0.3])
@pytest.mark.parametrize("times", [TIMES, SLOW], ids=["ideal", "every time"])
def test_operations_run_for_their_time_and_end_once(times, grant):
    bench = run(seed=len(times), times=times, grant=grant)
    for end, _, work in bench.ended:
        begins = [Command.ERASE] if work.erase else [Command.LOAD, Command.PROGRAM]
        order = kinds(work)
        polls = len(order) - len(begins)
        assert order == [*begins, *[Command.STATUS] * polls]
        begun = work.commands[len(begins) - 1][0]
        takes = times["t_erase" if work.erase else "t_program"]
        assert end > begun + takes
        # With a free port it is asked once, at once; later polls keep their distance.
        if grant == 1.0:
            assert end <= begun + takes + 60
        asked = [clock for clock, kind in work.commands if kind == Command.STATUS]
        assert all(b - a > POLL for a, b in itertools.pairwise(asked))
    assert any(work.fails for _, _, work in bench.ended)
    assert {work.erase for _, _, work in bench.ended} == {False, True}


def test_without_reads_each_is_asked_once():
    """t_program clocks after PROGRAM it is ready."""
    bench = run(seed=3, grant=1.0, reads=0.0)
    assert all(kinds(work).count(Command.STATUS) == 1 for _, _, work in bench.ended)


def test_a_slow_program_is_polled():
    """An operation that takes longer than its register says is asked again and again."""
    bench = ArrayBench(seed=4, times=TIMES, suspend=False, grant=1.0, reads=0.0)
    bench.times = bench.times | {"t_program": 30, "t_erase": 100}  # what the registers say

    async def drive(ctx):
        await bench.run(ctx, starts=20)

    simulate(bench.dut, drive, clocks=10_000)
    assert all(kinds(work).count(Command.STATUS) >= 4 for _, _, work in bench.ended)


@pytest.mark.parametrize("times", [TIMES, SLOW], ids=["ideal", "every time"])
@pytest.mark.parametrize("reads", [0.01, 0.3])
def test_operations_are_suspended_for_reads_but_not_starved(times, reads):
    bench = run(seed=6, times=times, suspend=True, reads=reads, grant=0.8, starts=40)
    suspends = 0
    for end, _, work in bench.ended:
        begun = next(c for c, k in work.commands if k in (Command.ERASE, Command.PROGRAM))
        ran_from, stopped, away = begun, None, 0
        for clock, kind in work.commands:
            if kind == Command.SUSPEND:
                suspends += 1
                assert stopped is None and clock - ran_from > SLICE, "not even a slice"
                stopped = clock
            elif kind == Command.RESUME:
                away += clock - stopped - times["t_suspend"]
                # Reads get a slice of their own, and not much more.
                assert clock - stopped <= times["t_suspend"] + 2 * SLICE + 120
                ran_from, stopped = clock, None
        takes = times["t_erase" if work.erase else "t_program"]
        assert end > begun + takes + away
    assert suspends > 10 and bench.read_while_paused > 10


def test_polls_do_not_starve_other_commands(monkeypatch):
    """Operations of several subarrays that are suspended are polled as often as can be."""
    monkeypatch.setitem(globals(), "POLL", 1)
    bench = run(seed=7, suspend=True, reads=1.0, grant=1.0, starts=40)
    asked = sorted(c for *_, work in bench.ended for c, k in work.commands if k == Command.STATUS)
    assert all(after - before > 1 for before, after in itertools.pairwise(asked))
