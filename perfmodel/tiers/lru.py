"""Least-recently-used order of the cache entries of one tier, with reference locks."""

import heapq
from dataclasses import dataclass, field

from perfmodel.tiers.tier import Tier


@dataclass(slots=True, eq=False)
class Entry:
    """The KV of one session, spread over the tiers.

    Attributes:
        session: Its number.
        tokens: In each tier.
        locked: A running request refers to it: it is no victim.
        last_use: Order of the last use; lower is colder. Counts only while it is not locked.
        waiting: A turn of the session waits for admission.
        queued: For each tier, the ``last_use`` under which it is in that tier's order.
    """

    session: int
    tokens: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    locked: bool = False
    last_use: int = 0
    waiting: bool = False
    queued: list[int | None] = field(default_factory=lambda: [None, None, None, None])

    @property
    def stored(self) -> int:
        """Tokens in all tiers."""
        return sum(self.tokens)

    @property
    def on_device(self) -> int:
        """Tokens in HBM and HBF."""
        return self.tokens[Tier.HBM] + self.tokens[Tier.HBF]

    @property
    def on_host(self) -> int:
        """Tokens in DRAM and SSD."""
        return self.tokens[Tier.DRAM] + self.tokens[Tier.SSD]


class LruOrder:
    """Entries of one tier by last use: a heap whose outdated items are dropped when they surface.

    ``offer`` and ``coldest`` take logarithmic time. An entry has to be offered when it is unlocked
    and when tokens of an unlocked entry come into the tier.
    """

    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        self._heap: list[tuple[int, int, Entry]] = []

    def offer(self, entry: Entry) -> None:
        """Make an unlocked entry with tokens in this tier a possible victim; idempotent."""
        if entry.queued[self._tier] != entry.last_use:
            entry.queued[self._tier] = entry.last_use
            heapq.heappush(self._heap, (entry.last_use, entry.session, entry))

    def coldest(self) -> Entry | None:
        """The unlocked entry with tokens here that was used longest ago."""
        heap, tier = self._heap, self._tier
        while heap:
            last_use, _, entry = heap[0]
            if entry.last_use != last_use:
                heapq.heappop(heap)  # used since: it is further back, or locked
            elif entry.locked or not entry.tokens[tier]:
                entry.queued[tier] = None
                heapq.heappop(heap)
            else:
                return entry
        return None

    def reaches(self, entry: Entry) -> bool:
        """Whether ``coldest`` would come to this entry; takes linear time."""
        return any(item[2] is entry and item[0] == entry.last_use for item in self._heap)
