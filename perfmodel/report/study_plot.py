"""A serving study as a figure: throughput and tail latencies over load."""

from pathlib import Path

import matplotlib
import matplotlib.axes
import matplotlib.figure

from perfmodel.report.figures import STYLE, finish
from perfmodel.serving.study import StudyResult

_PANELS = (
    ("request_throughput", "Completed", "requests/s", 1.0),
    ("p90_ttft_ms", "P90 time to first token", "s", 1e-3),
    ("p90_tpot_ms", "P90 time per output token", "ms", 1.0),
    ("p90_e2el_ms", "P90 end to end", "s", 1e-3),
)
_COLORS = {
    "dash": "#1f6f8b",
    "compact": "#8ab17d",
    "relay-only": "#e07a5f",
    "direct-only": "#6d597a",
}
_LINES = ("-", "--", ":", "-.")


def plot_study(result: StudyResult, path: str | Path) -> Path:
    """Means over the streams with their intervals; a colour for each topology, a line for each
    policy. The format follows the suffix of ``path``.
    """
    policies = list(dict.fromkeys(row["policy"] for row in result.summary))
    topologies = list(dict.fromkeys(row["topology"] for row in result.summary))
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(15, 4.2), layout="constrained")
        for axes, (metric, title, unit, scale) in zip(figure.subplots(1, 4), _PANELS, strict=True):
            for line, policy in zip(_LINES, policies, strict=False):
                for topology in topologies:
                    _curve(axes, result, policy, topology, metric, scale, line)
            axes.set(title=title, ylabel=unit, xlabel="load")
            axes.set_ylim(bottom=0)
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(topologies))
        labels = result.labels
        title = (
            f"{labels['model']}, {labels['input_len']:,} + {labels['output_len']:,} tokens, "
            f"{Path(labels['timing']).name} timing; load 1 is "
            f"{labels['load_1_requests_per_s']:.3f} requests/s"
        )
        return finish(figure, title, path, dpi=160)


def _curve(
    axes: matplotlib.axes.Axes,
    result: StudyResult,
    policy: str,
    topology: str,
    metric: str,
    scale: float,
    line: str,
) -> None:
    case = (policy, topology, metric)
    rows = [r for r in result.summary if (r["policy"], r["topology"], r["metric"]) == case]
    rows.sort(key=lambda row: row["load"])
    axes.errorbar(
        [row["load"] for row in rows],
        [scale * row["mean"] for row in rows],
        yerr=[scale * (row["half_width"] or 0.0) for row in rows],
        color=_COLORS.get(topology, "#444444"),
        linestyle=line,
        marker="o",
        markersize=4,
        capsize=3,
        label=f"{topology}, {policy}",
    )
