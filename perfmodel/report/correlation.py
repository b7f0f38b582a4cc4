"""The errors of the twin as a figure: against size, load and parameter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.axes
import matplotlib.figure
import numpy as np
import numpy.typing as npt

from perfmodel.report.figures import STYLE, finish

Floats = npt.NDArray[np.float64]

_LEAST_PCT = 0.01  # where the logarithmic scale begins: below lies zero
_BOUNDS = ((0.5, "bound of the median"), (2.0, "bound of the 99th percentile"))


@dataclass(frozen=True, kw_only=True)
class Errors:
    """The errors of one trace.

    Attributes:
        errors_pct: Of each read.
        pages: Of each read.
        load: Busy share of the busiest resource of the trace.
    """

    errors_pct: Floats
    pages: npt.NDArray[np.int64]
    load: float


def plot_errors(
    traces: Sequence[Errors], groups: Mapping[str, Mapping[str, Mapping[str, Any]]], path: Path
) -> Path:
    """Errors of all reads against their size and against load, and by parameter.

    Args:
        traces: One a trace.
        groups: By parameter and value, ``median_pct``, ``p99_pct`` and ``max_pct``.
        path: File, whose suffix says the format.

    Raises:
        ValueError: there is no trace.
    """
    if not traces:
        raise ValueError("no trace to plot")
    errors = np.concatenate([trace.errors_pct for trace in traces])
    pages = np.concatenate([trace.pages for trace in traces])
    load = np.concatenate([np.full(len(trace.pages), trace.load) for trace in traces])
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(14, 9), layout="constrained")
        places = figure.subplot_mosaic([["size", "load"], ["value", "value"]])
        size, busy, by_value = places["size"], places["load"], places["value"]
        _points(size, pages, errors)
        size.set(title="by size", xlabel="pages of a read", xscale="log")
        _points(busy, load, errors)
        busy.set(title="by load", xlabel="busy share of the busiest resource of its trace")
        _values(by_value, groups)
        by_value.set(title="by parameter: median, 99th percentile, largest")
        for axes in (size, busy, by_value):
            axes.set_yscale("symlog", linthresh=_LEAST_PCT)
            axes.set_ylim(-_LEAST_PCT / 5, max(5.0, 1.5 * float(errors.max())))
            axes.set_ylabel("error (%)")
            for bound, label in _BOUNDS:
                axes.axhline(bound, color="#999999", linewidth=0.8, linestyle="--")
                axes.annotate(
                    label, (1, bound), xycoords=("axes fraction", "data"), ha="right",
                    va="bottom", fontsize=7, color="#777777",
                )  # fmt: skip
        title = f"Completion of {len(errors):,} reads of {len(traces)} traces, twin against RTL"
        return finish(figure, title, path, dpi=140)


def _points(axes: matplotlib.axes.Axes, x: npt.NDArray[Any], errors: Floats) -> None:
    axes.scatter(x, errors, s=6, alpha=0.4, color="#1f6f8b", linewidths=0)


def _values(
    axes: matplotlib.axes.Axes, groups: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> None:
    """Three marks for each value of each parameter."""
    labels, rows = [], []
    for parameter, values in groups.items():
        for value, row in values.items():
            labels.append(f"{parameter}: {value}")
            rows.append([row[key] for key in ("median_pct", "p99_pct", "max_pct")])
    places = np.arange(len(rows))
    table = np.array(rows)
    for k, (mark, color) in enumerate((("_", "#1f6f8b"), ("o", "#e07a5f"), ("^", "#6d597a"))):
        axes.scatter(places, table[:, k], marker=mark, s=22, color=color)
    axes.set_xticks(places, labels, rotation=90, fontsize=7)
