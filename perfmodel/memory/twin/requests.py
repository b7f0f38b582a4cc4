"""The way of a request from the router to the dies of a stack."""

from collections import deque
from collections.abc import Callable

from perfmodel.memory.twin.events import Events, Phase, Wakes
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.transfer import Transfer


class RequestWay:
    """``RequestSender``, ``RequestChannel`` and ``RequestReceiver``: a request to the next die.

    Requests leave the queue at the other end in order, when ``take`` does not refuse.
    """

    def __init__(
        self,
        events: Events,
        *,
        channel_clocks: int,
        take: Callable[[int, Transfer], bool],
    ) -> None:
        self._clocks = LATENCIES.send + channel_clocks + LATENCIES.queue
        self._take = take
        self._queue: deque[tuple[int, Transfer]] = deque()  # clocks from which they can be read
        self._taken = 0
        self._wakes = Wakes(events, Phase.REGISTERS, self._offer)

    def send(self, clock: int, read: Transfer) -> None:
        """A request is accepted by the sender in ``clock``."""
        self._queue.append((clock + self._clocks, read))
        if len(self._queue) == 1:
            self._wakes.at(clock + self._clocks)

    def retry(self, clock: int) -> None:
        """What ``take`` refused may be taken from ``clock`` on."""
        if self._queue:
            self._wakes.at(clock)

    def _offer(self, clock: int) -> None:
        if not self._queue:
            return
        readable, read = self._queue[0]
        readable = max(readable, self._taken + LATENCIES.next)
        if readable > clock:
            self._wakes.at(readable)
            return
        if not self._take(clock, read):
            return
        self._queue.popleft()
        self._taken = clock
        if self._queue:
            self._wakes.at(max(self._queue[0][0], clock + LATENCIES.next))
