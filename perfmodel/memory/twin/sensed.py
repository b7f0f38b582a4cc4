"""Pages that the block table has still to count."""

from collections import deque

from perfmodel.memory.twin.latencies import LATENCIES


class SensedPages:
    """``hw.hbf.block_port``: the queue of sensed pages, of which the table takes one in 3 clocks.

    A page leaves the memory of the queue once it can be read; a SENSE waits while that is full.
    """

    __slots__ = ("_last", "_readable")

    def __init__(self, *, depth: int) -> None:
        self._readable: deque[int] = deque(maxlen=depth)  # of the last pages, from when on
        self._last = 0  # when the table takes the last page

    def room(self, clock: int) -> int:
        """The first clock from ``clock`` on in which a page may be sensed."""
        if len(self._readable) < (self._readable.maxlen or 0):
            return clock
        return max(clock, self._readable[0])

    def add(self, clock: int) -> None:
        """A page is sensed in ``clock``."""
        readable = max(clock + LATENCIES.queue, self._last + LATENCIES.next)
        self._readable.append(readable)
        self._last = max(readable, self._last + LATENCIES.table)
