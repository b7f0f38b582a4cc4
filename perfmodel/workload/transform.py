"""Larger workloads from a trace, as the HBF serving study makes them, and when sessions arrive.

Source of both constructions: "Characterizing High Bandwidth Flash for LLM Serving", section 3.3.
"""

from dataclasses import replace

import numpy as np

from hw.errors import InputError
from perfmodel.workload.trace import MOST_TOKENS, Blocks, Floats, Ints, Trace

_MOST = 10**9  # turns or arrivals a second: beyond any real load


def replicate(trace: Trace, turns: int) -> Trace:
    """A trace of exactly ``turns`` turns: whole sessions over and over, the last one truncated.

    Copies are independent: they arrive when their originals do, and block hashes, which are
    numbered anew, of one copy occur in no other. Names get the number of the copy behind them.
    Fewer turns than there are keep the first ones.

    Raises:
        InputError: ``turns`` is out of range.
    """
    if not 1 <= turns <= _MOST:
        raise InputError(f"turns is {turns}: must be 1 to {_MOST}")
    rounds = -(-turns // trace.turns)
    ends = np.cumsum(np.tile(trace.turns_of_session, rounds))
    sessions = int(np.searchsorted(ends, turns)) + 1
    copy, session = np.divmod(np.arange(sessions), trace.sessions)
    taken = np.arange(turns) % trace.turns
    names = [trace.session_ids[s] for s in session]
    if rounds > 1:
        names = [f"{name}+{number}" for name, number in zip(names, copy, strict=True)]
    return replace(
        trace,
        session_ids=tuple(names),
        first_turn=np.concatenate(([0], np.minimum(ends[:sessions], turns))),
        start_s=trace.start_s[session],
        gap_s=trace.gap_s[taken],
        input_tokens=trace.input_tokens[taken],
        prefix_tokens=trace.prefix_tokens[taken],
        output_tokens=trace.output_tokens[taken],
        blocks=None if trace.blocks is None else _replicate_blocks(trace.blocks, taken, rounds),
    )


def _replicate_blocks(blocks: Blocks, taken: Ints, rounds: int) -> Blocks:
    first_new = np.concatenate(([0], np.cumsum(np.diff(blocks.first_new)[taken])))
    distinct, number = np.unique(blocks.new_ids, return_inverse=True)
    ids = np.concatenate([number + len(distinct) * copy for copy in range(rounds)])
    return replace(
        blocks, shared=blocks.shared[taken], first_new=first_new, new_ids=ids[: first_new[-1]]
    )


def extend(trace: Trace, copies: int) -> Trace:
    """Longer sessions: each is followed by ``copies - 1`` copies of itself.

    Every prompt of a copy begins with the whole context that the copy before left, its last prompt
    and answer, and repeats it. Five copies make the "5x" workload of the study. With inputs of mean
    ``m``, and ``f`` the mean over turns of the context that their session leaves, inputs of the
    result have the mean ``m + f * (copies - 1) / 2``.

    Raises:
        InputError: ``copies`` is out of range, or the trace has block hashes: contexts end inside
            blocks, so that the hashes of a copy cannot be known.
    """
    most = max(1, MOST_TOKENS // int(trace.final_tokens.max()))
    if not 1 <= copies <= most:
        raise InputError(f"copies is {copies}: must be 1 to {most}")
    if trace.blocks is not None and copies > 1:
        raise InputError(
            f"copies is {copies}: block hashes of longer prompts are unknown; leave hashes out"
        )
    lengths = trace.turns_of_session
    bounds = np.concatenate(([0], np.cumsum(lengths * copies)))
    session = np.repeat(np.arange(trace.sessions), lengths * copies)
    copy, turn = np.divmod(np.arange(bounds[-1]) - bounds[session], lengths[session])
    taken = trace.first_turn[session] + turn
    before = copy * trace.final_tokens[session]
    return replace(
        trace,
        first_turn=bounds,
        gap_s=trace.gap_s[taken],
        input_tokens=trace.input_tokens[taken] + before,
        prefix_tokens=trace.prefix_tokens[taken] + before,
        output_tokens=trace.output_tokens[taken],
    )


def arrive_at_once(trace: Trace) -> Trace:
    """All sessions arrive at time zero, as in the study."""
    return replace(trace, start_s=np.zeros(trace.sessions))


def arrive_poisson(trace: Trace, *, rate: float, seed: int) -> Trace:
    """Sessions arrive in their order as a Poisson process of ``rate`` sessions a second.

    Raises:
        InputError: the rate is not positive or absurdly large, or the seed is negative.
    """
    return replace(trace, start_s=poisson_times_s(trace.sessions, rate=rate, seed=seed))


def poisson_times_s(count: int, *, rate: float, seed: int) -> Floats:
    """Seconds of the first ``count`` events of a Poisson process of ``rate`` events a second.

    Raises:
        InputError: the rate is not positive or absurdly large, or the seed is negative.
    """
    if not 0 < rate <= _MOST:
        raise InputError(f"rate is {rate}: must be greater than zero, at most {_MOST}")
    if seed < 0:
        raise InputError(f"seed is {seed}: must not be negative")
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count))
