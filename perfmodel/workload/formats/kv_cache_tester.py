"""kv-cache-tester: recorded agent conversations, one JSON object a line, with hashes of blocks.

A conversation has ``id``, ``block_size`` and ``requests``. A request is an object with ``t``
(seconds from the start), ``in``, ``out``, ``api_time``, ``think_time`` and ``hash_ids``, as
callanjfox/kv-cache-tester publishes it, or the same as a list: t, in, out, api_time, think_time,
time to first token, number of leading blocks shared with the request before, and the blocks behind
as runs [first id, count]. Hashes cover whole blocks of the prompt and belong to their conversation
alone, unless ``hash_id_scope`` is "global".

A turn waits its ``think_time`` behind the answer before. Where that is null, it waits as long as it
did in the recording: ``t`` less the ``t`` and the ``api_time`` before. Where sub-agents ran, the
recording has a mark in place of their requests; marks are skipped and counted. Conversations arrive
at time zero.
"""

from collections.abc import Iterator, Mapping
from typing import Any

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
from perfmodel.workload.trace import MOST_ID

_FIELDS = ("t", "in", "out", "api_time", "think_time", "ttft", "shared", "runs")
_MOST_BLOCKS = 10**7  # of one prompt


def block_size(where: str, entry: dict[str, Any]) -> int:
    """Tokens of a block of one conversation."""
    return tokens(where, entry, "block_size")


def read(path: str, lines: list[str], skipped: dict[str, int]) -> Iterator[Turn]:
    """Every request, conversation after conversation; marks are counted in ``skipped``.

    Raises:
        InputError: a line is malformed, or its blocks have another size than those above.
    """
    size: int | None = None
    names: set[str] = set()
    highest = -1  # of all ids so far
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        entry = json_object(where, line)
        name, requests = entry.get("id"), entry.get("requests")
        if not isinstance(name, str) or name in names:
            raise bad_field(where, entry, "id", "a text that no other conversation has")
        if not isinstance(requests, list):
            raise bad_field(where, entry, "requests", "a list")
        names.add(name)
        size = block_size(where, entry) if size is None else size
        if block_size(where, entry) != size:
            raise bad_field(where, entry, "block_size", f"{size}, as above")
        offset = 0 if entry.get("hash_id_scope") == "global" else highest + 1
        for turn in _conversation(where, name, requests, size, offset, skipped):
            highest = max(highest, max(turn.new_blocks or (), default=-1))
            if highest > MOST_ID:
                raise InputError(f"{where}: ids of blocks add up to {highest}: must be smaller")
            yield turn


def _conversation(
    where: str, name: str, requests: list[Any], size: int, offset: int, skipped: dict[str, int]
) -> Iterator[Turn]:
    sent_s = took_s = 0.0
    ids: list[int] = []
    for index, request in enumerate(requests):
        place = f"{where}: requests[{index}]"
        if isinstance(request, dict) and (request.get("sub") or request.get("type") == "subagent"):
            skipped["runs of sub-agents"] = skipped.get("runs of sub-agents", 0) + 1
            continue
        fields = _fields(place, request)
        inputs = tokens(place, fields, "in")
        outputs = tokens(place, fields, "out", least=0)
        at_s = _seconds(place, fields, "t")
        if at_s < sent_s:
            raise bad_field(place, fields, "t", f"at least {sent_s}, that of the request before")
        gap_s = max(0.0, at_s - sent_s - took_s)
        if fields.get("think_time") is not None:
            gap_s = _seconds(place, fields, "think_time")
        sent_s, took_s = at_s, 0.0
        if fields.get("api_time") is not None:
            took_s = _seconds(place, fields, "api_time")
        shared, new = _blocks(place, fields, ids)
        if shared + len(new) != inputs // size:
            raise InputError(
                f"{place}: {shared + len(new)} blocks: {inputs} tokens have "
                f"{inputs // size} whole blocks of {size}"
            )
        ids = ids[:shared] + new
        yield Turn(
            name,
            inputs,
            outputs,
            gap_s=gap_s,
            prefix_tokens=shared * size,
            shared_blocks=shared,
            new_blocks=[offset + block for block in new],
        )


def _fields(place: str, request: Any) -> Mapping[str, Any]:
    if isinstance(request, dict):
        return request
    if not isinstance(request, list) or len(request) != len(_FIELDS):
        raise InputError(f"{place}: must be an object, or a list of {len(_FIELDS)} fields")
    return dict(zip(_FIELDS, request, strict=True))


def _seconds(place: str, fields: Mapping[str, Any], name: str) -> float:
    return float(time(place, fields, name, "seconds"))


def _blocks(place: str, fields: Mapping[str, Any], before: list[int]) -> tuple[int, list[int]]:
    """How many leading blocks are those of the request before, and the ids behind them."""
    if "runs" not in fields:
        ids = block_ids(place, fields, "hash_ids")
        shared = common_prefix(before, ids)
        return shared, ids[shared:]
    shared, runs = fields["shared"], fields["runs"]
    if not is_number(shared, int) or not 0 <= shared <= len(before):
        expected = f"a whole number to {len(before)}, the blocks of the request before"
        raise bad_field(place, fields, "shared", expected)
    if not isinstance(runs, list) or not all(_is_run(run) for run in runs):
        raise bad_field(place, fields, "runs", "a list of [first id, count]")
    return shared, [block for first, count in runs for block in range(first, first + count)]


def _is_run(run: Any) -> bool:
    return (
        isinstance(run, list)
        and len(run) == 2
        and all(is_number(value, int) and value >= 0 for value in run)
        and run[0] < 10**15
        and run[1] <= _MOST_BLOCKS
    )
