"""Which requests hold their pages in the write tracker of one stack, in plain Python."""

from collections import Counter, deque
from dataclasses import dataclass, field

from hw.ucie.transaction import Status
from tb.vip.requests import WriteRequest

RECENT = 64  # more than retire while a refusal travels


@dataclass
class Transaction:
    """A request that was accepted at a port, as one stack sees it."""

    port: str
    tag: int
    request: WriteRequest
    accepted_at: int
    taken_up: int | None = None  # by the tracker of the base die
    retired_at: int | None = None  # by the same
    status: dict[int, Status] = field(default_factory=dict)  # by page of the transaction
    reported: list[tuple[int, Status]] = field(default_factory=list)
    fetched: Counter[tuple[int, int]] = field(default_factory=Counter)
    exposed: bool = False  # its link was reset meanwhile

    @property
    def whole(self) -> bool:
        return len(self.status) == self.request.pages

    def overlaps(self, other: "Transaction") -> bool:
        mine, theirs = self.request.range, other.request.range
        return mine.start < theirs.stop and theirs.start < mine.stop


class WriteRanges:
    """Requests from the clock in which the tracker takes them up to that in which it retires them.

    No two of them share a page. One whose link was reset goes on holding its pages after its sender
    has heard of its end.
    """

    def __init__(self) -> None:
        self.held: list[Transaction] = []
        self._retired: deque[Transaction] = deque(maxlen=RECENT)

    def over(self, t: Transaction) -> Transaction | None:
        """A request that holds a page of this one."""
        return next((other for other in self.held if t.overlaps(other)), None)

    def retire(self, first: int, end: int, clock: int) -> Transaction | None:
        """The one that holds exactly pages ``first`` to ``end - 1``, which it does no longer."""
        for t in self.held:
            if (t.request.range.start, t.request.range.stop) == (first, end):
                self.held = [other for other in self.held if other is not t]
                self._retired.append(t)
                t.retired_at = clock
                return t
        return None

    def in_the_way(self, t: Transaction) -> bool:
        """Whether one held a page of this one at some time since it was accepted at its port."""
        since = [o for o in self._retired if (o.retired_at or 0) >= t.accepted_at]
        return any(t.overlaps(other) for other in (*self.held, *since))
