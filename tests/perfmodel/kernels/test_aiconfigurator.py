"""Rows of the package's tables become our calls; on request, the package itself is read."""

import importlib.util
import os
from pathlib import Path

import pytest

from hw.errors import InputError
from perfmodel.kernels import Collective, Gemm, GqaDecode, GqaPrefill, MlaDecode, MlaPrefill, Moe
from perfmodel.kernels.aiconfigurator import _TABLES, import_tables
from perfmodel.kernels.fits import shipped_fits
from perfmodel.kernels.profile_csv import read_profile
from perfmodel.kernels.refit import refit

INSTALLED = importlib.util.find_spec("aiconfigurator_core") is not None
PROFILES = os.environ.get("PAGEWAVE_PROFILES")

ATTENTION = {
    "num_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "batch_size": 8, "isl": 1,
    "kv_cache_dtype": "bfloat16", "step": 4095, "window_size": 0,
}  # fmt: skip
MOE = {
    "moe_dtype": "fp8_block", "kernel_source": "moe_torch_flow_cutlass", "num_tokens": 16,
    "hidden_size": 7168, "inter_size": 2048, "topk": 8, "num_experts": 256, "moe_tp_size": 1,
    "moe_ep_size": 8, "distribution": "balanced",
}  # fmt: skip
REDUCE = {
    "op_name": "all_reduce", "allreduce_dtype": "bfloat16", "num_gpus": 8, "message_size": 1024,
    "kernel_source": "vLLM_custom_graph",
}  # fmt: skip
NCCL = {
    "op_name": "all_gather", "nccl_dtype": "half", "num_gpus": 4, "message_size": 512,
    "kernel_source": "NCCL",
}  # fmt: skip
HEADS = {"kv_dtype": "bf16", "q_heads": 32, "kv_heads": 4, "head_dim": 128, "batch": 8}


def call(path, row):
    (table,) = (table for table in _TABLES if path in table.path)
    return table.call(row)


def test_rows():
    vllm, trt = "gemm/vllm", "gemm/trtllm"
    row = {"gemm_dtype": "bfloat16", "m": 3, "n": 5, "k": 7}
    assert call(vllm, row) == Gemm(dtype="bf16", m=3, n=5, k=7)
    assert call(trt, row) is None
    block = row | {"gemm_dtype": "fp8_block"}
    assert call(trt, block) == Gemm(dtype="fp8_block", m=3, n=5, k=7)
    assert call(vllm, block) is None  # timed with the host in the way
    assert call(vllm, row | {"gemm_dtype": "nvfp4"}) is None
    assert call("generation_attention", ATTENTION) == GqaDecode(**HEADS, kv_len=4096)
    prompt = ATTENTION | {"isl": 512, "step": 0}
    assert call("context_attention", prompt) == GqaPrefill(**HEADS, length=512)
    latent = {"kv_dtype": "bf16", "heads": 32, "batch": 8}
    assert call("generation_mla", ATTENTION) == MlaDecode(**latent, kv_len=4096)
    assert call("context_mla", prompt) == MlaPrefill(**latent, length=512)
    assert call("moe_perf", MOE) == Moe(
        dtype="fp8_block", distribution="balanced", hidden=7168, inner=2048, top_k=8,
        experts=256, tp=1, ep=8, tokens=16,
    )  # fmt: skip


def test_sizes_of_collectives_count_elements_of_two_bytes():
    assert call("custom_allreduce", REDUCE) == Collective(
        op="all_reduce", gpus=8, message_bytes=2048
    )
    assert call("nccl", NCCL) == Collective(op="all_gather", gpus=4, message_bytes=1024)


def test_what_is_left_out():
    assert call("generation_attention", ATTENTION | {"window_size": 128}) is None
    assert call("generation_attention", ATTENTION | {"head_dim": 512}) is None
    assert call("moe_perf", MOE | {"kernel_source": "moe_torch_flow_nongated"}) is None
    assert call("moe_perf", MOE | {"moe_dtype": "nvfp4"}) is None
    assert call("custom_allreduce", REDUCE | {"kernel_source": "vLLM_custom_eager"}) is None
    assert call("nccl", NCCL | {"nccl_dtype": "int8"}) is None
    assert call("nccl", NCCL | {"op_name": "all_reduce"}) is None  # vLLM's own is taken


def test_unknown_gpu():
    with pytest.raises(InputError, match="gpu 'h100-pcie' is unknown: choose h100-sxm, h200, b200"):
        next(import_tables("h100-pcie"))


@pytest.mark.skipif(INSTALLED, reason="the package is there")
def test_without_the_package_it_says_how_to_get_it():
    with pytest.raises(InputError, match=r"aiconfigurator-core is not installed: pip install"):
        next(import_tables("h200"))


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="needs pip install 'pagewave[profiles]'")
def test_the_package_itself():
    files = {file.kernel.NAME: file for file in import_tables("h200")}
    assert set(files) == {
        "gemm", "moe", "gqa_decode", "gqa_prefill", "mla_decode", "mla_prefill", "collective",
    }  # fmt: skip
    assert all(len(file.rows) > 100 for file in files.values())
    assert "Apache-2.0" in files["gemm"].source


@pytest.mark.slow
@pytest.mark.skipif(PROFILES is None, reason="PAGEWAVE_PROFILES names no folder of profiles")
@pytest.mark.parametrize("gpu", ["h100-sxm", "h200", "b200"])
def test_shipped_fits_are_those_of_the_tables(gpu):
    """Refits each GPU from PAGEWAVE_PROFILES/GPU, as `pagewave import-profile` wrote it."""
    fits = refit(read_profile(Path(PROFILES) / gpu), print)
    shipped = [fit for fit in shipped_fits().fits if fit.gpu == gpu]
    assert [(fit.kernel, fit.labels) for fit in fits.fits] == [
        (fit.kernel, fit.labels) for fit in shipped
    ]
    for fit, known in zip(fits.fits, shipped, strict=True):
        assert fit.held_out.median_pct == pytest.approx(known.held_out.median_pct, abs=0.2)
        assert fit.one_axis.quantiles_pct == pytest.approx(known.one_axis.quantiles_pct, rel=0.05)
