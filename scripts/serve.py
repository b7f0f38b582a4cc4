"""``pagewave serve``: continuous batching under a trace or a Poisson load."""

from pathlib import Path
from typing import Annotated

import typer

from hw.errors import InputError
from perfmodel.files import check_writable
from perfmodel.gpu import DEFAULT_GPU
from perfmodel.report import write_folder
from perfmodel.report.tables import serve_report
from perfmodel.serving import MAX_BATCH, Request, load_trace, poisson
from perfmodel.serving import serve as run_load
from perfmodel.system import build_system
from scripts import console
from scripts.generate import Gpu, Json, Lookahead, Model, TensorParallel, Timing, Topology


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
    input_len: Annotated[
        int | None, typer.Option(help="Without trace: prompt tokens of each request.")
    ] = None,
    output_len: Annotated[
        int | None, typer.Option(help="Without trace: output tokens of each request.")
    ] = None,
    gpu: Gpu = DEFAULT_GPU,
    tp: TensorParallel = 1,
    lookahead: Lookahead = "free",
    max_batch: Annotated[int, typer.Option(help="Requests that run at once, at most.")] = MAX_BATCH,
    seed: Annotated[int, typer.Option(help="Seed of the Poisson load.")] = 0,
    json: Json = False,
) -> None:
    """Serve a load with continuous batching; latencies as vLLM reports them.

    The load is a trace, or --requests equal requests that arrive at random.
    Prompts are processed in chunks beside running decodes, at most 2,048
    tokens an iteration. A request that exceeds the context of the model is
    rejected and counted as failed.

    Try, and then with --topology relay-only:

    pagewave serve --model qwen3-235b-a22b --topology dash
    --timing link-limited --requests 200 --rate 0.5
    --input-len 4096 --output-len 128 --out build/serve
    """
    check_writable("out", out, folder=True)
    load = _load(trace, limit, requests, rate, input_len, output_len, seed)
    system = build_system(
        model=model, topology_name=topology, timing=timing, gpu=gpu, tp=tp, lookahead=lookahead
    )
    with console.progress("requests", len(load)) as show:
        result = run_load(
            system,
            load,
            max_batch=max_batch,
            seed=seed,
            load=_describe(trace, limit, rate, len(load)),
            progress=lambda done, _: show(done),
        )
    folder = write_folder(result, out)
    files = f"{folder / 'result.json'} and {folder / 'requests.csv'}"
    console.err.print(f"wrote {files}", soft_wrap=True)
    if json:
        console.print_json(result.values)
    else:
        console.out.print(serve_report(result.values))


def _describe(trace: Path | None, limit: int | None, rate: float | None, requests: int) -> str:
    if trace is not None:
        return f"{'all' if limit is None else 'first'} {requests} requests of {trace.name}"
    return f"{requests} requests, Poisson, {rate:g} a second"


def _load(
    trace: Path | None,
    limit: int | None,
    requests: int | None,
    rate: float | None,
    input_len: int | None,
    output_len: int | None,
    seed: int,
) -> list[Request]:
    """The load: a trace, or all four numbers of a Poisson load."""
    numbers = {
        "--requests": requests,
        "--rate": rate,
        "--input-len": input_len,
        "--output-len": output_len,
    }
    given = [flag for flag, value in numbers.items() if value is not None]
    if trace is not None:
        if given:
            raise InputError(f"{given[0]} and --trace: give a trace or a Poisson load, not both")
        return load_trace(trace, limit)
    if limit is not None:
        raise InputError(f"--limit is {limit}: only a --trace can be limited; use --requests")
    if requests is None or rate is None or input_len is None or output_len is None:
        missing = next(flag for flag in numbers if flag not in given)
        raise InputError(f"{missing} is missing: give --trace FILE, or all of {', '.join(numbers)}")
    return poisson(
        requests=requests, rate=rate, input_len=input_len, output_len=output_len, seed=seed
    )
