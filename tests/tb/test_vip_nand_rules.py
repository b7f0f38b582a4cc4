"""Every rule of a NAND die, broken alone: one clock early is a violation, on time is not.

Both models play every case, so that they are held to the rules and to each other.
"""

from dataclasses import dataclass, field

import pytest

from hw.hbf.layouts import Command
from tb.vip.nand_rules import NandRule
from tests.tb.nand_bench import NandBench, Op, cmd, read, with_times, write

R = NandRule
READ, PROGRAM, ERASE, SUSPEND = 10, 30, 50, 8


@pytest.fixture(scope="module")
def bench():
    return NandBench()


Events = list[tuple[int, Op]]


def page_in(clock: int, subarray: int = 0, row: int = 0, *, beats: int = 4) -> Events:
    """LOAD and write-ins, the last one in ``clock + 4``."""
    writes = [(clock + 1 + k, write(subarray, k, row)) for k in range(beats)]
    return [(clock, cmd("LOAD", subarray, row)), *writes]


def program(clock: int, subarray: int = 0, row: int = 0) -> Events:
    """A whole program whose PROGRAM is in ``clock + 5``."""
    return [*page_in(clock, subarray, row), (clock + 5, cmd("PROGRAM", subarray, row))]


def sensed(clock: int, subarray: int = 0, row: int = 0) -> Events:
    """A page that is in the cache register after ``clock + READ``."""
    return [(clock, cmd("SENSE", subarray, row)), (clock + READ, cmd("LATCH", subarray))]


def suspended(clock: int = 0) -> Events:
    """A program that is suspended from ``clock + 6 + SUSPEND`` on."""
    return [*program(clock), (clock + 6, cmd("SUSPEND"))]


@dataclass(frozen=True)
class Case:
    """``op`` breaks ``rule`` in clock ``early``, and is legal in clock ``fine``, if it ever is."""

    rule: NandRule
    before: Events
    op: Op
    early: int
    fine: int | None = None
    cache_read: bool = True
    times: dict[str, int] = field(default_factory=dict)


