"""Measuring the kernels of one's own GPU with PyTorch, into a profile.

Shapes are enumerated here, and a timer turns each into a latency, so that all but the timer works
without a GPU. The timer measures kernels alone: it captures calls in a CUDA graph and takes the
median of replays. Calls go over several copies of their operands, so that those of 4 MB and more
have left the cache when their turn comes again.
"""

import itertools
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hw.errors import InputError
from perfmodel.kernels.profile_csv import Measurement, ProfileFile, write_profile_file
from perfmodel.kernels.queries import Gemm, GqaDecode, GqaPrefill, Kernel
from perfmodel.models import ModelShape
from perfmodel.models.attention import KV_ELEMENT_BYTES, Gqa

Timer = Callable[[Kernel], float]  # microseconds
PROFILED: tuple[type[Kernel], ...] = (Gemm, GqaDecode, GqaPrefill)
_MOST_ROWS = 8192
_MOST_CONTEXT = 32768
_MOST_KV_BYTES = 8 << 30  # of one call, so that every GPU of interest has room for it
_COPIES_BYTES = 256 << 20  # more than any cache holds
_MOST_COPIES = 64
_REPLAYS = 20


def enumerate_shapes(model: ModelShape, gpus: int = 1) -> list[Kernel]:
    """Calls that serving the model on ``gpus`` GPUs is made of, on grids of powers of two.

    GEMMs of both projections and of the head, and grouped-query attention. Experts and latent
    attention take kernels of an engine, which PyTorch alone does not have.

    Raises:
        InputError: the model does not divide over ``gpus``.
    """
    attention = model.attention
    if gpus < 1 or attention.query_heads % gpus:
        raise InputError(
            f"tp is {gpus}: must divide the {attention.query_heads} attention heads of {model.name}"
        )
    head = (-(-model.vocab // gpus), model.hidden)
    if isinstance(attention, Gqa):
        fused = sum(matrix.outputs for matrix in attention.qkv) // gpus
        widths = {head, (fused, model.hidden), (model.hidden, attention.output[0].inputs // gpus)}
    elif gpus == 1:
        widths = {(m.outputs, m.inputs) for m in attention.qkv + attention.output} | {head}
    else:
        raise InputError(f"tp is {gpus}: must be 1 for {model.name}, which has latent attention")
    rows = _powers(1, _MOST_ROWS)
    calls: list[Kernel] = [
        Gemm(dtype="bf16", m=m, n=n, k=k) for (n, k), m in itertools.product(sorted(widths), rows)
    ]
    if isinstance(attention, Gqa):
        calls += _attention(attention, gpus)
    return calls


def _attention(attention: Gqa, gpus: int) -> Iterator[Kernel]:
    q_heads, kv_heads = attention.query_heads // gpus, max(1, attention.kv_heads // gpus)
    heads = {"q_heads": q_heads, "kv_heads": kv_heads, "head_dim": attention.head_dim}
    token_bytes = 2 * KV_ELEMENT_BYTES * kv_heads * attention.head_dim
    for batch, context in itertools.product(_powers(1, 256), _powers(16, _MOST_CONTEXT)):
        if batch * context * token_bytes <= _MOST_KV_BYTES:
            yield GqaDecode(kv_dtype="bf16", **heads, batch=batch, kv_len=context)
    for batch, length in itertools.product(_powers(1, 64), _powers(16, _MOST_CONTEXT)):
        if batch * length <= _MOST_CONTEXT:
            yield GqaPrefill(kv_dtype="bf16", **heads, batch=batch, length=length)


def _powers(low: int, high: int) -> list[int]:
    return [1 << k for k in range(low.bit_length() - 1, high.bit_length())]


def profile(
    calls: list[Kernel],
    timer: Timer,
    *,
    gpu: str,
    source: str,
    out: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Path]:
    """Time all calls and write one file a kernel; nothing is written before all are timed.

    Raises:
        OSError: a file cannot be written.
    """
    rows: dict[type[Kernel], list[Measurement]] = {}
    for done, call in enumerate(calls, 1):
        rows.setdefault(type(call), []).append(Measurement(call, timer(call)))
        progress(done)
    written = []
    for kernel, measured in rows.items():
        path = out / f"{kernel.NAME}.csv"
        file = ProfileFile(kernel=kernel, gpu=gpu, source=source, rows=tuple(measured))
        write_profile_file(path, file)
        written.append(path)
    return written


class TorchTimer:
    """Times calls on the first CUDA device.

    Raises:
        InputError: PyTorch is not installed, or sees no GPU.
    """

    def __init__(self) -> None:
        try:
            import torch
        except ImportError:
            raise InputError(
                "PyTorch is not installed: profiling runs where PyTorch and a GPU are"
            ) from None
        if not torch.cuda.is_available():
            raise InputError("PyTorch sees no GPU: profiling runs where PyTorch and a GPU are")
        self._torch: Any = torch
        self.device = torch.cuda.get_device_name(0)
        self.source = f"pagewave profile-gpu, PyTorch {torch.__version__}, {self.device}"

    def __call__(self, call: Kernel) -> float:
        torch = self._torch
        runs = self._runs(call)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):  # once outside the graph: libraries set themselves up
            for run in runs:
                run()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for run in runs:
                run()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        times_ms: list[float] = []
        for _ in range(_REPLAYS):
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times_ms.append(start.elapsed_time(end))
        return 1e3 * statistics.median(times_ms) / len(runs)

    def _runs(self, call: Kernel) -> list[Callable[[], Any]]:
        """The call on several copies of its operands."""
        if isinstance(call, Gemm):
            return [self._gemm(call) for _ in range(_copies(2 * call.n * call.k))]
        if isinstance(call, GqaDecode):
            return [
                self._attention(call, queries=1, context=call.kv_len)
                for _ in range(_copies(call.data_bytes))
            ]
        if isinstance(call, GqaPrefill):
            return [self._attention(call, queries=call.length, context=call.length)]
        raise InputError(f"{call}: cannot be profiled with PyTorch alone")

    def _gemm(self, call: Gemm) -> Callable[[], Any]:
        rows, weight = self._random(call.m, call.k), self._random(call.n, call.k)
        return lambda: self._torch.nn.functional.linear(rows, weight)

    def _attention(
        self, call: GqaDecode | GqaPrefill, *, queries: int, context: int
    ) -> Callable[[], Any]:
        query = self._random(call.batch, call.q_heads, queries, call.head_dim)
        key = self._random(call.batch, call.kv_heads, context, call.head_dim)
        value = self._random(call.batch, call.kv_heads, context, call.head_dim)
        attend = self._torch.nn.functional.scaled_dot_product_attention
        causal = queries > 1
        return lambda: attend(query, key, value, is_causal=causal, enable_gqa=True)

    def _random(self, *shape: int) -> Any:
        return self._torch.randn(*shape, device="cuda", dtype=self._torch.bfloat16)


def _copies(operand_bytes: float) -> int:
    return max(1, min(_MOST_COPIES, round(_COPIES_BYTES / operand_bytes)))
