"""Reads the instants of a read run back from its waveform.

Nothing of what the RTL counts is used, only the handshakes at the GPU side: the first read that was
accepted, and every beat that was taken.
"""

import mmap
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from vcdvcd import VCDVCD

from hw.errors import InputError
from tb.reads import ReadRun

Cycles = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Instants:
    """When a run of reads did what, in nanoseconds of the waveform.

    Each instant is the start of the clock in which the handshake took place.
    """

    signals: tuple[str, ...]
    accepted_ns: float
    first_beat_ns: float
    wave_end_ns: tuple[float, ...]
    last_beat_ns: float
    beats: int


def read_instants(vcd: Path, run: ReadRun) -> Instants:
    """Find the accepted read, the beats and the ends of the page waves in ``vcd``.

    Args:
        vcd: Waveform that ``run`` left, see :func:`tb.reads.read`.
        run: What was run.

    Raises:
        InputError: the file lacks a signal, or shows no read or no data.
    """
    paths = [name for name in ("direct", "relay") if getattr(run.topology, name)]
    taken = [
        f"top.check_{path}{pair}.taken" for path in paths for pair in range(run.topology.pairs)
    ]
    accept = ["top.read__valid", "top.read__ready"]
    period_ps = round(1e12 / run.machine.clock_hz)
    highs = _highs(vcd, [*accept, *taken], period_ps)

    accepted = np.intersect1d(highs[accept[0]], highs[accept[1]])
    beats = np.sort(np.concatenate([highs[name] for name in taken]))
    if not len(accepted) or not len(beats):
        raise InputError(f"waveform {vcd}: shows no {'read' if not len(accepted) else 'data'}")
    wave_beats = run.wave_bytes // run.machine.link.beat_bytes
    to_ns = period_ps / 1e3
    return Instants(
        signals=(*accept, *taken),
        accepted_ns=float(accepted[0] * to_ns),
        first_beat_ns=float(beats[0] * to_ns),
        wave_end_ns=tuple(float(t) for t in beats[wave_beats - 1 :: wave_beats] * to_ns),
        last_beat_ns=float(beats[-1] * to_ns),
        beats=len(beats),
    )


def _highs(vcd: Path, names: list[str], period_ps: int) -> dict[str, Cycles]:
    """Clock numbers in which each of some one-bit signals is high."""
    with tempfile.NamedTemporaryFile(suffix=".vcd") as extract:
        end = _extract(vcd, set(names), Path(extract.name))
        waves = VCDVCD(extract.name)
    to_ps = float(waves.timescale["timescale"]) * 1e12
    highs = {}
    for name in names:
        changes = waves[name].tv
        times = np.array([t for t, _ in changes] + [end], np.int64)
        clocks = np.rint(times * to_ps / period_ps).astype(np.int64)
        spans = [
            np.arange(start, stop)
            for (_, value), start, stop in zip(changes, clocks[:-1], clocks[1:], strict=True)
            if value == "1"
        ]
        highs[name] = np.concatenate([*spans, np.empty(0, np.int64)]).astype(np.int64)
    return highs


def _extract(vcd: Path, names: set[str], into: Path) -> int:
    """Write a waveform of only the one-bit signals ``names``; return the end time of ``vcd``.

    A full-size run leaves hundreds of megabytes, of which a handful of signals is wanted.
    """
    try:
        if vcd.stat().st_size == 0:
            raise InputError(f"waveform {vcd}: is empty")
        with vcd.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return _extract_from(text, vcd, names, into)
    except OSError as error:
        raise InputError(f"waveform {vcd}: cannot be read ({error.strerror})") from None


def _extract_from(text: mmap.mmap, vcd: Path, names: set[str], into: Path) -> int:
    body = text.find(b"$enddefinitions")
    if body < 0:
        raise InputError(f"waveform {vcd}: has no $enddefinitions, so it is no VCD")
    codes: dict[str, bytes] = {}
    scopes: list[str] = []
    header: list[bytes] = []
    for line in text[:body].splitlines():
        words = line.split()
        match words[:1]:
            case [b"$scope"]:
                scopes.append(words[2].decode())
            case [b"$upscope"]:
                scopes.pop()
            case [b"$var"]:
                name = ".".join([*scopes, words[4].decode()])
                if name not in names or name in codes:
                    continue
                codes[name] = words[3]
        header.append(line)
    if missing := sorted(names - codes.keys()):
        raise InputError(f"waveform {vcd}: has no signal {missing[0]}")

    wanted = b"|".join(re.escape(code) for code in sorted(set(codes.values())))
    change = re.compile(rb"^(?:#(\d+)|[01xz](?:" + wanted + rb"))$", re.MULTILINE)
    time, written = b"0", b""
    with into.open("wb") as out:
        out.write(b"\n".join([*header, b"$enddefinitions $end", b""]))
        for found in change.finditer(text, body):
            if found[1] is not None:
                time = found[1]
                continue
            if time != written:
                out.write(b"#" + time + b"\n")
                written = time
            out.write(found[0] + b"\n")
    return int(time)
