"""How a layer chooses its experts, as the reference implementation of the model does it."""

from dataclasses import dataclass
from typing import Literal

Score = Literal["softmax", "sigmoid", "logit"]
GroupScore = Literal["max", "top-2 sum"]


@dataclass(frozen=True, kw_only=True)
class Router:
    """The facts of a router that decide which experts it takes.

    A token's input to the router is normalised by its root mean square, multiplied by the router's
    matrix, and turned into one score for each expert; the k best are taken. With groups, only
    experts of the best groups take part. What happens to the weights of the chosen experts
    afterwards (renormalised, scaled) is not part of the choice.

    Attributes:
        score: what is ranked: the logits, or a function of them that grows with each.
        additive_bias: a constant of each expert is added to its score before the ranking.
        groups: equal groups of consecutive experts; 1 for none.
        kept_groups: groups of which experts are taken.
        group_score: how a group is ranked: by its best score, or by the sum of its best two.
        normalised_attention: the output of attention is normalised by itself before it is added
            to the residual stream.
        source: the public source of these facts.
    """

    score: Score
    source: str
    additive_bias: bool = False
    groups: int = 1
    kept_groups: int = 1
    group_score: GroupScore = "max"
    normalised_attention: bool = False
