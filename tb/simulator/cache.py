"""Directories under a key: made once, whole or absent."""

import dataclasses
import enum
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from hw.params import Machine


def populate(directory: Path, make: Callable[[Path], None]) -> bool:
    """Have ``make`` fill ``directory``, unless it is there; tell whether it was made now.

    ``make`` works in a scratch directory that is renamed when it is complete, so that a directory
    of that name is whole or absent. Processes that want the same one wait for each other.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(directory.with_name(f"{directory.name}.lock")):
        if directory.exists():
            return False
        scratch = Path(tempfile.mkdtemp(prefix=".", dir=directory.parent))
        try:
            make(scratch)
            scratch.rename(directory)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return True


def digest(*parts: object) -> str:
    """Short hash over values that :func:`json.dumps` takes, and files, whose bytes count."""
    hasher = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            hasher.update(part.read_bytes())
        else:
            hasher.update(json.dumps(part, sort_keys=True, default=_plain).encode())
        hasher.update(b"\0")
    return hasher.hexdigest()[:16]


def _plain(value: object) -> object:
    match value:
        case Machine():
            return value.fingerprint
        case enum.Enum():
            return f"{type(value).__qualname__}.{value.name}"
        case type():
            return f"{value.__module__}.{value.__qualname__}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, range):
        return repr(value)
    raise TypeError(f"a design parameter of type {type(value).__name__} cannot be part of a key")
