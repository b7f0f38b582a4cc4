"""The NAND judge: lets a right sequence pass and finds every planted violation."""

import pytest

from hw.hbf.layouts import Command
from tb.vip.content import beat_lanes
from tb.vip.nand import NandDie, NandStack
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

T_READ = 20
# (clock, what, subarray, row or beat)
SENSE, LATCH, READ = "sense", "latch", "read"


def readout(clock: int, subarray: int) -> list[tuple[int, str, int, int]]:
    return [(clock + 2 * beat, READ, subarray, beat) for beat in range(4)]


RIGHT = [
    (5, SENSE, 0, 3),
    (6, SENSE, 2, 15),
    (25, LATCH, 0, 0),  # in the first clock that is allowed
    (26, SENSE, 0, 4),  # the next page while the cache register holds one
    *readout(27, 0),
    (40, LATCH, 2, 0),
    *readout(41, 2),
    (46, LATCH, 0, 0),
    *readout(50, 0),
]


def violations(events, *, cache_read: bool = True) -> list[int]:
    """Clocks of the events that the die objects to."""
    dut = NandDie(TINY)
    found = []

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.t_read, T_READ)
        ctx.set(dut.cache_read, cache_read)
        for clock in range(80):
            ctx.set(dut.clock, clock)
            here = {what: (s, x) for at, what, s, x in events if at == clock}
            ctx.set(dut.command.valid, SENSE in here or LATCH in here)
            for what, command in ((SENSE, Command.SENSE), (LATCH, Command.LATCH)):
                if what in here:
                    ctx.set(dut.command.command, command)
                    ctx.set(dut.command.subarray, here[what][0])
                    ctx.set(dut.command.row, here[what][1])
            ctx.set(dut.read, READ in here)
            if READ in here:
                ctx.set(dut.read_subarray, here[READ][0])
                ctx.set(dut.read_beat, here[READ][1])
            await ctx.tick()
            if ctx.get(dut.violation):
                found.append(clock)

    simulate(dut, bench, clocks=100)
    return found


def moved(clock: int, *, to: int) -> list:
    return [(to if at == clock else at, *rest) for at, *rest in RIGHT]


def test_a_right_sequence_passes():
    assert violations(RIGHT) == []


@pytest.mark.parametrize(
    ("events", "at"),
    [
        (moved(25, to=24), 24),  # a clock before tR is over
        (moved(26, to=24), 24),  # SENSE over a page that was not latched
        ([*RIGHT, (15, SENSE, 2, 1)], 15),
        ([(10, LATCH, 1, 0), *RIGHT], 10),  # nothing was sensed
        ([*RIGHT, (47, LATCH, 0, 0)], 47),  # its page is gone already
        ([*RIGHT, (60, READ, 0, 0)], 60),  # read out once already
        ([*RIGHT, (10, READ, 3, 0)], 10),
    ],
)
def test_finds_what_is_forbidden(events, at):
    assert violations(events)[:1] == [at]


def test_finds_a_latch_over_a_page_that_is_not_read_out():
    early = [event for event in RIGHT if event[0] <= 27] + [(46, LATCH, 0, 0)]
    assert violations(early) == [46]
    # In the clock of the last read-out the register counts as empty, before that it does not.
    for clock, found in ((56, []), (55, [55])):
        last = [(5, SENSE, 0, 1), (26, LATCH, 0, 0), (28, SENSE, 0, 2), (clock, LATCH, 0, 0)]
        assert violations([*last, *readout(50, 0)])[:1] == found


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (1, 2, 3, 0), (0, 0, 1, 2)])
def test_finds_beats_out_of_order(order):
    wrong = [(60 + k, READ, 3, beat) for k, beat in enumerate(order)]
    start = [(5, SENSE, 3, 1), (30, LATCH, 3, 0)]
    first = next(k for k, beat in enumerate(order) if beat != k)
    assert violations([*start, *wrong])[0] == 60 + first


def test_without_cache_read_the_next_sense_waits_for_the_page_to_leave():
    sequence = [(5, SENSE, 1, 1), (30, LATCH, 1, 0), *readout(40, 1)]
    assert violations([*sequence, (46, SENSE, 1, 2)], cache_read=False) == []
    for clock in (31, 45):
        assert violations([*sequence, (clock, SENSE, 1, 2)], cache_read=False) == [clock]
        assert violations([*sequence, (clock, SENSE, 1, 2)], cache_read=True) == []


@pytest.mark.parametrize("stack", [0, 1])
def test_a_read_out_returns_the_page_that_was_latched(stack):
    """Two dies at once, of different rows, then with a bit flipped."""
    dut = NandStack(TINY, stack=stack)
    found = []

    async def bench(ctx):
        ctx.set(dut.t_read, T_READ)
        ctx.set(dut.cache_read, 1)
        for command in (Command.SENSE, Command.LATCH):
            for die, row in ((1, 6), (2, 9)):
                port = dut.command[die]
                ctx.set(port.valid, 1)
                ctx.set(port.command, command)
                ctx.set(port.subarray, 3)
                ctx.set(port.row, row if command == Command.SENSE else 0)
            await ctx.tick()
            for die in (1, 2):
                ctx.set(dut.command[die].valid, 0)
            await ctx.tick().repeat(T_READ)
        for beat in range(4):
            ctx.set(dut.corrupt, beat == 3)
            for die in (1, 2):
                port = dut.readout[die]  # any group may ask
                ctx.set(port.valid, 1)
                ctx.set(port.die, die)
                ctx.set(port.subarray, 3)
                ctx.set(port.beat, beat)
            await ctx.tick()
            found.append([[ctx.get(lane) for lane in dut.readout[die].lanes] for die in (1, 2)])
        assert ctx.get(dut.senses) == 2
        assert ctx.get(dut.violations) == 0

    simulate(dut, bench, clocks=200)
    for beat in range(4):
        for lanes, die, row in zip(found[beat], (1, 2), (6, 9), strict=True):
            # Pages go round the 4 dies, then the 4 subarrays, then the rows.
            page = die + 4 * 3 + 16 * row
            right = beat_lanes(stack, 4 * page + beat, TINY.lanes)
            wrong_bits = sum((a ^ b).bit_count() for a, b in zip(lanes, right, strict=True))
            assert wrong_bits == (beat == 3), f"die {die}, beat {beat}"
