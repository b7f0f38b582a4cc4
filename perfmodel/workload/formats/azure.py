"""Azure LLM inference CSV: single requests with their arrival, without hashes.

Columns ``TIMESTAMP``, ``ContextTokens``, ``GeneratedTokens``, as the AzurePublicDataset of 2023 has
them.
"""

from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction

from hw.errors import InputError
from perfmodel.workload.formats.fields import LENGTH
from perfmodel.workload.formats.turn import Turn
from perfmodel.workload.trace import MOST_TOKENS

HEADER = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]


def read(path: str, lines: list[str]) -> Iterator[Turn]:
    """Every request as a session of its own; times count from the first request."""
    start: Fraction | None = None
    previous = Fraction(0)
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        row = line.split(",")
        if len(row) != len(HEADER):
            raise InputError(f"{where}: {len(row)} fields in {line!r}: must be {len(HEADER)}")
        time = _timestamp(row[0])
        if time is None:
            raise InputError(
                f"{where}: TIMESTAMP is {row[0]!r}: must be YYYY-MM-DD HH:MM:SS.fraction"
            )
        for name, value in zip(HEADER[1:], row[1:], strict=True):
            digits = value.isascii() and value.isdigit() and len(value) <= len(str(MOST_TOKENS))
            if not digits or not 1 <= int(value) <= MOST_TOKENS:
                raise InputError(f"{where}: {name} is {value!r}: must be {LENGTH}")
        start = time if start is None else start
        if time - start < previous:
            raise InputError(f"{where}: timestamp is {row[0]}: must not be before the one above")
        previous = time - start
        yield Turn(f"{number}", int(row[1]), int(row[2]), start_s=float(previous))


def _timestamp(text: str) -> Fraction | None:
    """Seconds of a timestamp without losing its 100 ns digits; None if it is none."""
    whole, _, fraction = text.partition(".")
    try:
        moment = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    if fraction and not (fraction.isascii() and fraction.isdigit()):
        return None
    seconds = (moment - datetime(2000, 1, 1)) // (datetime.resolution * 10**6)
    return Fraction(seconds) + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else 0)
