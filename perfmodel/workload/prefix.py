"""What a prefix cache without limits would hit, from the trace alone.

A hit is a leading part of a prompt whose KV exists already. With limitless capacity nothing is
evicted, so that hits depend on no tier and no policy: the most that any cache can reach. They are
given in tokens, one number a turn. Engines compute at least the last token of a prompt again, for
its logits; hits here do not subtract it.
"""

import numpy as np

from hw.errors import InputError
from perfmodel.workload.trace import Ints, Trace


def session_hits(trace: Trace) -> Ints:
    """Hits when each session keeps its own KV, prompts and answers, and shares it with no other."""
    return trace.prefix_tokens


def block_hits(trace: Trace, order: Ints | None = None) -> Ints:
    """Hits when blocks of prompts are kept by their hash and shared by all sessions.

    A turn hits its leading blocks that some earlier turn had in its prompt. Answers have no hashes
    before a prompt repeats them, so they add nothing.

    Args:
        trace: A trace with block hashes.
        order: All turns, in the order in which they are sent; by default that of ``nominal_s``,
            ties in the order of the trace.

    Raises:
        InputError: the trace has no block hashes, or the order is no permutation that keeps the
            turns of a session in sequence.
    """
    blocks = trace.blocks
    if blocks is None:
        raise InputError(f"{trace.source}: the trace has no block hashes")
    if order is None:
        order = np.argsort(trace.nominal_s, kind="stable")
    rank = _rank(trace, order)
    own = np.diff(blocks.first_new)
    sent = np.argsort(np.repeat(rank, own), kind="stable")
    _, earliest = np.unique(blocks.new_ids[sent], return_index=True)
    # A turn's shared blocks are those of an earlier turn. Behind them, the first block that
    # nobody had ends the hit.
    missed = np.sort(sent[earliest])
    at = np.searchsorted(missed, blocks.first_new[:-1])
    end = np.append(missed, len(blocks.new_ids))[at]
    found = np.minimum(end - blocks.first_new[:-1], own)
    return np.minimum((blocks.shared + found) * blocks.block_tokens, trace.input_tokens)


def _rank(trace: Trace, order: Ints) -> Ints:
    """Place of each turn in ``order``."""
    if not np.array_equal(np.sort(order), np.arange(trace.turns)):
        raise InputError(f"order: must hold each of the {trace.turns} turns once")
    rank = np.empty(trace.turns, np.int64)
    rank[order] = np.arange(trace.turns)
    late = ~trace.is_first[1:] & (np.diff(rank) < 0)
    if late.any():
        raise InputError(f"order: turn {int(np.argmax(late)) + 1} comes before the turn it follows")
    return rank
