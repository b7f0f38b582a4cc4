"""``pagewave kernel``: how long one GPU kernel takes, and how that is known."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hw.errors import InputError
from perfmodel.kernels import KERNELS, SOURCES, Kernel, KernelTime, kernel_named, kernel_source
from perfmodel.kernels.fits import load_fits
from perfmodel.kernels.peaks import PEAKS
from scripts import console
from scripts.generate import Json


def kernel(
    name: Annotated[str, typer.Argument(help=f"Kernel: {', '.join(KERNELS)}.")],
    shape: Annotated[
        list[str],
        typer.Argument(help="Its columns as COLUMN=VALUE, all of them: dtype=bf16 m=64 ..."),
    ],
    source: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(SOURCES)}, or the path of a profile: a CSV or a folder of them."
        ),
    ] = "fitted",
    gpu: Annotated[
        str | None, typer.Option(help=f"GPU: {', '.join(PEAKS)}; a profile knows its own.")
    ] = None,
    outside: Annotated[
        str, typer.Option(help="Where a profile has no measurements around: error or roofline.")
    ] = "error",
    fits: Annotated[
        Path | None,
        typer.Option(help="Fits written by `pagewave fit-kernels`, in place of those that ship."),
    ] = None,
    json: Json = False,
) -> None:
    """Time one kernel, from a roofline or from measurements.

    base: the constants of the serving model. fitted: rooflines fitted to published
    measurements. A profile is interpolated inside its measurements and nowhere
    else. The answer says what it rests on, how far from a measurement it is, and what
    errors points had that were left out.

    Try:

    pagewave kernel gemm dtype=bf16 m=64 n=8192 k=8192 --gpu h200
    """
    call = parse_call(name, shape)
    if fits is not None and source == "base":
        raise InputError(f"fits is {str(fits)!r}: goes with fitted or a profile, not with base")
    loaded = None if fits is None else load_fits(fits)
    chosen = kernel_source(source, gpu=gpu, fits=loaded, outside=outside, only=type(call))
    answer = chosen.time(call)
    if json:
        console.print_json({"kernel": str(call)} | answer.as_dict())
    else:
        console.out.print(kernel_report(call, answer))


def parse_call(name: str, shape: list[str]) -> Kernel:
    """A call from the words of the command line.

    Raises:
        InputError: a column is unknown, missing, there twice, or its value is unusable.
    """
    family = kernel_named(name)
    columns = family.columns()
    values: dict[str, str | int] = {}
    for word in shape:
        column, equals, text = word.partition("=")
        if not equals or column not in columns:
            raise InputError(f"shape {word!r}: must be COLUMN=VALUE with {', '.join(columns)}")
        if column in values:
            raise InputError(f"shape {word!r}: {column} is there twice")
        whole = text.isascii() and text.isdigit() and len(text) < 20
        values[column] = int(text) if whole and column not in family.LABELS else text
    missing = [column for column in columns if column not in values]
    if missing:
        raise InputError(f"shape: {missing[0]} is missing: {name} needs {', '.join(columns)}")
    return family(**values)


def kernel_report(call: Kernel, answer: KernelTime) -> Table:
    """The time and what it rests on."""
    table = Table(title=str(call), show_header=False)
    table.add_row("time", f"{1e6 * answer.seconds:,.3f} us")
    table.add_row("source", answer.source)
    table.add_row("status", answer.status)
    if answer.distance_octaves is not None:
        table.add_row("from a measurement", f"{answer.distance_octaves:.2f} octaves")
    if answer.median_error_pct is not None:
        table.add_row(
            "errors of left-out points",
            f"median {answer.median_error_pct:.1f} %, 90 % below {answer.p90_error_pct:.1f} %",
        )
    table.add_row("operations", f"{call.flops / 1e9:,.3f} GFLOP")
    table.add_row("bytes", f"{call.data_bytes / 1e6:,.3f} MB")
    table.add_row("provenance", answer.provenance)
    return table
