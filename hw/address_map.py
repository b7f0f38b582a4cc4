"""Address map of one stack: the Python twin of what the RTL's page walks do.

Consecutive pages go to consecutive dies, then planes, then subarrays, then rows, so that any
``wave_pages`` consecutive pages form one full page wave (DASH section V-A2). A row of a subarray is
a page of one of its erase blocks. All functions take one page or an array of pages.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hw.errors import InputError
from hw.params import Geometry

Ints = npt.NDArray[np.int64]
Numbers = int | Ints


class Place(NamedTuple):
    """Where a page lives; arrays where pages are an array."""

    die: Numbers
    plane: Numbers
    subarray: Numbers  # of the plane
    block: Numbers  # of the subarray
    page: Numbers  # of the block


class Run(NamedTuple):
    """Consecutive pages of the stack, as a descriptor asks for them."""

    first: int
    pages: int


@dataclass(frozen=True)
class AddressMap:
    """The map of a geometry, both ways."""

    geometry: Geometry

    # A page and its place -------------------------------------------------------------------------

    def place(self, pages: Numbers) -> Place:
        """Where ``pages`` live.

        Raises:
            InputError: a page is not in the stack.
        """
        g = self.geometry
        self._check("page", pages, g.stack_pages)
        local, die = divmod(pages, g.dies)
        high, plane = divmod(local, g.planes)
        row, subarray = divmod(high, g.subarrays)
        block, page = divmod(row, g.pages_per_block)
        return Place(die, plane, subarray, block, page)

    def page(self, place: Place) -> Numbers:
        """The page that lives at ``place``.

        Raises:
            InputError: the stack has no such place.
        """
        g = self.geometry
        sizes = (g.dies, g.planes, g.subarrays, g.blocks_per_subarray, g.pages_per_block)
        for name, value, size in zip(place._fields, place, sizes, strict=True):
            self._check(name, value, size)
        row = place.block * g.pages_per_block + place.page
        return ((row * g.subarrays + place.subarray) * g.planes + place.plane) * g.dies + place.die

    def column(self, pages: Numbers) -> Numbers:
        """Number of the subarray in the stack, 0 to ``wave_pages - 1``, in the order of pages."""
        self._check("page", pages, self.geometry.stack_pages)
        return pages % self.geometry.wave_pages

    def die_subarray(self, pages: Numbers) -> Numbers:
        """The subarray as the command port of its die counts: plane, and ``subarray`` above it."""
        return self.column(pages) // self.geometry.dies

    def row(self, pages: Numbers) -> Numbers:
        """The row of the subarray: its erase block and the page of that together."""
        self._check("page", pages, self.geometry.stack_pages)
        return pages // self.geometry.wave_pages

    # Erase blocks ---------------------------------------------------------------------------------

    @property
    def blocks(self) -> int:
        """Erase blocks of the stack."""
        return self.geometry.wave_pages * self.geometry.blocks_per_subarray

    @property
    def block_wave_pages(self) -> int:
        """Pages of one erase block of every subarray: consecutive pages, 2 GiB at full size."""
        return self.geometry.wave_pages * self.geometry.pages_per_block

    def block(self, pages: Numbers) -> Numbers:
        """Number of the erase block in the stack: subarrays within the blocks of one number."""
        wave = self.geometry.wave_pages
        return self.row(pages) // self.geometry.pages_per_block * wave + pages % wave

    def block_pages(self, block: int) -> range:
        """The pages of an erase block, in the order in which they must be programmed."""
        self._check("block", block, self.blocks)
        wave = self.geometry.wave_pages
        first = block // wave * self.block_wave_pages + block % wave
        return range(first, first + self.block_wave_pages, wave)

    # Allocations ----------------------------------------------------------------------------------

    def plane_runs(self, planes: range, rows: range) -> list[Run]:
        """All pages of ``rows`` in every subarray of ``planes``, as runs of consecutive pages.

        Four of 32 planes and 16 dies (``paper``) are 64 pages in every 512, four runs a row; all
        planes are one run.

        Raises:
            InputError: planes or rows that are none, have gaps or are not there.
        """
        g = self.geometry
        for name, span, size in (("planes", planes, g.planes), ("rows", rows, g.rows)):
            if span.step != 1 or not 0 <= span.start < span.stop <= size:
                raise InputError(
                    f"{name} is {span!r}: must be consecutive, at least one, within 0 to {size - 1}"
                )
        if len(planes) == g.planes:
            return [Run(rows.start * g.wave_pages, len(rows) * g.wave_pages)]
        stride, pages = g.planes * g.dies, len(planes) * g.dies
        begin = planes.start * g.dies
        lines = range(rows.start * g.subarrays, rows.stop * g.subarrays)
        return [Run(line * stride + begin, pages) for line in lines]

    def split(self, runs: list[Run], longest: int) -> list[Run]:
        """The same pages in runs of at most ``longest``, the length of a descriptor."""
        if longest < 1:
            raise InputError(f"longest is {longest!r}: must be at least one page")
        return [
            Run(at, min(longest, run.first + run.pages - at))
            for run in runs
            for at in range(run.first, run.first + run.pages, longest)
        ]

    # Loads ----------------------------------------------------------------------------------------

    def load(self, runs: list[Run]) -> Ints:
        """Pages that ``runs`` ask of each subarray, by :meth:`column`, without listing pages.

        Raises:
            InputError: a run reaches out of the stack.
        """
        wave = self.geometry.wave_pages
        marks = np.zeros(wave + 1, np.int64)  # where a run begins and ends within a wave
        whole = 0
        for first, pages in runs:
            if pages < 1 or first < 0 or first + pages > self.geometry.stack_pages:
                raise InputError(
                    f"run of {pages!r} pages from {first!r}: must be one or more of the "
                    f"{self.geometry.stack_pages} pages of a stack"
                )
            waves, rest = divmod(pages, wave)
            whole += waves
            begin, end = first % wave, first % wave + rest
            marks[begin] += 1
            marks[min(end, wave)] -= 1
            if end > wave:
                marks[0] += 1
                marks[end - wave] -= 1
        load: Ints = whole + np.cumsum(marks[:wave])
        return load

    @staticmethod
    def _check(name: str, value: Numbers, size: int) -> None:
        bad = np.asarray(value)
        bad = bad[(bad < 0) | (bad >= size)]
        if bad.size:
            raise InputError(f"{name} is {bad.flat[0]}: must be 0 to {size - 1}")
