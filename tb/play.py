"""Plays runs on the RTL, building its simulation if there is none yet."""

import dataclasses
import json
from pathlib import Path

from hw.params import Machine, Topology
from hw.presets import PRESETS
from hw.sram.macro import VERILOG_MODELS, MacroPlatform
from hw.ucie.codes import Status
from tb.delivery import misdelivered, stale
from tb.memory_system import MemorySystem
from tb.read_result import Passage, ReadResult, Sample, Stamps, WriteOutcome
from tb.reads import COUNTERS, SHOWN, ReadRun
from tb.simulator import Build, Design, Simulator, build, run
from tb.views import write_views
from tb.vip.nand_rules import rules_in


def design(machine: Machine, topology: Topology) -> Design:
    """The simulation of a memory system.

    Registers of ``machine`` do not matter to it, nor does the name of ``topology``: one pair of
    ``dash`` is that of ``compact``.
    """
    return Design(
        component=MemorySystem,
        params={
            "machine": PRESETS[machine.name],
            "topology": dataclasses.replace(topology, name="any"),
        },
        platform=MacroPlatform(),
        sources=VERILOG_MODELS,
        traced=True,
    )


def read(
    what: ReadRun,
    *,
    simulator: Simulator = Simulator.VERILATOR,
    waves: Path | None = None,
    directory: Path | None = None,
) -> ReadResult:
    """Run ``what`` on the RTL, building the simulation if there is none yet.

    Args:
        what: The run.
        simulator: Verilator, or Icarus for small presets.
        waves: File for a waveform (VCD), beside which its views for GTKWave and Surfer are put.
        directory: Working directory of the run, emptied first.

    Raises:
        InputError: the simulator is missing.
        BenchFailed: the run broke off, for instance because data stopped coming.
    """
    return play(build(design(what.machine, what.topology), simulator), what, waves, directory)


def play(
    simulation: Build, what: ReadRun, waves: Path | None = None, directory: Path | None = None
) -> ReadResult:
    """Run ``what`` on a simulation of its :func:`design`."""
    result = run(
        simulation,
        "tb.benches.read",
        seed=what.seed,
        env={"PAGEWAVE_PLAN": json.dumps(what.plan())},
        waves=waves,
        directory=directory,
    )
    if result.waves is not None:
        write_views(result.waves)
    report = json.loads((result.directory / "report.json").read_text())
    beat_bytes = what.machine.link.beat_bytes
    beats = report["beats_direct"] + report["beats_relay"]
    fill = Passage(
        bytes=report["beats_filled"] * beat_bytes,
        wave_bytes=what.wave_bytes,
        clock_hz=what.machine.clock_hz,
        accepted=report["accepted"],
        first=report["first_fill"],
        last=report["last_fill"],
        wave_ends=tuple(report["fill_wave_ends"]),
    )
    if report["overflow"]:
        raise RuntimeError(
            f"the NAND model forgot {report['overflow']} pages: too many were written"
        )
    errors = report["errors"] + misdelivered(what, beats, report["address_sum"])
    registers = report["registers"]
    uncorrected = sum(die["ecc_uncorrected"] for die in registers)
    failures = report["program_failures"] + report["erase_failures"]
    failures += min(report["page_failures"], uncorrected)
    return ReadResult(
        run=what,
        fill=fill,
        bytes=beats * beat_bytes,
        bytes_direct=report["beats_direct"] * beat_bytes,
        bytes_relay=report["beats_relay"] * beat_bytes,
        cycles=report["clock"],
        accepted=report["accepted"],
        first_beat=report["first_beat"],
        last_beat=report["last_beat"],
        wave_ends=tuple(report["wave_ends"]),
        senses=report["senses"],
        data_errors=errors,
        stale=None
        if errors
        else stale(what, report["version_sum"], report["versioned_sum"], failures=failures),
        violations=report["violations"],
        poisoned=report["poisoned"],
        read_statuses=by_status(report["read_status"]),
        blocks=tuple(tuple(of_stack) for of_stack in report["blocks"]),
        wall_s=report["wall_s"],
        broken_rules=tuple(rule.name for rule in rules_in(report["violation_kind"])),
        writes=WriteOutcome(
            answered=report["written"],
            statuses=by_status(report["write_status"]),
            page_failures=report["page_failures"],
            begin=report["write_begin"],
            end=report["write_end"],
            programs=report["programs"],
            erases=report["erases"],
            program_failures=report["program_failures"],
            erase_failures=report["erase_failures"],
            wrong_beats=report["write_errors"],
        ),
        counters={name: sum(die[name] for die in registers) for name in COUNTERS},
        shown=tuple({name: die[name] for name in SHOWN} for die in registers),
        corrected=sum(die["ecc_corrected"] for die in registers),
        uncorrected=uncorrected,
        requests=tuple(Stamps(**stamps) for stamps in report["requests"]),
        samples=tuple(Sample(*sample) for sample in report["samples"]),
        waveform=result.waves,
        set_up_clocks=report["set_up_clocks"],
    )


def by_status(counts: list[int]) -> dict[Status, int]:
    """What ended with each status, of those with which anything did."""
    return {status: count for status, count in zip(Status, counts, strict=True) if count}
