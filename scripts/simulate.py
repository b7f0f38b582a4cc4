"""``pagewave simulate``: the RTL reads page waves and shows what arrives."""

import dataclasses

import typer

from hw.errors import InputError
from hw.presets import topology
from perfmodel.files import check_writable
from scripts import console
from scripts import simulate_options as opt
from scripts.generate import Json
from scripts.run_options import (
    chosen_blocks,
    chosen_faults,
    chosen_machine,
    chosen_modes,
    chosen_planes,
    chosen_refusals,
    chosen_relay,
    chosen_simulator,
    chosen_stalls,
    whole_pages,
)
from scripts.run_report import simulate_report
from scripts.write_options import check_goes_with, check_written, chosen_writes
from tb.play import read
from tb.reads import ReadRun
from tb.refusals import refused_reads, with_refused_writes
from tb.simulator import Simulator
from tb.verdict import wrongs

LEAST_SIDEBAND_TIMEOUT_US = 1.0  # some times what an access takes


def simulate(
    topology_name: opt.Topology,
    preset_name: opt.Preset,
    route: opt.Route,
    waves: opt.Waves,
    flits: opt.Flits = False,
    sideband: opt.Sideband = False,
    sideband_timeout_us: opt.SidebandTimeoutUs = None,
    pairs: opt.Pairs = 1,
    seed: opt.Seed = 1,
    waves_out: opt.WavesOut = None,
    simulator: opt.SimulatorName = Simulator.VERILATOR.value,
    json: Json = False,
    tsv_tbps: opt.TsvTbps = None,
    link_tbps: opt.LinkTbps = None,
    blocks: opt.Blocks = None,
    read_bytes: opt.ReadBytes = 0,
    scatter: opt.Scatter = False,
    read_planes: opt.ReadPlanes = None,
    sense: opt.Sense = None,
    cache_read: opt.CacheRead = True,
    drain: opt.Drain = "page",
    relay_cut_through: opt.RelayCutThrough = False,
    early_grant: opt.EarlyGrant = None,
    relay_ecc: opt.RelayEcc = False,
    write_waves: opt.WriteWaves = 0,
    write_planes: opt.WritePlanes = None,
    write_from: opt.WriteFrom = "gpu",
    writes_first: opt.WritesFirst = False,
    rewrite: opt.Rewrite = False,
    trim: opt.Trim = False,
    release: opt.Release = False,
    write_owner: opt.WriteOwner = "kv",
    relocated: opt.Relocated = False,
    collect: opt.Collect = True,
    hold_until_programmed: opt.HoldUntilProgrammed = False,
    suspend: opt.Suspend = False,
    suspend_slice_us: opt.SuspendSliceUs = None,
    t_read_us: opt.TReadUs = None,
    t_program_us: opt.TProgramUs = None,
    t_erase_us: opt.TEraseUs = None,
    t_suspend_us: opt.TSuspendUs = None,
    t_latch_ns: opt.TLatchNs = None,
    t_wb_ns: opt.TWbNs = None,
    t_rr_ns: opt.TRrNs = None,
    t_adl_ns: opt.TAdlNs = None,
    t_ccs_ns: opt.TCcsNs = None,
    t_plane_busy_ns: opt.TPlaneBusyNs = None,
    stall: opt.Stall = 0,
    stall_direct: opt.StallDirect = None,
    stall_relay: opt.StallRelay = None,
    fail_programs: opt.FailPrograms = 0,
    fail_program_at: opt.FailProgramAt = 0,
    fail_erases: opt.FailErases = 0,
    ecc_beats: opt.EccBeats = 0,
    ecc_bits: opt.EccBits = None,
    ecc_word: opt.EccWord = None,
    refuse: opt.Refuse = None,
) -> None:
    """Run the RTL of base dies and package, and time what arrives at the GPU.

    Every byte is checked against the content of the NAND. The first run of a
    configuration builds its simulator, minutes at full size; later runs start
    at once. Status 1 if anything is wrong for which no fault was asked: data,
    the status of a request, or a NAND rule.

    Try, and then with --route dual:

    pagewave simulate --topology dash --preset mini --route direct --waves 8
    """
    if waves_out is not None:
        check_writable("waves-out", waves_out)
    times_us = {
        "t_read": t_read_us, "t_program": t_program_us, "t_erase": t_erase_us,
        "t_suspend": t_suspend_us,
    }  # fmt: skip
    times_ns = {
        "t_latch": t_latch_ns, "t_wb": t_wb_ns, "t_rr": t_rr_ns, "t_adl": t_adl_ns,
        "t_ccs": t_ccs_ns, "t_plane_busy": t_plane_busy_ns,
    }  # fmt: skip
    machine = chosen_machine(
        preset_name, times_us, times_ns, tsv_tbps, link_tbps, sense, cache_read
    )
    relay = chosen_relay(
        route, machine, cut_through=relay_cut_through, early_grant=early_grant, ecc=relay_ecc
    )
    if relay_ecc:
        sram = dataclasses.replace(machine.sram, relay_ecc=True)
        machine = dataclasses.replace(machine, sram=sram)
    refusals = chosen_refusals(refuse or [])
    if not sideband:
        check_goes_with("--sideband", sideband_timeout_us=sideband_timeout_us is not None)
    joined = dataclasses.replace(
        topology(topology_name), pairs=pairs, flits=flits, sideband=sideband
    )
    if sideband_timeout_us is not None:
        if sideband_timeout_us < LEAST_SIDEBAND_TIMEOUT_US:
            raise InputError(
                f"--sideband-timeout-us is {sideband_timeout_us}: must be at least "
                f"{LEAST_SIDEBAND_TIMEOUT_US}, an access takes 0.3"
            )
        joined = dataclasses.replace(joined, sideband_timeout_us=sideband_timeout_us)
    writes = chosen_writes(
        machine, joined, write_waves, write_planes, write_from, owner=write_owner, rewrite=rewrite,
        trim=trim, release=release, relocated=relocated, writes_first=writes_first,
    )  # fmt: skip
    if not writes:
        check_goes_with(
            "--write-waves, which is 0", hold_until_programmed=hold_until_programmed,
            suspend=suspend, fail_programs=fail_programs, fail_program_at=fail_program_at,
            fail_erases=fail_erases,
        )  # fmt: skip
    if not (rewrite or trim):
        check_goes_with("--rewrite or --trim", fail_erases=fail_erases)
    modes = chosen_modes(
        drain, hold_until_programmed=hold_until_programmed, suspend=suspend,
        suspend_slice_us=suspend_slice_us, collect=collect,
    )  # fmt: skip
    faults = chosen_faults(
        machine, programs=fail_programs, program_at=fail_program_at, erases=fail_erases,
        ecc_beats=ecc_beats, ecc_bits=ecc_bits, ecc_word=ecc_word,
    )  # fmt: skip
    pages = whole_pages(read_bytes, machine)
    run = ReadRun(
        machine=machine,
        topology=joined,
        route=route,
        waves=waves,
        scatter=scatter,
        seed=seed,
        stall=chosen_stalls(route, stall, stall_direct, stall_relay),
        planes=chosen_planes("read-planes", read_planes, machine),
        writes=with_refused_writes(machine, writes, refusals),
        refused=refused_reads(machine, refusals),
        blocks=chosen_blocks(blocks or []),
        writes_first=writes_first,
        modes=modes,
        relay=relay,
        faults=faults,
        request_pages=pages,
        piece_bytes=0 if pages else read_bytes,
    )
    check_written(run)
    chosen = chosen_simulator(simulator, machine)
    with console.err.status("building the simulator if it is new, then simulating ..."):
        result = read(run, simulator=chosen, waves=waves_out)
    if waves_out is not None:
        console.err.print(f"wrote {waves_out}", soft_wrap=True)
    if json:
        console.print_json(result.as_json())
    else:
        console.out.print(simulate_report(result))
    if found := wrongs(result):
        console.err.print("; ".join(found), soft_wrap=True)
        raise typer.Exit(1)
