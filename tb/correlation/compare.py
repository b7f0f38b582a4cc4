"""RTL and twin side by side: the error of every read of every trace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hw.source import rtl_fingerprint
from perfmodel.memory.twin import Times, Trace
from perfmodel.memory.twin.load import SATURATED, loads

Floats = npt.NDArray[np.float64]

MEDIAN_PCT, P99_PCT = 0.5, 2.0  # bounds of the error
SCHEMA = "pagewave.correlation/1"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One trace on both.

    Attributes:
        name: Of the trace.
        trace: The trace.
        rtl, twin: Times of each read.
    """

    name: str
    trace: Trace
    rtl: tuple[Times, ...]
    twin: tuple[Times, ...]

    @property
    def errors_pct(self) -> Floats:
        """Of each read, the difference of its completions over its time on the RTL."""
        done = np.array([t.done for t in self.rtl])
        other = np.array([t.done for t in self.twin])
        taken = done - np.array([t.accepted for t in self.rtl])
        return 100 * np.abs(other - done) / taken

    @property
    def exact(self) -> int:
        """Reads of which every stamp is the same: accepted, first and last beat, done."""
        return sum(a == b for a, b in zip(self.rtl, self.twin, strict=True))

    @property
    def loads(self) -> dict[str, float]:
        """How busy each resource was, see :func:`perfmodel.memory.twin.load.loads`."""
        return loads(self.trace, self.twin)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Pages of each read."""
        return np.array([read.pages for read in self.trace.reads])


def parameters(compared: Compared) -> dict[str, str]:
    """What a trace is grouped by."""
    trace, (preset, *joined, kind, _) = compared.trace, compared.name.split("-")
    nand = trace.machine.nand
    extra = [name for name in ("latch", "rr", "ccs", "plane_busy") if getattr(nand, f"t_{name}_ns")]
    waves = trace.window_pages / trace.machine.geometry.wave_pages / trace.topology.pairs
    return {
        "preset": preset,
        "topology": "-".join(joined),
        "kind": kind,
        "tR ns": f"{nand.t_read_ns:,.1f}",
        "TSV TB/s": f"{trace.machine.tsv.bytes_per_s / 1e12:.3f}",
        "link TB/s": f"{trace.machine.link.usable_bytes_per_s / 1e12:.3f}",
        "sensing": nand.sensing.value,
        "cache read": "on" if nand.cache_read else "off",
        "drain": "whole regions" if trace.drain_whole_region else "page by page",
        "further NAND times": ", ".join(extra) or "none",
        "window, waves": f"{waves:g}",
    }


def figures(errors_pct: Floats) -> dict[str, Any]:
    """Distribution of the errors of ``n`` reads."""
    return {
        "n": len(errors_pct),
        "median_pct": float(np.median(errors_pct)),
        "p99_pct": float(np.percentile(errors_pct, 99)),
        "max_pct": float(errors_pct.max()),
    }


def report(traces: Sequence[Compared]) -> dict[str, Any]:
    """Totals, the worst read, and the same figures for each value of each parameter.

    Raises:
        ValueError: no trace to report.
    """
    if not traces:
        raise ValueError("no trace was compared")
    worst = max(traces, key=lambda c: c.errors_pct.max())
    index = int(worst.errors_pct.argmax())
    groups: dict[str, dict[str, list[Compared]]] = {}
    for compared in traces:
        for parameter, value in parameters(compared).items():
            groups.setdefault(parameter, {}).setdefault(value, []).append(compared)
    return {
        "schema": SCHEMA,
        "rtl_fingerprint": rtl_fingerprint(),
        **figures(_errors(traces)),
        "exact": sum(c.exact for c in traces),
        "worst": {
            "trace": worst.name,
            "read": index,
            "error_pct": float(worst.errors_pct[index]),
            "rtl": _stamps(worst.rtl[index]),
            "twin": _stamps(worst.twin[index]),
        },
        "traces": len(traces),
        "full_size": sum(c.trace.machine.name == "paper" for c in traces),
        "saturated": sum(max(c.loads.values()) >= SATURATED for c in traces),
        "groups": {
            parameter: {
                value: {"traces": len(members), **figures(_errors(members))}
                for value, members in sorted(values.items())
            }
            for parameter, values in groups.items()
        },
    }


def misses(totals: dict[str, Any]) -> list[str]:
    """A line for each bound of the error that is not kept."""
    bounds = (("median_pct", MEDIAN_PCT), ("p99_pct", P99_PCT))
    return [
        f"{name} is {totals[name]:.3f}: must be {bound} at most"
        for name, bound in bounds
        if totals[name] > bound
    ]


def _errors(traces: Sequence[Compared]) -> Floats:
    return np.concatenate([c.errors_pct for c in traces])


def _stamps(times: Times) -> dict[str, int]:
    names = ("accepted", "first_beat", "last_beat", "done")
    return {name: getattr(times, name) for name in names}
