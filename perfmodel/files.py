"""Writing files so that a reader never meets half of one."""

import contextlib
import os
import tempfile
from pathlib import Path

from hw.errors import InputError


def write_atomically(path: Path, text: str) -> None:
    """Replace ``path``, making its folder if need be: readers see the old file or the new one.

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(temporary, 0o644)  # mkstemp keeps the file to its owner
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def check_writable(name: str, path: Path, *, folder: bool = False) -> None:
    """Make the folder that will hold ``path``, or ``path`` itself, before long work begins.

    Args:
        name: The option that named it.
        path: File to be written, or with ``folder`` the folder for results.
        folder: Whether ``path`` is a folder.

    Raises:
        InputError: it cannot be written there.
    """
    place = path if folder else path.parent
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
        if not folder and path.is_dir():
            raise IsADirectoryError(None, "Is a directory")
    except OSError as error:
        reason = error.strerror
        raise InputError(f"{name} is {str(path)!r}: cannot be written: {reason}") from None
