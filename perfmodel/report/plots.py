"""Figures for people."""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import matplotlib.axes
import matplotlib.figure
import numpy as np
import numpy.typing as npt

from hw.presets import TOPOLOGIES
from perfmodel.report.figures import STYLE, finish
from perfmodel.serving.fixed import GenerateResult

_TIMING_COLORS = ("#9db4c0", "#1f6f8b", "#e07a5f", "#6d597a")
_PATHS = (
    ("direct", "Direct: HBF to GPU", "#1f6f8b"),
    ("relay", "Relay: HBF via HBM base die", "#e07a5f"),
    ("hbm_local", "HBM to GPU", "#8ab17d"),
)


def plot_topologies(results: Sequence[GenerateResult], path: str | Path) -> Path:
    """Compare topologies: time per token, decode throughput, and bytes of a token by path.

    ``results`` are fixed batches of one model and one size, one for each pair of topology and
    timing; timings stand side by side. The format follows the suffix of ``path``.

    Raises:
        ValueError: nothing to plot, results of different models or sizes, or one missing.
    """
    cases = {(r.labels["topology"], r.labels["timing"]): r for r in results}
    topologies = [name for name in TOPOLOGIES if any(name == key[0] for key in cases)]
    timings = list(dict.fromkeys(str(r.labels["timing"]) for r in results))
    works = {(r.labels["model"], r.batch, r.input_len, r.output_len) for r in results}
    if len(works) != 1:
        raise ValueError("results must be of one model, batch, input and output length")
    if missing := [(a, b) for a in topologies for b in timings if (a, b) not in cases]:
        raise ValueError(f"no result for topology and timing {missing[0]}")
    model, batch, input_len, output_len = works.pop()
    grid = [[cases[topology, timing] for topology in topologies] for timing in timings]

    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(13, 4.9), layout="constrained")
        time, rate, moved = figure.subplots(1, 3)
        _bars(time, grid, timings, lambda r: 1e3 * r.tpot_s)
        time.set(title="Time per output token", ylabel="TPOT (ms)")
        _bars(rate, grid, timings, lambda r: r.decode_throughput)
        rate.set(title="Decode throughput", ylabel="throughput (tokens/s)")
        time.legend(title="memory timing", loc="upper left")
        _stacks(moved, grid, timings)
        moved.set(title="Bytes to the GPU, by path", ylabel="read in a decode pass (GB)")
        if len(timings) > 1:
            moved.set_xlabel(
                f"bars from left to right: {', '.join(map(_shown, timings))}", color="#666666"
            )
        for axes in (time, rate, moved):
            axes.set_xticks(np.arange(len(topologies)), topologies)
            axes.tick_params(axis="x", length=0)
            axes.margins(y=0.4)
        title = f"{model}, batch {batch}, {input_len:,} + {output_len:,} tokens"
        return finish(figure, title, path, dpi=160)


def _bars(
    axes: matplotlib.axes.Axes,
    grid: list[list[GenerateResult]],
    timings: list[str],
    value: Callable[[GenerateResult], float],
) -> None:
    """One group of bars for each topology, one bar for each timing, each with its number."""
    width = 0.8 / len(timings)
    for number, (timing, row) in enumerate(zip(timings, grid, strict=True)):
        heights = [value(result) for result in row]
        color = _TIMING_COLORS[number % len(_TIMING_COLORS)]
        bars = axes.bar(_places(number, timings, len(row)), heights, 0.94 * width, color=color)
        bars.set_label(_shown(timing))
        axes.bar_label(bars, fmt="{:.3g}", padding=2, fontsize=8, color="#444444")


def _stacks(
    axes: matplotlib.axes.Axes, grid: list[list[GenerateResult]], timings: list[str]
) -> None:
    """Bars of bytes by path, in the order of the timings."""
    width = 0.8 / len(timings)
    for number, row in enumerate(grid):
        places = _places(number, timings, len(row))
        bottom = np.zeros(len(row))
        for name, label, color in _PATHS:
            moved = [getattr(r.decode_traffic, name) / max(1, r.output_len - 1) / 1e9 for r in row]
            bars = axes.bar(places, moved, 0.94 * width, bottom=bottom, color=color)
            if number == 0:
                bars.set_label(label)
            bottom += moved
    axes.legend(loc="upper left")


def _places(number: int, timings: list[str], groups: int) -> npt.NDArray[np.float64]:
    width = 0.8 / len(timings)
    shift = number - (len(timings) - 1) / 2
    return np.arange(groups, dtype=np.float64) + shift * width


def _shown(timing: str) -> str:
    """A timing as people read it: a record by the name of its file."""
    return Path(timing).name
