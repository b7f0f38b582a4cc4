"""``pagewave simulate``: the RTL reads page waves and shows what arrives."""

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hw.errors import InputError
from hw.params import Machine, Sensing, ns
from hw.presets import PRESETS, TOPOLOGIES, preset, topology
from hw.ucie.transaction import ADDRESS_UNIT_BYTES
from perfmodel.files import check_writable
from scripts import console
from scripts.generate import Json
from tb.play import read
from tb.read_result import ReadResult
from tb.reads import ROUTES, ReadRun, with_pairs
from tb.settings import Faults, Modes
from tb.simulator import Simulator
from tb.writes import WriteRequest, kv_writes

ICARUS_WAVE_PAGES = 512
DRAINS = ("page", "region")
WRITERS = {"gpu": "write", "hbm": "writeback"}
# Panels of the help text.
READS, WRITES, NAND, FAULTS = "Reads", "Writes", "NAND times", "Faults"


Topology = Annotated[
    str, typer.Option("--topology", help=f"Links of the package: {', '.join(TOPOLOGIES)}.")
]
Preset = Annotated[str, typer.Option("--preset", help=f"Machine: {', '.join(PRESETS)}.")]
Route = Annotated[
    str,
    typer.Option(
        help=f"Path of the reads: {', '.join(ROUTES)}. dual alternates and lets both paths finish "
        "together; auto leaves it to the router."
    ),
]


def _time(what: str) -> Any:
    return typer.Option(help=what, rich_help_panel=NAND)


