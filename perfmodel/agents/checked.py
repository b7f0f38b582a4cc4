"""An engine that checks itself: the invariants of tiers, requests and time, step by step.

Every check counts afresh what the engine keeps as running sums. A violation raises
``InvariantError``, which means a defect and not wrong input. Checks take many times as long as the
run itself.
"""

import math

from perfmodel.agents.counters import Counters
from perfmodel.agents.engine import Engine, Progress
from perfmodel.agents.request import Request
from perfmodel.tiers import NOWHERE, Entry, Store, Tier

_HOST = (Tier.DRAM, Tier.SSD)


class InvariantError(AssertionError):
    """The engine broke a rule of its own."""


def _need(right: bool, rule: str, *found: object) -> None:
    if not right:
        raise InvariantError(f"{rule}: {', '.join(map(str, found))}")


class CheckedStore(Store):
    """Refuses to evict a locked entry, and to fill a tier beyond its capacity."""

    def _sink(self, entry: Entry, tier: int, tokens: int) -> None:
        _need(not entry.locked, "a locked entry is no victim", entry.session)
        super()._sink(entry, tier, tokens)

    def move(self, entry: Entry, source: int, target: int, tokens: int) -> None:
        super().move(entry, source, target, tokens)
        for tier in (source, target):
            if tier != NOWHERE:
                fits = 0 <= self.used[tier] <= self.capacity[tier] and entry.tokens[tier] >= 0
                _need(fits, "tokens fit into their tier", Tier(tier).name, self.used[tier])


