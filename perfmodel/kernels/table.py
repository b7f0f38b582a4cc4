"""Measured tables, interpolated between their points and nowhere else.

All calls that differ in nothing but their sizes (``Kernel.AXES``) form a grid. A size between two
measured ones is interpolated linearly in its logarithm, along each axis. What is interpolated is
not the latency but the logarithm of its ratio to a roofline of the same GPU, where there is one: a
roofline knows where a kernel turns from waiting for memory to computing, and what is left is
small and smooth. Without a roofline it is the logarithm of the latency.

Neighbours on an axis may be at most a factor ``MOST_GAP`` apart, the gap at which the errors of
interpolation are measured by leaving points out (``holdout``).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hw.errors import InputError
from perfmodel.kernels.profile_csv import Measurement, ProfileFile
from perfmodel.kernels.queries import Kernel
from perfmodel.kernels.roofline import Floats

MOST_GAP = 4.0
Group = tuple[str, tuple[str | int, ...]]  # kernel, and what its calls have in common
Baseline = Callable[[Sequence[Kernel]], Floats]  # seconds of each call


class OutsideMeasured(InputError):
    """A call that a table has no measurements around."""


@dataclass(frozen=True)
class TableTime:
    """An interpolated latency, and how far from a measured point it is."""

    seconds: float
    distance_octaves: float


def no_baseline(kernels: Sequence[Kernel]) -> Floats:
    """Interpolate latencies as they are."""
    return np.ones(len(kernels))


@dataclass(frozen=True)
class Grid:
    """Measurements of one group.

    Attributes:
        axes: measured sizes, rising, for each axis.
        ratios: logarithm of latency over baseline; NaN where nothing was measured.
    """

    names: tuple[str, ...]
    axes: tuple[Floats, ...]
    ratios: Floats

    @classmethod
    def of(cls, kernels: Sequence[Kernel], seconds: Floats, baseline: Baseline) -> "Grid":
        points = np.array([kernel.point for kernel in kernels], float)
        axes = tuple(np.unique(column) for column in points.T)
        ratios = np.full([len(axis) for axis in axes], np.nan)
        where = tuple(
            np.searchsorted(axis, column) for axis, column in zip(axes, points.T, strict=True)
        )
        ratios[where] = np.log(seconds / baseline(kernels))
        return cls(kernels[0].AXES, axes, ratios)

    def ratio(self, kernel: Kernel) -> tuple[float, float]:
        """Interpolated logarithm, and the distance to the nearest point in octaves.

        Raises:
            OutsideMeasured: no measured neighbours on some axis, or they are too far apart.
        """
        brackets = [
            self._bracket(kernel, name, axis, size)
            for name, axis, size in zip(self.names, self.axes, kernel.point, strict=True)
        ]
        total, distance = 0.0, 0.0
        for corner in itertools.product(*(bracket.ends for bracket in brackets)):
            weight = float(np.prod([share for _, share in corner]))
            value = self.ratios[tuple(index for index, _ in corner)]
            if np.isnan(value):
                sizes = [
                    f"{name}={axis[index]:.0f}"
                    for name, axis, (index, _) in zip(self.names, self.axes, corner, strict=True)
                ]
                raise OutsideMeasured(f"{kernel}: {' '.join(sizes)} was not measured")
            total += weight * float(value)
        distance = max(bracket.octaves for bracket in brackets)
        return total, distance

    def _bracket(self, kernel: Kernel, name: str, axis: Floats, size: float) -> "_Bracket":
        above = int(np.searchsorted(axis, size))
        if above < len(axis) and axis[above] == size:
            return _Bracket(((above, 1.0),), 0.0)
        if above in (0, len(axis)):
            raise OutsideMeasured(
                f"{kernel}: {name} is {size:.0f}: measured from {axis[0]:.0f} to {axis[-1]:.0f}"
            )
        low, high = axis[above - 1], axis[above]
        if high / low > MOST_GAP:
            raise OutsideMeasured(
                f"{kernel}: {name} is {size:.0f}: measured at {low:.0f} and {high:.0f}, further "
                f"apart than a factor {MOST_GAP:g}"
            )
        share = float(np.log(size / low) / np.log(high / low))
        octaves = float(min(np.log2(size / low), np.log2(high / size)))
        return _Bracket(((above - 1, 1 - share), (above, share)), octaves)


@dataclass(frozen=True)
class _Bracket:
    ends: tuple[tuple[int, float], ...]  # indices of neighbours and their weights
    octaves: float


class Table:
    """The grids of a profile.

    Args:
        files: files of one GPU, each a kernel.
        baseline: seconds that a roofline gives to calls of one group.
    """

    def __init__(self, files: Sequence[ProfileFile], baseline: Baseline = no_baseline) -> None:
        self.gpu = files[0].gpu
        self.sources = {file.kernel.NAME: file.source for file in files}
        self._baseline = baseline
        self._rows: dict[Group, list[Measurement]] = {}
        for file in files:
            for row in file.rows:
                self._rows.setdefault((file.kernel.NAME, row.kernel.group), []).append(row)
        self._grids: dict[Group, Grid] = {}

    def _grid(self, group: Group) -> Grid | None:
        """The grid of a group, made when it is first asked for."""
        if group not in self._grids and group in self._rows:
            rows = self._rows[group]
            seconds = 1e-6 * np.array([row.latency_us for row in rows])
            self._grids[group] = Grid.of([row.kernel for row in rows], seconds, self._baseline)
        return self._grids.get(group)

    def time(self, kernel: Kernel) -> TableTime:
        """Latency of a call between measured ones.

        Raises:
            OutsideMeasured: it is not between measured ones.
        """
        grid = self._grid((kernel.NAME, kernel.group))
        if grid is None:
            fixed = " ".join(
                f"{name}={getattr(kernel, name)}" for name in (*kernel.LABELS, *kernel.EXACT)
            )
            raise OutsideMeasured(f"{kernel}: nothing was measured for {fixed}")
        ratio, octaves = grid.ratio(kernel)
        seconds = float(self._baseline([kernel])[0] * np.exp(ratio))
        return TableTime(seconds, octaves)
