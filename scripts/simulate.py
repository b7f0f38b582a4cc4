"""``pagewave simulate``: the RTL reads page waves and shows what arrives."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hw.errors import InputError
from hw.params import PRESETS, TOPOLOGIES, Machine, Sensing, preset, topology
from perfmodel.files import check_writable
from scripts import console
from scripts.generate import Json
from tb.reads import ROUTES, ReadResult, ReadRun, read, with_pairs
from tb.simulator import Simulator

ICARUS_WAVE_PAGES = 512


def simulate(
    topology_name: Annotated[
        str, typer.Option("--topology", help=f"Links of the package: {', '.join(TOPOLOGIES)}.")
    ],
    preset_name: Annotated[str, typer.Option("--preset", help=f"Machine: {', '.join(PRESETS)}.")],
    route: Annotated[
        str,
        typer.Option(
            help=f"Path of the reads: {', '.join(ROUTES)}. dual alternates and lets both paths "
            "finish together; auto leaves it to the router."
        ),
    ],
    waves: Annotated[int, typer.Option(help="Page waves to read from every HBF stack.")],
    pairs: Annotated[int, typer.Option(help="HBM/HBF stack pairs, all alike.")] = 1,
    t_read_us: Annotated[
        float | None, typer.Option(help="Sensing time tR, in microseconds.")
    ] = None,
    tsv_tbps: Annotated[float | None, typer.Option(help="TSV rate of a stack, in TB/s.")] = None,
    link_tbps: Annotated[
        float | None, typer.Option(help="Usable rate of each link, in TB/s.")
    ] = None,
    sense: Annotated[
        str | None,
        typer.Option(help=f"How subarrays start to sense: {', '.join(s.value for s in Sensing)}."),
    ] = None,
    cache_read: Annotated[
        bool,
        typer.Option(
            "--cache-read/--no-cache-read",
            help="Whether a subarray senses on while its last page waits for the TSVs.",
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of the addresses.")] = 1,
    waves_out: Annotated[
        Path | None,
        typer.Option(help="File for a waveform (VCD); saved views are left beside it."),
    ] = None,
    simulator: Annotated[
        str, typer.Option(help="verilator, or icarus for small presets.")
    ] = Simulator.VERILATOR.value,
    json: Json = False,
) -> None:
    """Run the RTL of base dies and package, and time what arrives at the GPU.

    Every byte is checked against the content of the NAND. The first run of a
    configuration builds its simulator, minutes at full size; later runs start
    at once.

    Try, and then with --route dual:

    pagewave simulate --topology dash --preset mini --route direct --waves 8
    """
    if waves_out is not None:
        check_writable("waves-out", waves_out)
    machine = _machine(preset_name, t_read_us, tsv_tbps, link_tbps, sense, cache_read)
    run = ReadRun(
        machine=machine,
        topology=with_pairs(topology(topology_name), pairs),
        route=route,
        waves=waves,
        seed=seed,
    )
    chosen = _simulator(simulator, machine)
    with console.err.status("building the simulator if it is new, then simulating ..."):
        result = read(run, simulator=chosen, waves=waves_out)
    if waves_out is not None:
        console.err.print(f"wrote {waves_out}")
    if json:
        console.print_json(result.as_json())
    else:
        console.out.print(simulate_report(result))
    if result.data_errors or result.violations:
        console.err.print("data is wrong or NAND rules were broken")
        raise typer.Exit(1)


def _machine(
    name: str,
    t_read_us: float | None,
    tsv_tbps: float | None,
    link_tbps: float | None,
    sense: str | None,
    cache_read: bool,
) -> Machine:
    modes = {mode.value: mode for mode in Sensing}
    if sense is not None and sense not in modes:
        raise InputError(f"sense {sense!r} is unknown: choose {', '.join(modes)}")
    return preset(name).with_registers(
        t_read_us=t_read_us,
        tsv_tbps=tsv_tbps,
        link_tbps=link_tbps,
        sensing=None if sense is None else modes[sense],
        cache_read=None if cache_read else False,
    )


def _simulator(name: str, machine: Machine) -> Simulator:
    try:
        simulator = Simulator(name)
    except ValueError:
        raise InputError(f"simulator {name!r} is unknown: choose {', '.join(Simulator)}") from None
    if simulator is Simulator.ICARUS and machine.geometry.wave_pages > ICARUS_WAVE_PAGES:
        raise InputError(
            f"simulator 'icarus' would take minutes for a page wave of preset {machine.name!r}: "
            "use verilator"
        )
    return simulator


def simulate_report(result: ReadResult) -> Table:
    """The result as a table, its bound beside it."""
    run = result.run
    paths = 2 if run.route in ("dual", "auto") else 1
    bound = run.machine.steady_bound_bytes_per_s(paths) * run.topology.pairs
    table = Table(
        title=f"{run.topology.name} with {run.topology.pairs} stack pair(s), {run.machine.name}, "
        f"{run.route}",
        show_header=False,
    )
    table.add_row("received", f"{result.bytes / 1e6:,.2f} MB")
    table.add_row("by path", f"Direct {result.bytes_direct:,} B, Relay {result.bytes_relay:,} B")
    table.add_row("first byte", f"{result.first_byte_ns:,.1f} ns after the request")
    if (steady := result.steady_bytes_per_s) is not None:
        table.add_row("steady rate", f"{steady / 1e12:.4f} TB/s")
        table.add_row(
            "bound of an endless run",
            f"{bound / 1e12:.4f} TB/s ({100 * steady / bound:.1f} % in this one)",
        )
    table.add_row("wrong beats", f"{result.data_errors}")
    table.add_row("broken NAND rules", f"{result.violations}")
    table.add_row("clocks", f"{result.cycles:,} at {result.clock_hz / 1e9:g} GHz")
    table.add_row(
        "simulated in", f"{result.wall_s:.2f} s, {result.cycles / result.wall_s:,.0f} clocks/s"
    )
    return table
