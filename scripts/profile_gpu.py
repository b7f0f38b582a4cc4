"""``pagewave profile-gpu``: measure the kernels of the GPU at hand, as a profile."""

from pathlib import Path
from typing import Annotated

import typer

from hw.errors import InputError
from perfmodel.files import check_writable
from perfmodel.kernels.profiler import TorchTimer, enumerate_shapes, profile
from perfmodel.models import load_model
from scripts import console
from scripts.generate import Model, TensorParallel


def profile_gpu(
    model: Model,
    gpu: Annotated[
        str, typer.Option(help="Name of the GPU in the profile: h100-pcie, or any other word.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the profile, one CSV a kernel.")],
    tp: TensorParallel = 1,
) -> None:
    """Measure GEMM and attention of a model on the GPU at hand.

    Needs PyTorch with CUDA. Latencies are those of CUDA graph replays, as in the
    published tables. The profile then serves as a source of `pagewave kernel`.
    """
    if not gpu.strip() or "\n" in gpu:
        raise InputError(f"gpu is {gpu!r}: must be a name")
    calls = enumerate_shapes(load_model(model), tp)
    check_writable("out", out, folder=True)
    timer = TorchTimer()
    console.err.print(f"{len(calls):,} kernels on {timer.device}", soft_wrap=True)
    with console.progress("kernels", len(calls)) as show:
        written = profile(
            calls, timer, gpu=gpu.strip(), source=timer.source, out=out, progress=show
        )
    for path in written:
        console.err.print(f"wrote {path}", soft_wrap=True)
