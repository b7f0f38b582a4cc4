"""Logits of a router, as the model computes them and as lookahead does.

For one token, with ``x`` the residual stream before attention, ``o`` the output of attention, and
``W`` the output projection::

    z      = x + o W
    logits = (z / rms(z) * g) R                           conventional
           = 1 / rms(z) * (x diag(g) R  +  o W diag(g) R)
                           early term      attention term

The early term is there before attention, the attention term as soon as attention ends: it takes
one product with the *combined weight* ``W diag(g) R``, which is constant. Their sum lacks only the
positive factor 1 / rms(z).

Results have the type of the tokens, FP32 as in the DASH paper or FP64 for a reference, whose
weights may stay in FP32.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Rounding = Callable[[Array], Array]
_COLUMNS = 512  # of the output projection that are widened to FP64 at once
NORM_EPS = 1e-6  # added to the mean square; any value leaves the factor positive


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """Weights of one layer.

    Attributes:
        output: output projection, attention width x hidden.
        norm: weight of the norm before the router, hidden.
        router: hidden x experts.
        bias: added to the scores of the experts, or None.
        attention_norm: weight of the norm of the attention output, hidden; None where there is
            no such norm.
    """

    output: Array
    norm: Array
    router: Array
    bias: Array | None = None
    attention_norm: Array | None = None


def as_they_are(values: Array) -> Array:
    """No rounding but that of the arrays' own type."""
    return values


def rms_factor(rows: Array) -> Array:
    """``1 / rms`` of each row, as a column."""
    mean = np.mean(np.square(rows), axis=-1, keepdims=True)
    factor: Array = 1 / np.sqrt(mean + rows.dtype.type(NORM_EPS))
    return factor


def router_input(
    weights: LayerWeights, residual: Array, attention: Array, rounded: Rounding = as_they_are
) -> Array:
    """Output projection and residual addition; tokens x hidden.

    ``rounded`` is applied to what each operator hands to the next.
    """
    projected = rounded(_project(attention, weights.output))
    if weights.attention_norm is not None:
        projected = rounded(projected * rms_factor(projected) * weights.attention_norm)
    return rounded(residual + projected)


def conventional_logits(
    weights: LayerWeights, stream: Array, rounded: Rounding = as_they_are
) -> Array:
    """Normalisation and router on ``router_input``; tokens x experts."""
    logits: Array = rounded(stream * rms_factor(stream) * weights.norm) @ weights.router
    return logits


def _project(attention: Array, output: Array) -> Array:
    if attention.dtype == output.dtype:
        product: Array = attention @ output
        return product
    parts = [
        attention @ output[:, start : start + _COLUMNS].astype(attention.dtype)
        for start in range(0, output.shape[1], _COLUMNS)
    ]
    return np.concatenate(parts, axis=1)


def combined_weight(weights: LayerWeights) -> Array:
    """``W diag(g) R`` in FP64, attention width x experts: made once, before inference."""
    width, hidden = weights.output.shape
    total = np.zeros((width, weights.router.shape[1]))
    for start in range(0, hidden, _COLUMNS):
        part = slice(start, start + _COLUMNS)
        folded = weights.norm[part, None].astype(float) * weights.router[part].astype(float)
        if weights.attention_norm is not None:
            folded *= weights.attention_norm[part, None].astype(float)
        total += weights.output[:, part].astype(float) @ folded
    return total


def early_term(weights: LayerWeights, residual: Array) -> Array:
    """What the residual stream before attention contributes; tokens x experts."""
    term: Array = (residual * weights.norm) @ weights.router
    return term


def attention_term(combined: Array, attention: Array) -> Array:
    """What the output of attention contributes; tokens x experts."""
    term: Array = attention @ combined
    return term
