"""The storage hierarchy: who has how many tokens in which tier, and what makes room.

Rules ("Characterizing High Bandwidth Flash for LLM Serving", section 4.2): new KV and reloaded
prefixes come into HBM. When a tier is full, unlocked entries leave it in the order of their last
use: from HBM to HBF or the host, from HBF to the host, from DRAM to SSD; what no tier takes is
discarded. An entry may be spread over tiers; which of its tokens are where is not followed.

A tier without capacity is skipped: without DRAM, the SSD takes what leaves the device. A lower
tier takes as much as it can free; the rest goes one tier further.
"""

from collections.abc import Sequence

from hw.errors import InputError
from perfmodel.tiers.flash_log import FlashLog
from perfmodel.tiers.ledger import Ledger
from perfmodel.tiers.lru import Entry, LruOrder
from perfmodel.tiers.tier import NOWHERE, Tier

GRANULE_TOKENS = 4096


class Store:
    """Entries of all sessions, and the space they take.

    Args:
        capacity_tokens: Of each tier, HBM first; 0 where there is none.
        sessions: Number of sessions; each has one entry.
        flash: Is told of all that comes into HBF and leaves it.
        granule_tokens: Victims leave in pieces of a multiple of this; None: whole.

    Raises:
        InputError: a capacity or the granule is out of range.
    """

    def __init__(
        self,
        capacity_tokens: Sequence[int],
        sessions: int,
        *,
        granule_tokens: int | None = GRANULE_TOKENS,
        flash: FlashLog | None = None,
    ) -> None:
        if len(capacity_tokens) != len(Tier):
            raise InputError(f"capacity_tokens has {len(capacity_tokens)} entries: must be 4")
        for tier, tokens in zip(Tier, capacity_tokens, strict=True):
            least = int(tier == Tier.HBM)
            if tokens < least:
                raise InputError(f"capacity of {tier.name} is {tokens} tokens: must be {least} up")
        if granule_tokens is not None and granule_tokens < 1:
            raise InputError(f"granule is {granule_tokens} tokens: must be at least 1")
        self.capacity = list(capacity_tokens)
        self.used = [0] * len(Tier)
        self.entries = [Entry(session) for session in range(sessions)]
        self.lru = [LruOrder(tier) for tier in Tier]
        self.ledger = Ledger()
        self.left_device: list[Entry] = []  # waiting entries that lost tokens on the device
        self._granule = granule_tokens
        self.flash = flash
        self._below = [
            [low for low in Tier if low > tier and self.capacity[low] > 0] for tier in Tier
        ]
        self._uses = 0
        self._cold = 0

    @property
    def device_capacity(self) -> int:
        """Tokens that fit into HBM and HBF."""
        return self.capacity[Tier.HBM] + self.capacity[Tier.HBF]

    @property
    def granule(self) -> int:
        """Fewest tokens that are worth moving by themselves."""
        return self._granule or 1

    def free(self, tier: int) -> int:
        """Tokens that still fit into a tier."""
        return self.capacity[tier] - self.used[tier]

    # Locks --------------------------------------------------------------------------------------

    def lock(self, entry: Entry) -> None:
        """Keep an entry from being a victim."""
        entry.locked = True

    def unlock(self, entry: Entry, *, cold: bool = False) -> None:
        """Let an entry be a victim again: as the last one, or with ``cold`` as the first one."""
        entry.locked = False
        if cold:
            self._cold -= 1
            entry.last_use = self._cold
        else:
            self._uses += 1
            entry.last_use = self._uses
        for tier in Tier:
            if entry.tokens[tier]:
                self.lru[tier].offer(entry)

    # Movement -----------------------------------------------------------------------------------

    def compute(self, entry: Entry, tokens: int) -> None:
        """Newly computed KV comes into HBM, where there must be room."""
        self.move(entry, NOWHERE, Tier.HBM, tokens)

    def grow(self, tokens: int) -> None:
        """Count decode tokens whose entries are updated later, with ``settle``."""
        self.used[Tier.HBM] += tokens
        self.ledger.add(NOWHERE, Tier.HBM, tokens)

    def drop(self, entry: Entry, tokens: int) -> None:
        """Discard tokens of an entry, from its slowest tier first."""
        for tier in reversed(Tier):
            part = min(tokens, entry.tokens[tier])
            if part:
                self.move(entry, tier, NOWHERE, part)
                tokens -= part

    def move(self, entry: Entry, source: int, target: int, tokens: int) -> None:
        """Move tokens of an entry; in ``target`` there must be room."""
        if source != NOWHERE:
            entry.tokens[source] -= tokens
            self.used[source] -= tokens
        if target != NOWHERE:
            entry.tokens[target] += tokens
            self.used[target] += tokens
            if not entry.locked:
                self.lru[target].offer(entry)
        self.ledger.moved[source][target] += tokens
        if self.flash is not None:
            if source == Tier.HBF:
                self.flash.trim(entry.session, tokens)
            if target == Tier.HBF:
                self.flash.write(entry.session, tokens)
        if entry.waiting and source <= Tier.HBF < target:
            self.left_device.append(entry)

    def make_room(self, tier: int, tokens: int) -> bool:
        """Evict from a tier until so many tokens fit; False where locks keep that from success."""
        used, limit = self.used, self.capacity[tier] - tokens
        order, granule = self.lru[tier], self._granule
        while used[tier] > limit:
            victim = order.coldest()
            if victim is None:
                return False
            amount = victim.tokens[tier]
            if granule is not None:
                short = used[tier] - limit
                amount = min(amount, -(-short // granule) * granule)
            self._sink(victim, tier, amount)
        return True

    def demote(self, entry: Entry, tokens: int) -> int:
        """Move tokens of a locked entry from HBM to HBF, in the pieces of evictions; tells how many
        had room there.
        """
        here = entry.tokens[Tier.HBM]
        piece = here if self._granule is None else -(-tokens // self._granule) * self._granule
        tokens = min(piece, here, self.capacity[Tier.HBF])
        if tokens > 0 and not self.make_room(Tier.HBF, tokens):
            tokens = min(tokens, self.free(Tier.HBF))
        if tokens > 0:
            self.move(entry, Tier.HBM, Tier.HBF, tokens)
        return max(tokens, 0)

    def _sink(self, entry: Entry, tier: int, tokens: int) -> None:
        for low in self._below[tier]:
            part = min(tokens, self.capacity[low])
            if self.free(low) < part and not self.make_room(low, part):
                part = min(part, self.free(low))
            # Making room below may have taken tokens of this very entry, but not from this tier.
            if part:
                self.move(entry, tier, low, part)
                tokens -= part
            if not tokens:
                return
        self.move(entry, tier, NOWHERE, tokens)
