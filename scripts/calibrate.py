"""``pagewave calibrate``: measure the RTL, write a timing record."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from perfmodel.files import check_writable
from perfmodel.memory.record import Observation, TimingRecord, save_record
from scripts import console
from scripts.generate import Json
from tb.calibration import CALIBRATED, calibrated
from tb.calibration import calibrate as measure


def calibrate(
    preset_name: Annotated[
        str, typer.Option("--preset", help=f"Machine: {', '.join(CALIBRATED)}.")
    ],
    out: Annotated[Path, typer.Option(help="File for the timing record (JSON).")],
    seed: Annotated[int, typer.Option(help="Seed of the addresses.")] = 1,
    json: Json = False,
) -> None:
    """Measure the memory timing of the RTL and write it as a timing record.

    A grid of read runs is simulated; first byte, steady rate and cost of a
    request are read back from the waveforms. serve and generate take a record of
    the full-size machine with --timing FILE, and refuse it once machine or RTL
    have changed.

    Try, to see how it works:

    pagewave calibrate --preset mini --out build/timing/mini.json
    """
    calibrated(preset_name)
    check_writable("out", out)
    console.err.print("building the simulator if it is new, minutes at full size ...")
    record = measure(preset_name, seed=seed, report=show_observation)
    save_record(record, out)
    console.err.print(f"wrote {out}", soft_wrap=True)
    if json:
        console.print_json(record.model_dump(mode="json", by_alias=True))
    else:
        console.out.print(calibrate_report(record))


def show_observation(number: int, runs: int, seen: Observation) -> None:
    """One line on stderr for each run of the grid."""
    console.err.print(
        f"{number:2} of {runs}: {seen.id}: first byte {seen.first_byte_ns:,.1f} ns, "
        f"steady {seen.steady_bytes_per_s / 1e12:.4f} TB/s",
        soft_wrap=True,
    )


def calibrate_report(record: TimingRecord) -> Table:
    """The fitted timing of each route."""
    table = Table(title=f"timing of one stack pair, {record.preset}")
    for column in ("route", "first byte ns", "steady TB/s", "per request ns", "residual %"):
        table.add_column(column, justify="left" if column == "route" else "right")
    for route, fit in record.fitted.items():
        table.add_row(
            route,
            f"{fit.first_byte_ns:,.1f}",
            f"{fit.steady_bytes_per_s / 1e12:.4f}",
            f"{fit.request_gap_ns:,.1f}",
            f"{fit.residual_pct:.2f}",
        )
    return table
