"""When pages of a path, and a wave of the whole stack, may be sensed."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hw.params import Machine
from perfmodel.memory.twin.events import Events, Phase, Wakes

if TYPE_CHECKING:
    from perfmodel.memory.twin.die import Die


class PathGate:
    """``hw.hbf.path_gate``: pages of a path between issue and link.

    Open while the path holds credit, and else for one region's worth of pages. The dies ask in one
    clock what was so at its beginning.

    Attributes:
        blocked: A die has found it closed.
    """

    __slots__ = ("_again", "_clock", "_most", "_open", "_ready", "_under_way", "blocked")

    def __init__(
        self,
        machine: Machine,
        *,
        ready: Callable[[int], int | None],
        again: Callable[[int], None],
    ) -> None:
        """``ready`` as :meth:`perfmodel.memory.twin.drain.Outlet.ready`.

        ``again`` is told the clock of its answer while the gate is closed.
        """
        self._ready, self._again, self._most = ready, again, machine.geometry.wave_pages
        self._under_way, self._clock, self._open = 0, -1, True
        self.blocked = False

    def opens(self, clock: int) -> bool:
        """Whether a page may be issued in this clock."""
        if clock != self._clock:
            self._clock, self._open = clock, True
            if self._under_way >= self._most:
                ready = self._ready(clock)
                self._open = ready == clock
                if ready is not None and not self._open:
                    self._again(ready)
        if not self._open:
            self.blocked = True
        return self._open

    def issue(self) -> None:
        self._under_way += 1

    def sent(self) -> None:
        self._under_way -= 1


class WaveGate:
    """``hw.hbf.wave_gate``: in lockstep, when the whole stack may start the next page wave.

    Opens, for two clocks a subarray of a die, when a page waits, the region in turn is free and the
    wave before is sensed: with cache read for tR and no page stuck, without once no data register
    is in use.
    """

    def __init__(self, machine: Machine, events: Events, dies: Sequence["Die"]) -> None:
        self._dies = dies
        self._t_read, self._cache_read = machine.t_read_cycles, machine.nand.cache_read
        self._window = 2 * machine.geometry.subarrays_per_die
        self.region = 0
        self._turns = False  # the region changes as the window ends
        self._from = self._until = 0  # open in these clocks, the end not among them
        self._wakes = Wakes(events, Phase.GATE, self._look)
        self.wake = self._wakes.at

    def opens(self, clock: int) -> bool:
        """Whether it is open in this clock."""
        return self._from <= clock < self._until

    def _look(self, clock: int) -> None:
        if clock < self._until:
            return
        if self._turns:
            self.region, self._turns = 1 - self.region, False
        dies = self._dies
        if not any(die.walks[0].waiting | die.walks[1].waiting for die in dies):
            return
        if any(die.slot_busy[self.region] for die in dies):
            return
        if any(die.data_busy for die in dies):
            if not self._cache_read:
                return
            if clock - self._from < self._t_read:
                self.wake(self._from + self._t_read)
                return
            if any(die.stuck(clock) for die in dies):
                return
        self._from, self._until = clock + 1, clock + 1 + self._window
        self._turns = True
        self.wake(self._until)
        for die in dies:
            die.wake(self._from)
