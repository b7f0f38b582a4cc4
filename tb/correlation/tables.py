"""A correlation as tables for readers."""

from dataclasses import dataclass
from typing import Any

from tb.measurements.report import Table

_COLUMNS = ("traces", "reads", "median %", "99th %", "largest %")


@dataclass(frozen=True)
class Section:
    """The block of a page that holds the tables, see :func:`tb.measurements.report.renew_page`."""

    totals: dict[str, Any]
    name: str = "correlation"

    def markdown(self) -> str:
        return "\n\n".join(table.markdown() for table in tables(self.totals))


def tables(totals: dict[str, Any]) -> tuple[Table, ...]:
    """Totals, the worst read, and the error by each parameter."""
    worst, stamps = totals["worst"], ("accepted", "first_beat", "last_beat", "done")
    groups = [
        (parameter, value, *_figures(row))
        for parameter, values in totals["groups"].items()
        for value, row in values.items()
    ]
    return (
        Table(
            title="Error of the twin, a read's completions apart over its time on the RTL",
            columns=(*_COLUMNS, "exact reads", "saturated traces", "full-size traces"),
            rows=(
                (
                    *_figures(totals),
                    f"{totals['exact']:,}",
                    f"{totals['saturated']:,}",
                    f"{totals['full_size']:,}",
                ),
            ),
            left=0,
        ),
        Table(
            title=f"The worst read, {worst['error_pct']:.4f} %: number {worst['read']} of "
            f"`{worst['trace']}`, in clocks",
            columns=("level", *(name.replace("_", " ") for name in stamps)),
            rows=tuple(
                (level, *(f"{worst[key][name]:,}" for name in stamps))
                for level, key in (("RTL", "rtl"), ("twin", "twin"))
            ),
        ),
        Table(
            title="Error by parameter",
            columns=("parameter", "value", *_COLUMNS),
            rows=tuple(groups),
            left=2,
        ),
    )


def _figures(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['traces']:,}",
        f"{row['n']:,}",
        *(f"{row[key]:.4f}" for key in ("median_pct", "p99_pct", "max_pct")),
    )
