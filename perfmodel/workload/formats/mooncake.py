"""Mooncake JSON lines: requests with their arrival and, mostly, hashes of their blocks.

Fields ``timestamp`` in milliseconds, ``input_length``, ``output_length`` and ``hash_ids``, the ids
of the prompt's blocks, the last one partial. The size of a block is not in the file: it is 512 in
the traces of Mooncake (FAST '25), and a file whose ids do not fit to its lengths is refused.

Load generators added sessions: lines with one ``session_id`` are turns, the later ones with a
``delay`` in milliseconds behind the answer before in place of a ``timestamp``. They disagree about
``input_length`` in these: the whole prompt, or only what is new. The caller has to say which.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from hw.errors import InputError
from perfmodel.workload.formats.fields import (
    bad_field,
    block_ids,
    is_number,
    json_object,
    time,
    tokens,
)
from perfmodel.workload.formats.turn import Turn, common_prefix
from perfmodel.workload.trace import MOST_TOKENS

BLOCK_TOKENS = 512

SessionInput = Literal["whole", "new"]


def read(
    path: str,
    lines: list[str],
    *,
    block_tokens: int | None,
    session_input: SessionInput | None = None,
) -> Iterator[Turn]:
    """Requests, each a session of its own unless it has a ``session_id``.

    Args:
        path: The file, for errors.
        lines: Its lines.
        block_tokens: Size of the blocks behind ``hash_ids``; None leaves hashes out.
        session_input: What ``input_length`` of a session's turns means.

    Raises:
        InputError: a line is malformed.
    """
    arrivals = _Arrivals()
    first: dict[str, Any] | None = None
    sessions: dict[str, _Session] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        entry = json_object(where, line)
        first = entry if first is None else first
        name = _session_id(where, entry, "session_id" in first)
        session = None if name is None else sessions.get(name)
        start_s = gap_s = 0.0
        if session is None:
            start_s = arrivals.seconds(where, entry)
        else:
            gap_s = float(Fraction(time(where, entry, "delay", "milliseconds")) / 1000)
        inputs = tokens(where, entry, "input_length")
        outputs = tokens(where, entry, "output_length")
        if name is not None and session_input is None:
            raise InputError(
                f"{where}: session_id is {name!r}: say with session-input whether input_length of "
                "a turn is the whole prompt (whole) or what is new in it (new)"
            )
        if session is not None and session_input == "new":
            inputs += session.input_tokens + session.output_tokens
            if inputs > MOST_TOKENS:
                expected = f"at most {MOST_TOKENS} with all that came before"
                raise bad_field(where, entry, "input_length", expected)
        ids: list[int] | None = None
        if block_tokens is not None and "hash_ids" in first:
            ids = block_ids(where, entry, "hash_ids")
            _check_size(where, len(ids), inputs, block_tokens)
        if name is None:
            yield Turn(f"{number}", inputs, outputs, start_s, new_blocks=ids)
            continue
        sessions[name] = _Session(inputs, outputs, ids or [])
        if ids is None or block_tokens is None or session is None:
            yield Turn(name, inputs, outputs, start_s, gap_s, new_blocks=ids)
            continue
        shared = common_prefix(session.ids, ids)
        prefix = min(shared * block_tokens, session.input_tokens, inputs)
        yield Turn(name, inputs, outputs, start_s, gap_s, prefix, shared, ids[shared:])


class _Session(NamedTuple):
    """The last turn of a session so far."""

    input_tokens: int
    output_tokens: int
    ids: list[int]


class _Arrivals:
    """Seconds from the first timestamp, which must not go back."""

    def __init__(self) -> None:
        self._start: Fraction | None = None
        self._previous = Fraction(0)

    def seconds(self, where: str, entry: dict[str, Any]) -> float:
        stamp = time(where, entry, "timestamp", "milliseconds")
        moment = Fraction(stamp) / 1000
        self._start = moment if self._start is None else self._start
        if moment - self._start < self._previous:
            raise InputError(f"{where}: timestamp is {stamp}: must not be before the one above")
        self._previous = moment - self._start
        return float(self._previous)


def _session_id(where: str, entry: dict[str, Any], wanted: bool) -> str | None:
    name = entry.get("session_id")
    if not wanted and "session_id" not in entry:
        return None
    if not wanted or not (isinstance(name, str) or is_number(name, int)):
        raise bad_field(where, entry, "session_id", "a text or whole number in all lines or none")
    return str(name)


def _check_size(where: str, blocks: int, inputs: int, block_tokens: int) -> None:
    if blocks != (needed := -(-inputs // block_tokens)):
        raise InputError(
            f"{where}: hash_ids has {blocks} blocks: {inputs} tokens need {needed} blocks of "
            f"{block_tokens}; is that the size of a block (block-tokens)?"
        )
