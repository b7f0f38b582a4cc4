"""A trace: sessions of turns, as arrays with one entry a turn.

A *session* is a conversation. Each of its *turns* sends a prompt, ``input_tokens`` long, and gets
an answer, ``output_tokens`` long. A turn is sent ``gap_s`` after the answer before it is complete;
the first turn of a session is sent at ``start_s``. A trace of single requests has sessions of one
turn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hw.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_TOKENS = 10**9  # of one prompt or answer: beyond any real one
_MOST_S = 1e12
MOST_ID = 2**62  # of a block


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """Hashes of the prompts' token blocks; equal ids are equal blocks behind equal prefixes.

    The sequence of a turn is the first ``shared`` ids of the turn before it in its session, then
    ids of its own: growing prompts are stored once. The last block of a prompt may be partial and
    may be left out.
    """

    block_tokens: int
    shared: Ints  # turns
    first_new: Ints  # turns + 1: the own ids of turn t are new_ids[first_new[t] : first_new[t + 1]]
    new_ids: Ints

    @cached_property
    def counts(self) -> Ints:
        """Blocks of each turn."""
        return self.shared + np.diff(self.first_new)

    @cached_property
    def distinct(self) -> int:
        """How many different blocks there are."""
        ordered = np.sort(self.new_ids)  # several times as fast as np.unique
        return int(np.count_nonzero(np.diff(ordered))) + bool(len(ordered))


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """Sessions and turns; arrays cannot be written to.

    Args:
        source: Where the trace comes from, one line.
        session_ids: A name for each session.
        first_turn: Sessions + 1: turns ``first_turn[s]`` to ``first_turn[s + 1]`` are session
            ``s``.
        start_s: Arrival of each session's first turn, in seconds from the start of the run.
        gap_s: Seconds from the answer before to the turn. That of a first turn counts only when
            the session is appended to another one.
        input_tokens: Whole prompt of each turn, at least 1.
        prefix_tokens: How many leading tokens of the prompt repeat what the turn before left, its
            prompt and answer; 0 for first turns.
        output_tokens: Answer of each turn; may be 0.
        blocks: Block hashes of the prompts, if the trace has them.
        skipped: What the file holds and the trace does not, with counts.

    Raises:
        InputError: an array breaks one of these rules.
    """

    source: str
    session_ids: tuple[str, ...]
    first_turn: Ints
    start_s: Floats
    gap_s: Floats
    input_tokens: Ints
    prefix_tokens: Ints
    output_tokens: Ints
    blocks: Blocks | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in (self, self.blocks):
            for each in fields(part) if part is not None else ():
                if isinstance(array := getattr(part, each.name), np.ndarray):
                    array.setflags(write=False)
        self._check()

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return len(self.session_ids)

    @property
    def turns(self) -> int:
        """Number of turns."""
        return len(self.input_tokens)

    @cached_property
    def turns_of_session(self) -> Ints:
        """Turns of each session."""
        return np.diff(self.first_turn)

    @cached_property
    def session_of_turn(self) -> Ints:
        """Index of each turn's session."""
        return np.repeat(np.arange(self.sessions), self.turns_of_session)

    @cached_property
    def is_first(self) -> NDArray[np.bool_]:
        """Whether a turn is its session's first."""
        first = np.zeros(self.turns, np.bool_)
        first[self.first_turn[:-1]] = True
        return first

    @cached_property
    def context_tokens(self) -> Ints:
        """Context that each turn leaves: its prompt and its answer."""
        return self.input_tokens + self.output_tokens

    @cached_property
    def final_tokens(self) -> Ints:
        """Context that each session leaves."""
        return self.context_tokens[self.first_turn[1:] - 1]

    @property
    def decode_read_tokens(self) -> Ints:
        """Tokens of KV that each turn's decode steps read, summed over the steps.

        Prefill gives the first token of an answer. The context grows by one token a step: step
        ``i`` of ``output - 1`` reads ``input + i`` tokens.
        """
        steps: Ints = np.maximum(self.output_tokens - 1, 0)
        return steps * self.input_tokens + steps * (steps + 1) // 2

    @cached_property
    def nominal_s(self) -> Floats:
        """When each turn would be sent if answers took no time."""
        gaps_s = np.cumsum(self.gap_s)
        waited_s = gaps_s - gaps_s[self.first_turn[:-1]][self.session_of_turn]
        return self.start_s[self.session_of_turn] + waited_s

    def without_blocks(self) -> Self:
        """The trace without its block hashes."""
        return replace(self, blocks=None)

    def _check(self) -> None:
        turns, sessions = self.turns, self.sessions
        if not sessions:
            raise InputError(f"{self.source}: the trace has no session")
        if len(set(self.session_ids)) < sessions:
            raise InputError("session_ids: every session must have a name of its own")
        bounds = self.first_turn
        if len(bounds) != sessions + 1 or bounds[0] != 0 or bounds[-1] != turns:
            raise InputError(f"first_turn: must have {sessions + 1} entries from 0 to {turns}")
        if (np.diff(bounds) < 1).any():
            raise InputError("first_turn: every session must have a turn")
        for name, least, most, length in (
            ("start_s", 0, _MOST_S, sessions),
            ("gap_s", 0, _MOST_S, turns),
            ("input_tokens", 1, MOST_TOKENS, turns),
            ("output_tokens", 0, MOST_TOKENS, turns),
        ):
            _need(name, getattr(self, name), least, most, length)
        left = np.where(self.is_first, 0, _before(self.context_tokens))
        repeatable = np.minimum(left, self.input_tokens)
        _need("prefix_tokens", self.prefix_tokens, 0, repeatable, turns)
        if (blocks := self.blocks) is not None:
            _check_blocks(blocks, self.is_first, self.input_tokens)


