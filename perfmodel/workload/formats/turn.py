"""One turn as a format reads it, and a trace made of turns."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hw.errors import InputError
from perfmodel.workload.trace import Blocks, Trace, append_only_prefix


class Turn(NamedTuple):
    """One turn; turns of one session share its name, in their order.

    ``start_s`` counts for the first turn of a session. Without ``prefix_tokens`` the prompt is
    taken as one to which is only appended. ``new_blocks`` follow the first ``shared_blocks`` of
    the turn before; they are None where the file has no hashes.
    """

    session: str
    input_tokens: int
    output_tokens: int
    start_s: float = 0.0
    gap_s: float = 0.0
    prefix_tokens: int | None = None
    shared_blocks: int = 0
    new_blocks: Sequence[int] | None = None


def assemble(
    turns: Iterable[Turn],
    *,
    path: str,
    source: str,
    block_tokens: int | None,
    skipped: dict[str, int],
) -> Trace:
    """A trace of ``turns``, whose sessions may be interleaved.

    Args:
        turns: All turns; those with blocks or those without, not both.
        path: Their file, for errors.
        source: Where they come from.
        block_tokens: Size of a block, if the turns have blocks.
        skipped: What was left out, with counts, complete when ``turns`` is exhausted.

    Raises:
        InputError: there is no turn.
    """
    sessions: dict[str, list[Turn]] = {}
    for turn in turns:
        sessions.setdefault(turn.session, []).append(turn)
    if not sessions:
        raise InputError(f"{path}: the trace holds no request")
    lengths = [len(session) for session in sessions.values()]
    flat = [turn for session in sessions.values() for turn in session]
    first_turn = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    is_first = np.zeros(len(flat), np.bool_)
    is_first[first_turn[:-1]] = True
    inputs = np.array([turn.input_tokens for turn in flat], np.int64)
    outputs = np.array([turn.output_tokens for turn in flat], np.int64)
    known = np.array([-1 if t.prefix_tokens is None else t.prefix_tokens for t in flat], np.int64)
    guess = append_only_prefix(inputs, outputs, is_first)
    return Trace(
        source=source,
        session_ids=tuple(sessions),
        first_turn=first_turn,
        start_s=np.array([session[0].start_s for session in sessions.values()]),
        gap_s=np.array([turn.gap_s for turn in flat]),
        input_tokens=inputs,
        prefix_tokens=np.where(known < 0, guess, known),
        output_tokens=outputs,
        blocks=None if flat[0].new_blocks is None else _blocks(flat, block_tokens or 0),
        skipped={what: count for what, count in skipped.items() if count},
    )


def _blocks(turns: list[Turn], block_tokens: int) -> Blocks:
    own = [turn.new_blocks or () for turn in turns]
    first_new = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(ids) for ids in own])))
    return Blocks(
        block_tokens=block_tokens,
        shared=np.array([turn.shared_blocks for turn in turns], np.int64),
        first_new=first_new,
        new_ids=np.fromiter((i for ids in own for i in ids), np.int64, int(first_new[-1])),
    )


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading entries are equal."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(at for at in range(length) if one[at] != other[at])
