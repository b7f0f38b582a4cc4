"""Weights and tokens of a layer from a seed, at the shape of a real model.

The values are not those of any model. Weights are normal, scaled so that projections keep the
size of their inputs, and rounded to BF16 as checkpoints are; the norm weights and the channels of
the residual stream differ in size, as they do in trained models.
"""

import numpy as np

from perfmodel.lookahead.layers import RoutedLayer
from perfmodel.lookahead.terms import Array, LayerWeights


def to_bfloat16(values: Array) -> Array:
    """FP32 values rounded to the nearest BF16, ties to even, kept in FP32; finite values only."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)


def synthetic_weights(layer: RoutedLayer, seed: int) -> LayerWeights:
    """Weights of one layer, FP32 arrays of BF16 values."""
    random = np.random.default_rng([seed, 0])

    def normal(*shape: int) -> Array:
        values = random.standard_normal(shape, np.float32)
        values /= np.float32(np.sqrt(shape[0]))
        return to_bfloat16(values)

    def norm() -> Array:
        return to_bfloat16(np.exp(0.3 * random.standard_normal(layer.hidden)))

    return LayerWeights(
        output=normal(layer.attention_width, layer.hidden),
        norm=norm(),
        router=normal(layer.hidden, layer.experts),
        # Half the spread of sigmoid scores, which lie around 0.2 to each side of one half.
        bias=(
            random.normal(0, 0.1, layer.experts).astype(np.float32)
            if layer.router.additive_bias
            else None
        ),
        attention_norm=norm() if layer.router.normalised_attention else None,
    )


def synthetic_tokens(layer: RoutedLayer, tokens: int, seed: int) -> tuple[Array, Array]:
    """Residual stream and output of attention, tokens x width, FP32 arrays of BF16 values.

    Tokens differ in size by a factor of a few in both, so that neither term is always the larger.
    """
    random = np.random.default_rng([seed, 1])

    def rows(width: int) -> Array:
        sizes = np.exp(0.5 * random.standard_normal((tokens, 1)))
        return sizes * random.standard_normal((tokens, width))

    channels = np.exp(0.5 * random.standard_normal(layer.hidden))
    return to_bfloat16(rows(layer.hidden) * channels), to_bfloat16(rows(layer.attention_width))
