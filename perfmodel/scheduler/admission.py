"""Which waiting request runs next, and whether it may.

``headroom`` is the share of the device's KV capacity that admission leaves free: a request is
admitted while all active contexts and its prompt take at most ``1 - headroom`` of it. The paper
("Characterizing High Bandwidth Flash for LLM Serving", section 4.3) names the admitted fraction
``b = 1 - headroom``. A request runs alone whatever its size. The limit is one of admission:
contexts may grow beyond it in decode.
"""

import enum
import heapq
from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hw.errors import InputError
from perfmodel.tiers import Entry


class Order(enum.StrEnum):
    """Order of waiting requests; ties, and FCFS, in the order in which they became eligible."""

    FCFS = "fcfs"
    CACHE_AWARE = "cache-aware"  # most tokens of its prefix in HBM and HBF first


@dataclass(frozen=True, kw_only=True)
class Admission:
    """A policy and its limits.

    Attributes:
        order: Of waiting requests.
        headroom: Share of device KV capacity left free at admission; 0: unbuffered.
        budget: Prompt tokens of one step; decode tokens do not count.
        max_running: Requests admitted at once.

    Raises:
        InputError: a value is out of range.
    """

    order: Order = Order.CACHE_AWARE
    headroom: float = 0.1
    budget: int = 2048
    max_running: int = 512

    def __post_init__(self) -> None:
        if not 0 <= self.headroom <= 1:
            raise InputError(f"headroom is {self.headroom}: must be 0 to 1")
        for name in ("budget", "max_running"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: must be at least 1")

    @property
    def admitted_fraction(self) -> float:
        """The ``b`` of the paper."""
        return 1 - self.headroom

    @property
    def label(self) -> str:
        if self.order is Order.FCFS:
            return "fcfs" if not self.headroom else f"fcfs, {100 * self.headroom:g} %"
        return f"cache-aware, {100 * self.headroom:g} %" if self.headroom else "cache-aware"

    def limit_tokens(self, device_capacity: int) -> float:
        """Most tokens that contexts may have when a request is admitted beside others."""
        return self.admitted_fraction * device_capacity


class Waiter(Protocol):
    """What waits: a request with the cache entry of its session."""

    @property
    def entry(self) -> Entry: ...

    @property
    def eligible_order(self) -> int: ...


W = TypeVar("W", bound=Waiter)


class WaitingQueue(Generic[W]):
    """Waiting requests in the order of a policy; preempted ones come before all others.

    Under ``CACHE_AWARE`` a request is filed under the device tokens that its entry has. They can
    only fall while it waits: ``refile`` is told, and outdated items are dropped when they surface.
    """

    def __init__(self, order: Order) -> None:
        self._aware = order is Order.CACHE_AWARE
        self._heap: list[tuple[int, int, W]] = []
        self._filed: dict[int, tuple[int, W]] = {}  # by session: device tokens, request
        self._returned: deque[W] = deque()

    def __len__(self) -> int:
        return len(self._filed) + len(self._returned)

    def add(self, request: W) -> None:
        """A turn has become eligible."""
        request.entry.waiting = True
        self._file(request)

    def give_back(self, request: W) -> None:
        """A request was preempted: it is next."""
        self._returned.appendleft(request)

    def refile(self, entry: Entry) -> None:
        """Tokens of a waiting entry left the device."""
        if self._aware and entry.session in self._filed:
            self._file(self._filed[entry.session][1])

    def head(self) -> W | None:
        """The request that is next."""
        if self._returned:
            return self._returned[0]
        heap, filed = self._heap, self._filed
        while heap:
            key, _, request = heap[0]
            item = filed.get(request.entry.session)
            if item is not None and item[1] is request and item[0] == -key:
                return request
            heapq.heappop(heap)
        return None

    def take(self) -> W:
        """Remove the request that is next.

        Raises:
            IndexError: none waits.
        """
        request = self.head()
        if request is None:
            raise IndexError("no request waits")
        if self._returned:
            self._returned.popleft()
        else:
            heapq.heappop(self._heap)
            del self._filed[request.entry.session]
            request.entry.waiting = False
        return request

    def waiting(self) -> list[W]:
        """All that wait, in no order."""
        return [*self._returned, *(request for _, request in self._filed.values())]

    def _file(self, request: W) -> None:
        tokens = request.entry.on_device if self._aware else 0
        self._filed[request.entry.session] = tokens, request
        heapq.heappush(self._heap, (-tokens, request.eligible_order, request))
