"""Mean of a few independent runs, and how sure it is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean and the half width of its 95 % confidence interval; None with a single value."""

    mean: float
    half_width: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of equally distributed values, with Student's interval."""
    mean = float(np.mean(values))
    if len(values) == 1:
        return Estimate(mean, None)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Estimate(mean, student_t(len(values) - 1) * error)


def student_t(freedom: int, level: float = LEVEL) -> float:
    """The value that Student's t exceeds in size with probability ``1 - level``.

    Found by halving on the distribution's finite series for whole degrees of freedom (Abramowitz
    and Stegun, 26.7.3 and 26.7.4), in which ``t = sqrt(freedom) * tan(angle)``.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if _within(middle, freedom) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """Probability that ``abs(t)`` is below ``sqrt(freedom) * tan(angle)``."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for step in range((freedom - odd) // 2):
        total += term
        factor = 2 * step + 1 + odd
        term *= cosine**2 * factor / (factor + 1)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
