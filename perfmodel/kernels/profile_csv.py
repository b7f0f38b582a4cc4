"""Measured kernel latencies as CSV: the one format of all tables, whoever measured them.

A file holds one kernel on one GPU, from one source::

    # pagewave-profile: 1
    # kernel: gemm
    # gpu: h200
    # source: who measured, with which engine and version
    dtype,m,n,k,latency_us
    bf16,1,4096,4096,11.2

A *profile* is such a file, or a folder of them for one GPU. Latencies are those of a kernel that is
launched without waiting for the host, in microseconds.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hw.errors import InputError
from perfmodel.files import write_atomically
from perfmodel.kernels.queries import MOST, Kernel, check_word, kernel_named

VERSION = "1"
LATENCY = "latency_us"
_HEAD = ("pagewave-profile", "kernel", "gpu", "source")
_LONGEST_US = 1e9


@dataclass(frozen=True)
class Measurement:
    """One row: a kernel call and how long it took."""

    kernel: Kernel
    latency_us: float


@dataclass(frozen=True, kw_only=True)
class ProfileFile:
    """One file of measurements."""

    kernel: type[Kernel]
    gpu: str
    source: str
    rows: tuple[Measurement, ...]


def read_profile(path: str | Path, only: type[Kernel] | None = None) -> list[ProfileFile]:
    """All files of a profile; ``path`` is a CSV or a folder of them.

    Args:
        path: the profile.
        only: a kernel; the measurements of others are left out, and not looked at.

    Raises:
        InputError: a file is unreadable or malformed (names file and line), the folder has none,
            or two files hold the same kernel or are of different GPUs.
    """
    path = Path(path)
    files = sorted(path.glob("*.csv")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: the folder holds no .csv file: must hold a profile")
    read = [_read(file, only) for file in files]
    seen: dict[str, Path] = {}
    for file, profile in zip(files, read, strict=True):
        other = seen.setdefault(profile.kernel.NAME, file)
        if other is not file:
            raise InputError(f"{file}: kernel {profile.kernel.NAME!r} is also in {other.name}")
        if profile.gpu != read[0].gpu:
            raise InputError(f"{file}: gpu is {profile.gpu!r}: {files[0].name} is {read[0].gpu!r}")
    return read


def write_profile_file(path: Path, profile: ProfileFile) -> None:
    """Write one file, as ``read_profile`` reads it.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    text = io.StringIO()
    values = (VERSION, profile.kernel.NAME, profile.gpu, profile.source)
    for name, value in zip(_HEAD, values, strict=True):
        text.write(f"# {name}: {value}\n")
    writer = csv.writer(text, lineterminator="\n")
    columns = profile.kernel.columns()
    writer.writerow((*columns, LATENCY))
    for row in profile.rows:
        shape = (getattr(row.kernel, name) for name in columns)
        writer.writerow((*shape, f"{row.latency_us:.6g}"))
    write_atomically(path, text.getvalue())


def _read(path: Path, only: type[Kernel] | None) -> ProfileFile:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot read the profile: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text: must be a profile") from None
    head = dict(_head(path, lines))
    if head["pagewave-profile"] != VERSION:
        raise InputError(
            f"{path}:1: pagewave-profile is {head['pagewave-profile']!r}: must be {VERSION}"
        )
    try:
        kernel = kernel_named(head["kernel"])
    except InputError as error:
        raise InputError(f"{path}:2: {error}") from None
    columns = (*kernel.columns(), LATENCY)
    found = lines[len(_HEAD)] if len(lines) > len(_HEAD) else ""
    if tuple(found.split(",")) != columns:
        raise InputError(
            f"{path}:{len(_HEAD) + 1}: columns are {found!r}: must be {','.join(columns)}"
        )
    wanted = only in (None, kernel)
    rows = tuple(_rows(path, lines[len(_HEAD) + 1 :], kernel)) if wanted else ()
    if wanted and not rows:
        raise InputError(f"{path}: the profile holds no measurement")
    return ProfileFile(kernel=kernel, gpu=head["gpu"], source=head["source"], rows=rows)


def _head(path: Path, lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, name in enumerate(_HEAD, 1):
        line = lines[number - 1] if len(lines) >= number else ""
        key, _, value = line.removeprefix("#").partition(":")
        if not line.startswith("#") or key.strip() != name or not value.strip():
            raise InputError(f"{path}:{number}: line is {line!r}: must be '# {name}: ...'")
        yield name, value.strip()


def _rows(path: Path, lines: Iterable[str], kernel: type[Kernel]) -> Iterator[Measurement]:
    seen: dict[Kernel, int] = {}
    columns = kernel.columns()
    for number, line in enumerate(lines, len(_HEAD) + 2):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(columns) + 1:
            raise InputError(f"{where}: {len(cells)} fields: must be {len(columns) + 1}")
        values: dict[str, str | int] = {}
        for name, cell in zip(columns, cells, strict=False):
            if name in kernel.LABELS:
                try:
                    check_word(kernel.NAME, name, cell)
                except InputError as error:
                    raise InputError(f"{where}: {error}") from None
                values[name] = cell
            else:
                values[name] = _whole(where, name, cell)
        call = kernel(**values)
        if call in seen:
            raise InputError(f"{where}: the same shape is on line {seen[call]}: must be there once")
        seen[call] = number
        yield Measurement(call, _latency(where, cells[-1]))


def _whole(where: str, name: str, cell: str) -> int:
    digits = cell.isascii() and cell.isdigit() and len(cell) <= len(str(MOST))
    if not digits or not 1 <= int(cell) <= MOST:
        raise InputError(f"{where}: {name} is {cell!r}: must be a whole number from 1")
    return int(cell)


def _latency(where: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 < value <= _LONGEST_US:
        raise InputError(f"{where}: {LATENCY} is {cell!r}: must be a time in microseconds above 0")
    return value
