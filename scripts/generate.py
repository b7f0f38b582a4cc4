"""``pagewave generate``: one fixed batch, prefill and decode."""

from typing import Annotated

import typer

from hw.presets import TOPOLOGIES
from perfmodel.gpu import DEFAULT_GPU, GPUS
from perfmodel.models import MODELS
from perfmodel.report.tables import generate_report
from perfmodel.serving import generate as run_batch
from perfmodel.system import build_system
from scripts import console

Model = Annotated[
    str,
    typer.Option(
        help=f"Model: {', '.join(MODELS)}, or the path of a Hugging Face config.json of the same "
        "families."
    ),
]
Topology = Annotated[str, typer.Option(help=f"Links of the package: {', '.join(TOPOLOGIES)}.")]
Timing = Annotated[
    str,
    typer.Option(
        help="Memory timing: link-limited (every link at its usable rate, an upper bound), rtl "
        "(measured on the RTL, the record that comes with pagewave), or the file of a timing "
        "record written by `pagewave calibrate`."
    ),
]
Gpu = Annotated[str, typer.Option(help=f"GPU: {', '.join(GPUS)}.")]
TensorParallel = Annotated[
    int, typer.Option("--tp", help="GPUs that share the model, each with a package of its own.")
]
Lookahead = Annotated[
    str,
    typer.Option(
        help="Early choice of experts where the router allows it: free (hides tR at no cost, as in "
        "the DASH paper), charged (with reads and room of its weight), off."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


def generate(
    model: Model,
    topology: Topology,
    timing: Timing,
    batch: Annotated[int, typer.Option(help="Sequences decoded together.")],
    input_len: Annotated[int, typer.Option(help="Prompt tokens of each sequence.")],
    output_len: Annotated[int, typer.Option(help="Output tokens of each sequence.")],
    gpu: Gpu = DEFAULT_GPU,
    tp: TensorParallel = 1,
    lookahead: Lookahead = "free",
    json: Json = False,
) -> None:
    """Time one batch: prefill, time per output token, bytes by path.

    All prompts are taken in one pass; then every decode pass is evaluated,
    none is sampled.

    Try, and then with --topology relay-only:

    pagewave generate --model qwen3-235b-a22b --topology dash
    --timing link-limited --batch 4 --input-len 1024 --output-len 128
    """
    system = build_system(
        model=model, topology_name=topology, timing=timing, gpu=gpu, tp=tp, lookahead=lookahead
    )
    result = run_batch(system, batch=batch, input_len=input_len, output_len=output_len).as_dict()
    if json:
        console.print_json(result)
    else:
        console.out.print(generate_report(result))
