"""``pagewave sweep``: serving over load, on several topologies."""

from pathlib import Path
from typing import Annotated

import typer

from hw.errors import InputError
from hw.presets import TOPOLOGIES
from perfmodel.files import check_writable
from perfmodel.gpu import DEFAULT_GPU
from perfmodel.report import write_study
from perfmodel.report.study_tables import study_report
from perfmodel.serving import Study, Workload, policy_named, run_study
from perfmodel.system import build_system
from scripts import console
from scripts.generate import (
    Gpu,
    Json,
    Kernels,
    Lookahead,
    Model,
    Outside,
    TensorParallel,
    Timing,
)
from scripts.schedule_options import DEFAULT, Budget, Chunk, MaxBatch, Routing, chosen_schedule

WORK, STUDY = Workload(), Study()
ALL, LOADS = list(TOPOLOGIES), list(STUDY.loads)
POLICY = [policy.name for policy in STUDY.policies]


def sweep(
    model: Model,
    timing: Timing,
    out: Annotated[Path, typer.Option(help="Folder for tables, figure and study.json.")],
    topology: Annotated[
        list[str],
        typer.Option(
            help=f"Once for each: {', '.join(TOPOLOGIES)}. The first is compared with the others."
        ),
    ] = ALL,
    policy: Annotated[
        list[str], typer.Option(help="Once for each under which streams are served: mixed, serial.")
    ] = POLICY,
    load: Annotated[
        list[float],
        typer.Option(help="Once for each: fraction of RelayOnly's backlogged rate under Mixed."),
    ] = LOADS,
    seeds: Annotated[int, typer.Option(help="Poisson streams for each load.")] = len(STUDY.seeds),
    seed: Annotated[int, typer.Option(help="Seed of the first stream; the next ones follow.")] = 0,
    requests: Annotated[int, typer.Option(help="Measured requests of each run.")] = WORK.measured,
    warmup: Annotated[int, typer.Option(help="Requests before them, not measured.")] = WORK.warmup,
    input_len: Annotated[int, typer.Option(help="Prompt tokens.")] = WORK.input_len,
    output_len: Annotated[int, typer.Option(help="Output tokens.")] = WORK.output_len,
    max_batch: MaxBatch = DEFAULT.max_batch,
    budget: Budget = DEFAULT.token_budget,
    chunk: Chunk = DEFAULT.chunk,
    routing: Routing = "balanced",
    gpu: Gpu = DEFAULT_GPU,
    kernels: Kernels = "base",
    outside: Outside = "error",
    tp: TensorParallel = 1,
    lookahead: Lookahead = "free",
    json: Json = False,
) -> None:
    """Latency and throughput over load, the same requests on every topology.

    First the saturation rate of each topology under each policy: a backlog. Then
    Poisson streams at fractions of RelayOnly's rate under Mixed. Defaults are those
    of the DASH paper, section VI-E.

    Try:

    pagewave sweep --model qwen3-235b-a22b --timing link-limited
    --out build/sweep
    """
    if not 1 <= seeds <= 1000:
        raise InputError(f"seeds is {seeds}: must be 1 to 1000")
    if seed < 0:
        raise InputError(f"seed is {seed}: must not be negative")
    study = Study(
        workload=Workload(
            input_len=input_len, output_len=output_len, warmup=warmup, measured=requests
        ),
        loads=tuple(load),
        seeds=tuple(range(seed, seed + seeds)),
        policies=tuple(map(policy_named, policy)),
        limits=chosen_schedule("mixed", max_batch, budget, chunk),
    )
    first = build_system(
        model=model,
        topology_name=topology[0],
        timing=timing,
        gpu=gpu,
        kernels=kernels,
        outside=outside,
        tp=tp,
        routing=routing,
        lookahead=lookahead,
    )
    systems = [first, *map(first.on, topology[1:])]
    check_writable("out", out, folder=True)
    with console.progress("runs", study.runs(len(systems))) as show:
        result = run_study(systems, study, progress=lambda done, _: show(done))
    folder = write_study(result, out)
    console.err.print(f"wrote study.json, tables and study.png in {folder}", soft_wrap=True)
    if json:
        console.print_json(result.as_dict())
    else:
        console.out.print(study_report(result))
