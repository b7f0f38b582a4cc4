"""``pagewave serve``: continuous batching under a trace or a Poisson load."""

from pathlib import Path
from typing import Annotated

import typer

from hw.errors import InputError
from perfmodel.files import check_writable
from perfmodel.gpu import DEFAULT_GPU
from perfmodel.report import write_folder
from perfmodel.report.tables import serve_report
from perfmodel.serving import serve as run_load
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
    Topology,
)
from scripts.load_options import LoadOptions
from scripts.schedule_options import (
    DEFAULT,
    Budget,
    Chunk,
    MaxBatch,
    Policy,
    Routing,
    chosen_schedule,
)


def serve(
    model: Model,
    topology: Topology,
    timing: Timing,
    out: Annotated[Path, typer.Option(help="Folder for result.json and requests.csv.")],
    trace: Annotated[
        Path | None,
        typer.Option(help="Trace: Mooncake JSON lines or Azure LLM inference CSV, also gzip."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Take only the first LIMIT requests of the trace.")
    ] = None,
    requests: Annotated[int | None, typer.Option(help="Without trace: how many requests.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="Without trace: requests a second, on average (Poisson).")
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(
            help="In place of --rate: a fraction of the rate at which RelayOnly works off a "
            "backlog of such requests under the policy mixed."
        ),
    ] = None,
    input_len: Annotated[
        int | None, typer.Option(help="Without trace: prompt tokens of each request.")
    ] = None,
    output_len: Annotated[
        int | None, typer.Option(help="Without trace: output tokens of each request.")
    ] = None,
    gpu: Gpu = DEFAULT_GPU,
    kernels: Kernels = "base",
    outside: Outside = "error",
    tp: TensorParallel = 1,
    lookahead: Lookahead = "free",
    policy: Policy = DEFAULT.policy.name,
    max_batch: MaxBatch = DEFAULT.max_batch,
    budget: Budget = DEFAULT.token_budget,
    chunk: Chunk = DEFAULT.chunk,
    routing: Routing = "balanced",
    warmup: Annotated[
        int, typer.Option(help="First requests of the load that metrics leave out.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the Poisson load.")] = 0,
    json: Json = False,
) -> None:
    """Serve a load with continuous batching; latencies as vLLM reports them.

    The load is a trace, or --requests equal requests that arrive at random.
    Prompts are processed in chunks, beside running decodes or in passes of
    their own. A request that exceeds the context of the model is rejected
    and counted as failed.

    Try, and then with --topology relay-only:

    pagewave serve --model qwen3-235b-a22b --topology dash
    --timing link-limited --requests 200 --rate 0.5
    --input-len 4096 --output-len 128 --out build/serve
    """
    check_writable("out", out, folder=True)
    schedule = chosen_schedule(policy, max_batch, budget, chunk)
    chosen = LoadOptions(
        trace=trace,
        limit=limit,
        requests=requests,
        rate=rate,
        load=load,
        input_len=input_len,
        output_len=output_len,
    )
    system = build_system(
        model=model,
        topology_name=topology,
        timing=timing,
        gpu=gpu,
        kernels=kernels,
        outside=outside,
        tp=tp,
        routing=routing,
        lookahead=lookahead,
    )
    stream, words = chosen.stream(system, schedule, seed)
    if not 0 <= warmup < len(stream):
        raise InputError(
            f"warmup is {warmup}: must be 0 to {len(stream) - 1}, less than the requests"
        )
    with console.progress("requests", len(stream)) as show:
        result = run_load(
            system,
            stream,
            schedule,
            warmup=warmup,
            seed=seed,
            load=words,
            progress=lambda done, _: show(done),
        )
    folder = write_folder(result, out)
    files = f"{folder / 'result.json'} and {folder / 'requests.csv'}"
    console.err.print(f"wrote {files}", soft_wrap=True)
    if json:
        console.print_json(result.values)
    else:
        console.out.print(serve_report(result.values))
