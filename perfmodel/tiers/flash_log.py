"""HBF as blocks: what garbage collection adds to the writes of a run.

KV is appended to the open block, whichever session it is of. Tokens that leave HBF are dead where
they are; a block is erased as a whole. When free blocks run out, the closed block with fewest live
tokens is collected: its live tokens are appended again, then it is erased. Of a session the tokens
that were written first leave first. Blocks are taken in the order in which they became free; cold
blocks are not moved to level wear.
"""

import heapq
from collections import deque

from hw.errors import InputError


class FlashLog:
    """Blocks of the HBF of one replica.

    Args:
        capacity_tokens: Tokens of KV that HBF has to hold.
        block_tokens: Tokens of a block, the unit that is erased.
        spare: Blocks beyond the capacity, as a share of it; three more are always there.

    Raises:
        InputError: an argument is out of range.
    """

    def __init__(self, capacity_tokens: int, block_tokens: int, *, spare: float = 0.07) -> None:
        if capacity_tokens < 1:
            raise InputError(f"capacity is {capacity_tokens} tokens: must be at least 1")
        if block_tokens < 1:
            raise InputError(f"block is {block_tokens} tokens: must be at least 1")
        if not 0 <= spare < 10:
            raise InputError(f"spare is {spare}: must be 0 up, below 10")
        blocks = -(-int(capacity_tokens * (1 + spare)) // block_tokens) + 3
        self.block_tokens = block_tokens
        self.erases = [0] * blocks
        self.host_tokens = self.relocated_tokens = 0
        self._live = [0] * blocks
        self._holds: list[dict[int, int]] = [{} for _ in range(blocks)]  # by session
        self._where: dict[int, dict[int, int]] = {}  # of a session: block, tokens; oldest first
        self._free = deque(range(1, blocks))
        self._closed: set[int] = set()
        self._victims: list[tuple[int, int, int]] = []  # live tokens, erases, block; some outdated
        self._open, self._filled = 0, 0

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self.erases)

    @property
    def live_tokens(self) -> int:
        """Tokens that are in HBF."""
        return sum(self._live)

    @property
    def write_amplification(self) -> float:
        """Tokens programmed for each token that came into HBF."""
        if not self.host_tokens:
            return 1.0
        return 1 + self.relocated_tokens / self.host_tokens

    def write(self, session: int, tokens: int) -> None:
        """Tokens of a session come into HBF."""
        self.host_tokens += tokens
        while tokens:
            if self._filled == self.block_tokens:
                while len(self._free) < 2:  # one is left for what collection moves
                    self._collect()
            part = min(tokens, self.block_tokens - self._filled) or min(tokens, self.block_tokens)
            self._append(session, part)
            tokens -= part

    def trim(self, session: int, tokens: int) -> None:
        """Tokens of a session leave HBF."""
        where = self._where[session]
        while tokens:
            block = next(iter(where))
            part = min(tokens, where[block])
            tokens -= part
            self._live[block] -= part
            if block in self._closed:
                self._offer(block)
            self._holds[block][session] -= part
            where[block] -= part
            if not where[block]:
                del where[block], self._holds[block][session]

    def _append(self, session: int, tokens: int) -> None:
        where = self._where.setdefault(session, {})
        while tokens:
            if self._filled == self.block_tokens:
                self._closed.add(self._open)
                self._offer(self._open)
                self._open, self._filled = self._free.popleft(), 0
            part = min(tokens, self.block_tokens - self._filled)
            tokens -= part
            self._filled += part
            self._live[self._open] += part
            for table, key in ((where, self._open), (self._holds[self._open], session)):
                table[key] = table.get(key, 0) + part

    def _collect(self) -> None:
        """Erase the closed block that has fewest live tokens, after moving them."""
        while True:
            live, erases, victim = heapq.heappop(self._victims)
            current = self._live[victim] == live and self.erases[victim] == erases
            if current and victim in self._closed:
                break
        self._closed.remove(victim)
        moving, self._holds[victim] = self._holds[victim], {}
        self._live[victim] = 0
        for session, tokens in moving.items():
            del self._where[session][victim]
            self.relocated_tokens += tokens
            self._append(session, tokens)
        self.erases[victim] += 1
        self._free.append(victim)

    def _offer(self, block: int) -> None:
        """A closed block may be collected, with the live tokens that it has now."""
        heapq.heappush(self._victims, (self._live[block], self.erases[block], block))
