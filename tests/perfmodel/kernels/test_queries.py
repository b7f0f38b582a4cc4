"""Operations and bytes of kernels by hand, and words and numbers that are refused."""

import pytest

from hw.errors import InputError
from perfmodel.kernels import (
    KERNELS,
    Collective,
    Gemm,
    GqaDecode,
    GqaPrefill,
    MlaDecode,
    MlaPrefill,
    Moe,
    kernel_named,
)  # fmt: skip

EXPERTS = {"hidden": 4096, "inner": 1536, "top_k": 8, "experts": 128}


def moe(tokens, distribution="balanced", tp=1, ep=1, dtype="bf16"):
    return Moe(dtype=dtype, distribution=distribution, **EXPERTS, tp=tp, ep=ep, tokens=tokens)


@pytest.mark.parametrize(
    ("call", "flops", "data_bytes", "items"),
    [
        (Gemm(dtype="bf16", m=3, n=5, k=7), 2 * 3 * 5 * 7, 2 * (35 + 21 + 15), 0),
        # FP8 operands, 16-bit results.
        (Gemm(dtype="fp8_block", m=3, n=5, k=7), 2 * 3 * 5 * 7, 35 + 21 + 30, 0),
        # Two sequences, four heads on two KV heads of eight, ten tokens of context.
        (
            GqaDecode(kv_dtype="bf16", q_heads=4, kv_heads=2, head_dim=8, batch=2, kv_len=10),
            2 * 4 * 10 * 8 * 2 * 2,
            2 * (10 * 2 * 8 * 2 * 2) + 2 * (2 * 4 * 8 * 2),
            4,
        ),
        # Half of the ten by ten pairs, as the tables count causal attention.
        (
            GqaPrefill(kv_dtype="bf16", q_heads=4, kv_heads=2, head_dim=8, batch=1, length=10),
            4 * 8 * 2 * 2 * 10 * 10 / 2,
            2 * 10 * 8 * (4 + 4 + 2 + 2),
            0,
        ),
        # The latent of 576 serves 16 heads: 576 to score, 512 to gather.
        (
            MlaDecode(kv_dtype="bf16", heads=16, batch=1, kv_len=10),
            2 * 16 * 10 * (576 + 512),
            2 * (10 * 576 + 16 * (576 + 512)),
            1,
        ),
        (
            MlaPrefill(kv_dtype="bf16", heads=16, batch=1, length=10),
            2 * 16 * (10 * 10 / 2) * (192 + 128),
            2 * 16 * 10 * (192 + 192 + 128 + 128),
            0,
        ),
        (Collective(op="all_reduce", gpus=8, message_bytes=800), 0, 2 * 7 * 100, 7),
        (Collective(op="all_gather", gpus=4, message_bytes=800), 0, 3 * 200, 3),
    ],
    ids=lambda value: value.NAME if hasattr(value, "NAME") else "",
)  # fmt: skip
def test_work_by_hand(call, flops, data_bytes, items):
    assert (call.flops, call.data_bytes, call.items) == (flops, data_bytes, items)


def test_experts_that_get_a_row():
    assert moe(1).items == 8
    assert moe(16).items == moe(1000).items == 128
    assert moe(16, ep=8).items == 16
    # One token out of many GPUs brings this one less than a row: one expert all the same.
    assert moe(1, ep=16).items == 1
    uneven = moe(16, "power_law_1.2")
    assert uneven.items == pytest.approx(128 * (1 - (127 / 128) ** 128))


def test_rows_of_an_expert_come_in_tiles():
    params = 3 * 4096 * 1536
    assert moe(1).flops == 2 * params * 8 * 64
    assert moe(1024).flops == 2 * params * 128 * 64  # 64 rows each: one tile
    assert moe(1040).flops == 2 * params * 128 * 128
    assert moe(1, tp=2).data_bytes == 8 * params + 2 * 2 * 8 * (4096 + 768)
    assert moe(1, dtype="fp8").data_bytes == 8 * params + 2 * 2 * 8 * (4096 + 1536)


def test_small_weights_tell_nothing_about_memory():
    assert not Gemm(dtype="bf16", m=1, n=2048, k=2048).fit_to_bandwidth
    assert Gemm(dtype="bf16", m=1, n=4096, k=2048).fit_to_bandwidth


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gemm(dtype="int4", m=1, n=1, k=1), "gemm: dtype is 'int4': must be one of bf16"),
        (lambda: Gemm(dtype="bf16", m=0, n=1, k=1), "gemm: m is 0: must be a whole number from 1"),
        (lambda: Gemm(dtype="bf16", m=1, n=1.5, k=1), "gemm: n is 1.5"),
        (lambda: Gemm(dtype="bf16", m=1, n=True, k=1), "gemm: n is True"),
        (lambda: moe(1, "even"), "moe: distribution is 'even'"),
        (lambda: kernel_named("conv"), "kernel 'conv' is unknown: choose gemm, moe"),
    ],
)
def test_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_columns_are_words_then_numbers():
    for family in KERNELS.values():
        assert family.columns() == (*family.LABELS, *family.EXACT, *family.AXES)
