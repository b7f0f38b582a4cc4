"""The serving loop: arrivals, iterations, finishing times.

While only decode runs, nothing changes from one iteration to the next but the length of the
contexts. Such a stretch, up to the next arrival that could start or the next request that ends, is
evaluated at once as arrays; every iteration time in it is exact. Mixed iterations are taken one by
one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hw.errors import InputError
from perfmodel.memory.traffic import Traffic
from perfmodel.serving.arrivals import Request
from perfmodel.serving.batching import Batcher
from perfmodel.serving.passes import PassModel, Stretch
from perfmodel.system import System

MAX_BATCH = 64
TOKEN_BUDGET = 2048
_BLOCK = 512  # iterations evaluated at once: longer blocks are mostly cut by an arrival
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """What happened, request by request and iteration by iteration.

    Attributes:
        first_token_s, finish_s: instants for each request; NaN for a rejected one.
        rejected: reason for each rejected request.
        gap_s, gap_weight: inter-token gaps and how many tokens had each.
        iterations: passes through the model.
        exposed_program_s: time in which writes of KV to HBF held up a pass.
    """

    requests: list[Request]
    first_token_s: Floats
    finish_s: Floats
    rejected: dict[int, str]
    gap_s: Floats
    gap_weight: Ints
    iterations: int
    exposed_program_s: float
    traffic: Traffic


def simulate(
    system: System,
    requests: list[Request],
    *,
    max_batch: int = MAX_BATCH,
    token_budget: int = TOKEN_BUDGET,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Serve requests in order of arrival; ``progress`` is told requests done and all requests.

    Raises:
        InputError: there is no request, they are not in order, or a limit is out of range.
    """
    if not requests:
        raise InputError("requests: there are none: give at least one")
    arrivals_s = np.array([request.arrival_s for request in requests])
    if not (np.diff(arrivals_s) >= 0).all():
        raise InputError("requests: arrival_s goes back: sort them by time of arrival")
    if not 1 <= max_batch < token_budget:
        raise InputError(
            f"max-batch is {max_batch}: must be 1 to {token_budget - 1}, so that an iteration of "
            f"{token_budget} tokens has room for prompts"
        )
    return _Run(system, requests, max_batch, token_budget).run(progress)


class _Run:
    def __init__(
        self, system: System, requests: list[Request], max_batch: int, token_budget: int
    ) -> None:
        self.system, self.requests = system, requests
        self.passes = PassModel(system)
        room = system.placement
        self.batcher = Batcher(
            requests, room.prompt_tokens, room.kv_tokens, max_batch, token_budget
        )
        self.now = 0.0
        self.next_arrival = 0
        self.spilled_bytes = 0
        self.iterations = 0
        self.exposed_program_s = 0.0
        self.traffic = Traffic()
        self.first_token_s = np.full(len(requests), np.nan)
        self.finish_s = np.full(len(requests), np.nan)
        self.rejected: dict[int, str] = {}
        self.gaps: list[Floats] = []
        self.weights: list[tuple[int, int]] = []  # (decode rows, iterations)

    def run(self, progress: Callable[[int, int], None] | None) -> Outcome:
        total, done = len(self.requests), 0
        while self.next_arrival < total or self.batcher.running or self.batcher.waiting:
            self._receive()
            if not (self.batcher.running or self.batcher.waiting):
                if self.next_arrival == total:
                    break
                self.now = self.requests[self.next_arrival].arrival_s
                continue
            ended = self._decode() if self.batcher.decode_only else self._mixed()
            done += ended
            if progress and ended:
                progress(done + len(self.rejected), total)
        if progress:
            progress(total, total)
        rows = np.array([rows for rows, _ in self.weights], np.int64)
        repeats = np.array([count for _, count in self.weights], np.int64)
        return Outcome(
            requests=self.requests,
            first_token_s=self.first_token_s,
            finish_s=self.finish_s,
            rejected=self.rejected,
            gap_s=np.concatenate([*self.gaps, np.empty(0)]),
            gap_weight=np.repeat(rows, repeats),
            iterations=self.iterations,
            exposed_program_s=self.exposed_program_s,
            traffic=self.traffic,
        )

    def _receive(self) -> None:
        """Take in what has arrived; refuse what can never run."""
        while self.next_arrival < len(self.requests):
            request = self.requests[self.next_arrival]
            if request.arrival_s > self.now:
                return
            if reason := self._refusal(request):
                self.rejected[self.next_arrival] = reason
            else:
                self.batcher.waiting.append(self.next_arrival)
            self.next_arrival += 1

    def _refusal(self, request: Request) -> str | None:
        tokens, model = request.input_len + request.output_len, self.system.model
        if tokens > model.max_context:
            return f"input + output exceeds the context of {model.max_context} tokens"
        if request.input_len > self.batcher.prompt_room:
            return f"input exceeds the KV room of {self.batcher.prompt_room} tokens in HBF"
        if tokens > self.batcher.kv_room:
            return f"input + output exceeds the KV room of {self.batcher.kv_room} tokens"
        return None

    def _mixed(self) -> int:
        batch, completed = self.batcher.mixed_batch()
        stretch = self.passes.stretch(batch, 1, self.spilled_bytes)
        self.now += float(stretch.seconds[0])
        self.first_token_s[completed] = self.now
        return self._book(stretch, 1, batch.decode_rows, completed)

    def _decode(self) -> int:
        """Decode until the first request ends, or one arrives that could start."""
        batch = self.batcher.decode_batch()
        steps = min(self.batcher.steps_to_finish, _BLOCK)
        stretch = self.passes.stretch(batch, steps, self.spilled_bytes)
        instants = self.now + np.cumsum(stretch.seconds)
        if self.batcher.takes_arrivals and self.next_arrival < len(self.requests):
            arrival = self.requests[self.next_arrival].arrival_s
            steps = min(steps, int(np.searchsorted(instants, arrival)) + 1)
        self.now = float(instants[steps - 1])
        return self._book(stretch, steps, batch.decode_rows, [])

    def _book(self, stretch: Stretch, steps: int, rows: int, completed: list[int]) -> int:
        self.iterations += steps
        self.exposed_program_s += float(stretch.stall_s[:steps].sum())
        self.traffic += stretch.traffic(steps)
        self.spilled_bytes = int(stretch.spilled_bytes[steps - 1])
        if rows:
            self.gaps.append(stretch.seconds[:steps])
            self.weights.append((rows, steps))
        held = self.batcher.decoded_tokens + rows * steps
        ended = self.batcher.advance(steps if rows else 0, completed)
        self.finish_s[ended] = self.now
        self._release(held)
        return len(ended)

    def _release(self, held: int) -> None:
        """Requests that ended free their share of the decode KV that was moved to HBF.

        Which of their tokens had moved is not tracked: they had moved like all others.
        """
        if self.spilled_bytes:
            self.spilled_bytes = self.spilled_bytes * self.batcher.decoded_tokens // held
