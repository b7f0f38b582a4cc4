"""Profiling with a timer that is no GPU: which shapes, and what is written."""

import importlib.util

import pytest

from hw.errors import InputError
from perfmodel.kernels import Gemm, GqaDecode, GqaPrefill
from perfmodel.kernels.profile_csv import read_profile
from perfmodel.kernels.profiler import TorchTimer, enumerate_shapes, profile
from perfmodel.models import load_model


def test_shapes_of_qwen3_are_its_matrices_and_heads():
    calls = enumerate_shapes(load_model("qwen3-235b-a22b"), gpus=2)
    widths = {(call.n, call.k) for call in calls if isinstance(call, Gemm)}
    # Half of 64 + 2 * 4 heads of 128; half of the attention output; half of the vocabulary.
    assert widths == {(9216 // 2, 4096), (4096, 8192 // 2), (151936 // 2, 4096)}
    rows = [
        call.m for call in calls if isinstance(call, Gemm) and call.k == 4096 and call.n == 4608
    ]
    assert rows == [1 << k for k in range(14)]
    decodes = [call for call in calls if isinstance(call, GqaDecode)]
    assert {(c.q_heads, c.kv_heads, c.head_dim) for c in decodes} == {(32, 2, 128)}
    assert (max(c.batch for c in decodes), max(c.kv_len for c in decodes)) == (256, 32768)
    prefills = [call for call in calls if isinstance(call, GqaPrefill)]
    assert max(c.batch * c.length for c in prefills) == 32768
    assert len(set(calls)) == len(calls)


def test_kv_of_a_call_has_room_on_any_gpu():
    calls = enumerate_shapes(load_model("mixtral-8x22b"))
    decodes = [c for c in calls if isinstance(c, GqaDecode)]
    sizes = [c.batch * c.kv_len * 2 * 2 * 8 * 128 for c in decodes]
    assert max(sizes) == 8 << 30


def test_latent_attention_has_its_projections_alone():
    calls = enumerate_shapes(load_model("deepseek-v2"))
    assert all(isinstance(call, Gemm) for call in calls)
    assert (5120, 128 * 128) in {(call.n, call.k) for call in calls}
    with pytest.raises(InputError, match="tp is 2: must be 1 for deepseek-v2"):
        enumerate_shapes(load_model("deepseek-v2"), 2)


def test_heads_must_divide():
    with pytest.raises(InputError, match="tp is 3: must divide the 64 attention heads of qwen3"):
        enumerate_shapes(load_model("qwen3-235b-a22b"), 3)


def test_a_profile_is_written_and_read_back(tmp_path):
    calls = enumerate_shapes(load_model("qwen3-235b-a22b"))[::29]
    done = []
    written = profile(
        calls,
        lambda call: 1.0 + call.data_bytes / 1e6,
        gpu="abacus",
        source="a formula",
        out=tmp_path / "profile",
        progress=done.append,
    )
    assert done == list(range(1, len(calls) + 1))
    assert [path.name for path in written] == ["gemm.csv", "gqa_decode.csv", "gqa_prefill.csv"]
    files = read_profile(tmp_path / "profile")
    assert {file.gpu for file in files} == {"abacus"}
    found = {row.kernel: row.latency_us for file in files for row in file.rows}
    assert found == pytest.approx({call: 1.0 + call.data_bytes / 1e6 for call in calls}, rel=1e-5)


def test_nothing_is_written_when_a_timer_fails(tmp_path):
    def timer(call):
        if isinstance(call, GqaDecode):
            raise RuntimeError("out of memory")
        return 1.0

    calls = enumerate_shapes(load_model("qwen3-235b-a22b"))
    with pytest.raises(RuntimeError):
        profile(calls, timer, gpu="abacus", source="x", out=tmp_path / "profile")
    assert not (tmp_path / "profile").exists()


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is there")
def test_without_pytorch_it_ends_at_once():
    with pytest.raises(InputError, match="PyTorch is not installed"):
        TorchTimer()
