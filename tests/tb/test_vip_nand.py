"""What a stack holds and how long it takes: programs, erases, failures, suspends."""

import random

import pytest
from amaranth.sim import Simulator

import tb.vip.nand_array
from hw.hbf.layouts import Command
from hw.presets import preset
from tb.vip.content import VERSION_MASK, Form, beat_lanes, blank_lanes, garbage_lanes
from tb.vip.nand_array import NandArray, page_slots
from tb.vip.nand_rules import NandRule
from tests.tb.nand_bench import SMALL, STACK, TIMES, NandBench, Op, cmd, read, with_times, write

G, LANES = SMALL.geometry, SMALL.lanes


@pytest.fixture(scope="module")
def bench():
    return NandBench()


class Script:
    """Operations one after the other, on one subarray, with no clock lost or known."""

    def __init__(self, subarray: int = 0, die: int = 0) -> None:
        self.events: dict[int, list[Op]] = {}
        self.clock, self._subarray, self._die = 0, subarray, die

    def _do(self, op: Op, clocks: int = 1) -> None:
        self.events.setdefault(self.clock, []).append(op)
        self.clock += clocks

    def command(self, what: str, row: int = 0, clocks: int = 1) -> "Script":
        self._do(cmd(what, self._subarray, row, self._die), clocks)
        return self

    def beats(self, row: int, version: int) -> "Script":
        for beat in range(4):
            self._do(write(self._subarray, beat, row, version, self._die))
        return self

    def program(self, row: int, version: int) -> "Script":
        self.command("LOAD", row).beats(row, version)
        return self.command("PROGRAM", row, TIMES["t_program"])

    def erase(self, row: int) -> "Script":
        return self.command("ERASE", row, TIMES["t_erase"])

    def read(self, row: int) -> "Script":
        self.command("SENSE", row, TIMES["t_read"]).command("LATCH")
        for beat in range(4):
            self._do(read(self._subarray, beat, die=self._die))
        return self


def page_of(lanes, row, *, subarray=0, die=0):
    """Version of a page read out, or its form; fails if its beats are of no one page."""
    page = (row * G.subarrays_per_die + subarray) * G.dies + die
    assert len(lanes) == 4
    forms = {
        tuple(map(tuple, (make(4 * page + beat) for beat in range(4)))): form
        for form, make in (
            (Form.BLANK, lambda number: blank_lanes(LANES)),
            (Form.GARBAGE, lambda number: garbage_lanes(STACK, number, LANES)),
        )
    }
    version = lanes[0][0] & VERSION_MASK
    forms[tuple(tuple(beat_lanes(STACK, 4 * page + b, LANES, version)) for b in range(4))] = version
    return forms[tuple(map(tuple, lanes))]


def pages_of(played, rows, **where):
    assert played.kinds == []
    assert len(played.read) == 4 * len(rows)
    chunks = [played.read[4 * k : 4 * k + 4] for k in range(len(rows))]
    return [page_of(lanes, row, **where) for lanes, row in zip(chunks, rows, strict=True)]


def run(bench, script, rows, *, subarray=0, die=0, **settings):
    for row in rows:
        script.read(row)
    compares = settings.pop("compares", True)
    played = bench.play(script.events, script.clock + 3, compares=compares, **settings)
    return played, pages_of(played, rows, subarray=subarray, die=die)


@pytest.mark.parametrize(("subarray", "die"), [(0, 0), (3, 1)])
def test_pages_hold_what_was_preloaded_written_or_erased(bench, subarray, die):
    where = {"subarray": subarray, "die": die}
    script = Script(**where).program(0, 7).program(1, 255)
    assert run(bench, script, [0, 1, 2, 4], **where)[1] == [7, 255, 0, 0]
    script = Script(**where).program(0, 7).program(1, 9).program(4, 3).erase(1)
    assert run(bench, script, [0, 1, 2, 4, 5], **where)[1] == [Form.BLANK] * 3 + [3, 0]
    script = Script(**where).program(0, 7).program(1, 9).erase(3).program(0, 8)
    assert run(bench, script, [0, 1], **where)[1] == [8, Form.BLANK]


def test_failures_leave_garbage(bench):
    script = Script().program(0, 1).program(1, 2).program(2, 3)
    status = script.clock
    script.command("STATUS")
    played, pages = run(bench, script, [0, 1, 2], compares=False, fail_program_at=2)
    assert pages == [1, Form.GARBAGE, 3]
    assert played.counters["program_failures"] == 1
    assert played.statuses == [(status, (1, 0))]  # the last program was right


