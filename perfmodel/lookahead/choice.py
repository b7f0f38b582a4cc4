"""What a router takes from its logits, and how far the choice is from another one."""

import numpy as np
import numpy.typing as npt

from perfmodel.lookahead.terms import Array
from perfmodel.models.router import Router

Mask = npt.NDArray[np.bool_]


def scores(router: Router, logits: Array) -> Array:
    """What is ranked, before a bias; in the type of the logits."""
    if router.score == "logit":
        return logits
    if router.score == "sigmoid":
        sigmoid: Array = 1 / (1 + np.exp(-logits))
        return sigmoid
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    softmax: Array = grown / grown.sum(axis=-1, keepdims=True)
    return softmax


def choose(router: Router, logits: Array, top_k: int, bias: Array | None = None) -> Mask:
    """The experts taken for each token: ``top_k`` in each row, lower numbers first at a tie."""
    ranked = scores(router, logits)
    if bias is not None:
        ranked = ranked + bias
    return choose_ranked(router, ranked, top_k)


def choose_ranked(router: Router, ranked: Array, top_k: int) -> Mask:
    """The same from what is ranked: scores, or anything of their order."""
    if router.groups > 1:
        kept = _best(_group_scores(router, ranked), router.kept_groups)
        ranked = np.where(_spread(router, kept, ranked.shape), ranked, -np.inf)
    return _best(ranked, top_k)


def margin(router: Router, logits: Array, top_k: int) -> Array:
    """For each token, the least difference of logits that decided the choice.

    Between the last expert taken and the first one left, and likewise for groups, ranked by
    their best logit. Another choice takes a change of at least half of it in some logit; zero is
    a tie. Infinite where everything is taken.
    """
    gaps = np.full(len(logits), np.inf)
    if router.groups > 1:
        best = logits.reshape(len(logits), router.groups, -1).max(axis=2)
        gaps = _gap(best, router.kept_groups)
        kept = _best(best, router.kept_groups)
        logits = np.where(_spread(router, kept, logits.shape), logits, -np.inf)
    least: Array = np.minimum(gaps, _gap(logits, top_k))
    return least


def _group_scores(router: Router, ranked: Array) -> Array:
    grouped = np.sort(ranked.reshape(len(ranked), router.groups, -1), axis=2)
    count = 1 if router.group_score == "max" else 2
    total: Array = grouped[:, :, -count:].sum(axis=2)
    return total


def _spread(router: Router, kept: Mask, shape: tuple[int, ...]) -> Mask:
    """Groups to their experts."""
    return np.repeat(kept, shape[1] // router.groups, axis=1)


def _best(ranked: Array, count: int) -> Mask:
    order = np.argsort(-ranked, axis=-1, kind="stable")[:, :count]
    mask = np.zeros(ranked.shape, bool)
    np.put_along_axis(mask, order, True, axis=-1)
    return mask


def _gap(ranked: Array, count: int) -> Array:
    if count >= ranked.shape[1]:
        return np.full(len(ranked), np.inf)
    falling = -np.sort(-ranked, axis=-1)
    gap: Array = falling[:, count - 1] - falling[:, count]
    return gap
