"""The serving loop: arrivals, passes, finishing times.

While only decode runs, nothing changes from one pass to the next but the length of the contexts.
Such a stretch, up to the next arrival that could start or the next request that ends, is evaluated
at once as arrays; the time of every pass in it is exact. Passes with prompts in progress are taken
one by one.
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
from perfmodel.serving.schedule import Schedule
from perfmodel.system import System

_BLOCK = 512  # passes evaluated at once: longer blocks are mostly cut by an arrival
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """What happened, request by request and pass by pass.

    Attributes:
        first_token_s, finish_s: instants for each request; NaN for a rejected one.
        rejected: reason for each rejected request.
        step_s: instants at which a pass with decode rows ended, rising: every request then in
            decode, after its first token and up to its last, got a token.
        iterations: passes through the model.
        exposed_program_s: time in which writes of KV to HBF held up a pass.
    """

    requests: list[Request]
    first_token_s: Floats
    finish_s: Floats
    rejected: dict[int, str]
    step_s: Floats
    iterations: int
    exposed_program_s: float
    traffic: Traffic


def simulate(
    system: System,
    requests: list[Request],
    schedule: Schedule | None = None,
    *,
    passes: PassModel | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Serve requests in order of arrival.

    Args:
        system: what serves.
        requests: the load.
        schedule: policy and limits, by default those of the DASH paper.
        passes: the pass model of this very system, to be shared by several runs; it keeps what it
            has worked out.
        progress: is told requests done and all requests.

    Raises:
        InputError: there is no request, or they are not in order.
        ValueError: ``passes`` is of another system.
    """
    passes = passes or PassModel(system)
    if passes.system is not system:
        raise ValueError("passes are of another system")
    if not requests:
        raise InputError("requests: there are none: give at least one")
    arrivals_s = np.array([request.arrival_s for request in requests])
    if not (np.diff(arrivals_s) >= 0).all():
        raise InputError("requests: arrival_s goes back: sort them by time of arrival")
    return _Run(requests, schedule or Schedule(), passes).run(progress)


class _Run:
    def __init__(self, requests: list[Request], schedule: Schedule, passes: PassModel) -> None:
        self.requests, self.passes = requests, passes
        self.system = passes.system
        room = self.system.placement
        self.batcher = Batcher(requests, room.prompt_tokens, room.kv_tokens, schedule)
        self.now = 0.0
        self.next_arrival = 0
        self.spilled_bytes = 0
        self.iterations = 0
        self.exposed_program_s = 0.0
        self.traffic = Traffic()
        self.first_token_s = np.full(len(requests), np.nan)
        self.finish_s = np.full(len(requests), np.nan)
        self.rejected: dict[int, str] = {}
        self.steps_s: list[Floats] = []

    def run(self, progress: Callable[[int, int], None] | None) -> Outcome:
        total, done = len(self.requests), 0
        while self.next_arrival < total or self.batcher.running or self.batcher.waiting:
            self._receive()
            if not (self.batcher.running or self.batcher.waiting):
                if self.next_arrival == total:
                    break
                self.now = self.requests[self.next_arrival].arrival_s
                continue
            ended = self._decode() if self.batcher.decode_only else self._pass()
            done += ended
            if progress and ended:
                progress(done + len(self.rejected), total)
        if progress:
            progress(total, total)
        return Outcome(
            requests=self.requests,
            first_token_s=self.first_token_s,
            finish_s=self.finish_s,
            rejected=self.rejected,
            step_s=np.concatenate([*self.steps_s, np.empty(0)]),
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

    def _pass(self) -> int:
        """One pass while prompts are in progress."""
        batch, completed = self.batcher.next_batch()
        spilled = self.spilled_bytes if batch.decode_rows else 0
        stretch = self.passes.stretch(batch, 1, spilled)
        instants = self.now + stretch.seconds
        self.first_token_s[completed] = instants[0]
        return self._book(stretch, instants, batch.decode_rows, completed)

    def _decode(self) -> int:
        """Decode until the first request ends, or one arrives that could start."""
        batch = self.batcher.decode_batch()
        steps = min(self.batcher.steps_to_finish, _BLOCK)
        stretch = self.passes.stretch(batch, steps, self.spilled_bytes)
        instants = self.now + np.cumsum(stretch.seconds)
        if self.batcher.takes_arrivals and self.next_arrival < len(self.requests):
            arrival = self.requests[self.next_arrival].arrival_s
            instants = instants[: int(np.searchsorted(instants, arrival)) + 1]
        return self._book(stretch, instants, batch.decode_rows, [])

    def _book(self, stretch: Stretch, instants: Floats, rows: int, completed: list[int]) -> int:
        """Book the passes that end at ``instants``, all with ``rows`` decode rows."""
        passes = len(instants)
        self.now = float(instants[-1])
        self.iterations += passes
        self.exposed_program_s += float(stretch.stall_s[:passes].sum())
        self.traffic += stretch.traffic(passes)
        if rows:
            self.steps_s.append(instants)
            self.spilled_bytes = int(stretch.spilled_bytes[passes - 1])
        held = self.batcher.decoded_tokens + rows * passes
        ended = self.batcher.advance(passes if rows else 0, completed)
        self.finish_s[ended] = self.now
        self._release(held)
        return len(ended)

    def _release(self, held: int) -> None:
        """Requests that ended free their share of the decode KV that was moved to HBF.

        Which of their tokens had moved is not tracked: they had moved like all others.
        """
        if self.spilled_bytes:
            self.spilled_bytes = self.spilled_bytes * self.batcher.decoded_tokens // held
