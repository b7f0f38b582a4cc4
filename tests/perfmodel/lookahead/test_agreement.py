"""Counts of agreement: near-ties that are planted are found, and nothing else differs."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw.errors import InputError
from perfmodel.lookahead import decide, measure, routed_layer
from perfmodel.lookahead.agreement import compare
from perfmodel.lookahead.synthetic import synthetic_tokens, synthetic_weights, to_bfloat16

QWEN = routed_layer("qwen3-235b-a22b")
SMALL = dataclasses.replace(QWEN, hidden=96, attention_width=128, experts=16, top_k=4)


def test_equal_experts_are_ties_and_the_rest_agrees():
    """Experts 0 and 1 have one router column: a tie wherever they stand at the edge."""
    weights = synthetic_weights(SMALL, 5)
    weights.router[:, 1] = weights.router[:, 0]
    residual, attention = synthetic_tokens(SMALL, 2000, 5)
    seen = compare(SMALL, weights, residual, attention)
    wide = [values.astype(float) for values in (weights.output, weights.norm, weights.router)]
    sums = ((residual + attention.astype(float) @ wide[0]) * wide[1]) @ wide[2]
    # Of the 14 others, exactly three above: the pair holds places four and five.
    above = (sums[:, 2:] > sums[:, :1]).sum(axis=1)
    assert seen.rounding is not None
    assert seen.rounding.near_ties >= seen.rounding.ties == (above == 3).sum() > 100
    assert seen.rounding.smallest_margin == 0
    assert 2000 - seen.equal <= seen.rounding.near_ties


def test_experts_closer_than_rounding_are_near_ties():
    weights = synthetic_weights(SMALL, 6)
    weights.router[:, 1] = weights.router[:, 0] * np.float32(1 + 2**-22)
    residual, attention = synthetic_tokens(SMALL, 2000, 6)
    seen = compare(SMALL, weights, residual, attention)
    assert seen.rounding is not None
    assert seen.rounding.near_ties > 100
    assert seen.rounding.smallest_margin > 0
    assert 0 < 2000 - seen.equal <= seen.rounding.near_ties


@given(
    st.integers(0, 2**31), st.sampled_from(["qwen3-235b-a22b", "deepseek-v2", "llama4-maverick"])
)
def test_only_near_ties_differ(seed, model):
    layer = routed_layer(model)
    groups = layer.router.groups
    small = dataclasses.replace(
        layer, hidden=64, attention_width=96, experts=4 * max(groups, 4),
        top_k=min(layer.top_k, 4),
    )  # fmt: skip
    seen = measure(small, tokens=50, seed=seed)
    assert seen.rounding is not None
    assert seen.tokens - seen.equal <= seen.rounding.near_ties
    assert seen.rounding.ties <= seen.rounding.near_ties
    assert seen.rounding.worst_error < 1e-5


def check_full_size(name, tokens):
    seen = measure(routed_layer(name), tokens=tokens, seed=7)
    if not decide(routed_layer(name).router).early:
        assert seen.rounding is None
        assert seen.equal < tokens
        return
    assert seen.rounding is not None
    assert tokens - seen.equal <= seen.rounding.near_ties <= 0.02 * tokens
    # The largest sums have 16,384 terms: rounding of some 2**-24 * sqrt(terms) of a logit.
    assert seen.rounding.worst_error < 2e-5
    # BF16 is 2**16 times as coarse, yet moves logits by less than two percent of their size.
    assert seen.equal_bf16_combined >= 0.9 * tokens
    assert seen.equal_bf16_activations >= 0.8 * tokens


def test_one_layer_at_full_size():
    check_full_size("mixtral-8x22b", 32)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["qwen3-235b-a22b", "llama4-maverick", "deepseek-v2", "grok-1", "deepseek-v3", "glm-5"]
)
def test_layers_at_full_size(name):
    check_full_size(name, 512)


def test_the_same_seed_gives_the_same_counts():
    assert measure(SMALL, tokens=80, seed=3) == measure(SMALL, tokens=80, seed=3)


def test_a_forbidden_early_choice_takes_wrong_experts():
    layer = dataclasses.replace(SMALL, router=routed_layer("glm-5").router)
    seen = measure(layer, tokens=200, seed=1)
    assert seen.rounding is None
    assert seen.equal < 150 and seen.common_experts < 0.95


def test_bfloat16_rounds_to_nearest_even():
    step = 2.0**-7  # of BF16 between 1 and 2
    values = np.array([1 + step / 2, 1 + 3 * step / 2, 1 + 0.6 * step, -1 - 0.4 * step, 0.0, 3e38])
    rounded = to_bfloat16(values.astype(np.float32))
    assert rounded[:5].tolist() == [1.0, 1 + 2 * step, 1 + step, -1.0, 0.0]
    assert abs(rounded[5] / 3e38 - 1) < 2**-8


@pytest.mark.parametrize(
    ("tokens", "seed", "message"),
    [
        (0, 0, "tokens is 0: must be 1 to 65536"),
        (65537, 0, "tokens is 65537"),
        (1, -1, "seed is -1"),
    ],
)
def test_numbers_out_of_range(tokens, seed, message):
    with pytest.raises(InputError, match=message):
        measure(SMALL, tokens=tokens, seed=seed)
