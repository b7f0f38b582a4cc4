"""Session CSV: one line a turn, lengths and gaps, without hashes and without arrivals.

Columns ``session`` or ``session_id``, ``turn`` (0, 1, ... within a session), ``input_length`` (the
whole prompt), ``output_length``, and ``pre_gap_s`` or ``pre_gap_ms``, in any order; other columns
are ignored. All sessions arrive at time zero. This is how the statistics of the LMCache agentic
traces, the data set of the HBF serving study, are passed on.
"""

import csv
import math
from collections.abc import Iterator

from hw.errors import InputError
from perfmodel.workload.formats.fields import LENGTH
from perfmodel.workload.formats.turn import Turn
from perfmodel.workload.trace import MOST_TOKENS

SESSION_COLUMNS = ("session", "session_id")
_GAP_UNITS = {"pre_gap_s": 1.0, "pre_gap_ms": 1e-3}


def read(path: str, lines: list[str]) -> Iterator[Turn]:
    """Every turn, in the order of the file.

    Raises:
        InputError: a column is missing or a line is malformed.
    """
    rows = _rows(path, lines)
    _, header = next(rows)
    at = {name: place for place, name in enumerate(header)}
    names = _columns(path, header)
    session_column, gap_column = names[0], names[4]
    turns: dict[str, int] = {}
    for number, row in rows:
        if not row:
            continue
        where = f"{path}:{number}"
        if len(row) != len(header):
            raise InputError(f"{where}: {len(row)} fields: must be {len(header)}")
        session = row[at[session_column]]
        expected = turns.get(session, 0)
        if row[at["turn"]] != f"{expected}":
            raise InputError(
                f"{where}: turn is {row[at['turn']]!r}: must be {expected}, the next one of "
                f"session {session!r}"
            )
        turns[session] = expected + 1
        yield Turn(
            session,
            _length(where, "input_length", row[at["input_length"]]),
            _length(where, "output_length", row[at["output_length"]]),
            gap_s=_gap(where, gap_column, row[at[gap_column]]) * _GAP_UNITS[gap_column],
        )


def _rows(path: str, lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Rows with their line numbers."""
    reader = csv.reader(lines, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not CSV ({error})") from None


def _columns(path: str, header: list[str]) -> list[str]:
    """The five columns that are read, as the file names them."""
    wanted: tuple[tuple[str, ...], ...] = (
        SESSION_COLUMNS,
        ("turn",),
        ("input_length",),
        ("output_length",),
        tuple(_GAP_UNITS),
    )
    found = []
    for choices in wanted:
        name = next((choice for choice in choices if choice in header), None)
        if name is None:
            raise InputError(f"{path}:1: column {' or '.join(choices)} is missing")
        found.append(name)
    return found


def _length(where: str, name: str, text: str) -> int:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_TOKENS))
    if not digits or not 1 <= int(text) <= MOST_TOKENS:
        raise InputError(f"{where}: {name} is {text!r}: must be {LENGTH}")
    return int(text)


def _gap(where: str, name: str, text: str) -> float:
    try:
        gap = float(text)
    except ValueError:
        gap = math.nan
    if not 0 <= gap < 1e12:
        raise InputError(f"{where}: {name} is {text!r}: must be a time, not negative")
    return gap
