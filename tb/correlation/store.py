"""Times of the RTL, kept by trace, so that a correlation that was interrupted goes on."""

import dataclasses
import hashlib
import json
from functools import cache
from pathlib import Path

from hw.params import Topology
from hw.presets import preset
from hw.source import rtl_fingerprint
from perfmodel.files import write_atomically
from perfmodel.memory.twin import Times, Trace
from tb.play import design, play
from tb.simulator import Build, build
from tb.traces import times, trace_run

STAMPS = ("accepted", "first_beat", "last_beat", "done")


def rtl_times(trace: Trace, folder: Path, name: str) -> tuple[tuple[Times, ...], bool]:
    """What the RTL does with ``trace``: from ``folder`` if it is known, else played and kept.

    Returns:
        The times, and whether the RTL was played for them.

    Raises:
        InputError: the simulator is missing.
        BenchFailed: the run broke off.
        RuntimeError: a byte was wrong.
    """
    file, key = folder / f"{name}.json", _key(trace)
    kept = _kept(file, key)
    if kept is not None:
        return kept, False
    found = times(play(_simulation(trace.machine.name, trace.topology), trace_run(trace)))
    rows = [[getattr(t, stamp) for stamp in STAMPS] for t in found]
    write_atomically(file, json.dumps({"key": key, "stamps": STAMPS, "reads": rows}) + "\n")
    return found, True


@cache
def _simulation(preset_name: str, joined: Topology) -> Build:
    return build(design(preset(preset_name), joined))


def _kept(file: Path, key: str) -> tuple[Times, ...] | None:
    """Times in ``file`` if they are those of ``key``; another state of RTL or trace is no error."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(content, dict) or content.get("key") != key:
        return None
    return tuple(Times(**dict(zip(STAMPS, row, strict=True))) for row in content["reads"])


def _key(trace: Trace) -> str:
    """Of the RTL and all that it is asked."""
    asked = {
        "rtl": rtl_fingerprint(),
        "machine": trace.machine.fingerprint,
        "topology": dataclasses.asdict(trace.topology),
        "window_pages": trace.window_pages,
        "reads": [dataclasses.astuple(read) for read in trace.reads],
    }
    if trace.drain_whole_region:
        asked["drain_whole_region"] = True
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