@pytest.mark.parametrize("fails", [False, True])
def test_a_failed_erase_spoils_the_block_until_the_next(bench, fails):
    def stimulus(script):
        return lambda clock, model: (script.events.get(clock, []), fails)

    script = Script().erase(0).command("STATUS")
    rows = [0, 3, 4]
    for row in rows:
        script.read(row)
    played = bench.play(stimulus(script), script.clock + 2)
    blank = Form.GARBAGE if fails else Form.BLANK
    assert pages_of(played, rows) == [blank, blank, 0]
    assert played.statuses == [(TIMES["t_erase"], (1, int(fails)))]
    assert played.counters["erase_failures"] == fails


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_programmed_into_a_block_whose_erase_failed(bench, fails):
    script = Script().erase(0).program(0, 1)
    failing = {clock for clock, ops in script.events.items() if fails and ops == [cmd("ERASE")]}
    played = bench.play(
        lambda clock, model: (script.events.get(clock, []), clock in failing), script.clock
    )
    assert played.kinds == ([NandRule.PROGRAM_NOT_ERASED] if fails else [])


@pytest.mark.parametrize("share", [0, 1, 64, 200, 256])
def test_as_many_programs_fail_as_told(bench, share):
    """PROGRAM alone is no legal work, and fails as often."""
    dut, counts = bench.dut, []

    async def count(ctx):
        ctx.set(dut.fail_program, share)
        ctx.set(dut.fail_erase, 256 - share)
        for die, command in enumerate((Command.PROGRAM, Command.ERASE)):
            ctx.set(dut.command[die].valid, 1)
            ctx.set(dut.command[die].command, command)
        await ctx.tick().repeat(1000)
        counts.extend(ctx.get(x) for x in (dut.program_failures, dut.erase_failures))

    bench.run(count)
    p = share / 256
    deviation = (1000 * p * (1 - p)) ** 0.5
    assert counts == pytest.approx([1000 * p, 1000 * (1 - p)], abs=4 * deviation)


@pytest.mark.parametrize("number", [1, 5, 6])
def test_the_program_of_that_number_fails(bench, number):
    """Both dies program in the same clocks, die 0 first."""
    events: dict[int, list[Op]] = {}
    for die in range(2):
        script = Script(die=die)
        script.clock += 40 * die  # write-ins take turns
        for row in range(3):
            script.command("LOAD", row).beats(row, row + 1)
            script.clock = 100 * row + 90
            script.command("PROGRAM", row, 10 + 40 * die)
        script.clock = 500
        script.command("STATUS")
        for clock, ops in script.events.items():
            events.setdefault(clock, []).extend(ops)
    machine = with_times(t_program=10)
    played = bench.play(events, 510, machine, compares=False, fail_program_at=number)
    assert played.counters["program_failures"] == 1
    last_of_die = [2 * 2 + 1, 2 * 2 + 2]
    answers = dict(zip((0, 1), [status for _, status in played.statuses], strict=True))
    assert [answers[die] for die in range(2)] == [(1, int(n == number)) for n in last_of_die]


@pytest.mark.parametrize(
    ("beat", "lane", "bit"), [(0, 0, 0), (1, 0, 7), (2, 0, 8), (3, LANES - 1, 63), (0, 3, 31)]
)
def test_a_wrong_bit_written_is_counted_and_never_read_as_right(bench, beat, lane, bit):
    script = Script().command("LOAD", 0)
    data = [beat_lanes(STACK, b, LANES, 5) for b in range(4)]
    data[beat][lane] ^= 1 << bit
    for b in range(4):
        script._do(Op("write", 0, beat=b, lanes=tuple(data[b])))
    script.command("PROGRAM", 0, TIMES["t_program"])
    played, pages = run(bench, script, [0, 1], compares=False)
    assert pages == [Form.GARBAGE, 0]
    assert played.counters["data_errors"] >= 1
    script = Script().command("LOAD", 0).beats(1, 5)  # the data of another page
    script.command("PROGRAM", 0, TIMES["t_program"])
    played, pages = run(bench, script, [0], compares=False)
    assert (pages, played.counters["data_errors"]) == ([Form.GARBAGE], 4)


@pytest.mark.parametrize("odd", range(4))
def test_two_versions_in_a_page_are_wrong(bench, odd):
    script = Script().command("LOAD", 0)
    for beat in range(4):
        script._do(write(0, beat, 0, 6 if beat == odd else 5))
    script.command("PROGRAM", 0, TIMES["t_program"])
    played, pages = run(bench, script, [0], compares=False)
    assert pages == [Form.GARBAGE]
    assert played.counters["data_errors"] == (3 if odd == 0 else 1)


def polled(bench, erase, commands, clocks=200, **times):
    """Clock of the first STATUS that is ready; work begins in clock 5, polls fill the gaps."""
    script = Script()
    if erase:
        script.clock = 5
        script.command("ERASE", 0)
    else:
        script.command("LOAD", 0).beats(0, 1).command("PROGRAM", 0)
    for clock, what in commands:
        script.clock = clock
        script.command(what)
    for clock in range(6, clocks):
        script.events.setdefault(clock, [cmd("STATUS")])
    played = bench.play(script.events, clocks, with_times(**times))
    assert played.kinds == []
    ready = [clock for clock, (is_ready, _) in played.statuses if is_ready]
    assert ready == [clock for clock, _ in played.statuses if clock >= ready[0]]
    return ready[0]


