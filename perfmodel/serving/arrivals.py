"""Where requests come from: a Poisson load generator, or a public trace.

Traces are recognised by content, plain or gzip: Mooncake JSON lines (``timestamp`` in
milliseconds, ``input_length``, ``output_length``) and Azure LLM inference CSV (``TIMESTAMP``,
``ContextTokens``, ``GeneratedTokens``). Times count from the first request. A request must have at
least one input and one output token: a line with none is an error, because it would be answered
by nothing and has no latency.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from hw.errors import InputError

_MOST = 10**9  # tokens, requests or requests a second: beyond any real load
_GZIP_MAGIC = b"\x1f\x8b"
_LENGTH = f"a whole number from 1 to {_MOST}"
_AZURE_HEADER = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``arrival_s`` counts from the start of the run."""

    arrival_s: float
    input_len: int
    output_len: int


def poisson(
    *, requests: int, rate: float, input_len: int, output_len: int, seed: int
) -> list[Request]:
    """Equal requests that arrive as a Poisson process of ``rate`` requests a second.

    Raises:
        InputError: a number is not positive, or absurdly large.
    """
    for name, value in (
        ("requests", requests),
        ("rate", rate),
        ("input-len", input_len),
        ("output-len", output_len),
    ):
        if not 0 < value <= _MOST:
            raise InputError(f"{name} is {value}: must be greater than zero, at most {_MOST}")
    if seed < 0:
        raise InputError(f"seed is {seed}: must not be negative")
    gaps_s = np.random.default_rng(seed).exponential(1 / rate, requests)
    return [Request(float(at), input_len, output_len) for at in np.cumsum(gaps_s)]


def load_trace(path: str | Path, limit: int | None = None) -> list[Request]:
    """The first ``limit`` requests of a trace file, all of them by default.

    Raises:
        InputError: unreadable, of unknown format, or a line is malformed; names file and line.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}: must be at least 1")
    path = Path(path)
    lines = _text(path).splitlines()
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise InputError(f"{path}: the trace is empty")
    rows = _mooncake(path, lines) if first.lstrip().startswith("{") else _azure(path, lines)
    requests: list[Request] = []
    start: Fraction | None = None
    previous = Fraction(0)
    for number, time, time_text, input_len, output_len in rows:
        start = time if start is None else start
        if time - start < previous:
            raise InputError(
                f"{path}:{number}: timestamp is {time_text}: must not be before the one above"
            )
        previous = time - start
        requests.append(Request(float(previous), input_len, output_len))
        if len(requests) == limit:
            break
    if not requests:
        raise InputError(f"{path}: the trace holds a header and no request")
    return requests


_Row = tuple[int, Fraction, str, int, int]  # line, time in seconds, its text, input, output


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP_MAGIC):
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path}: the gzip data is truncated or damaged") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text: must be Mooncake JSONL or Azure CSV") from None
    except OSError as error:
        raise InputError(f"{path}: cannot read the trace: {error.strerror}") from None


def _mooncake(path: Path, lines: list[str]) -> Iterator[_Row]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise InputError(f"{where}: not a JSON object ({error})") from None
        if not isinstance(entry, dict):
            raise InputError(f"{where}: not a JSON object")
        time_ms: Any = entry.get("timestamp")
        if not _is_number(time_ms) or not 0 <= time_ms < 1e15:
            raise _bad_field(where, entry, "timestamp", "a time in milliseconds")
        for name in ("input_length", "output_length"):
            if not _is_number(entry.get(name), int) or not 1 <= entry[name] <= _MOST:
                raise _bad_field(where, entry, name, _LENGTH)
        time = Fraction(time_ms) / 1000
        yield number, time, f"{time_ms}", entry["input_length"], entry["output_length"]


def _is_number(value: Any, kind: type = float) -> bool:
    return isinstance(value, int | kind) and not isinstance(value, bool)


def _bad_field(where: str, entry: dict[str, Any], name: str, expected: str) -> InputError:
    found = f"is {entry[name]!r}" if name in entry else "is missing"
    return InputError(f"{where}: {name} {found}: must be {expected}")


def _azure(path: Path, lines: list[str]) -> Iterator[_Row]:
    if lines[0].split(",") != _AZURE_HEADER:
        raise InputError(
            f"{path}:1: unknown trace format: must be Mooncake JSON lines, or Azure CSV with the "
            f"header {','.join(_AZURE_HEADER)}"
        )
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        row = line.split(",")
        if len(row) != len(_AZURE_HEADER):
            raise InputError(
                f"{where}: {len(row)} fields in {line!r}: must be {len(_AZURE_HEADER)}"
            )
        time = _timestamp(row[0])
        if time is None:
            raise InputError(
                f"{where}: TIMESTAMP is {row[0]!r}: must be YYYY-MM-DD HH:MM:SS.fraction"
            )
        for name, value in zip(_AZURE_HEADER[1:], row[1:], strict=True):
            digits = value.isascii() and value.isdigit() and len(value) <= len(str(_MOST))
            if not digits or not 1 <= int(value) <= _MOST:
                raise InputError(f"{where}: {name} is {value!r}: must be {_LENGTH}")
        yield number, time, row[0], int(row[1]), int(row[2])


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
