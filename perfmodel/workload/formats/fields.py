"""Checks of single fields that several formats share; errors name file, line and field."""

import json
from collections.abc import Mapping
from typing import Any

from hw.errors import InputError
from perfmodel.workload.trace import MOST_TOKENS

LENGTH = f"a whole number from 1 to {MOST_TOKENS}"
_MOST_ID = 10**15
_MOST_TIME = {"seconds": 1e12, "milliseconds": 1e15}


def json_object(where: str, line: str) -> dict[str, Any]:
    """The JSON object that ``line`` is.

    Raises:
        InputError: it is none.
    """
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not a JSON object ({error})") from None
    if not isinstance(entry, dict):
        raise InputError(f"{where}: not a JSON object")
    return entry


def tokens(where: str, entry: Mapping[str, Any], name: str, least: int = 1) -> int:
    """A number of tokens."""
    value: Any = entry.get(name)
    if not is_number(value, int) or not least <= value <= MOST_TOKENS:
        raise bad_field(where, entry, name, f"a whole number from {least} to {MOST_TOKENS}")
    return int(value)


def time(where: str, entry: Mapping[str, Any], name: str, unit: str) -> Any:
    """A time in seconds or milliseconds, not negative, as the number that the file has."""
    value: Any = entry.get(name)
    if not is_number(value) or not 0 <= value < _MOST_TIME[unit]:
        raise bad_field(where, entry, name, f"a time in {unit}")
    return value


def block_ids(where: str, entry: Mapping[str, Any], name: str) -> list[int]:
    """A list of block hashes."""
    ids = entry.get(name)
    if isinstance(ids, list) and all(is_number(i, int) and 0 <= i < _MOST_ID for i in ids):
        return ids
    raise bad_field(where, entry, name, f"a list of whole numbers from 0 to {_MOST_ID - 1}")


def is_number(value: Any, kind: type = float) -> bool:
    """Whether ``value`` is a whole number, or one of ``kind``; true and false are not."""
    return isinstance(value, int | kind) and not isinstance(value, bool)


def bad_field(where: str, entry: Mapping[str, Any], name: str, expected: str) -> InputError:
    """The error for a field that is missing or wrong."""
    if name not in entry:
        return InputError(f"{where}: {name} is missing: must be {expected}")
    found = repr(entry[name])
    shown = found if len(found) <= 60 else f"{found[:60]}..."
    return InputError(f"{where}: {name} is {shown}: must be {expected}")