@pytest.mark.parametrize("erase", [False, True])
def test_time_is_that_of_the_registers_and_of_suspends(bench, erase):
    length = TIMES["t_erase" if erase else "t_program"]
    assert polled(bench, erase, []) == 5 + length
    stop = TIMES["t_suspend"]
    for told, resumed in ((6, 60), (10, 10 + stop), (5 + length - stop - 1, 150)):
        commands = [(told, "SUSPEND"), (resumed, "RESUME")]
        # Between taking effect and RESUME nothing goes on.
        asked = 5 + length + resumed - (told + stop)
        assert polled(bench, erase, commands) == asked
    twice = [(7, "SUSPEND"), (40, "RESUME"), (42, "SUSPEND"), (70, "RESUME")]
    assert polled(bench, erase, twice) == 5 + length + (40 - 7 - stop) + (70 - 42 - stop)


def test_a_suspend_too_late_does_nothing(bench):
    for told in range(5 + TIMES["t_program"] - TIMES["t_suspend"], 5 + TIMES["t_program"]):
        assert polled(bench, False, [(told, "SUSPEND")]) == 5 + TIMES["t_program"]


@pytest.mark.parametrize("t_suspend", [0, 1, 5])
def test_suspend_time_is_a_register(bench, t_suspend):
    commands = [(9, "SUSPEND"), (50, "RESUME")]
    assert polled(bench, False, commands, t_suspend=t_suspend) == 35 + 50 - 9 - t_suspend


@pytest.mark.parametrize("erase", [False, True])
def test_what_is_suspended_cannot_be_read_but_all_else_can(bench, erase):
    script = Script().program(0, 1)
    begun = script.clock
    if erase:
        script.command("ERASE", 3)
    else:
        script.command("LOAD", 1).beats(1, 2).command("PROGRAM", 1)
    script.command("SUSPEND", 0, TIMES["t_suspend"])
    rows = [0, 1, 2, 4]
    for row in rows:
        script.read(row)
    script.command("RESUME", 0, TIMES["t_erase"])
    for row in rows:
        script.read(row)
    played = bench.play(script.events, script.clock + 2)
    assert begun < script.clock
    blank, garbage = Form.BLANK, Form.GARBAGE
    meanwhile = [garbage] * 3 + [0] if erase else [1, garbage, 0, 0]
    afterwards = [blank] * 3 + [0] if erase else [1, 2, 0, 0]
    assert pages_of(played, rows * 2) == meanwhile + afterwards


def test_a_page_that_had_to_be_forgotten_is_flagged(monkeypatch):
    monkeypatch.setattr(tb.vip.nand_array, "PAGE_ENTRIES", 16)
    small = NandBench()
    assert page_slots(SMALL) == 4 < G.rows

    def written():
        return Script().program(0, 1).program(1, 2).program(4, 3)  # takes the slot of row 1

    played, pages = run(small, written(), [0, 4, 5], compares=False)
    assert (pages, played.counters["overflow"]) == ([1, 3, 0], 0)
    played, pages = run(small, written(), [1, 0], compares=False)
    assert (pages, played.counters["overflow"]) == ([Form.GARBAGE, 1], 1)
    # Once its block is erased there is nothing to remember.
    played, pages = run(small, written().erase(0), [1, 4])
    assert (pages, played.counters["overflow"]) == ([Form.BLANK, 3], 0)


@pytest.mark.parametrize(("blocks", "pages"), [((0,), 64), ((5, 8, 30, 255), 16), ((1, 4), 16)])
def test_at_full_size_64_pages_of_a_subarray_are_kept(blocks, pages):
    """The block table, the slots and the marks, at their real widths."""
    paper = preset("paper")
    dut = NandArray(paper)
    pick = random.Random(pages)
    known = {}

    async def bench(ctx):
        async def give(command, subarray, row, version=0):
            ctx.set(dut.valid, 1)
            ctx.set(dut.command, command)
            ctx.set(dut.subarray, subarray)
            ctx.set(dut.row, row)
            ctx.set(dut.written.version, version)
            await ctx.tick()
            ctx.set(dut.valid, 0)

        for page in range(pages):
            for block in blocks:
                for subarray in (0, 77, 127):
                    row = 256 * block + page
                    known[subarray, row] = pick.randrange(256)
                    await give(Command.PROGRAM, subarray, row, known[subarray, row])
                    assert not ctx.get(dut.order) and not ctx.get(dut.not_erased)
        for (subarray, row), version in known.items():
            for at, content in ((subarray, version), (subarray ^ 1, 0)):
                await give(Command.SENSE, at, row)
                assert ctx.get(dut.content_valid)
                assert not ctx.get(dut.overflow)
                assert ctx.get(dut.content.version) == content, (at, row)
                assert ctx.get(dut.content.form) == Form.WRITTEN

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()


def test_corrupt_flips_one_bit_of_every_beat(bench):
    script = Script().read(2)
    played = bench.play(script.events, script.clock + 2, compares=False, corrupt=1)
    page = 2 * G.wave_pages
    for beat, lanes in enumerate(played.read):
        right = beat_lanes(STACK, 4 * page + beat, LANES)
        assert sum((a ^ b).bit_count() for a, b in zip(lanes, right, strict=True)) == 1
