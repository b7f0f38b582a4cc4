"""One scheduling engine: admission, steps of chunked prefill and decode, cache movement.

Each step selects work, makes room for it, moves cache, runs a forward pass and advances requests
("Characterizing High Bandwidth Flash for LLM Serving", section 3.2).

Decode is lazy: a step adds one token of KV to every decoding request, which is counted in sums and
entered into the cache entry when somebody asks. With ``skip`` equal steps up to the next
completion, arrival or eviction are one closed form; without it they are taken one by one. Both do
the same.
"""

import heapq
from collections import deque
from collections.abc import Callable

from perfmodel.agents.architecture import Movement
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
        self.active: dict[int, Request] = {}  # by admission, oldest first
        self.prefilling: deque[Request] = deque()
        self.rows = 0  # that decode
        self.hbm_tokens = self.hbf_tokens = 0  # contexts of those
        self.reserved = 0  # contexts of all active requests
        self.decode_step = 0
        self._ends: list[tuple[int, int, int, Request]] = []
        self._skip = skip
        self._eligible = self._admissions = 0
        self._overlapped = machine.architecture.movement is Movement.OVERLAPPED
        self._moved_before = self._movements()

    def run(self, progress: Progress | None = None) -> Counters:
        """Complete all turns."""
        event = True
        while self.arrivals or self.active or len(self.waiting):
            event |= self._arrive()
            if event:
                self._admit()
                event = False
            if not self.active:
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

    def _admit(self) -> None:
        waiting, left = self.waiting, self.store.left_device
        while len(self.active) < self.admission.max_running:
            for entry in left:
                waiting.refile(entry)
            left.clear()
            request = waiting.head()
            if request is None:
                return
            if self.active and self.reserved + request.context > self.limit:
                return
            self._start(waiting.take())

    def _start(self, request: Request) -> None:
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
            self._decode(request)

    def _reload(self, request: Request) -> None:
        """Bring what is on the host into HBM; what has no room there goes on to HBF."""
        store, entry = self.store, request.entry
        for tier in (_DRAM, _SSD):
            while entry.tokens[tier]:
                piece = min(entry.tokens[tier], store.capacity[_HBM])
                roomy = self._room(piece)
                assert roomy, "admission reserves the room of a prompt"
                store.move(entry, tier, _HBM, piece)

    # Room ---------------------------------------------------------------------------------------

    def _room(self, tokens: int) -> bool:
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

    def _preempt(self) -> None:
        """Send the youngest request back; its cache is the first to leave."""
        request = next(reversed(self.active.values()))
        self.settle(request)
        del self.active[request.admission]
        self.reserved -= request.context
        if request.decoding:
            self._leave_decode(request)
        else:
            self.prefilling.remove(request)
        self.store.unlock(request.entry, cold=True)
        self.waiting.give_back(request)
        self.counters.preemptions += 1

    # Steps --------------------------------------------------------------------------------------

    def _plan(self) -> list[tuple[Request, int]]:
        """Prompt chunks of the next step, for which there is room, and for its decode tokens."""
        store = self.store
        while True:
            budget = min(self.admission.budget, store.capacity[_HBM] - self.rows)
            chunks: list[tuple[Request, int]] = []
            for request in self.prefilling:
                if budget <= 0:
                    break
                part = min(request.uncomputed, budget)
                chunks.append((request, part))
                budget -= part
            need = self.rows + sum(part for _, part in chunks)
            if self.rows <= store.capacity[_HBM] and self._room(need):
                return chunks
            self._preempt()

    def _step(self, chunks: list[tuple[Request, int]]) -> bool:
        """Take the next step, or as many as are equal; tells whether a turn was completed."""
        machine, counters, rows = self.machine, self.counters, self.rows
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
        decode_s = machine.decode_start_s(rows, self.hbf_tokens > 0)

        def attention_s(steps: int) -> tuple[float, float]:
            total = steps * pairs + prompt * prompt * (steps * (steps - 1) // 2)
            reads_s = (
                machine.decode_read_s(steps, rows, self.hbm_tokens, self.hbf_tokens)
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
        self._advance_decode(steps)
        completed = self._advance_prefill(chunks, steps)
        return self._complete() or completed

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
        if added := self.rows + prompt:
            steps = min(steps, store.free(_HBM) // added)
        while self._ends and self._ends[0][2] != self._ends[0][3].stamp:
            heapq.heappop(self._ends)
        if self._ends:
            steps = min(steps, self._ends[0][0] - self.decode_step)
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
        counters, rows = self.counters, self.rows
        grown = rows * (steps * (steps + 1) // 2)
        counters.read_hbm_tokens += steps * self.hbm_tokens + grown
        counters.read_hbf_tokens += steps * self.hbf_tokens
        counters.decode_read_tokens += steps * (self.hbm_tokens + self.hbf_tokens) + grown
        counters.decode_tokens += steps * rows
        for request, part in chunks:
            hbm, hbf = request.entry.tokens[_HBM], request.entry.tokens[_HBF]
            counters.read_hbm_tokens += steps * hbm + part * (steps * (steps + 1) // 2)
            counters.read_hbf_tokens += steps * hbf
            counters.prefill_tokens += steps * part

    # Advancing requests -------------------------------------------------------------------------

    def _advance_decode(self, steps: int) -> None:
        if self.rows:
            added = steps * self.rows
            self.store.grow(added)
            self.hbm_tokens += added
            self.reserved += added
            self.decode_step += steps
            self.counters.given_tokens += added

    def _advance_prefill(self, chunks: list[tuple[Request, int]], steps: int) -> bool:
        completed = False
        for request, part in chunks:
            self.store.compute(request.entry, steps * part)
            request.uncomputed -= steps * part
            if not request.uncomputed:
                self.prefilling.popleft()
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
                    self._decode(request)
        return completed

    def _decode(self, request: Request) -> None:
        request.decoding = True
        request.mark = self.decode_step
        request.stamp += 1
        self.rows += 1
        self.hbm_tokens += request.entry.tokens[_HBM]
        self.hbf_tokens += request.entry.tokens[_HBF]
        end = self.decode_step + request.output - request.given
        heapq.heappush(self._ends, (end, request.admission, request.stamp, request))

    def _leave_decode(self, request: Request) -> None:
        request.decoding = False
        request.stamp += 1
        self.rows -= 1
        self.hbm_tokens -= request.entry.tokens[_HBM]
        self.hbf_tokens -= request.entry.tokens[_HBF]

    def _complete(self) -> bool:
        """End the requests that gave their last token."""
        completed, ends = False, self._ends
        while ends and (ends[0][2] != ends[0][3].stamp or ends[0][0] <= self.decode_step):
            _, _, stamp, request = heapq.heappop(ends)
            if stamp == request.stamp:
                self.settle(request)
                self._leave_decode(request)
                self._finish(request)
                completed = True
        return completed

    def _finish(self, request: Request) -> None:
        del self.active[request.admission]
        self.reserved -= request.context
        self.store.unlock(request.entry)
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
