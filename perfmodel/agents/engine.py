"""One scheduling engine: admission, steps of chunked prefill and decode, cache movement.

Each step selects work, makes room for it, moves cache, runs a forward pass and advances requests
("Characterizing High Bandwidth Flash for LLM Serving", section 3.2).

With ``skip`` equal steps up to the next completion, arrival or eviction are one closed form;
without it they are taken one by one. Both do the same.
"""

import heapq
from collections.abc import Callable

from perfmodel.agents.architecture import Movement
from perfmodel.agents.batch import Batch
from perfmodel.agents.clock import Clock
from perfmodel.agents.counters import Counters
from perfmodel.agents.machine import Machine, Moved
from perfmodel.agents.request import Request
from perfmodel.agents.turns import Turns
from perfmodel.scheduler import Admission, WaitingQueue
from perfmodel.tiers import FlashLog, Store, Tier

Progress = Callable[[int], None]
_FOREVER = 2**62
_HBM, _HBF, _DRAM, _SSD = Tier


class Engine:
    """State of a run; ``run`` completes all turns.

    Args:
        machine: Capacities and times.
        turns: The sessions.
        admission: The policy.
        granule_tokens: Of evictions, as ``Store``.
        flash: Blocks of HBF, where wear is followed.
        skip: Whether to take equal steps together.
        store_type: Class of the storage hierarchy.
    """

    def __init__(
        self,
        machine: Machine,
        turns: Turns,
        admission: Admission,
        *,
        granule_tokens: int | None,
        flash: FlashLog | None = None,
        skip: bool = True,
        store_type: type[Store] = Store,
    ) -> None:
        self.machine, self.turns, self.admission = machine, turns, admission
        self.store = store_type(
            machine.capacity_tokens, turns.sessions, granule_tokens=granule_tokens, flash=flash
        )
        turns.check_fit(self.store.device_capacity)
        self.limit = admission.limit_tokens(self.store.device_capacity)
        self.clock, self.counters = Clock(), Counters(ledger=self.store.ledger)
        self.waiting: WaitingQueue[Request] = WaitingQueue(admission.order)
        self.arrivals = turns.arrivals()
        self.batch = Batch(self.store, self.counters)
        self._skip = skip
        self._eligible = 0
        self._overlapped = machine.architecture.movement is Movement.OVERLAPPED
        self._moved_before = self._movements()

    def run(self, progress: Progress | None = None) -> Counters:
        """Complete all turns."""
        event = True
        while self.arrivals or self.batch.active or len(self.waiting):
            event |= self._arrive()
            if event:
                self._admit()
                event = False
            if not self.batch.active:
                self._idle()
                continue
            chunks = self._plan()
            event = self._step(chunks)
            if event and progress is not None:
                progress(self.counters.turns)
        return self.counters

    # Arrival and admission ----------------------------------------------------------------------

    def _arrive(self) -> bool:
        """Queue the turns that are eligible by now."""
        arrivals, store, before = self.arrivals, self.store, self._eligible
        while arrivals and arrivals[0][0] <= self.clock.now:
            when, turn = heapq.heappop(arrivals)
            entry = store.entries[self.turns.session[turn]]
            surplus = entry.stored - self.turns.prefix[turn]
            if surplus > 0:  # the history was rewritten
                store.drop(entry, surplus)
            request = Request(
                turn, entry, self.turns.prompt[turn], self.turns.output[turn], when, self._eligible
            )
            self._eligible += 1
            self.waiting.add(request)
        return self._eligible > before

    def _idle(self) -> None:
        self.counters.idle_s += self.arrivals[0][0] - self.clock.now
        self.clock.jump(self.arrivals[0][0])

    def _start(self, request: Request) -> None:
        self.batch.start(request)

    def _admit(self) -> None:
        waiting, left = self.waiting, self.store.left_device
        while len(self.batch.active) < self.admission.max_running:
            for entry in left:
                waiting.refile(entry)
            left.clear()
            request = waiting.head()
            if request is None:
                return
            if self.batch.active and self.batch.reserved + request.context > self.limit:
                return
            self._start(waiting.take())

    # Steps --------------------------------------------------------------------------------------

    def _plan(self) -> list[tuple[Request, int]]:
        """Prompt chunks of the next step, for which there is room, and for its decode tokens."""
        store, batch = self.store, self.batch
        while True:
            budget = min(self.admission.budget, store.capacity[_HBM] - batch.rows)
            chunks: list[tuple[Request, int]] = []
            for request in batch.prefilling:
                if budget <= 0:
                    break
                part = min(request.uncomputed, budget)
                chunks.append((request, part))
                budget -= part
            need = batch.rows + sum(part for _, part in chunks)
            if batch.rows <= store.capacity[_HBM] and batch.room(need):
                return chunks
            self.waiting.give_back(batch.preempt())

    def _step(self, chunks: list[tuple[Request, int]]) -> bool:
        """Take the next step, or as many as are equal; tells whether a turn was completed."""
        machine, counters, batch = self.machine, self.counters, self.batch
        rows = batch.rows
        prompt = sum(part for _, part in chunks)
        pairs = 0
        for request, part in chunks:
            before = request.context - request.uncomputed
            pairs += part * before + part * (part + 1) // 2
        ending = sum(1 for request, part in chunks if part == request.uncomputed)
        moved_s = self._moved_s()
        per_step_s = machine.gemm_s(rows + prompt, rows + ending)
        gemm_s, collectives_s = per_step_s, machine.collectives_s(rows + prompt)
        prefill_s = machine.prefill_start_s if prompt else 0.0
        decode_s = machine.decode_start_s(rows, self.batch.hbf_tokens > 0)

        def attention_s(steps: int) -> tuple[float, float]:
            total = steps * pairs + prompt * prompt * (steps * (steps - 1) // 2)
            reads_s = (
                machine.decode_read_s(steps, rows, self.batch.hbm_tokens, self.batch.hbf_tokens)
                if rows
                else 0.0
            )
            return steps * prefill_s + total * machine.pair_s, steps * decode_s + reads_s

        def forward_s(steps: int) -> float:
            return steps * (gemm_s + collectives_s) + sum(attention_s(steps))

        steps = 1
        if self._skip and not moved_s:
            steps = self._equal_steps(chunks, prompt, ending, forward_s)
        prefill_s_all, decode_s_all = attention_s(steps)
        busy_s = forward_s(steps)
        moving_s = max(0.0, moved_s - busy_s) if self._overlapped else moved_s
        counters.gemm_s += steps * gemm_s
        counters.collectives_s += steps * collectives_s
        counters.prefill_attention_s += prefill_s_all
        counters.decode_attention_s += decode_s_all
        counters.movement_s += moving_s
        counters.steps += steps
        counters.outputs += steps * rows + ending
        counters.pairs += steps * pairs + prompt * prompt * (steps * (steps - 1) // 2)
        self._count_reads(chunks, steps)
        self.clock.add(moving_s + busy_s)
        batch.advance(steps)
        completed = self._advance_prefill(chunks, steps)
        for request in batch.ended():
            self._finish(request)
            completed = True
        return completed

    def _equal_steps(
        self,
        chunks: list[tuple[Request, int]],
        prompt: int,
        ending: int,
        forward_s: Callable[[int], float],
    ) -> int:
        """How many steps are like the next one, up to the one that ends with an event."""
        store, steps = self.store, _FOREVER
        if chunks:
            head, part = chunks[0]
            if len(chunks) > 1 or ending or part < 1:
                return 1
            steps = (head.uncomputed - 1) // part  # the last chunk gives a token: by itself
        if added := self.batch.rows + prompt:
            steps = min(steps, store.free(_HBM) // added)
        if (to_end := self.batch.steps_to_end) is not None:
            steps = min(steps, to_end)
        if steps > 1 and self.arrivals:
            steps = self._until(self.arrivals[0][0], steps, forward_s)
        return max(steps, 1)

    def _until(self, when: float, most: int, forward_s: Callable[[int], float]) -> int:
        """The first step that ends at or after ``when``, or ``most``."""
        after = self.clock.after
        if after(forward_s(most)) < when:
            return most
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            if after(forward_s(middle)) < when:
                low = middle
            else:
                high = middle
        return high

    def _count_reads(self, chunks: list[tuple[Request, int]], steps: int) -> None:
        counters, batch = self.counters, self.batch
        rows = batch.rows
        grown = rows * (steps * (steps + 1) // 2)
        counters.read_hbm_tokens += steps * batch.hbm_tokens + grown
        counters.read_hbf_tokens += steps * batch.hbf_tokens
        counters.decode_read_tokens += steps * (batch.hbm_tokens + batch.hbf_tokens) + grown
        counters.decode_tokens += steps * rows
        for request, part in chunks:
            hbm, hbf = request.entry.tokens[_HBM], request.entry.tokens[_HBF]
            counters.read_hbm_tokens += steps * hbm + part * (steps * (steps + 1) // 2)
            counters.read_hbf_tokens += steps * hbf
            counters.prefill_tokens += steps * part

    # Advancing requests -------------------------------------------------------------------------

    def _advance_prefill(self, chunks: list[tuple[Request, int]], steps: int) -> bool:
        completed = False
        for request, part in chunks:
            self.store.compute(request.entry, steps * part)
            request.uncomputed -= steps * part
            if not request.uncomputed:
                self.batch.prefilling.popleft()
                if not request.given and request.output:
                    request.given = 1
                    self.counters.given_tokens += 1
                    request.first_token_s = self.clock.now
                    self.counters.ttft_turns += 1
                    self.counters.ttft_sum_s += self.clock.now - request.eligible_s
                if request.given >= request.output:
                    self._finish(request)
                    completed = True
                else:
                    self.batch.decode(request)
        return completed

    def _finish(self, request: Request) -> None:
        self.batch.remove(request)
        counters, now = self.counters, self.clock.now
        counters.turns += 1
        if request.output > 1:
            counters.tpot_sum_s += (now - request.first_token_s) / (request.output - 1)
            counters.tpot_turns += 1
        following = self.turns.following(request.turn, now)
        if following is not None:
            heapq.heappush(self.arrivals, following)

    # Movement -----------------------------------------------------------------------------------

    def _movements(self) -> tuple[int, int, int, int, int]:
        moved = self.store.ledger.moved
        hbm, hbf, dram, ssd = moved[_HBM], moved[_HBF], moved[_DRAM], moved[_SSD]
        to_dram = hbm[_DRAM] + hbf[_DRAM]
        to_ssd = hbm[_SSD] + hbf[_SSD]
        from_host = dram[_HBM] + ssd[_HBM]
        return (
            hbm[_HBF],
            from_host,
            to_dram + to_ssd,
            to_dram + dram[_HBM] + dram[_SSD],
            to_ssd + ssd[_HBM] + dram[_SSD],
        )

    def _moved_s(self) -> float:
        """Time of all movement since the last step."""
        now = self._movements()
        if now == self._moved_before:
            return 0.0
        before, self._moved_before = self._moved_before, now
        return self.machine.movement_s(Moved(*(a - b for a, b in zip(now, before, strict=True))))
