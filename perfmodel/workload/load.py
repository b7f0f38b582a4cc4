"""Trace files: recognised by content, plain or gzip."""

import gzip
import zlib
from itertools import islice
from pathlib import Path

from hw.errors import InputError
from perfmodel.workload.formats import (
    azure,
    kv_cache_tester,
    mooncake,
    session_csv,
    session_lines,
    sharegpt,
)
from perfmodel.workload.formats.fields import json_object
from perfmodel.workload.formats.mooncake import BLOCK_TOKENS, SessionInput
from perfmodel.workload.formats.turn import assemble
from perfmodel.workload.trace import Trace

_GZIP_MAGIC = b"\x1f\x8b"
_FORMATS = (
    "Mooncake JSON lines, or Azure CSV with the header "
    f"{','.join(azure.HEADER)}, or a session CSV, kv-cache-tester, ShareGPT or pagewave trace"
)


def read_trace(
    path: str | Path,
    *,
    limit: int | None = None,
    hashes: bool = True,
    block_tokens: int | None = None,
    session_input: SessionInput | None = None,
    chars_per_token: float | None = None,
) -> Trace:
    """The first ``limit`` turns of a trace file, all of them by default.

    Args:
        path: The file, in any format of ``perfmodel.workload.formats``.
        limit: How many turns to take; what is behind them is not looked at.
        hashes: Whether to keep block hashes.
        block_tokens: Only for Mooncake, which does not say it: tokens of a block, 512 by default.
        session_input: Only for Mooncake with sessions, and needed there: whether ``input_length``
            is the "whole" prompt or what is "new" in it.
        chars_per_token: Only for ShareGPT, and needed there: how many characters count as a token.

    Raises:
        InputError: unreadable, of unknown format, or a line is malformed; names file and line. Or
            an argument is out of range, or for another format.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}: must be at least 1")
    if block_tokens is not None and block_tokens < 1:
        raise InputError(f"block-tokens is {block_tokens}: must be at least 1")
    name = str(path)
    text = _text(Path(path))
    lines = text.splitlines()
    number = next((number for number, line in enumerate(lines) if line.strip()), None)
    if number is None:
        raise InputError(f"{name}: the trace is empty")
    where, first = f"{name}:{number + 1}", lines[number]
    kind = _format(where, first)
    for option, value, only in (
        ("block-tokens", block_tokens, "Mooncake"),
        ("session-input", session_input, "Mooncake"),
        ("chars-per-token", chars_per_token, "ShareGPT"),
    ):
        if value is not None and kind != only:
            raise InputError(f"{option} is {value}: is for {only}, and {name} is {kind}")
    source, size, skipped = name, None, dict[str, int]()
    match kind:
        case "Mooncake":
            size = (block_tokens or BLOCK_TOKENS) if hashes else None
            turns = mooncake.read(name, lines, block_tokens=size, session_input=session_input)
        case "Azure CSV":
            turns = azure.read(name, lines)
        case "session CSV":
            turns = session_csv.read(name, lines)
        case "kv-cache-tester":
            size = kv_cache_tester.block_size(where, json_object(where, first))
            turns = kv_cache_tester.read(name, lines, skipped)
        case "ShareGPT":
            turns = sharegpt.read(name, text, skipped, chars_per_token=chars_per_token)
        case _:
            head = session_lines.read_head(name, lines[0])
            source, size, skipped = head.source, head.block_tokens, head.skipped
            turns = session_lines.read(name, lines, head)
    trace = assemble(
        islice(turns, limit), path=name, source=source, block_tokens=size, skipped=skipped
    )
    return trace if hashes else trace.without_blocks()


def _format(where: str, first: str) -> str:
    """Which format a file has, by its first line that is not empty."""
    if first.lstrip().startswith("["):
        return "ShareGPT"
    if first.lstrip().startswith("{"):
        keys = json_object(where, first)
        if "schema" in keys:
            return "pagewave"
        return "kv-cache-tester" if "requests" in keys else "Mooncake"
    header = first.split(",")
    if header == azure.HEADER:
        return "Azure CSV"
    if set(header) & set(session_csv.SESSION_COLUMNS):
        return "session CSV"
    raise InputError(f"{where}: unknown trace format: must be {_FORMATS}")


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP_MAGIC):
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path}: the gzip data is truncated or damaged") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text: must be {_FORMATS}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot read the trace: {error.strerror}") from None
