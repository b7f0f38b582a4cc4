"""Errors of interpolation, measured by leaving points out.

*One axis*: a point is left out and estimated from its neighbours on one axis, for each axis in
turn. *All axes*: its neighbours on every axis are all that is left, so that it is the middle of a
cell, the hardest place. Neighbours that end up further apart than a table may bridge are skipped,
so the gaps are those between which tables are used, and larger than most.
"""

import itertools

import numpy as np

from perfmodel.kernels.roofline import Floats
from perfmodel.kernels.table import MOST_GAP, Grid

_REACH = MOST_GAP * (1 + 1e-9)  # sizes like 4097 beside 1024 do not count, rounding does


def one_axis_errors(grid: Grid, axis: int) -> Floats:
    """Estimated over measured, less one, in percent, for every point with neighbours."""
    sizes = grid.axes[axis]
    lines = np.moveaxis(grid.ratios, axis, -1).reshape(-1, len(sizes))
    errors = []
    for line in lines:
        there = np.flatnonzero(~np.isnan(line))
        low, middle, high = there[:-2], there[1:-1], there[2:]
        near = sizes[high] / sizes[low] <= _REACH
        low, middle, high = low[near], middle[near], high[near]
        share = np.log(sizes[middle] / sizes[low]) / np.log(sizes[high] / sizes[low])
        errors.append((1 - share) * line[low] + share * line[high] - line[middle])
    return _percent(np.concatenate(errors))


def all_axes_errors(grid: Grid) -> Floats:
    """The same from the corners of the cell that its neighbours on all axes form."""
    inner = [np.arange(1, len(axis) - 1) for axis in grid.axes]
    if not all(map(len, inner)):
        return np.empty(0)
    estimate = np.zeros([len(indices) for indices in inner])
    usable = np.ones(estimate.shape, bool)
    for corner in itertools.product((-1, 1), repeat=len(inner)):
        weight = np.ones(estimate.shape)
        for number, (side, indices, axis) in enumerate(zip(corner, inner, grid.axes, strict=True)):
            low, high = axis[indices - 1], axis[indices + 1]
            share = np.log(axis[indices] / low) / np.log(high / low)
            shape = [-1 if k == number else 1 for k in range(len(inner))]
            weight = weight * (share if side > 0 else 1 - share).reshape(shape)
            usable &= (high / low <= _REACH).reshape(shape)
        places = [indices + side for side, indices in zip(corner, inner, strict=True)]
        estimate += weight * grid.ratios[np.ix_(*places)]
    errors = (estimate - grid.ratios[np.ix_(*inner)])[usable]
    return _percent(errors[~np.isnan(errors)])


def _percent(logs: Floats) -> Floats:
    errors: Floats = 100 * np.expm1(logs)
    return errors
