"""Session lines, the format of pagewave: everything that a ``Trace`` holds, as JSON lines.

The first line is an object with ``schema`` ("pagewave.trace/1"), ``source``, ``skipped`` and
``block_tokens``, which is null in a trace without hashes. Each line after it is a session:
``session``, ``start_s``, ``turns``, a list of [gap_s, input_tokens, prefix_tokens, output_tokens],
and, in a trace with hashes, ``blocks``, a list of [shared, [ids]] with an entry a turn.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hw.errors import InputError
from perfmodel.files import write_atomically
from perfmodel.workload.formats.turn import Turn
from perfmodel.workload.trace import MOST_ID, MOST_TOKENS, Trace, fits

Count = Annotated[int, Field(ge=0, le=MOST_TOKENS)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]
Id = Annotated[int, Field(ge=0, le=MOST_ID)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, serialize_by_alias=True)


class Head(_Line):
    """The first line."""

    schema_id: Literal["pagewave.trace/1"] = Field(alias="schema")
    source: str
    skipped: dict[str, Count] = {}
    block_tokens: Annotated[int, Field(ge=1)] | None = None


class Session(_Line):
    """A line behind it."""

    session: str
    start_s: Seconds
    turns: list[tuple[Seconds, Annotated[int, Field(ge=1, le=MOST_TOKENS)], Count, Count]] = Field(
        min_length=1
    )
    blocks: list[tuple[Count, list[Id]]] | None = None


_AnyLine = TypeVar("_AnyLine", bound=_Line)


def read_head(path: str, line: str) -> Head:
    """The first line.

    Raises:
        InputError: it is malformed.
    """
    return _parse(Head, f"{path}:1", line)


def read(path: str, lines: list[str], head: Head) -> Iterator[Turn]:
    """Every turn, session after session.

    Raises:
        InputError: a line is malformed.
    """
    names: set[str] = set()
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        session = _parse(Session, where, line)
        if session.session in names:
            raise InputError(f"{where}: session is {session.session!r}: must not be there twice")
        names.add(session.session)
        blocks = session.blocks
        if (blocks is None) != (head.block_tokens is None):
            rule = "must be there exactly if the first line has block_tokens"
            raise InputError(f"{where}: blocks: {rule}")
        if blocks is not None and len(blocks) != len(session.turns):
            rule = f"must be {len(session.turns)}, one a turn"
            raise InputError(f"{where}: blocks has {len(blocks)} entries: {rule}")
        left = held = 0  # tokens and blocks of the turn before
        for index, (gap_s, inputs, prefix, outputs) in enumerate(session.turns):
            shared, ids = (0, None) if blocks is None else blocks[index]
            _at_most(f"{where}: turns.{index}.prefix_tokens", prefix, min(left, inputs))
            _at_most(f"{where}: blocks.{index}.shared", shared, held)
            held = shared + len(ids or ())
            if head.block_tokens is not None and not fits(held, inputs, head.block_tokens):
                rule = f"must be those of {inputs} tokens, {head.block_tokens} each"
                raise InputError(f"{where}: blocks.{index} has {held} blocks: {rule}")
            yield Turn(
                session.session, inputs, outputs, session.start_s, gap_s, prefix, shared, ids
            )
            left = inputs + outputs


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace so that readers see the old file or the whole new one.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(path, "".join(f"{line}\n" for line in _lines(trace)))


def _lines(trace: Trace) -> Iterator[str]:
    blocks = trace.blocks
    head = Head(
        schema="pagewave.trace/1",
        source=trace.source,
        skipped=dict(trace.skipped),
        block_tokens=None if blocks is None else blocks.block_tokens,
    )
    yield head.model_dump_json()
    columns = (trace.gap_s, trace.input_tokens, trace.prefix_tokens, trace.output_tokens)
    turns = list(zip(*(column.tolist() for column in columns), strict=True))
    for index, name in enumerate(trace.session_ids):
        first, end = (int(bound) for bound in trace.first_turn[index : index + 2])
        session = {
            "session": name,
            "start_s": float(trace.start_s[index]),
            "turns": turns[first:end],
        }
        if blocks is not None:
            session["blocks"] = [
                [
                    int(blocks.shared[turn]),
                    blocks.new_ids[blocks.first_new[turn] : blocks.first_new[turn + 1]].tolist(),
                ]
                for turn in range(first, end)
            ]
        yield json.dumps(session, separators=(",", ":"))


def _at_most(where: str, value: int, most: int) -> None:
    if value > most:
        raise InputError(f"{where} is {value}: must be at most {most}, what is there to share")


def _parse(model: type[_AnyLine], where: str, line: str) -> _AnyLine:
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "line"
        raise InputError(f"{where}: {field}: {first['msg']}") from None
