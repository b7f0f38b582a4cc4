"""The GPU side: which pages have come, and which reads are whole."""

from collections import deque
from collections.abc import Callable

from perfmodel.memory.twin.events import Action, Events, Phase, Wakes
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.trace import Path
from perfmodel.memory.twin.transfer import Transfer


class Receiver:
    """``hw.gpu.reassembly`` and ``hw.gpu.completions`` of both paths, of one pair.

    Attributes:
        taken: By path, the clocks in which the last beats of pages are taken, as far as the router
            has not counted them.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self.taken: tuple[deque[int], deque[int]] = (deque(), deque())
        self._over: tuple[dict[int, Transfer], ...] = ({}, {})  # by slot, reads to be told of
        self._wakes = [
            Wakes(events, Phase.COMPLETION, self._teller(path))
            for path in (Path.DIRECT, Path.RELAY)
        ]
        self.page_comes: Callable[[int], None]
        self.read_ends: Callable[[int, Transfer], None]

    def page(self, path: Path, read: Transfer, first: int, last: int) -> None:
        """A page of ``read`` will come, its beats being taken from ``first`` to ``last``."""
        self.taken[path].append(last)
        if not read.first_in:
            read.first_in = first
        read.last_in = last
        read.left -= 1
        self.page_comes(last)
        if not read.left:
            end = last + LATENCIES.end
            self._events.at(end, Phase.ROUTER, lambda clock: self._end(clock, read))

    def _end(self, clock: int, read: Transfer) -> None:
        self._over[read.path][read.slot] = read
        self._wakes[read.path].at(clock)

    def _teller(self, path: Path) -> Action:
        return lambda clock: self._tell(clock, path)

    def _tell(self, clock: int, path: Path) -> None:
        """One read of a path a clock, the lowest slot first."""
        over = self._over[path]
        read = over.pop(min(over))
        read.done = clock
        self.read_ends(clock, read)
        if over:
            self._wakes[path].at(clock + 1)
