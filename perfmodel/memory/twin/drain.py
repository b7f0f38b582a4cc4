"""From the transfer regions to the link: pages that are wholly there, a frame of the link each."""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from perfmodel.memory.twin.events import Phase
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.pacer import FRAME, FramePacer, rate_register
from perfmodel.memory.twin.transfer import Page

if TYPE_CHECKING:
    from perfmodel.memory.twin.stack import Stack

# A page is chosen in the clock before its frame, in which group 0 is read first.
TICK = (0, 2)  # of four, by path


class Outlet(Protocol):
    """What lets pages of a path go, and takes them."""

    def ready(self, clock: int) -> int | None:
        """The first clock from ``clock`` on with credit; ``None`` if the other end decides."""

    def send(self, clock: int, page: Page) -> None:
        """A page is chosen in ``clock``."""

    def emptied(self, clock: int) -> None:
        """No page is ready in ``clock``."""


class Drain:
    """``hw.hbf.drain``: ready pages of a path, dies in turn, those of a die in order.

    A page leaves only while its region drains.

    Attributes:
        coming: Pages that have been filled, with the clock from which each is ready.
    """

    def __init__(self, stack: "Stack", *, path: int, outlet: Outlet) -> None:
        machine = stack.machine
        self._stack, self._path, self._outlet = stack, path, outlet
        self._pacer = FramePacer(rate_register(machine.link_beats_per_clock), phase=TICK[path])
        self.coming: deque[tuple[int, Page]] = deque()
        self._queues: list[deque[Page]] = [deque() for _ in range(machine.geometry.dies)]
        self._heads = [0, 0]  # by region, dies whose first ready page is there
        self._turn = 0  # dies above the last that was chosen
        self._next = -1  # the tick to look at

    def add(self, clock: int, page: Page) -> None:
        """A page is ready from ``clock`` on."""
        self.coming.append((clock, page))
        if self._next < 0:
            self._look_at(clock)

    def admit(self, clock: int) -> None:
        """There may be credit from ``clock`` on."""
        self._look_at(clock)

    def waits(self, clock: int) -> bool:
        """Whether a page is ready in ``clock`` and its region drains."""
        return self._ready(clock) != 0

    def _ready(self, clock: int) -> int:
        """Dies whose first page is ready in ``clock`` and may leave its region."""
        coming, heads = self.coming, self._heads
        while coming and coming[0][0] <= clock:
            page = coming.popleft()[1]
            queue = self._queues[page.die]
            if not queue:
                heads[page.region] |= 1 << page.die
            queue.append(page)
        drains = self._stack.regions.drains
        return (heads[0] if drains[0] else 0) | (heads[1] if drains[1] else 0)

    def _look_at(self, clock: int) -> None:
        tick = self._pacer.tick(clock)
        if self._next < 0 or tick < self._next:
            self._next = tick
            self._stack.events.at(tick, Phase.DRAIN, self._tick)

    def _tick(self, clock: int) -> None:
        if clock != self._next:
            return  # it was looked at before
        self._next = -1
        ready = self._ready(clock)
        if not ready:
            if self.coming:
                self._look_at(self.coming[0][0])
            return
        may = self._outlet.ready(clock)
        if may != clock:
            if may is not None:
                self._look_at(may)
            return
        first = ready & self._turn or ready
        line = first & -first
        self._turn = ~(line | (line - 1))
        queue = self._queues[line.bit_length() - 1]
        page = queue.popleft()
        self._heads[page.region] ^= line
        if queue:
            self._heads[queue[0].region] |= line
        self._pacer.use(clock)
        self._outlet.send(clock, page)
        self._stack.sent(self._path, page, clock)
        if not self.waits(clock + 1):
            self._outlet.emptied(clock + 1)
        if self._ready(clock + 1):
            self._look_at(clock + FRAME)
        elif self.coming:
            self._look_at(max(clock + FRAME, self.coming[0][0]))


def on_link(page: Page, chosen: int) -> list[int]:
    """Clocks in which the beats of a page enter the link."""
    start = chosen + LATENCIES.frame + LATENCIES.read
    return [start + group for group in page.of.frames[page.die % FRAME]]
