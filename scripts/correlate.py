"""``pagewave correlate``: the same random traces on RTL and twin."""

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from hw.errors import InputError
from hw.presets import TOPOLOGIES
from perfmodel.files import check_writable, write_atomically
from perfmodel.report.correlation import Errors, plot_errors
from scripts import console
from scripts.generate import Json
from scripts.measure import rich_table
from tb.correlation import Compared, misses, names, report
from tb.correlation import correlate as compare
from tb.correlation.tables import Section, tables
from tb.measurements import find_pages, renew_page

DEFAULT_SEED = 100_000  # of traces that no test plays


def correlate(
    traces: Annotated[int, typer.Option(help="Traces of the small machine.")] = 500,
    full_size: Annotated[int, typer.Option(help="Traces of the full-size machine.")] = 20,
    topology_names: Annotated[
        str, typer.Option("--topologies", help=f"Of {', '.join(TOPOLOGIES)}, between commas.")
    ] = ",".join(TOPOLOGIES),
    full_size_topologies: Annotated[
        str, typer.Option(help="The same for the traces of the full-size machine.")
    ] = "dash",
    seed: Annotated[int, typer.Option(help="Of the first trace.")] = DEFAULT_SEED,
    docs: Annotated[
        Path | None, typer.Option(help="Page whose marked block takes the new tables.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("build/reports"),
    json: Json = False,
) -> None:
    """Play random traces of reads on the RTL and on its twin, and compare read by read.

    The error of a read is how far its two completions lie apart, over its time on
    the RTL. Leaves correlation.json, .md and .png. What the RTL did is kept beside
    them, trace by trace: a call that was interrupted goes on where it was. Status 1
    if the median is above 0.5 % or the 99th percentile above 2 %.

    Try, to see how it works:

    pagewave correlate --traces 8 --full-size 0 --topologies compact
    """
    wanted = []
    for preset_name, count, joined, option in (
        ("mini", traces, topology_names, "topologies"),
        ("paper", full_size, full_size_topologies, "full_size_topologies"),
    ):
        if count < 0:
            raise InputError(f"number of traces is {count!r}: must be 0 or more")
        if count:
            wanted += names(preset_name, _listed(option, joined), count=count, seed=seed)
    if not wanted:
        raise InputError("no trace is asked for: --traces and --full-size are both 0")
    if docs is not None:
        find_pages([docs], [Section.name])
        check_writable("docs", docs)
    check_writable("out", out, folder=True)
    console.err.print("building simulators that are new, minutes each at full size ...")

    def progress(name: str, compared: Compared, played: bool) -> None:
        load = max(compared.loads.values())
        console.err.print(
            f"{len(shown) + 1} of {len(wanted)}: {name}: {len(compared.rtl)} reads, largest error "
            f"{compared.errors_pct.max():.4f} %, load {load:.2f}{'' if played else ', kept'}",
            soft_wrap=True,
            highlight=False,
        )
        shown.append(name)

    shown: list[str] = []
    compared = compare(wanted, out / "correlation-traces", progress)
    totals = report(compared)
    write_atomically(out / "correlation.json", jsonlib.dumps(totals, indent=2) + "\n")
    section = Section(totals)
    write_atomically(out / "correlation.md", section.markdown() + "\n")
    plot_errors(
        [
            Errors(errors_pct=c.errors_pct, pages=c.sizes, load=max(c.loads.values()))
            for c in compared
        ],
        totals["groups"],
        out / "correlation.png",
    )
    console.err.print(f"wrote {out / 'correlation'}.json, .md and .png", soft_wrap=True)
    if docs is not None:
        renew_page(docs, [section])
        console.err.print(f"wrote {docs}", soft_wrap=True)
    if json:
        console.print_json(totals)
    else:
        for table in tables(totals):
            console.out.print(rich_table(table))
    missed = misses(totals)
    for miss in missed:
        console.err.print(f"off the RTL: {miss}", soft_wrap=True)
    if missed:
        raise typer.Exit(1)


def _listed(option: str, text: str) -> tuple[str, ...]:
    """Names of topologies between commas."""
    found = tuple(filter(None, (name.strip() for name in text.split(","))))
    for name in found:
        if name not in TOPOLOGIES:
            raise InputError(
                f"{option} has {name!r}, which is unknown: choose {', '.join(TOPOLOGIES)}"
            )
    if not found:
        raise InputError(f"{option} is empty: name at least one topology")
    return found