class CheckedEngine(Engine):
    """``Engine`` with all checks; arguments are the same."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options, store_type=CheckedStore)  # type: ignore[arg-type]
        self._next_turn = list(self.turns.first)
        self._ended_s = [-math.inf] * self.turns.sessions
        self._ended: set[int] = set()

    def run(self, progress: Progress | None = None) -> Counters:
        counters = super().run(progress)
        self.check_state()
        self.check_end()
        return counters

    # Moments ------------------------------------------------------------------------------------

    def _start(self, request: Request) -> None:
        counters, alone = self.counters, not self.batch.active
        before = counters.hit_device_tokens + counters.hit_host_tokens + counters.computed_tokens
        first = not request.admitted_before
        super()._start(request)
        _need(
            alone or self.batch.reserved <= self.limit,
            "admission keeps the headroom, or a request runs alone",
            self.batch.reserved,
            self.limit,
        )
        _need(len(self.batch.active) <= self.admission.max_running, "no more run than may")
        after = counters.hit_device_tokens + counters.hit_host_tokens + counters.computed_tokens
        expected = request.prompt if first else 0
        _need(after - before == expected, "hits and computed tokens are the input", request.turn)
        if first:
            turn, session = request.turn, request.entry.session
            _need(turn == self._next_turn[session], "turns of a session keep their order", turn)
            ready_s = self._ended_s[session] + self.turns.gap_s[turn]
            if turn == self.turns.first[session]:
                ready_s = self.turns.start_s[session]
            _need(self.clock.now >= ready_s, "a turn waits for its gap", turn, ready_s)

    def _step(self, chunks: list[tuple[Request, int]]) -> bool:
        self.check_state()
        prompt = sum(part for _, part in chunks)
        _need(prompt <= self.admission.budget, "prompt tokens keep to the budget", prompt)
        _need(all(part > 0 for _, part in chunks), "no chunk is empty")
        _need(bool(chunks) or self.batch.rows > 0, "a step has work")
        decoding = [request for request in self.batch.active.values() if request.decoding]
        before = [request.given + self.batch.decode_step - request.mark for request in decoding]
        steps, tokens = self.counters.steps, self.counters.prefill_tokens
        completed = super()._step(chunks)
        steps = self.counters.steps - steps
        tokens = self.counters.prefill_tokens - tokens
        _need(tokens == steps * prompt, "steps taken together are equal", tokens, steps, prompt)
        for request, given in zip(decoding, before, strict=True):
            now = request.given
            if request.admission in self.batch.active:
                now += self.batch.decode_step - request.mark
            _need(now == given + steps, "a decoding request gets a token a step", request.turn)
            _need(now <= request.output, "no answer is too long", request.turn)
        return completed

    def _finish(self, request: Request) -> None:
        turn, session = request.turn, request.entry.session
        _need(turn not in self._ended, "a turn is completed once", turn)
        _need(request.given == request.output, "an answer is whole", turn, request.given)
        _need(not request.uncomputed, "a prompt is computed", turn)
        self._ended.add(turn)
        self._ended_s[session] = self.clock.now
        self._next_turn[session] = turn + 1
        super()._finish(request)

    # States -------------------------------------------------------------------------------------

    def check_state(self) -> None:
        """Check all sums and all entries."""
        store = self.store
        grown = {
            request.entry.session: self.batch.decode_step - request.mark
            for request in self.batch.active.values()
            if request.decoding
        }
        for tier in Tier:
            total = sum(entry.tokens[tier] for entry in store.entries)
            total += sum(grown.values()) if tier == Tier.HBM else 0
            _need(total == store.used[tier], "entries add up to the tier", tier.name, total)
            _need(0 <= total <= store.capacity[tier], "a tier holds what fits", tier.name, total)
            kept = store.ledger.written(tier) - store.ledger.left(tier)
            _need(kept == total, "the ledger adds up to the tier", tier.name, kept, total)
        resident = sum(store.used)
        _need(
            store.ledger.computed == resident + store.ledger.discarded,
            "what was computed is there or was discarded",
        )
        reserved = 0
        for request in self.batch.active.values():
            entry, more = request.entry, grown.get(request.entry.session, 0)
            reserved += request.context + more
            _need(entry.locked, "active entries are locked", request.turn)
            _need(not entry.on_host, "active requests have nothing on the host", request.turn)
            _need(
                entry.on_device + request.uncomputed == request.context,
                "tokens and uncomputed ones are the context",
                request.turn,
            )
        _need(reserved == self.batch.reserved, "contexts add up", reserved, self.batch.reserved)
        decoding = [request for request in self.batch.active.values() if request.decoding]
        _need(len(decoding) == self.batch.rows, "rows are the decoding requests")
        hbm = sum(r.entry.tokens[Tier.HBM] for r in decoding) + sum(grown.values())
        hbf = sum(r.entry.tokens[Tier.HBF] for r in decoding)
        _need(
            (hbm, hbf) == (self.batch.hbm_tokens, self.batch.hbf_tokens), "decoded contexts add up"
        )
        locked = {request.entry.session for request in self.batch.active.values()}
        for entry in store.entries:
            _need(entry.locked == (entry.session in locked), "only active entries are locked")
            for tier in Tier:
                if entry.tokens[tier] and not entry.locked:
                    _need(store.lru[tier].reaches(entry), "unlocked entries can be evicted")
        counters, clock = self.counters, self.clock.now
        close = math.isclose(counters.clock_s, clock, rel_tol=1e-9, abs_tol=1e-12)
        _need(close, "parts add up to the clock", counters.clock_s, clock)

    def check_end(self) -> None:
        """Check what holds when all turns are complete."""
        counters, ledger, turns = self.counters, self.store.ledger, self.turns
        _need(self._ended == set(range(turns.count)), "every turn is completed")
        _need(counters.turns == turns.count, "turns are counted once")
        _need(counters.given_tokens == sum(turns.output), "answers are those of the trace")
        _need(counters.input_tokens == sum(turns.prompt), "inputs are those of the trace")
        again = counters.computed_tokens + counters.recomputed_tokens
        _need(counters.prefill_tokens == again, "prefill computes what hits left")
        _need(
            ledger.written(Tier.HBM)
            == counters.prefill_tokens + counters.decode_tokens + ledger.from_host,
            "HBM writes are computed, generated and reloaded tokens",
        )
        _need(
            ledger.written(Tier.HBF) == ledger.moved[Tier.HBM][Tier.HBF],
            "all that HBF gets comes from HBM",
        )
        on_host = self.store.used[Tier.DRAM] + self.store.used[Tier.SSD]
        dropped = ledger.between(_HOST, (NOWHERE,))
        _need(
            ledger.to_host == ledger.from_host + on_host + dropped,
            "what went to the host came back, is there, or was dropped",
        )