T = 14  # when a page sensed in clock 4 is in the cache register
CASES = [
    Case(R.SENSE_OVER_PAGE, [(0, cmd("SENSE"))], cmd("SENSE", 0, 1), 5),
    Case(R.SENSE_OVER_PAGE, sensed(4), cmd("SENSE", 0, 1), T - 1, T + 1),
    Case(
        R.SENSE_OVER_CACHE, [*sensed(4), (20, read(0, 3))], cmd("SENSE"), 19, 20, cache_read=False
    ),
    Case(R.SENSE_OVER_CACHE, page_in(0), cmd("SENSE"), 8, cache_read=False),
    Case(R.LATCH_NOTHING, [], cmd("LATCH"), 50),
    Case(R.LATCH_NOTHING, [*sensed(4), (15, read(0, 3))], cmd("LATCH"), 30),
    Case(R.LATCH_EARLY, [(4, cmd("SENSE"))], cmd("LATCH"), T - 1, T),
    Case(
        R.LATCH_OVER_PAGE,
        [*sensed(4), (15, cmd("SENSE", 0, 1)), (30, read(0, 3))],
        cmd("LATCH"),
        29,
        30,
    ),
    Case(R.READ_NOTHING, [], read(), 5),
    Case(R.READ_NOTHING, sensed(4), read(), T, T + 1),
    Case(R.READ_NOTHING, [*sensed(4), (20, read(0, 1, True))], read(0, 2), 21),
    Case(R.READ_NOTHING, page_in(0), read(), 9),
    Case(R.READ_EARLY, sensed(4), read(), T + 6, T + 7, times={"t_latch": 4, "t_rr": 3}),
    Case(R.READ_ORDER, [*sensed(4), (20, read(0, 1)), (21, read(0, 2))], read(0, 2), 22),
    Case(R.READ_ORDER, [*sensed(4), (20, read(0, 1))], read(0, 3), 22),
    Case(R.READ_ORDER, [*sensed(4), (20, read(0, 1))], read(0, 0), 22),
    Case(R.READ_ORDER, [*sensed(4), (20, read(0, 3, False))], read(0, 0), 22),
    Case(R.TWO_BEATS, [*sensed(4), (20, read(0, 1))], read(0, 2), 20, 21),
    Case(
        R.BEATS_CLOSE,
        [*sensed(0), *sensed(1, 3), (20, read(0, 0))],
        read(3, 0),
        25,
        26,
        times={"t_ccs": 6},
    ),
    Case(R.BEATS_CLOSE, [*sensed(0), *page_in(15, 3)], read(0, 0), 24, 25, times={"t_ccs": 6}),
    Case(
        R.BEATS_CLOSE,
        [*sensed(0), (15, cmd("LOAD", 3)), (20, read(0, 0))],
        write(3, 0),
        20,
        26,
        times={"t_ccs": 6},
    ),
    Case(R.LOAD_OVER_PAGE, [*sensed(4), (20, read(0, 3))], cmd("LOAD"), 19, 20),
    Case(R.LOAD_OVER_PAGE, [(4, cmd("SENSE"))], cmd("LOAD"), 20),
    Case(R.LOAD_OVER_PAGE, page_in(0), cmd("LOAD"), 20),
    Case(R.WRITE_NOTHING, [], write(), 5),
    Case(R.WRITE_NOTHING, [(4, cmd("LOAD"))], write(), 4, 5),
    Case(R.WRITE_NOTHING, page_in(0), write(0, 0), 9),
    Case(R.WRITE_NOTHING, sensed(4), write(), 30),
    Case(R.WRITE_EARLY, [(4, cmd("LOAD"))], write(), 8, 9, times={"t_adl": 5}),
    Case(R.WRITE_ORDER, [(4, cmd("LOAD"))], write(0, 1), 9),
    Case(R.WRITE_ORDER, page_in(0, beats=2), write(0, 1), 9),
    Case(R.WRITE_ORDER, page_in(0, beats=2), write(0, 3), 9),
    Case(R.PROGRAM_INCOMPLETE, page_in(0), cmd("PROGRAM"), 4, 5),
    Case(R.PROGRAM_INCOMPLETE, [], cmd("PROGRAM"), 5),
    Case(R.PROGRAM_INCOMPLETE, page_in(0, beats=3), cmd("PROGRAM"), 9),
    Case(R.PROGRAM_ROW, page_in(0), cmd("PROGRAM", 0, 4), 9),
    Case(R.PROGRAM_OVER_PAGE, [*page_in(0), (9, cmd("SENSE"))], cmd("PROGRAM"), 20),
    Case(R.PROGRAM_ORDER, page_in(0, row=1), cmd("PROGRAM", 0, 1), 9),
    Case(R.PROGRAM_ORDER, [*program(0), *page_in(40, row=2)], cmd("PROGRAM", 0, 2), 60),
    Case(R.PROGRAM_NOT_ERASED, [*program(0), *page_in(40)], cmd("PROGRAM"), 60),
    Case(R.ERASE_OVER_PAGE, [*sensed(4), (20, read(0, 3))], cmd("ERASE"), 19, 20),
    Case(R.ERASE_OVER_PAGE, [(4, cmd("SENSE"))], cmd("ERASE"), 20),
    Case(R.ERASE_OVER_PAGE, page_in(0), cmd("ERASE"), 20),
    *(
        Case(R.BUSY, program(0), cmd(what), 5 + PROGRAM - 1, 5 + PROGRAM)
        for what in ("SENSE", "LOAD", "ERASE")
    ),
    Case(R.BUSY, [(0, cmd("ERASE"))], cmd("LOAD"), ERASE - 1, ERASE),
    Case(R.BUSY, suspended(), cmd("SENSE"), 5 + SUSPEND, 6 + SUSPEND),
    Case(R.SUSPENDED, suspended(), cmd("LOAD"), 20),
    Case(R.SUSPENDED, suspended(), cmd("ERASE"), 20),
    Case(R.STATUS_EARLY, program(0), cmd("STATUS"), 5 + 6, 5 + 7, times={"t_wb": 7}),
    Case(R.STATUS_EARLY, [(0, cmd("ERASE"))], cmd("STATUS"), 6, 7, times={"t_wb": 7}),
    Case(R.SUSPEND_NOTHING, [], cmd("SUSPEND"), 5),
    # Over, and told so; over, but nobody can know.
    Case(R.SUSPEND_NOTHING, [*program(0), (40, cmd("STATUS"))], cmd("SUSPEND"), 41, 39),
    Case(R.SUSPEND_NOTHING, [(0, cmd("ERASE")), (70, cmd("STATUS"))], cmd("SUSPEND"), 80, 60),
    # Told so, but of the one before.
    Case(
        R.SUSPEND_NOTHING,
        [(0, cmd("ERASE")), (60, cmd("STATUS")), *program(70), (110, cmd("STATUS"))],
        cmd("SUSPEND"),
        120,
        109,
    ),
    Case(R.SUSPEND_NOTHING, [*program(0), (36, cmd("SUSPEND"))], cmd("SUSPEND"), 37),
    Case(R.RESUME_NOTHING, [*program(0), (36, cmd("SUSPEND"))], cmd("RESUME"), 60),
    Case(R.SUSPEND_NOTHING, suspended(), cmd("SUSPEND"), 8),
    Case(R.SUSPEND_NOTHING, suspended(), cmd("SUSPEND"), 20),
    Case(R.RESUME_NOTHING, suspended(), cmd("RESUME"), 5 + SUSPEND, 6 + SUSPEND),
    Case(R.RESUME_NOTHING, program(0), cmd("RESUME"), 20),
    Case(R.RESUME_NOTHING, program(0), cmd("RESUME"), 50),
    Case(
        R.RESUME_NOTHING,  # it ended as the suspend would have taken effect
        [*program(0), (5 + PROGRAM - SUSPEND, cmd("SUSPEND"))],
        cmd("RESUME"),
        60,
    ),
    Case(
        R.RESUME_OVER_PAGE,
        [*suspended(), (20, cmd("SENSE", 0, 5)), (30, cmd("LATCH"))],
        cmd("RESUME"),
        29,
        31,
    ),
    # Subarrays 0 and 2 are of one plane; what is done to plane 1 does not matter.
    Case(
        R.PLANE_BUSY,
        [(4, cmd("SENSE")), (8, cmd("SENSE", 1)), (9, cmd("STATUS"))],
        cmd("SENSE", 2),
        10,
        11,
        times={"t_plane_busy": 7},
    ),
]


def play(bench, case, clock):
    events: dict[int, list[Op]] = {}
    for at, op in [*case.before, (clock, case.op)]:
        events.setdefault(at, []).append(op)
    machine = with_times(cache_read=case.cache_read, **case.times)
    return bench.play(events, max(events) + 3, machine)


def name(case):
    what = case.op.what
    return f"{case.rule.name}-{what.name if isinstance(what, Command) else what}"


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_rule_broken_alone(bench, case):
    broken = play(bench, case, case.early)
    assert broken.broken == (case.rule, case.early)
    assert broken.kinds == [case.rule]
    assert broken.counters["violations"] == 1
    where = f"clock {case.early + 1}, die 0, subarray {case.op.subarray}: "
    assert broken.text.startswith(where)
    assert broken.text.endswith(f"({case.rule.name})")
    if case.fine is not None:
        assert play(bench, case, case.fine).kinds == []


def test_every_rule_has_a_case():
    assert {case.rule for case in CASES} == set(NandRule)
    timed = {case.rule for case in CASES if case.fine is not None}
    late = [rule for rule in NandRule if rule.name.endswith(("EARLY", "CLOSE", "BUSY"))]
    assert set(late) <= timed