def simulate(
    topology_name: Topology,
    preset_name: Preset,
    route: Route,
    waves: Annotated[int, typer.Option(help="Page waves to read from every HBF stack.")],
    pairs: Annotated[int, typer.Option(help="HBM/HBF stack pairs, all alike.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the addresses.")] = 1,
    waves_out: Annotated[
        Path | None,
        typer.Option(help="File for a waveform (VCD); saved views are left beside it."),
    ] = None,
    simulator: Annotated[
        str, typer.Option(help="verilator, or icarus for small presets.")
    ] = Simulator.VERILATOR.value,
    json: Json = False,
    tsv_tbps: Annotated[float | None, typer.Option(help="TSV rate of a stack, in TB/s.")] = None,
    link_tbps: Annotated[
        float | None, typer.Option(help="Usable rate of each link, in TB/s.")
    ] = None,
    read_bytes: Annotated[
        int,
        typer.Option(
            help="Size of each read, in bytes: a multiple of 64 below a page is a small read, "
            "anywhere in its page; whole pages otherwise. 0 for a quarter of a wave.",
            rich_help_panel=READS,
        ),
    ] = 0,
    scatter: Annotated[
        bool, typer.Option("--scatter", help="Reads start at random pages.", rich_help_panel=READS)
    ] = False,
    read_planes: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:END", help="Reads keep to these planes.", rich_help_panel=READS
        ),
    ] = None,
    sense: Annotated[
        str | None,
        typer.Option(
            help=f"How subarrays start to sense: {', '.join(s.value for s in Sensing)}.",
            rich_help_panel=READS,
        ),
    ] = None,
    cache_read: Annotated[
        bool,
        typer.Option(
            "--cache-read/--no-cache-read",
            help="Whether a subarray senses on while its last page waits for the TSVs.",
            rich_help_panel=READS,
        ),
    ] = True,
    drain: Annotated[
        str,
        typer.Option(
            help=f"What leaves together: {', '.join(DRAINS)}.",
            rich_help_panel=READS,
        ),
    ] = DRAINS[0],
    stall: Annotated[
        int,
        typer.Option(
            help="Of 256 clocks, how many the consumers are not ready.",
            rich_help_panel=FAULTS,
            min=0,
            max=255,
        ),
    ] = 0,
    write_waves: Annotated[
        int,
        typer.Option(help="Page waves of KV to write beside the reads.", rich_help_panel=WRITES),
    ] = 0,
    write_planes: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:END", help="Writes keep to these planes.", rich_help_panel=WRITES
        ),
    ] = None,
    write_from: Annotated[
        str,
        typer.Option(
            help="gpu: prefill writes over link A; hbm: writeback over link C.",
            rich_help_panel=WRITES,
        ),
    ] = "gpu",
    writes_first: Annotated[
        bool,
        typer.Option(
            "--writes-first",
            help="Read what was written, when it is.",
            rich_help_panel=WRITES,
        ),
    ] = False,
    rewrite: Annotated[
        bool,
        typer.Option(
            "--rewrite",
            help="Write all of it twice; the second time erases the blocks first.",
            rich_help_panel=WRITES,
        ),
    ] = False,
    trim: Annotated[
        bool,
        typer.Option(
            "--trim",
            help="Give the pages up in the end; full blocks are then erased in the background.",
            rich_help_panel=WRITES,
        ),
    ] = False,
    hold_until_programmed: Annotated[
        bool,
        typer.Option(
            "--hold-until-programmed",
            help="Written pages keep their SRAM until they are programmed.",
            rich_help_panel=WRITES,
        ),
    ] = False,
    suspend: Annotated[
        bool,
        typer.Option(
            "--suspend",
            help="Programs and erases are suspended for reads that wait.",
            rich_help_panel=WRITES,
        ),
    ] = False,
    suspend_slice_us: Annotated[
        float | None,
        typer.Option(help="Least time between suspends.", rich_help_panel=WRITES),
    ] = None,
    t_read_us: Annotated[float | None, _time("tR: sensing, in microseconds.")] = None,
    t_program_us: Annotated[float | None, _time("tPROG, in microseconds.")] = None,
    t_erase_us: Annotated[float | None, _time("tBERS, in microseconds.")] = None,
    t_suspend_us: Annotated[float | None, _time("SUSPEND to its effect, in microseconds.")] = None,
    t_latch_ns: Annotated[float | None, _time("tRCBSY: data to cache register.")] = None,
    t_wb_ns: Annotated[float | None, _time("tWB: PROGRAM or ERASE to STATUS.")] = None,
    t_rr_ns: Annotated[float | None, _time("tRR: cache register to its first beat.")] = None,
    t_adl_ns: Annotated[float | None, _time("tADL: LOAD to its first beat.")] = None,
    t_ccs_ns: Annotated[float | None, _time("tCCS: between subarrays on a TSV lane.")] = None,
    t_plane_busy_ns: Annotated[float | None, _time("tPLxBSY: between commands to a plane.")] = None,
    fail_programs: Annotated[
        int,
        typer.Option(help="Of 256 programs, how many fail on average.", rich_help_panel=FAULTS),
    ] = 0,
    fail_program_at: Annotated[
        int,
        typer.Option(
            help="Number of the one program that fails; 0 for none.", rich_help_panel=FAULTS
        ),
    ] = 0,
    fail_erases: Annotated[
        int,
        typer.Option(help="Of 256 erases, how many fail on average.", rich_help_panel=FAULTS),
    ] = 0,
    ecc_beats: Annotated[
        int,
        typer.Option(
            help="Of the beats stored first, how many get wrong bits.", rich_help_panel=FAULTS
        ),
    ] = 0,
    ecc_bits: Annotated[
        str,
        typer.Option(
            metavar="BIT[,BIT]",
            help="Which bit of their first word, 0 to 71; two make it uncorrectable.",
            rich_help_panel=FAULTS,
        ),
    ] = "0",
) -> None:
    """Run the RTL of base dies and package, and time what arrives at the GPU.

    Every byte is checked against the content of the NAND. The first run of a
    configuration builds its simulator, minutes at full size; later runs start
    at once. Status 1 if data is wrong without a reason that was asked for, or
    NAND rules are broken.

    Try, and then with --route dual:

    pagewave simulate --topology dash --preset mini --route direct --waves 8
    """
    if waves_out is not None:
        check_writable("waves-out", waves_out)
    times = {
        "t_read": _ns(t_read_us), "t_program": _ns(t_program_us), "t_erase": _ns(t_erase_us),
        "t_suspend": _ns(t_suspend_us), "t_latch": t_latch_ns, "t_wb": t_wb_ns, "t_rr": t_rr_ns,
        "t_adl": t_adl_ns, "t_ccs": t_ccs_ns, "t_plane_busy": t_plane_busy_ns,
    }  # fmt: skip
    machine = _machine(preset_name, times, tsv_tbps, link_tbps, sense, cache_read)
    if drain not in DRAINS:
        raise InputError(f"drain {drain!r} is unknown: choose {', '.join(DRAINS)}")
    if write_from not in WRITERS:
        raise InputError(f"write-from {write_from!r} is unknown: choose {', '.join(WRITERS)}")
    writes: tuple[WriteRequest, ...] = ()
    if write_waves:
        planes = _planes("write-planes", write_planes, machine)
        writes = kv_writes(
            machine, waves=write_waves, planes=planes, port=WRITERS[write_from], rewrite=rewrite,
            trim=trim,
        )  # fmt: skip
    elif write_waves < 0 or rewrite or trim or writes_first:
        raise InputError(
            f"write-waves is {write_waves!r}: must be at least 1 for --rewrite, --trim and "
            "--writes-first"
        )
    pages = _pages(read_bytes, machine)
    run = ReadRun(
        machine=machine,
        topology=with_pairs(topology(topology_name), pairs),
        route=route,
        waves=waves,
        scatter=scatter,
        seed=seed,
        stall=(stall, stall),
        planes=_planes("read-planes", read_planes, machine),
        writes=writes,
        writes_first=writes_first,
        modes=Modes(
            drain_whole_region=drain == "region",
            hold_until_programmed=hold_until_programmed,
            suspend=suspend,
            suspend_slice_us=suspend_slice_us,
        ),
        faults=Faults(
            programs=fail_programs,
            program_at=fail_program_at,
            erases=fail_erases,
            ecc_beats=ecc_beats,
            ecc_bits=_bits(ecc_bits),
        ),
        request_pages=pages,
        piece_bytes=0 if pages else read_bytes,
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
    if result.unexpected:
        console.err.print("data is wrong or NAND rules were broken")
        raise typer.Exit(1)


def _ns(time_us: float | None) -> float | None:
    return None if time_us is None else ns(time_us)


def _machine(
    name: str,
    times_ns: dict[str, float | None],
    tsv_tbps: float | None,
    link_tbps: float | None,
    sense: str | None,
    cache_read: bool,
) -> Machine:
    modes = {mode.value: mode for mode in Sensing}
    if sense is not None and sense not in modes:
        raise InputError(f"sense {sense!r} is unknown: choose {', '.join(modes)}")
    machine = preset(name).with_registers(
        tsv_tbps=tsv_tbps,
        link_tbps=link_tbps,
        sensing=None if sense is None else modes[sense],
        cache_read=None if cache_read else False,
    )
    given: dict[str, Any] = {
        f"{name}_ns": value for name, value in times_ns.items() if value is not None
    }
    return dataclasses.replace(machine, nand=dataclasses.replace(machine.nand, **given))


def _planes(name: str, text: str | None, machine: Machine) -> range:
    """A range of planes, all of them by default."""
    planes = machine.geometry.planes
    if text is None:
        return range(planes)
    found = re.fullmatch(r"(\d+):(\d+)", text)
    if found is None or not int(found[1]) < int(found[2]) <= planes:
        raise InputError(f"{name} is {text!r}: must be FIRST:END within 0:{planes}")
    return range(int(found[1]), int(found[2]))


def _pages(read_bytes: int, machine: Machine) -> int:
    """Whole pages of a read; zero if it is smaller, or its size is left open."""
    page = machine.geometry.page_bytes
    if read_bytes < 0 or read_bytes % (page if read_bytes >= page else ADDRESS_UNIT_BYTES):
        raise InputError(
            f"read-bytes is {read_bytes!r}: must be a multiple of {ADDRESS_UNIT_BYTES} below a "
            f"page, or whole pages of {page}"
        )
    return read_bytes // page


def _bits(text: str) -> tuple[int, ...]:
    if re.fullmatch(r"\d+(,\d+)?", text) is None:
        raise InputError(f"ecc-bits is {text!r}: must be one or two numbers, as 5 or 5,9")
    return tuple(int(bit) for bit in text.split(","))


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
    if (filled := result.fill.steady_bytes_per_s()) is not None:
        table.add_row("steady rate of the TSVs", f"{filled / 1e12:.4f} TB/s into the regions")
    table.add_row("wrong beats", f"{result.data_errors}")
    table.add_row(
        "broken NAND rules", f"{result.violations} {', '.join(result.broken_rules)}".rstrip()
    )
    counters = result.counters
    waits = {name: counters[f"blocked_{name}"] for name in ("die", "plane", "sram", "path")}
    table.add_row(
        "pages wait for", ", ".join(f"{name} {count:,}" for name, count in waits.items())
        + " die-clocks",
    )  # fmt: skip
    if run.writes:
        writes = result.writes
        end_us = (writes.end - writes.begin) / result.clock_hz * 1e6
        table.add_row(
            "writes",
            f"{counters['pages_programmed']:,} pages in {end_us:,.1f} us, "
            f"{writes.page_failures} pages and {writes.refused} requests answered with a status",
        )
        table.add_row(
            "erases",
            f"{counters['erases']} blocks, {counters['collected']} of them in the background",
        )
        table.add_row("suspends", f"{counters['suspends']:,}")
    if run.faults.ecc_beats:
        table.add_row(
            "SRAM words",
            f"{result.corrected} corrected, {result.uncorrected} not; {result.poisoned} reads "
            "poisoned",
        )
    table.add_row("clocks", f"{result.cycles:,} at {result.clock_hz / 1e9:g} GHz")
    table.add_row(
        "simulated in", f"{result.wall_s:.2f} s, {result.cycles / result.wall_s:,.0f} clocks/s"
    )
    return table
