"""A serving study as tables, the same for the terminal and for Markdown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from perfmodel.report.tables import kernel_lines
from perfmodel.serving.study import Row, StudyResult

_SHOWN = (
    ("request_throughput", "requests/s", 1.0, 3),
    ("p90_ttft_ms", "P90 TTFT s", 1e-3, 2),
    ("p99_ttft_ms", "P99 TTFT s", 1e-3, 2),
    ("p90_tpot_ms", "P90 TPOT ms", 1.0, 1),
    ("p95_tpot_ms", "P95 TPOT ms", 1.0, 1),
    ("p99_tpot_ms", "P99 TPOT ms", 1.0, 1),
    ("p90_e2el_ms", "P90 E2E s", 1e-3, 2),
    ("p99_e2el_ms", "P99 E2E s", 1e-3, 2),
)
_IN_TERMINAL = ("request_throughput", "p90_ttft_ms", "p90_tpot_ms", "p99_tpot_ms", "p90_e2el_ms")
_COMPARED = (("p90_ttft_ms", "TTFT"), ("p90_tpot_ms", "TPOT"), ("p90_e2el_ms", "E2E"))


@dataclass(frozen=True)
class Grid:
    """A table of text; ``words`` is the number of its first columns that are no numbers."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int


def study_grids(result: StudyResult, *, wide: bool) -> list[Grid]:
    """Saturation, latencies over load, and reductions against each other topology.

    ``wide`` has more percentiles than a terminal has room for.
    """
    return [_capacity(result), _latencies(result, wide), *_reductions(result)]


def study_report(result: StudyResult) -> Group:
    """For the terminal."""
    notes = "\n".join((_notes(result), *_kernels(result)))
    parts: list[Table | Text] = [Text(_heading(result), style="bold")]
    for grid in study_grids(result, wide=False):
        table = Table(title=grid.title)
        for number, name in enumerate(grid.head):
            table.add_column(name, justify="left" if number < grid.words else "right")
        for row in grid.rows:
            table.add_row(*row)
        parts.append(table)
    return Group(*parts, Text(notes, style="dim"))


def study_markdown(result: StudyResult) -> str:
    """For a file."""
    lines = [f"# {_heading(result)}", "", _notes(result)]
    lines += ["", *(f"- {line}" for line in _kernels(result))] if _kernels(result) else []
    for grid in study_grids(result, wide=True):
        ruler = ["---"] * grid.words + ["---:"] * (len(grid.head) - grid.words)
        lines += ["", f"## {grid.title}", ""]
        lines += [f"| {' | '.join(cells)} |" for cells in (grid.head, ruler, *grid.rows)]
    return "\n".join(lines) + "\n"


def _heading(result: StudyResult) -> str:
    labels = result.labels
    return f"Serving {labels['model']} over load, {labels['timing']} timing"


def _notes(result: StudyResult) -> str:
    v = result.labels
    return (
        f"{v['measured']:,} requests after {v['warmup']:,} of warm-up, {v['input_len']:,} + "
        f"{v['output_len']:,} tokens, {len(v['seeds'])} Poisson streams; load 1 is "
        f"{v['load_1_requests_per_s']:.4f} requests/s, RelayOnly's backlogged rate under Mixed. "
        f"At most {v['max_batch']} running, {v['token_budget']:,} tokens in a pass, chunks of "
        f"{v['chunk']:,}, {v['routing']} routing. Intervals: 95 %, Student's t over the streams. "
        f"GPU: {v['tp']} x {v['gpu']}, {v['gpu_kernels']}: {v['gpu_provenance']}. "
        f"Memory: {v['timing_provenance']}."
    )


def _kernels(result: StudyResult) -> list[str]:
    """What kernel times rest on, where they are not the constants of the model."""
    labels = result.labels
    return [] if labels["gpu_kernels"] == "base" else kernel_lines(labels["kernels"])


def _capacity(result: StudyResult) -> Grid:
    rows = [
        (
            row["policy"],
            row["topology"],
            f"{row['requests_per_s']:.4f}",
            f"{row['over_relay_only']:.3f}",
            f"{row['over_serial']:.3f}",
        )
        for row in result.capacity
    ]
    head = ("policy", "topology", "requests/s", "over relay-only", "over serial")
    return Grid("Saturation: throughput of a backlog", head, rows, 2)


def _latencies(result: StudyResult, wide: bool) -> Grid:
    shown = [column for column in _SHOWN if wide or column[0] in _IN_TERMINAL]
    cases: dict[tuple[str, float, str], dict[str, Row]] = {}
    for row in result.summary:
        case = (row["policy"], row["load"], row["topology"])
        cases.setdefault(case, {})[row["metric"]] = row
    rows = [
        (
            policy,
            f"{load:g}",
            topology,
            *(
                _spread(found[metric]["mean"], found[metric]["half_width"], scale, digits)
                for metric, _, scale, digits in shown
            ),
        )
        for (policy, load, topology), found in cases.items()
    ]
    head = ("policy", "load", "topology", *(label for _, label, _, _ in shown))
    return Grid("Latencies over load", head, rows, 3)


def _reductions(result: StudyResult) -> Iterator[Grid]:
    if not result.reductions:
        return
    cases: dict[tuple[str, float, str], dict[str, Row]] = {}
    for row in result.reductions:
        case = (row["policy"], row["load"], row["against"])
        cases.setdefault(case, {})[row["metric"]] = row
    rows = []
    for (policy, load, other), found in cases.items():
        cells = [policy, f"{load:g}", other]
        for metric, _ in _COMPARED:
            row = found[metric]
            cells.append(_spread(row["mean_pct"], row["half_width_pct"], 1.0, 1))
            cells.append(f"{row['least_pct']:.1f}")
        rows.append(tuple(cells))
    head = ["policy", "load", "against"]
    for _, label in _COMPARED:
        head += [f"P90 {label} %", "least"]
    first = result.reductions[0]["topology"]
    yield Grid(f"By how much {first} is lower, in pairs of one stream", tuple(head), rows, 3)


def _spread(mean: float, half_width: float | None, scale: float, digits: int) -> str:
    text = f"{scale * mean:.{digits}f}"
    return text if half_width is None else f"{text} ± {scale * half_width:.{digits}f}"
