"""``pagewave simulate``: the RTL reads page waves and shows what arrives."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hw.errors import InputError
from hw.params import Sensing
from hw.presets import PRESETS, TOPOLOGIES, topology
from perfmodel.files import check_writable
from scripts import console
from scripts.generate import Json
from scripts.run_options import (
    chosen_machine,
    chosen_planes,
    chosen_simulator,
    chosen_writes,
    optional_ns,
    parsed_bits,
    whole_pages,
)
from scripts.run_report import simulate_report
from tb.play import read
from tb.reads import ROUTES, ReadRun, with_pairs
from tb.settings import Faults, Modes
from tb.simulator import Simulator

DRAINS = ("page", "region")
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
            help="Read what was written, when all of it is.",
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
    write_owner: Annotated[
        str, typer.Option(help="Of the blocks: kv or weight.", rich_help_panel=WRITES)
    ] = "kv",
    relocated: Annotated[
        bool,
        typer.Option(
            "--relocated", help="Writes move what was written before.", rich_help_panel=WRITES
        ),
    ] = False,
    collect: Annotated[
        bool,
        typer.Option(
            "--collect/--no-collect",
            help="Erase dead blocks of KV in the background.",
            rich_help_panel=WRITES,
        ),
    ] = True,
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
    times_us = {
        "t_read": t_read_us, "t_program": t_program_us, "t_erase": t_erase_us,
        "t_suspend": t_suspend_us,
    }  # fmt: skip
    times = {name: optional_ns(time_us) for name, time_us in times_us.items()} | {
        "t_latch": t_latch_ns, "t_wb": t_wb_ns, "t_rr": t_rr_ns, "t_adl": t_adl_ns,
        "t_ccs": t_ccs_ns, "t_plane_busy": t_plane_busy_ns,
    }  # fmt: skip
    machine = chosen_machine(preset_name, times, tsv_tbps, link_tbps, sense, cache_read)
    if drain not in DRAINS:
        raise InputError(f"drain {drain!r} is unknown: choose {', '.join(DRAINS)}")
    writes = chosen_writes(
        machine, write_waves, write_planes, write_from, owner=write_owner, rewrite=rewrite,
        trim=trim, relocated=relocated, writes_first=writes_first, read_waves=waves,
    )  # fmt: skip
    pages = whole_pages(read_bytes, machine)
    run = ReadRun(
        machine=machine,
        topology=with_pairs(topology(topology_name), pairs),
        route=route,
        waves=waves,
        scatter=scatter,
        seed=seed,
        stall=(stall, stall),
        planes=chosen_planes("read-planes", read_planes, machine),
        writes=writes,
        writes_first=writes_first,
        modes=Modes(
            drain_whole_region=drain == "region",
            hold_until_programmed=hold_until_programmed,
            suspend=suspend,
            suspend_slice_us=suspend_slice_us,
            collect=collect,
        ),
        faults=Faults(
            programs=fail_programs,
            program_at=fail_program_at,
            erases=fail_erases,
            ecc_beats=ecc_beats,
            ecc_bits=parsed_bits(ecc_bits),
        ),
        request_pages=pages,
        piece_bytes=0 if pages else read_bytes,
    )
    chosen = chosen_simulator(simulator, machine)
    with console.err.status("building the simulator if it is new, then simulating ..."):
        result = read(run, simulator=chosen, waves=waves_out)
    if waves_out is not None:
        console.err.print(f"wrote {waves_out}", soft_wrap=True)
    if json:
        console.print_json(result.as_json())
    else:
        console.out.print(simulate_report(result))
    if result.unexpected:
        console.err.print("data is wrong or stale, or NAND rules were broken")
        raise typer.Exit(1)
