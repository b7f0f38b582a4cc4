"""Continuous batching by plain loops, on the slow passes of ``reference``."""

from perfmodel.serving.arrivals import Request
from perfmodel.system import System
from tests.perfmodel.reference import Package, Sequence, pass_seconds


def serve(
    system: System,
    requests: list[Request],
    *,
    max_batch: int,
    token_budget: int,
    chunk: int,
    serial: bool = False,
):
    """Continuous batching, one pass after the other, one token after the other.

    Returns first-token and finishing times by request, and all inter-token gaps.
    """
    package, assignments = Package(), {}
    now, arrived, decoded_last = 0.0, 0, False
    waiting: list[int] = []
    prompts: list[Sequence] = []
    decoding: list[Sequence] = []
    first: dict[int, float] = {}
    finish: dict[int, float] = {}
    gaps: list[float] = []
    while arrived < len(requests) or waiting or prompts or decoding:
        if not (waiting or prompts or decoding):
            now = max(now, requests[arrived].arrival_s)
        while arrived < len(requests) and requests[arrived].arrival_s <= now:
            request = requests[arrived]
            if request.input_len + request.output_len <= system.model.max_context:
                waiting.append(arrived)
            arrived += 1
        could_prefill = prompts or (waiting and len(decoding) < max_batch)
        taking_turns = serial and decoding and could_prefill
        in_pass = [] if taking_turns and decoded_last else list(decoding)
        chunks = []
        position = 0
        left = token_budget - len(decoding)
        while left and not (taking_turns and not decoded_last):
            if position == len(prompts):
                if not waiting or len(prompts) + len(decoding) == max_batch:
                    break
                index = waiting.pop(0)
                prompts.append(Sequence(index, requests[index]))
            sequence = prompts[position]
            begun = sequence.prompt_done
            while left and sequence.prompt_done < min(begun + chunk, sequence.request.input_len):
                sequence.prompt_done += 1
                left -= 1
            chunks.append((begun, sequence.prompt_done - begun))
            position += 1
        if not chunks and not in_pass:
            continue
        for sequence in in_pass:
            sequence.decoded += 1
        ready = [s for s in prompts if s.prompt_done == s.request.input_len]
        samples = len(in_pass) + len(ready)
        now += pass_seconds(system, package, in_pass, chunks, samples, assignments)
        decoded_last = bool(in_pass)
        for sequence in in_pass:
            gaps.append(now - sequence.last_token_s)
            sequence.last_token_s = now
        held = sum(s.decoded for s in decoding)
        for sequence in [s for s in in_pass if s.decoded == s.request.output_len - 1]:
            decoding.remove(sequence)
            finish[sequence.index] = now
        if held:
            package.spilled = package.spilled * sum(s.decoded for s in decoding) // held
        for sequence in ready:
            prompts.remove(sequence)
            first[sequence.index] = sequence.last_token_s = now
            if sequence.request.output_len == 1:
                finish[sequence.index] = now
            else:
                decoding.append(sequence)
    return first, finish, gaps, package.moved
