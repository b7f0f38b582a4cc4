"""The clock of the twin: events in order of their clock and, within one, of what they read."""

import enum
import heapq
from collections.abc import Callable

Action = Callable[[int], None]


class Phase(enum.IntEnum):
    """Order of the events of one clock.

    Registers of the RTL change at the end of a clock. So whoever changes something comes after all
    who read it in the same clock; what becomes visible later is an event of that later clock.
    """

    REGISTERS = 0  # what shows from this clock on: freed slots, credits, descriptors
    GATE = 1
    DIE = 2
    LANES = 3
    DRAIN = 4
    ROUTER = 5
    COMPLETION = 6


class Events:
    """A queue of actions; those of one clock and phase happen in the order they were asked for."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Action]] = []
        self._count = 0
        self.clock = 0

    def at(self, clock: int, phase: int, action: Action) -> None:
        """Call ``action(clock)`` in that clock and phase, which must not be over."""
        self._count += 1
        heapq.heappush(self._heap, (clock, phase << 48 | self._count, action))

    def run(self, start: int) -> None:
        """Begin in clock ``start`` and go on until nothing is left to happen."""
        heap, pop = self._heap, heapq.heappop
        self.clock = start
        while heap:
            self.clock, _, action = pop(heap)
            action(self.clock)


class Wakes:
    """Calls one action in clocks in which it is wanted, once each."""

    __slots__ = ("_action", "_clocks", "_events", "_phase")

    def __init__(self, events: Events, phase: int, action: Action) -> None:
        self._events, self._phase, self._action = events, phase, action
        self._clocks: set[int] = set()

    def at(self, clock: int) -> None:
        """Wake in ``clock``, which must not be over."""
        if clock not in self._clocks:
            self._clocks.add(clock)
            self._events.at(clock, self._phase, self._fire)

    def _fire(self, clock: int) -> None:
        self._clocks.discard(clock)
        self._action(clock)
