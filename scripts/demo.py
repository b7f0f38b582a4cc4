"""``pagewave demo``: the whole chain once, from a page wave in RTL to a served model."""

import json as jsonlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hw.presets import TOPOLOGIES, preset, topology
from perfmodel.files import check_writable, write_atomically
from perfmodel.memory.record import TimingRecord, save_record
from perfmodel.report import plot_topologies, write_folder
from perfmodel.serving import GenerateResult, ServeResult, poisson
from perfmodel.serving import generate as run_batch
from perfmodel.serving import serve as run_load
from perfmodel.system import build_system
from scripts import console
from scripts.calibrate import calibrate_report, show_observation
from scripts.run_report import simulate_report
from tb.calibration import calibrate as measure
from tb.play import design, read
from tb.read_result import ReadResult
from tb.reads import ReadRun, with_pairs
from tb.simulator import build

PRESET = "paper"
MODEL = "qwen3-235b-a22b"
BATCH, INPUT_LEN, OUTPUT_LEN = 4, 1024, 128
REQUESTS, RATE, SEED = 100, 0.4, 0
WAVES = 4


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo leaves.")] = Path(
        "build/demo"
    ),
) -> None:
    """Read page waves in RTL, measure them, serve a model with that timing.

    Four page waves go over the Direct and the Relay path at once and leave
    their waveform; a timing record is measured; Qwen3-235B-A22B runs on the
    four topologies with that record, beside the link-limited bound.
    """
    machine = preset(PRESET)
    check_writable("out", out, folder=True)
    seconds: dict[str, float] = {}
    one_pair = with_pairs(topology("dash"), 1)

    console.err.print("The first build takes two to five minutes, all later runs use it.")
    with _step("build the simulator", seconds):
        build(design(machine, one_pair))
    with _step("read page waves over both paths", seconds):
        run = ReadRun(machine=machine, topology=one_pair, route="dual", waves=WAVES)
        seen = read(run, waves=out / "dual.vcd")
    console.out.print(simulate_report(seen))

    timing_file = out / "timing.json"
    with _step("calibrate", seconds):
        record = measure(PRESET, report=show_observation)
        save_record(record, timing_file)
    console.out.print(calibrate_report(record))

    batches: list[GenerateResult] = []
    loads: list[ServeResult] = []
    with _step("serve on four topologies", seconds):
        for timing in ("link-limited", str(timing_file)):
            for name in TOPOLOGIES:
                system = build_system(model=MODEL, topology_name=name, timing=timing)
                batches.append(
                    run_batch(system, batch=BATCH, input_len=INPUT_LEN, output_len=OUTPUT_LEN)
                )
                requests = poisson(
                    requests=REQUESTS,
                    rate=RATE,
                    input_len=INPUT_LEN,
                    output_len=OUTPUT_LEN,
                    seed=SEED,
                )
                load = f"{REQUESTS} requests, Poisson, {RATE} a second"
                loads.append(run_load(system, requests, seed=SEED, load=load))
                kind = "link-limited" if timing == "link-limited" else "rtl"
                write_folder(loads[-1], out / "serve" / f"{name}-{kind}")
        plot_topologies(batches, out / "topologies.png")
    _write_summary(out / "summary.json", seen, record, batches, loads, seconds)

    console.out.print(_comparison(batches, loads))
    _list(out, seconds)


@contextmanager
def _step(what: str, seconds: dict[str, float]) -> Iterator[None]:
    console.err.print(f"[bold]{what} ...[/bold]")
    begun = time.perf_counter()
    yield
    seconds[what] = time.perf_counter() - begun


def _write_summary(
    file: Path,
    seen: ReadResult,
    record: TimingRecord,
    batches: list[GenerateResult],
    loads: list[ServeResult],
    seconds: dict[str, float],
) -> None:
    summary = {
        "simulate": seen.as_json(),
        "fitted": {
            route: fit.model_dump(mode="json", by_alias=True)
            for route, fit in record.fitted.items()
        },
        "generate": [batch.as_dict() for batch in batches],
        "serve": [load.values for load in loads],
        "seconds": seconds,
    }
    write_atomically(file, jsonlib.dumps(summary, indent=2) + "\n")


def _comparison(batches: list[GenerateResult], loads: list[ServeResult]) -> Table:
    """One row a topology and timing; speed-ups are against relay-only with the same timing."""
    table = Table(
        title=f"{MODEL}: a batch of {BATCH}, {INPUT_LEN:,} + {OUTPUT_LEN} tokens; P90 of serving "
        f"{REQUESTS} such requests at {RATE} a second"
    )
    columns = (
        ("topology", "left"),
        ("timing", "left"),
        ("TPOT ms", "right"),
        ("tokens/s", "right"),
        ("vs relay-only", "right"),
        ("E2E s", "right"),
        ("P90 TTFT ms", "right"),
        ("P90 TPOT ms", "right"),
        ("P90 E2E s", "right"),
    )
    for name, justify in columns:
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    base = {b.labels["timing"]: b.tpot_s for b in batches if b.labels["topology"] == "relay-only"}
    previous = None
    for batch, load in zip(batches, loads, strict=True):
        values, labels = batch.as_dict(), batch.labels
        if previous not in (None, labels["timing"]):
            table.add_section()
        previous = labels["timing"]
        served = load.values
        table.add_row(
            str(labels["topology"]),
            "link-limited" if labels["timing"] == "link-limited" else "RTL",
            f"{1e3 * batch.tpot_s:.2f}",
            f"{values['decode_throughput']:.1f}",
            f"{base[labels['timing']] / batch.tpot_s:.2f} x",
            f"{values['e2e_s']:.2f}",
            f"{served['p90_ttft_ms']:,.0f}",
            f"{served['p90_tpot_ms']:,.1f}",
            f"{served['p90_e2el_ms'] / 1e3:,.1f}",
        )
    return table


def _list(out: Path, seconds: dict[str, float]) -> None:
    files = {
        "dual.vcd": "waveform of both paths; open with its view dual.gtkw (GTKWave) or dual.sucl "
        "(Surfer)",
        "timing.json": "timing record, for --timing",
        "topologies.png": "the four topologies, link-limited and measured",
        "serve": "results of serving, one folder each",
        "summary.json": "all of the above in figures",
    }
    for name, what in files.items():
        console.out.print(f"{out / name}: {what}", soft_wrap=True, highlight=False)
    spent = ", ".join(f"{what} {s:.1f} s" for what, s in seconds.items())
    console.out.print(f"took: {spent}", soft_wrap=True, highlight=False)
