"""``pagewave cells``: what the HBF base die is made of, counted by synthesis."""

from pathlib import Path
from typing import Annotated

import typer

from hw.errors import InputError
from hw.presets import preset
from perfmodel.files import check_writable
from scripts import console
from scripts.generate import Json
from scripts.measure import rich_table
from tb.measurements import find_pages, renew_page
from tb.synthesis.netlist import UnsynthesizableError
from tb.synthesis.report import BUILD, count_cells

COUNTED = ("mini", "paper")


def cells(
    preset_name: Annotated[
        str, typer.Option("--preset", help=f"Machine: {' or '.join(COUNTED)}, which takes minutes.")
    ],
    docs: Annotated[
        Path | None, typer.Option(help="Page whose block of that preset takes the new tables.")
    ] = None,
    json: Json = False,
) -> None:
    """Count the cells of the HBF base die, block by block, as Yosys makes them.

    Flip-flops, one-bit gates, bits of memories and of SRAM macros. Status 1
    if the die has a latch or a combinational loop. The netlist is left in
    build/cells.

    Try, to see how it works:

    pagewave cells --preset mini
    """
    if preset_name not in COUNTED:
        raise InputError(f"preset {preset_name!r}: cells takes {' or '.join(COUNTED)}")
    machine = preset(preset_name)
    if docs is not None:
        find_pages([docs], [machine.name])
        check_writable("docs", docs)
    folder = BUILD / machine.name
    check_writable("build", folder, folder=True)
    console.err.print(f"[bold]synthesizing {machine.name} ...[/bold]")
    try:
        found = count_cells(machine, folder)
    except UnsynthesizableError as error:
        console.err.print(f"the HBF base die has {error}", soft_wrap=True, markup=False)
        raise typer.Exit(1) from None
    if docs is not None:
        renew_page(docs, [found])
        console.err.print(f"wrote {docs}", soft_wrap=True)
    if json:
        console.print_json(found.as_json())
    else:
        for table in found.tables:
            console.out.print(rich_table(table))
    console.err.print(f"the netlist is {folder / 'mapped.il'}", soft_wrap=True, highlight=False)
