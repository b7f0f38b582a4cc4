"""The calls that serving a model is made of, against its matrices and by hand."""

import pytest

from perfmodel.kernels import GqaDecode, GqaPrefill, MlaDecode
from perfmodel.kernels.calls import ModelCalls, equal_prompts
from perfmodel.models import MODELS, load_model


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_calls_compute_what_the_matrices_hold(model, gpus):
    """Shards of all GPUs together do the work of the whole, but for ragged vocabularies."""
    shape, rows = load_model(model), 3
    calls = ModelCalls(shape, gpus)
    for widths, matrices in (
        (calls.qkv, shape.attention.qkv),
        (calls.output, shape.attention.output),
        (calls.dense_mlp, shape.dense_mlp),
    ):
        found = gpus * sum(gemm.flops for gemm in calls.gemms(widths, rows))
        assert found == 2 * rows * sum(m.params for m in matrices)
    (head,) = calls.gemms(calls.head, rows)
    assert 0 <= gpus * head.n - shape.vocab < gpus
    routed = rows * shape.experts_per_token * sum(m.params for m in shape.expert)
    assert gpus * calls.experts(rows).row_flops == pytest.approx(2 * routed)


def test_calls_of_qwen3_on_two_gpus_by_hand():
    calls = ModelCalls(load_model("qwen3-235b-a22b"), 2)
    assert calls.qkv == ((72 * 128 // 2, 4096),)
    assert calls.output == ((4096, 64 * 128 // 2),)
    heads = {"kv_dtype": "bf16", "q_heads": 32, "kv_heads": 2, "head_dim": 128}
    assert calls.decode(7, 900) == GqaDecode(**heads, batch=7, kv_len=900)
    assert calls.prefill(3, 512) == GqaPrefill(**heads, batch=3, length=512)
    assert calls.all_reduce(5, 4096).message_bytes == 5 * 4096 * 2
    latent = ModelCalls(load_model("deepseek-v3"), 4)
    assert latent.decode(2, 9) == MlaDecode(kv_dtype="bf16", heads=32, batch=2, kv_len=9)
    assert latent.experts(1).dtype == "fp8_block"


@pytest.mark.parametrize(("batch", "length"), [(1, 512), (4, 1024), (16, 100), (3, 4096)])
def test_prompts_without_context_are_asked_as_they_are(batch, length):
    found = equal_prompts(batch * length, batch * length * (length + 1) // 2)
    assert found[0] == batch
    assert found[1] == pytest.approx(length, abs=1)


@pytest.mark.parametrize("done", [512, 3584, 30_000])
def test_a_chunk_behind_a_context_is_one_prompt_of_as_many_pairs(done):
    pairs = 512 * done + 512 * 513 // 2
    batch, length = equal_prompts(512, pairs)
    assert batch == 1
    assert length**2 / 2 == pytest.approx(pairs, rel=1e-3)
