"""Both ways of choosing side by side, on synthetic weights at the shape of a real layer.

In exact arithmetic they choose alike. In FP32 both round, each in its own way, so tokens whose
choice hangs on less than that may differ. They are counted, not hidden: a token is a *near-tie*
where the logits that decide its choice, in FP64, differ by no more than the rounding of two logits
on either way can make up. Only near-ties can differ.
"""

from dataclasses import asdict, dataclass

import numpy as np

from hw.errors import InputError
from perfmodel.lookahead.choice import Mask, choose, choose_ranked, margin, scores
from perfmodel.lookahead.layers import RoutedLayer
from perfmodel.lookahead.rule import decide
from perfmodel.lookahead.synthetic import synthetic_tokens, synthetic_weights, to_bfloat16
from perfmodel.lookahead.terms import (
    Array,
    LayerWeights,
    attention_term,
    combined_weight,
    conventional_logits,
    early_term,
    rms_factor,
    router_input,
)
from perfmodel.models import Router

_MOST_TOKENS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """How FP32 rounding bears on the choices of a router that may choose early.

    Attributes:
        ties: tokens whose deciding difference is exactly zero in FP32, on either way.
        near_ties: tokens whose deciding difference FP32 cannot tell; ties among them.
        worst_error: largest part of a difference of two logits that is rounding, on either way.
        smallest_margin: least deciding difference of any token, in FP64.
    """

    ties: int
    near_ties: int
    worst_error: float
    smallest_margin: float


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Tokens for which the early and the conventional way take the same set of experts.

    Attributes:
        equal: both ways in FP32.
        common_experts: share of the experts of the conventional way that the early way takes, too.
        equal_bf16_combined: the same with the combined weight stored in BF16.
        equal_bf16_activations: the conventional way rounds what its operators hand on to BF16, as
            engines do; its router stays in FP32.
        rounding: None for a router that must not choose early.
    """

    tokens: int
    seed: int
    equal: int
    common_experts: float
    equal_bf16_combined: int
    equal_bf16_activations: int
    rounding: Rounding | None

    def as_dict(self) -> dict[str, object]:
        """JSON-ready values."""
        return asdict(self)


def measure(layer: RoutedLayer, *, tokens: int, seed: int) -> Agreement:
    """Choose for ``tokens`` random tokens on both ways.

    For a router that must not choose early, the early way ignores what forbids it: the bias, and
    the factors of both normalisations. The counts then tell how many choices would be wrong.

    Raises:
        InputError: a number is out of range.
    """
    if not 1 <= tokens <= _MOST_TOKENS:
        raise InputError(f"tokens is {tokens}: must be 1 to {_MOST_TOKENS}")
    if seed < 0:
        raise InputError(f"seed is {seed}: must not be negative")
    residual, attention = synthetic_tokens(layer, tokens, seed)
    return compare(layer, synthetic_weights(layer, seed), residual, attention, seed=seed)


def compare(
    layer: RoutedLayer, weights: LayerWeights, residual: Array, attention: Array, *, seed: int = 0
) -> Agreement:
    """The same for given weights and tokens, all FP32."""
    router, top_k = layer.router, layer.top_k
    combined = combined_weight(weights).astype(np.float32)
    base = early_term(weights, residual)
    early = base + attention_term(combined, attention)
    coarse = base + attention_term(to_bfloat16(combined), attention)
    late = conventional_logits(weights, router_input(weights, residual, attention))
    stream = router_input(weights, residual, attention, to_bfloat16)
    native = conventional_logits(weights, stream, to_bfloat16)

    chosen = choose_ranked(router, early, top_k)
    taken = choose(router, late, top_k, weights.bias)
    rounding = None
    if decide(router).early:
        wide = router_input(weights, residual.astype(float), attention.astype(float))
        reference = conventional_logits(weights, wide)
        rounding = _rounding(router, top_k, late, early, reference, rms_factor(wide))
    return Agreement(
        tokens=len(residual),
        seed=seed,
        equal=_same(chosen, taken),
        common_experts=int((chosen & taken).sum()) / int(taken.sum()),
        equal_bf16_combined=_same(choose_ranked(router, coarse, top_k), taken),
        equal_bf16_activations=_same(chosen, choose(router, native, top_k, weights.bias)),
        rounding=rounding,
    )


def _rounding(
    router: Router, top_k: int, late: Array, early: Array, reference: Array, factor: Array
) -> Rounding:
    ranked = scores(router, late)
    gaps = margin(router, reference, top_k)
    error = np.maximum(
        _spread(_as_logits(router, ranked) - reference), _spread(early * factor - reference)
    )
    ties = (margin(router, early, top_k) == 0) | (margin(router, ranked, top_k) == 0)
    return Rounding(
        ties=int(ties.sum()),
        near_ties=int((gaps <= error).sum()),
        worst_error=float(error.max()),
        smallest_margin=float(gaps.min()),
    )


def _as_logits(router: Router, ranked: Array) -> Array:
    """Logits, up to one constant a token, that give these scores exactly."""
    wide = ranked.astype(float)
    if router.score == "logit":
        return wide
    with np.errstate(divide="ignore"):  # a score that vanished has no logit left: all is near
        logits: Array = np.log(wide)
        if router.score == "sigmoid":
            logits -= np.log1p(-wide)
    return logits


def _spread(error: Array) -> Array:
    """The most that the errors of a token change a difference of two of its logits."""
    spread: Array = error.max(axis=1) - error.min(axis=1)
    return spread


def _same(one: Mask, other: Mask) -> int:
    return int((one == other).all(axis=1).sum())
