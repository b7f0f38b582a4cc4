"""Cells of the serving study as tables."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from perfmodel.agents.claims import Verdict
from perfmodel.agents.study import Cell

_COLUMNS = (
    ("time, s", "clock_s", 1.0, ",.0f"),
    ("device hits, %", "device_hits_pct", 1.0, ".1f"),
    ("host hits, %", "host_hits_pct", 1.0, ".1f"),
    ("HBM writes, TB", "hbm_written_bytes", 1e-12, ",.1f"),
    ("HBF writes, TB", "hbf_written_bytes", 1e-12, ",.1f"),
    ("HBF life, years", "lifetime_years", 1.0, ",.2f"),
    ("write amplification", "write_amplification", 1.0, ".2f"),
    ("energy, MJ", "energy_j", 1e-6, ",.2f"),
    ("TPOT, ms", "mean_tpot_ms", 1.0, ",.1f"),
    ("recomputed", "recomputed_tokens", 1.0, ",.0f"),
)


def cells_table(cells: list[Cell]) -> Table:
    """One row a cell."""
    table = Table()
    for name in ("architecture", "policy"):
        table.add_column(name, no_wrap=True)
    for name, *_ in _COLUMNS:
        table.add_column(name, justify="right")
    last = None
    for cell in cells:
        if last is not None and cell["architecture"] != last:
            table.add_section()
        last = cell["architecture"]
        table.add_row(last, cell["policy"], *(text for text in _texts(cell)))
    return table


def claims_table(found: list[Verdict]) -> Table:
    """Claim, paper, ours, verdict."""
    table = Table(title="claims of the paper, section 5.2")
    table.add_column("claim")
    for name in ("paper", "ours"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    for row in found:
        unit = f" {row.claim.unit}" if row.claim.unit else ""
        table.add_row(
            row.claim.text, f"{row.claim.paper:g}{unit}", f"{row.ours:.2f}{unit}", row.verdict
        )
    return table


def agents_report(title: str, cells: list[Cell], found: list[Verdict]) -> Group:
    """All tables of a study."""
    head, table = Text(title, style="bold"), cells_table(cells)
    return Group(head, table, claims_table(found)) if found else Group(head, table)


def agents_markdown(title: str, cells: list[Cell], found: list[Verdict]) -> str:
    """The same as Markdown."""
    names = ["architecture", "policy", *(name for name, *_ in _COLUMNS)]
    lines = [title, "", _row(names), _row(["---", "---", *("---:" for _ in _COLUMNS)])]
    lines += [_row([cell["architecture"], cell["policy"], *_texts(cell)]) for cell in cells]
    if found:
        lines += ["", _row(["claim", "paper", "ours", "verdict"]), "| --- | ---: | ---: | --- |"]
        for row in found:
            unit = f" {row.claim.unit}" if row.claim.unit else ""
            ours, paper = f"{row.ours:.2f}{unit}", f"{row.claim.paper:g}{unit}"
            lines.append(_row([row.claim.text, paper, ours, row.verdict]))
    return "\n".join(lines) + "\n"


def _texts(cell: Cell) -> list[str]:
    return [
        "-" if cell[key] is None else format(cell[key] * factor, form)
        for _, key, factor, form in _COLUMNS
    ]


def _row(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"
