"""Pages of one die and path that wait for their subarray."""

from collections import deque

from hw.params import Machine
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.transfer import Transfer

NEVER = 1 << 62


class PageWalk:
    """``hw.hbf.page_walk.PageWalk`` and the waiting bits of ``hw.hbf.pending.PendingPages``.

    Descriptors are cut into the pages of the die, one page a clock, each waiting at its subarray.
    The walk stops while the next page finds its place taken; two clocks lie between descriptors.

    Attributes:
        waiting: One bit a subarray: a page waits there.
        pages: By subarray, whose page that is.
        next_clock: When the walk can go on, ``NEVER`` if that depends on a place or a descriptor.
    """

    __slots__ = (
        "_bits", "_die", "_dies", "_end", "_local", "_mask", "_popped", "_queue", "_read",
        "next_clock", "pages", "waiting",
    )  # fmt: skip

    def __init__(self, machine: Machine, *, die: int) -> None:
        g = machine.geometry
        self._die, self._dies, self._bits = die, g.dies, g.dies.bit_length() - 1
        self._mask = g.subarrays_per_die - 1
        self._queue: deque[tuple[int, Transfer]] = deque()  # clock from which it can be read
        self._popped = 0
        self._local = self._end = 0  # of the pages of this die: the next one, and behind the last
        self._read: Transfer | None = None
        self.waiting = 0
        self.pages: list[Transfer | None] = [None] * g.subarrays_per_die
        self.next_clock = NEVER

    def has_room(self, clock: int) -> bool:
        """Whether the queue takes a descriptor: one is out of its memory once it can be read."""
        queue = self._queue
        if len(queue) < LATENCIES.walk_depth - 1:
            return True
        return len(queue) - (self._readable() <= clock) < LATENCIES.walk_depth - 1

    def add(self, clock: int, read: Transfer) -> int:
        """Take a descriptor in ``clock``; returns when the walk may look at it."""
        self._queue.append((clock + LATENCIES.queue, read))
        return clock + LATENCIES.queue

    def step(self, clock: int) -> int:
        """Go on for a clock; returns the bit of the subarray at which a page waits from the next.

        ``next_clock`` is when to step again.
        """
        self.next_clock = NEVER
        if self._local != self._end:
            subarray = self._local & self._mask
            bit = 1 << subarray
            if self.waiting & bit:
                return 0
            self.pages[subarray] = self._read
            self._local += 1
            if self._local != self._end or self._queue:
                self.next_clock = clock + 1
            return bit
        if self._queue:
            readable = self._readable()
            if readable > clock:
                self.next_clock = readable
                return 0
            _, read = self._queue.popleft()
            self._popped, self._read = clock, read
            round_up = self._dies - 1 - self._die
            self._local = (read.first + round_up) >> self._bits
            self._end = (read.first + read.pages + round_up) >> self._bits
            self.next_clock = clock + 1
        return 0

    @property
    def popped(self) -> int:
        """Clock in which the last descriptor left the queue."""
        return self._popped

    def _readable(self) -> int:
        return max(self._queue[0][0], self._popped + LATENCIES.next)
