"""Fitting a roofline to measurements: least absolute relative error, by damped Gauss-Newton steps.

The logarithm of the predicted time is fitted to that of the measured one. Each parameter is taken
as its logarithm, so that it stays positive; efficiencies stay at or below one. Absolute errors
are minimised by weighting squares with the inverse of the last error, so that outliers do not
pull the fit. The best of a few starting points is taken. There is nothing random in it.
"""

import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from perfmodel.kernels.roofline import Floats, Roofline

Mask = npt.NDArray[np.bool_]
_STEPS = 40
_LEAST_ERROR = 0.01  # below it, an error counts as a square: keeps the weights finite
# Logarithms: start, item, compute and memory efficiency, sharpness.
_LOWEST = np.log([1e-7, 1e-12, 0.01, 0.01, 1.0])
_HIGHEST = np.log([1e-3, 1e-5, 1.0, 1.0, 16.0])
_NEUTRAL = np.log([1e-7, 1e-12, 1.0, 1.0, 1.0])
_DIFFERENCE = 1e-5
_FEW = 300  # measurements that are enough to find the best start
_STARTS = tuple(itertools.product((0.3, 0.7), (0.5, 0.85), (1.2, 4.0)))


def fit_roofline(loads: Floats, seconds: Floats) -> Roofline:
    """The roofline of calls with these ``loads`` (``roofline.loads``) and measured times.

    A parameter that no call depends on (work items, arithmetic) stays at its neutral value.
    """
    target = np.log(seconds)
    compute, _, items = loads.max(axis=0) > 0
    free = np.array([True, items, compute, True, compute])
    few = slice(None, None, max(1, len(target) // _FEW))
    starts = []
    for efficiency, memory, sharpness in _STARTS:
        start = np.log([max(seconds.min(), 2e-7), 1e-8, efficiency, memory, sharpness])
        start = np.where(free, start, _NEUTRAL)
        found = _descend(start, free, loads[few], target[few])
        starts.append((_error(found, loads, target), found.tolist()))
    best = np.array(min(starts)[1])
    fitted = _roofline(_descend(best, free, loads, target))
    return fitted if items else replace(fitted, item_s=0.0)


def relative_errors(roofline: Roofline, loads: Floats, seconds: Floats) -> Floats:
    """Predicted over measured, less one, in percent."""
    errors: Floats = 100 * (roofline.seconds(loads) / seconds - 1)
    return errors


def _roofline(logs: Floats) -> Roofline:
    start, item, compute, memory, sharpness = np.exp(logs).tolist()
    return Roofline(
        start_s=start,
        item_s=item,
        compute_efficiency=compute,
        memory_efficiency=memory,
        sharpness=sharpness,
    )


def _residuals(logs: Floats, loads: Floats, target: Floats) -> Floats:
    residuals: Floats = np.log(_roofline(logs).seconds(loads)) - target
    return residuals


def _error(logs: Floats, loads: Floats, target: Floats) -> float:
    return float(np.abs(_residuals(logs, loads, target)).mean())


def _descend(logs: Floats, free: Mask, loads: Floats, target: Floats) -> Floats:
    damping = 1e-2
    residuals = _residuals(logs, loads, target)
    for _ in range(_STEPS):
        slopes = np.empty((len(target), len(logs)))
        for column, step in enumerate(np.eye(len(logs)) * _DIFFERENCE):
            slopes[:, column] = _residuals(logs + step, loads, target) - residuals
        slopes = np.where(free, slopes / _DIFFERENCE, 0.0)
        weights = 1 / np.maximum(np.abs(residuals), _LEAST_ERROR)
        square = slopes.T @ (weights[:, None] * slopes)
        pull = slopes.T @ (weights * residuals)
        scale = np.diag(np.diag(square) + 1e-9 * square.trace())  # never singular
        moved = np.clip(logs - np.linalg.solve(square + damping * scale, pull), _LOWEST, _HIGHEST)
        after = _residuals(moved, loads, target)
        if np.abs(after).mean() < np.abs(residuals).mean():
            gain = np.abs(residuals).mean() - np.abs(after).mean()
            logs, residuals, damping = moved, after, max(damping / 4, 1e-8)
            if gain < 1e-7:
                break
        else:
            damping *= 8
            if damping > 1e8:
                break
    return logs
