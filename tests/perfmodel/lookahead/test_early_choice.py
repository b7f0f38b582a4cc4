"""The early choice against exact arithmetic on whole numbers, and FP64 on others."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perfmodel.lookahead.choice import choose, choose_ranked, margin
from perfmodel.lookahead.terms import (
    LayerWeights,
    attention_term,
    combined_weight,
    conventional_logits,
    early_term,
    rms_factor,
    router_input,
)
from perfmodel.models import Router

SOFTMAX = Router(score="softmax", source="made up")
GROUPS = Router(score="softmax", groups=4, kept_groups=2, source="made up")
GROK = Router(score="softmax", normalised_attention=True, source="made up")


@st.composite
def whole_numbers(draw):
    """A layer and tokens of small whole numbers, which every type holds exactly."""
    width, hidden, experts = (
        draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(st.integers(2, 8)),
    )  # fmt: skip
    tokens = draw(st.integers(1, 4))

    def ints(*shape):
        return draw(arrays(np.int64, shape, elements=st.integers(-5, 5)))

    return (
        ints(width, hidden), ints(hidden), ints(hidden, experts),
        ints(tokens, hidden), ints(tokens, width), draw(st.integers(1, experts)),
    )  # fmt: skip


def exact_sums(output, norm, router, residual, attention):
    """Logits without their factor, by loops over Python integers."""
    rows = []
    for x, o in zip(residual.tolist(), attention.tolist(), strict=True):
        stream = [
            x[j] + sum(o[a] * int(output[a, j]) for a in range(len(o))) for j in range(len(x))
        ]
        rows.append(
            [
                sum(stream[j] * int(norm[j]) * int(router[j, e]) for j in range(len(x)))
                for e in range(router.shape[1])
            ]
        )
    return rows


@given(whole_numbers())
def test_whole_numbers_are_chosen_exactly_and_every_tie_is_seen(case):
    *values, top_k = case
    output, norm, router, residual, attention = (value.astype(np.float32) for value in values)
    weights = LayerWeights(output=output, norm=norm, router=router)
    early = early_term(weights, residual)
    early += attention_term(combined_weight(weights).astype(np.float32), attention)
    sums = exact_sums(*values)
    assert early.tolist() == sums  # no rounding: every partial sum is below 2**24
    chosen, gaps = choose_ranked(SOFTMAX, early, top_k), margin(SOFTMAX, early, top_k)
    for row, mask, gap in zip(sums, chosen, gaps, strict=True):
        best = sorted(range(len(row)), key=lambda e: (-row[e], e))
        assert set(np.flatnonzero(mask)) == set(best[:top_k])
        if top_k < len(row):
            assert gap == row[best[top_k - 1]] - row[best[top_k]]
        else:
            assert gap == np.inf


def floats(shape):
    return arrays(np.float64, shape, elements=st.floats(-4, 4, width=16))


SHAPE = {"width": 5, "hidden": 6, "experts": 8, "tokens": 3}


@st.composite
def layers(draw, attention_norm=False):
    width, hidden, experts, tokens = SHAPE.values()
    weights = LayerWeights(
        output=draw(floats((width, hidden))),
        norm=draw(floats(hidden)),
        router=draw(floats((hidden, experts))),
        attention_norm=draw(floats(hidden)) if attention_norm else None,
    )
    return weights, draw(floats((tokens, hidden))), draw(floats((tokens, width)))


@pytest.mark.parametrize("router", [SOFTMAX, GROUPS], ids=["softmax", "groups"])
@given(layers(), st.integers(1, 4))
def test_early_choice_is_the_conventional_one(router, case, top_k):
    weights, residual, attention = case
    logits = conventional_logits(weights, router_input(weights, residual, attention))
    early = early_term(weights, residual) + attention_term(combined_weight(weights), attention)
    clear = margin(router, logits, top_k) > 1e-9 * (1 + np.abs(logits).max())
    taken = choose(router, logits, top_k)
    assert (choose_ranked(router, early, top_k) == taken)[clear].all()


@given(layers())
def test_logits_are_the_early_sum_times_one_factor_of_the_token(case):
    weights, residual, attention = case
    stream = router_input(weights, residual, attention)
    early = early_term(weights, residual) + attention_term(combined_weight(weights), attention)
    logits = conventional_logits(weights, stream)
    assert logits == pytest.approx(rms_factor(stream) * early, rel=1e-9, abs=1e-6)


@given(layers(attention_norm=True), st.integers(1, 4))
def test_with_normalised_attention_the_order_takes_one_more_factor(case, top_k):
    """Grok-1: early term plus the attention term times 1 / rms(o W)."""
    weights, residual, attention = case
    logits = conventional_logits(weights, router_input(weights, residual, attention))
    projected = attention @ weights.output
    term = rms_factor(projected) * attention_term(combined_weight(weights), attention)
    early = early_term(weights, residual) + term
    # Where the projection all but vanishes, its factor blows up what rounding left of it.
    assume((np.square(projected).mean(axis=1) > 1e-3).all())
    clear = margin(GROK, logits, top_k) > 1e-7 * (1 + np.abs(logits).max())
    taken = choose(GROK, logits, top_k)
    assert (choose_ranked(GROK, early, top_k) == taken)[clear].all()


def test_grok_token_that_changes_experts_with_the_size_of_its_attention_output():
    """The same early and attention term in sum, another choice: the sum does not decide."""
    one = np.eye(2)
    weights = LayerWeights(output=one, norm=np.ones(2), router=one, attention_norm=np.ones(2))
    residual = np.array([[2.0, 0.0], [2.0, 0.0]])
    attention = np.array([[0.0, 1.0], [0.0, 3.0]])  # normalised, both are [0, sqrt(2)]
    logits = conventional_logits(weights, router_input(weights, residual, attention))
    assert choose(GROK, logits, 1).tolist() == [[True, False], [True, False]]
    early = early_term(weights, residual) + attention_term(combined_weight(weights), attention)
    assert choose_ranked(GROK, early, 1).tolist() == [[True, False], [False, True]]


def test_combined_weight_of_more_columns_than_a_block():
    random = np.random.default_rng(3)
    output, norm = random.normal(0, 1, (7, 1100)), random.normal(0, 1, 1100)
    router = random.normal(0, 1, (1100, 3))
    weights = LayerWeights(
        output=output.astype(np.float32), norm=norm.astype(np.float32),
        router=router.astype(np.float32),
    )  # fmt: skip
    wide = [matrix.astype(float) for matrix in (weights.output, weights.norm, weights.router)]
    assert combined_weight(weights) == pytest.approx((wide[0] * wide[1]) @ wide[2], rel=1e-12)
