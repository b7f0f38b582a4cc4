"""Measured tables of ``aiconfigurator``, turned into profiles of ours.

The Python package ``aiconfigurator-core`` (Apache-2.0, ai-dynamo/aiconfigurator) brings tables of
kernels measured on many GPUs and inference engines. Nothing of it is kept here: it is an optional
dependency, read where it is installed. For each kernel one engine is chosen, because tables of
two engines differ by up to a fifth:

- vLLM for BF16 GEMM and grouped-query attention; TensorRT-LLM for FP8-block GEMM, which vLLM's
  table times with the host in the way, for latent attention and for experts;
- vLLM's own all-reduce, replayed from a CUDA graph, up to the size it is used for; NCCL for the
  other collectives.

Times are of CUDA graph replays: no cost of launches is in them. Sizes of collectives count 16-bit
elements in the source; experts without a gate are left out.
"""

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from hw.errors import InputError, named
from perfmodel.kernels.profile_csv import Measurement, ProfileFile
from perfmodel.kernels.queries import (
    Collective,
    Gemm,
    GqaDecode,
    GqaPrefill,
    Kernel,
    MlaDecode,
    MlaPrefill,
    Moe,
)

PACKAGE = "aiconfigurator-core"
GPU_FOLDERS = {"h100-sxm": "h100_sxm", "h200": "h200_sxm", "b200": "b200_sxm"}
_VLLM, _TRTLLM = "vllm/0.24.0", "trtllm/1.3.0rc20"
_DTYPES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block"}
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Table:
    """One table of the package: where it is, and the call that a row measures (None: not taken)."""

    kernel: type[Kernel]
    path: str
    call: Callable[[Row], Kernel | None]


def _gemm(*dtypes: str) -> Callable[[Row], Kernel | None]:
    def call(row: Row) -> Kernel | None:
        dtype = _DTYPES.get(row["gemm_dtype"])
        if dtype not in dtypes:
            return None
        return Gemm(dtype=dtype, m=row["m"], n=row["n"], k=row["k"])

    return call


def _moe(row: Row) -> Kernel | None:
    dtype = _DTYPES.get(row["moe_dtype"])
    if dtype is None or row["kernel_source"].endswith("nongated"):
        return None
    return Moe(
        dtype=dtype,
        distribution=row["distribution"],
        hidden=row["hidden_size"],
        inner=row["inter_size"],
        top_k=row["topk"],
        experts=row["num_experts"],
        tp=row["moe_tp_size"],
        ep=row["moe_ep_size"],
        tokens=row["num_tokens"],
    )


def _plain_attention(row: Row) -> dict[str, Any] | None:
    if row["window_size"] or row["head_dim"] not in (64, 128):
        return None
    return {
        "kv_dtype": _DTYPES[row["kv_cache_dtype"]],
        "q_heads": row["num_heads"],
        "kv_heads": row["num_key_value_heads"],
        "head_dim": row["head_dim"],
        "batch": row["batch_size"],
    }


def _gqa_decode(row: Row) -> Kernel | None:
    common = _plain_attention(row)
    return None if common is None else GqaDecode(**common, kv_len=row["step"] + row["isl"])


def _gqa_prefill(row: Row) -> Kernel | None:
    common = _plain_attention(row)
    return None if common is None or row["step"] else GqaPrefill(**common, length=row["isl"])


def _latent(row: Row) -> dict[str, Any]:
    return {
        "kv_dtype": _DTYPES[row["kv_cache_dtype"]],
        "heads": row["num_heads"],
        "batch": row["batch_size"],
    }


def _mla_decode(row: Row) -> Kernel | None:
    return MlaDecode(**_latent(row), kv_len=row["step"] + row["isl"])


def _mla_prefill(row: Row) -> Kernel | None:
    return None if row["step"] else MlaPrefill(**_latent(row), length=row["isl"])


def _collective(*ops: str) -> Callable[[Row], Kernel | None]:
    def call(row: Row) -> Kernel | None:
        kind = row.get("nccl_dtype", row.get("allreduce_dtype"))
        eager = row["kernel_source"].endswith("eager")
        if row["op_name"] not in ops or kind not in ("half", "bfloat16") or eager:
            return None
        return Collective(
            op=row["op_name"], gpus=row["num_gpus"], message_bytes=2 * row["message_size"]
        )

    return call


_TABLES = (
    _Table(kernel=Gemm, path=f"gemm/{_VLLM}/gemm_perf", call=_gemm("bf16")),
    _Table(kernel=Gemm, path=f"gemm/{_TRTLLM}/gemm_perf", call=_gemm("fp8", "fp8_block")),
    _Table(kernel=Moe, path=f"moe/{_TRTLLM}/moe_perf", call=_moe),
    _Table(kernel=GqaDecode, path=f"attention/{_VLLM}/generation_attention_perf", call=_gqa_decode),
    _Table(kernel=GqaPrefill, path=f"attention/{_VLLM}/context_attention_perf", call=_gqa_prefill),
    _Table(kernel=MlaDecode, path=f"mla/{_TRTLLM}/generation_mla_perf", call=_mla_decode),
    _Table(kernel=MlaPrefill, path=f"mla/{_TRTLLM}/context_mla_perf", call=_mla_prefill),
    _Table(
        kernel=Collective,
        path=f"comm/{_VLLM}/custom_allreduce_perf",
        call=_collective("all_reduce"),
    ),
    _Table(
        kernel=Collective,
        path="comm/nccl/2.29.2/nccl_perf",
        call=_collective("all_gather", "reduce_scatter", "alltoall"),
    ),
)


def import_tables(gpu: str) -> Iterator[ProfileFile]:
    """The profile of a GPU, one file a kernel.

    Raises:
        InputError: the GPU is not among them, the package is not installed, or a table is
            missing or not as expected.
    """
    part = named("gpu", gpu, GPU_FOLDERS)
    folder = _package_folder() / "systems" / "data" / part
    version = metadata.version(PACKAGE)
    for kernel in dict.fromkeys(table.kernel for table in _TABLES):
        tables = [table for table in _TABLES if table.kernel is kernel]
        rows = [row for table in tables for row in _measurements(folder, table)]
        rows.sort(key=lambda row: (row.kernel.group, row.kernel.point))
        names = " and ".join(table.path for table in tables)
        source = f"{PACKAGE} {version} (Apache-2.0), {folder.name}/{names}"
        yield ProfileFile(kernel=kernel, gpu=gpu, source=source, rows=tuple(rows))


def _package_folder() -> Path:
    found = importlib.util.find_spec("aiconfigurator_core")
    if found is None or not found.submodule_search_locations:
        raise InputError(
            f"the package {PACKAGE} is not installed: pip install 'pagewave[profiles]'"
        )
    return Path(next(iter(found.submodule_search_locations)))


def _measurements(folder: Path, table: _Table) -> Iterator[Measurement]:
    path = folder / f"{table.path}.parquet"
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            "the package pyarrow is not installed: pip install 'pagewave[profiles]'"
        ) from None
    try:
        rows = parquet.read_table(path).to_pylist()
    except OSError as error:
        raise InputError(f"{path}: cannot read the table: {error}") from None
    try:
        for row in rows:
            call = table.call(row)
            if call is not None:
                yield Measurement(call, 1e3 * row["latency"])
    except KeyError as error:
        raise InputError(f"{path}: column {error} is missing: the package has changed") from None
