"""The running requests: their work, their contexts, and room for them in HBM."""

import heapq
from collections import deque

from perfmodel.agents.counters import Counters
from perfmodel.agents.request import Request
from perfmodel.tiers import Store, Tier

_HBM, _HBF, _DRAM, _SSD = Tier


class Batch:
    """Requests between admission and completion.

    Decode is lazy: ``decode_step`` counts steps, and ``settle`` enters what a request has grown by
    since its ``mark``. Sums are always current.

    Attributes:
        active: By admission, oldest first.
        prefilling: Those with uncomputed tokens, oldest first.
        rows: How many decode; ``hbm_tokens`` and ``hbf_tokens`` are their contexts.
        reserved: Contexts of all active requests.
    """

    def __init__(self, store: Store, counters: Counters) -> None:
        self.store, self.counters = store, counters
        self.active: dict[int, Request] = {}
        self.prefilling: deque[Request] = deque()
        self.rows = self.hbm_tokens = self.hbf_tokens = 0
        self.reserved = self.decode_step = 0
        self._ends: list[tuple[int, int, int, Request]] = []
        self._admissions = 0

    def start(self, request: Request) -> None:
        """Run a request: count its hits, bring its KV from the host, put it to work."""
        store, entry, counters = self.store, request.entry, self.counters
        self._admissions += 1
        request.admission = self._admissions
        self.active[request.admission] = request
        self.reserved += request.context
        store.lock(entry)
        first = not request.admitted_before
        if first:
            request.admitted_before = True
            # The last token of a prompt is always computed, for its logits.
            store.drop(entry, max(entry.stored - (request.prompt - 1), 0))
        planned, request.uncomputed = request.uncomputed, request.context - entry.stored
        if first:
            counters.input_tokens += request.prompt
            counters.hit_device_tokens += entry.on_device
            counters.hit_host_tokens += entry.on_host
            counters.computed_tokens += request.uncomputed
        else:
            counters.recomputed_tokens += request.uncomputed - planned
        self._reload(request)
        if request.uncomputed:
            self.prefilling.append(request)
        else:
            self.decode(request)

    def _reload(self, request: Request) -> None:
        """Bring what is on the host into HBM; what has no room there goes on to HBF."""
        store, entry = self.store, request.entry
        for tier in (_DRAM, _SSD):
            while entry.tokens[tier]:
                piece = min(entry.tokens[tier], store.capacity[_HBM])
                roomy = self.room(piece)
                assert roomy, "admission reserves the room of a prompt"
                store.move(entry, tier, _HBM, piece)

    def remove(self, request: Request, *, cold: bool = False) -> None:
        """A request runs no more; ``cold`` makes its cache the first victim."""
        del self.active[request.admission]
        self.reserved -= request.context
        self.store.unlock(request.entry, cold=cold)

    # Room ---------------------------------------------------------------------------------------

    def room(self, tokens: int) -> bool:
        """Free HBM: evict what is not locked, then demote active requests, oldest first.

        Those that have a whole granule in HBM come before those that have only grown a little.
        """
        store = self.store
        if store.capacity[_HBM] - store.used[_HBM] >= tokens or store.make_room(_HBM, tokens):
            return True
        if not store.capacity[_HBF]:
            return False
        now = self.decode_step
        for least in (store.granule, 1):
            for request in self.active.values():
                here = request.entry.tokens[_HBM]
                if request.decoding:
                    here += now - request.mark
                if here < least:
                    continue
                self.settle(request)
                moved = store.demote(request.entry, tokens - store.free(_HBM))
                if moved and request.decoding:
                    self.hbm_tokens -= moved
                    self.hbf_tokens += moved
                if store.free(_HBM) >= tokens:
                    return True
        return False

    def settle(self, request: Request) -> None:
        """Enter the tokens that a decoding request has grown by."""
        if request.decoding and (grown := self.decode_step - request.mark):
            request.entry.tokens[_HBM] += grown
            request.written += grown
            request.given += grown
            request.mark = self.decode_step

    def preempt(self) -> Request:
        """Stop the youngest request; its cache is the first to leave."""
        request = next(reversed(self.active.values()))
        self.settle(request)
        if request.decoding:
            self._leave(request)
        else:
            self.prefilling.remove(request)
        self.remove(request, cold=True)
        self.counters.preemptions += 1
        return request

    # Decode -------------------------------------------------------------------------------------

    def decode(self, request: Request) -> None:
        """A request whose context is computed goes on to decode."""
        request.decoding = True
        request.mark = self.decode_step
        request.stamp += 1
        self.rows += 1
        self.hbm_tokens += request.entry.tokens[_HBM]
        self.hbf_tokens += request.entry.tokens[_HBF]
        end = self.decode_step + request.output - request.given
        heapq.heappush(self._ends, (end, request.admission, request.stamp, request))

    def _leave(self, request: Request) -> None:
        request.decoding = False
        request.stamp += 1
        self.rows -= 1
        self.hbm_tokens -= request.entry.tokens[_HBM]
        self.hbf_tokens -= request.entry.tokens[_HBF]

    def advance(self, steps: int) -> None:
        """Every decoding request gives a token a step."""
        if self.rows:
            added = steps * self.rows
            self.store.grow(added)
            self.hbm_tokens += added
            self.reserved += added
            self.decode_step += steps
            self.counters.given_tokens += added

    @property
    def steps_to_end(self) -> int | None:
        """Decode steps until the first request ends; None when none decodes."""
        ends = self._ends
        while ends and ends[0][2] != ends[0][3].stamp:
            heapq.heappop(ends)
        return ends[0][0] - self.decode_step if ends else None

    def ended(self) -> list[Request]:
        """Take out of decode the requests that gave their last token."""
        found = []
        while self.steps_to_end == 0:
            request = heapq.heappop(self._ends)[3]
            self.settle(request)
            self._leave(request)
            found.append(request)
        return found
