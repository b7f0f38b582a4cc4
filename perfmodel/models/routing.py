"""How many experts of a layer the rows of a pass touch.

Each touched expert is fetched once in a pass and serves all rows that chose it, so their number is
what delivery depends on. It is a distribution: ``balanced`` rows touch as many as they can,
``iid`` rows each choose their k at random, independently of one another.
"""

from collections.abc import Callable
from functools import cache
from math import comb
from typing import Literal

import numpy as np
import numpy.typing as npt

Routing = Literal["balanced", "iid"]
ROUTINGS: tuple[Routing, ...] = ("balanced", "iid")
Touched = tuple[tuple[int, float], ...]  # numbers of distinct experts, and their probabilities


def touched_experts(routing: Routing, experts: int, top_k: int) -> Callable[[int], Touched]:
    """A function from rows to the distribution of distinct experts they touch in one layer.

    For ``iid`` the distribution is exact: a row that finds ``d`` experts touched adds to them by
    the hypergeometric distribution, row after row. Groups of experts, which some routers choose
    first, are not looked at.
    """
    if routing == "balanced":
        return lambda rows: ((min(experts, top_k * rows), 1.0),)
    return _Occupancy(experts, top_k)


class _Occupancy:
    """Distinct experts after any number of rows; what was worked out is kept."""

    def __init__(self, experts: int, top_k: int) -> None:
        self._step = _one_row(experts, top_k)
        self._chances = [np.eye(1, experts + 1)[0]]

    def __call__(self, rows: int) -> Touched:
        chances = self._chances
        # The chance that an expert is left falls with every row; 1e-15 is lost in rounding.
        while len(chances) <= rows and chances[-1][-1] < 1 - 1e-15:
            chances.append(chances[-1] @ self._step)
        last = chances[min(rows, len(chances) - 1)]
        return tuple((int(count), float(last[count])) for count in np.flatnonzero(last))


@cache
def _one_row(experts: int, top_k: int) -> npt.NDArray[np.float64]:
    """Chances to come from ``d`` (line) to ``e`` (column) touched experts with one more row."""
    choices = comb(experts, top_k)
    step = np.zeros((experts + 1, experts + 1))
    for touched in range(experts + 1):
        for new in range(min(top_k, experts - touched) + 1):
            ways = comb(experts - touched, new) * comb(touched, top_k - new)
            step[touched, touched + new] = ways / choices
    return step
