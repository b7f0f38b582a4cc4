"""Lookahead expert execution (DASH paper, V-C): experts chosen before the output projection.

rule       which routers allow it
terms      the early and the attention term, and the weight that is precomputed for the latter
choice     what a router takes, and how near it is to another choice
synthetic  weights and tokens from a seed
agreement  both ways of choosing side by side
cost       bytes and operations of the extra weight, against the latency it hides
"""

from perfmodel.lookahead.agreement import Agreement, measure
from perfmodel.lookahead.cost import Cost, combined_bytes, cost
from perfmodel.lookahead.layers import LAYERS, RoutedLayer, layer_of, routed_layer
from perfmodel.lookahead.rule import Decision, decide

__all__ = [
    "LAYERS",
    "Agreement",
    "Cost",
    "Decision",
    "RoutedLayer",
    "combined_bytes",
    "cost",
    "decide",
    "layer_of",
    "measure",
    "routed_layer",
]
