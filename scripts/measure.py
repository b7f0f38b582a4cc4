"""``pagewave measure``: experiments on the RTL, each beside its closed form."""

from pathlib import Path
from typing import Annotated

import rich.table
import typer

from hw.errors import InputError
from hw.presets import preset
from perfmodel.files import check_writable
from scripts import console
from scripts.generate import Json
from tb.calibration import CALIBRATED
from tb.measurements import EXPERIMENTS, find_pages, renew_page
from tb.measurements.report import Table


def measure(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(help=f"Of {', '.join(EXPERIMENTS)}; all of them if none is named."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the results, a JSON and a Markdown file each.")
    ] = Path("build/measure"),
    preset_name: Annotated[
        str,
        typer.Option("--preset", help=f"Machine: {', '.join(CALIBRATED)}; peers has its own."),
    ] = "paper",
    docs: Annotated[
        list[Path] | None,
        typer.Option(help="Page whose marked blocks take the new tables; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the addresses.")] = 1,
    json: Json = False,
) -> None:
    """Measure the RTL at full size, and set every figure beside its closed form.

    rates: steady read rates over TSV rate, paths, sensing and cache read.
    first-byte: first byte of one read over both routes. relay: rate and first byte
    of the relay path, with cut-through and early grants. peers: public models
    of HBF, the RTL on their geometries. programs: reads beside programs. experts:
    streams and random sets of experts. goodput: a UCIe link by itself, over format,
    transfer, pacer, round trip and errors. hbm: the HBM controller over patterns and
    queue depth. Status 1 if a steady rate lies more than 2 % from its closed form, that of
    a link 1 %, of the relay path 0.5 %, or a stream of experts more than 3 % below
    its bound.

    Try, to see how it works:

    pagewave measure first-byte --preset mini
    """
    if preset_name not in CALIBRATED:
        raise InputError(f"preset {preset_name!r}: measure takes {' or '.join(CALIBRATED)}")
    names = list(dict.fromkeys(experiments or EXPERIMENTS))
    for name in names:
        if name not in EXPERIMENTS:
            raise InputError(f"experiment {name!r} is unknown: choose {', '.join(EXPERIMENTS)}")
    pages = find_pages(docs, names) if docs else {}
    for page in docs or ():
        check_writable("docs", page)
    check_writable("out", out, folder=True)
    measured = []
    for name in names:
        console.err.print(f"[bold]{name} ...[/bold]")
        measurement = EXPERIMENTS[name](preset(preset_name), seed, _progress)
        measurement.write(out)
        measured.append(measurement)
        console.err.print(f"wrote {out / name}.json and {out / name}.md", soft_wrap=True)
        if not json:
            for table in measurement.tables:
                console.out.print(rich_table(table))
    for page in dict.fromkeys(pages.values()):
        renew_page(page, [m for m in measured if pages[m.name] == page])
        console.err.print(f"wrote {page}", soft_wrap=True)
    if json:
        console.print_json({m.name: m.as_json() for m in measured})
    misses = [f"{m.name}: {miss}" for m in measured for miss in m.misses]
    for miss in misses:
        console.err.print(f"off its closed form: {miss}", soft_wrap=True)
    if misses:
        raise typer.Exit(1)


def _progress(line: str) -> None:
    console.err.print(line, soft_wrap=True, highlight=False)


def rich_table(table: Table) -> rich.table.Table:
    """``table`` for the terminal."""
    shown = rich.table.Table(title=table.title)
    for k, column in enumerate(table.columns):
        shown.add_column(column, justify="left" if k < table.left else "right")
    for row in table.rows:
        shown.add_row(*(cell.replace("**", "").replace("`", "") for cell in row))
    return shown