def append_only_prefix(
    input_tokens: Ints, output_tokens: Ints, is_first: NDArray[np.bool_]
) -> Ints:
    """Prefixes of turns of which only the lengths are known.

    A prompt at least as long as the context before it repeats that whole context, prompt and
    answer. A shorter one cannot: its history was rewritten, nobody knows from where on, and it
    counts as repeating nothing.
    """
    left = _before(input_tokens + output_tokens)
    return np.where(is_first | (input_tokens < left), 0, left)


def fits(blocks: Any, tokens: Any, size: int) -> Any:
    """Whether a prompt has that many blocks, numbers or arrays: the whole ones, or all of them."""
    return (blocks == tokens // size) | (blocks == -(-tokens // size))


def _before(values: Ints) -> Ints:
    """Each turn's entry moved to the turn behind it."""
    return np.concatenate((np.zeros(1, np.int64), values[:-1]))


def _check_blocks(blocks: Blocks, is_first: NDArray[np.bool_], input_tokens: Ints) -> None:
    turns, size = len(is_first), blocks.block_tokens
    if size < 1:
        raise InputError(f"block_tokens is {size}: must be at least 1")
    bounds, ids = blocks.first_new, len(blocks.new_ids)
    if len(bounds) != turns + 1 or bounds[0] != 0 or bounds[-1] != ids:
        raise InputError(f"first_new: must have {turns + 1} entries from 0 to {ids}")
    _need("own blocks", np.diff(bounds), 0, ids, turns)
    _need("new_ids", blocks.new_ids, 0, MOST_ID, ids)
    _need("shared", blocks.shared, 0, np.where(is_first, 0, _before(blocks.counts)), turns)
    right = fits(blocks.counts, input_tokens, size)
    if not np.all(right):
        at = int(np.argmin(right))
        raise InputError(
            f"blocks[{at}] are {blocks.counts[at]}: must be those of {input_tokens[at]} tokens, "
            f"{size} each"
        )


def _need(
    name: str, values: Ints | Floats, least: int | Ints, most: float | Ints, length: int
) -> None:
    """Refuse an array of another length, or with an entry out of range; NaN is in no range."""
    if len(values) != length:
        raise InputError(f"{name} has {len(values)} entries: must be {length}")
    right = (values >= least) & (values <= most)
    if not right.all():
        at = int(np.argmin(right))
        low, high = (np.broadcast_to(limit, length)[at] for limit in (least, most))
        raise InputError(f"{name}[{at}] is {values[at]}: must be {low} to {high}")
