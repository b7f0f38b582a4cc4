"""The shared TSVs: a lane a die, and the fill clocks of the bank groups that lanes wait for."""

from collections import deque
from typing import TYPE_CHECKING

from perfmodel.memory.twin.events import Phase, Wakes
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.pacer import FRAME, ONE, rate_register
from perfmodel.memory.twin.transfer import Page

if TYPE_CHECKING:
    from perfmodel.memory.twin.stack import Stack


class TsvLane:
    """``hw.hbf.tsv_lane``: moves the wanted beats of the pages of a die, one after the other.

    A beat takes 65536 / rate clocks on average: what is left over of a clock counts for the next
    one while pages follow each other. A finished beat waits for its group, and the next one is
    already under way.
    """

    __slots__ = (
        "_beat", "_carry", "_die", "_idle", "_out", "_pages", "_rate", "_since", "_stack", "_t_ccs",
    )  # fmt: skip

    def __init__(self, stack: "Stack", *, die: int) -> None:
        machine = stack.machine
        self._stack, self._die = stack, die
        self._rate = rate_register(machine.tsv_beats_per_clock_per_die)
        self._t_ccs = machine.nand_cycles["t_ccs"]
        self._pages: deque[tuple[int, Page]] = deque()  # when they can be read
        self._beat: int | None = None  # the next beat of the first page, if one has moved
        # Of a beat, `carry` / 65536 have moved when it may go on in clock `since`.
        self._carry, self._since = 0, 0
        self._out: tuple[Page, int] | None = None  # what waits for its group
        self._idle = True

    def add(self, readable: int, page: Page) -> None:
        """A page can be read out of its cache register from a clock on."""
        self._pages.append((readable, page))
        if self._idle:
            self._move(0)

    def take(self, clock: int) -> None:
        """The group takes the beat that waits."""
        assert self._out is not None
        page, beat = self._out
        last = beat == page.of.last_beat
        if last:
            self._stack.left(page, clock)
            if self._t_ccs:
                self._since = clock + LATENCIES.take + self._t_ccs
        self._out = None
        self._move(clock)

    def _move(self, clock: int) -> None:
        """Finish the next beat, which goes on in ``clock`` at the earliest, if there is a page."""
        if not self._pages:
            self._idle = True
            return
        self._idle = False
        readable, page = self._pages[0]
        if self._beat is None:
            self._beat = page.of.first_beat
            if readable > self._since or self._t_ccs:
                self._since, self._carry = max(readable, self._since), 0
        clocks = max(0, -((self._carry - ONE) // self._rate) - 1)
        moved = max(self._since + clocks, clock)
        self._carry += (clocks + 1) * self._rate - ONE
        self._since = moved + 1
        beat = self._beat
        self._out = page, beat
        if beat == page.of.last_beat:
            self._pages.popleft()
            self._beat = None
        else:
            self._beat = beat + 1
        self._stack.groups[(beat + self._die) % FRAME].wait(moved + 1, self._die)


class FillGroup:
    """``hw.hbf.tsv_transfer``: a bank group takes a waiting beat in two clocks, dies in turn."""

    __slots__ = ("_coming", "_group", "_lanes", "_turn", "_waiting", "_wakes")

    def __init__(self, stack: "Stack", *, group: int) -> None:
        self._lanes, self._group = stack.lanes, group
        self._coming: dict[int, int] = {}  # by fill clock, dies whose beat is first seen then
        self._waiting = 0
        self._turn = 0  # dies above the last that was taken
        self._wakes = Wakes(stack.events, Phase.LANES, self._choose)

    def wait(self, clock: int, die: int) -> None:
        """A beat of ``die`` waits from ``clock`` on."""
        clock += (clock - self._group) & 1
        self._coming[clock] = self._coming.get(clock, 0) | 1 << die
        self._wakes.at(clock)

    def _choose(self, clock: int) -> None:
        waiting = self._waiting | self._coming.pop(clock, 0)
        first = waiting & self._turn or waiting
        line = first & -first
        self._turn = ~(line | (line - 1))
        self._waiting = waiting ^ line
        if self._waiting:
            self._wakes.at(clock + 2)
        self._lanes[line.bit_length() - 1].take(clock)
