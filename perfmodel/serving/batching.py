"""Continuous batching with chunked prefill, first come first served.

A pass first reserves one token for every decoding request, then gives the rest of its token budget
to prompts, at most one chunk to each: those already started, then waiting ones in order of arrival.
A request is admitted only when its whole KV (input and output) has room, so that none is ever
evicted; a waiting request that does not fit holds back those behind it.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field, replace

from perfmodel.serving.arrivals import Request
from perfmodel.serving.passes import Batch
from perfmodel.serving.schedule import Part, Schedule


@dataclass(slots=True)
class _Prompt:
    """A request whose prompt is being processed."""

    index: int
    done: int = 0


@dataclass
class Batcher:
    """Which requests run, and what the next pass works on.

    Attributes:
        prompt_room: prompt tokens whose KV the packages hold.
        kv_room: tokens of KV that the packages hold, prompt and decode together.
    """

    requests: list[Request]
    prompt_room: int
    kv_room: int
    schedule: Schedule
    waiting: deque[int] = field(default_factory=deque)
    _prompts: list[_Prompt] = field(default_factory=list)  # in order of arrival
    _decoding: list[tuple[int, int]] = field(default_factory=list)  # heap of (last step, index)
    _steps: int = 0  # decode steps so far: every decoding request takes part in each
    _joined_steps: int = 0  # sum over decoding requests of the step they joined at
    _prompt_tokens: int = 0  # of decoding requests
    _reserved_prompt: int = 0
    _reserved: int = 0
    _decoded_last: bool = False

    @property
    def running(self) -> int:
        return len(self._prompts) + len(self._decoding)

    @property
    def decoded_tokens(self) -> int:
        """Tokens of decode KV of all decoding requests."""
        return len(self._decoding) * self._steps - self._joined_steps

    @property
    def decode_only(self) -> bool:
        """No prompt is in progress, and none can start before a decoding request ends."""
        return not self._prompts and not (self.waiting and self._has_room(self.waiting[0]))

    @property
    def takes_arrivals(self) -> bool:
        """Whether a request that arrives now might start at once."""
        return not self.waiting and self.running < self.schedule.max_batch

    @property
    def steps_to_finish(self) -> int:
        """Decode steps until the first decoding request ends."""
        return self._decoding[0][0] - self._steps

    def _has_room(self, index: int) -> bool:
        request = self.requests[index]
        return (
            self.running < self.schedule.max_batch
            and self._reserved_prompt + request.input_len <= self.prompt_room
            and self._reserved + request.input_len + request.output_len <= self.kv_room
        )

    def decode_batch(self) -> Batch:
        """A pass in which only decoding requests take part."""
        rows = len(self._decoding)
        return Batch(
            decode_rows=rows,
            samples=rows,
            prompt_tokens=self._prompt_tokens,
            decoded_tokens=self.decoded_tokens,
        )

    def next_batch(self) -> tuple[Batch, list[int]]:
        """The next pass where prompts could run, and the requests whose prompt it completes."""
        parts = self.schedule.policy.parts(self._decoded_last) if self._decoding else Part.PREFILL
        batch = self.decode_batch() if Part.DECODE in parts else Batch()
        if Part.PREFILL not in parts:
            return batch, []
        budget = self.schedule.token_budget - len(self._decoding)
        tokens = pairs = reread = 0
        completed: list[int] = []
        position = 0
        while budget:
            if position == len(self._prompts):
                if not (self.waiting and self._has_room(self.waiting[0])):
                    break
                self._admit()
            prompt = self._prompts[position]
            length = self.requests[prompt.index].input_len
            chunk = min(budget, self.schedule.chunk, length - prompt.done)
            pairs += chunk * prompt.done + chunk * (chunk + 1) // 2
            reread += prompt.done
            tokens += chunk
            budget -= chunk
            prompt.done += chunk
            if prompt.done == length:
                completed.append(prompt.index)
            position += 1
        batch = replace(
            batch,
            prefill_rows=tokens,
            samples=batch.decode_rows + len(completed),
            prefill_pairs=pairs,
            reread_tokens=reread,
        )
        return batch, completed

    def _admit(self) -> None:
        index = self.waiting.popleft()
        self._reserve(self.requests[index], 1)
        self._prompts.append(_Prompt(index))

    def _reserve(self, request: Request, sign: int) -> None:
        self._reserved_prompt += sign * request.input_len
        self._reserved += sign * (request.input_len + request.output_len)

    def advance(self, steps: int, completed: list[int]) -> list[int]:
        """Book ``steps`` decode steps and completed prompts; returns the requests that end."""
        self._steps += steps
        self._decoded_last = steps > 0
        ended = []
        while self._decoding and self._decoding[0][0] == self._steps:
            _, index = heapq.heappop(self._decoding)
            request = self.requests[index]
            self._joined_steps -= self._steps - (request.output_len - 1)
            self._prompt_tokens -= request.input_len
            ended.append(index)
        if completed:
            self._prompts = [prompt for prompt in self._prompts if prompt.index not in completed]
        for index in completed:
            request = self.requests[index]
            if request.output_len == 1:
                ended.append(index)
                continue
            heapq.heappush(self._decoding, (self._steps + request.output_len - 1, index))
            self._joined_steps += self._steps
            self._prompt_tokens += request.input_len
        for index in ended:
            self._reserve(self.requests[index], -1)
        return ended
