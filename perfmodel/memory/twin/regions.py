"""Whole-region draining: pages leave only when their region has filled."""

from functools import partial
from typing import TYPE_CHECKING

from perfmodel.memory.twin.events import Phase, Wakes
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.transfer import Page

if TYPE_CHECKING:
    from perfmodel.memory.twin.stack import Stack


class RegionDrain:
    """``hw.hbf.region_drain``: a region takes pages until none of its own is on its way.

    From then on it only drains, until it holds no page. If the machine drains page by page both
    regions fill and drain all the time.

    Attributes:
        fills, drains: One a region.
    """

    def __init__(self, stack: "Stack", *, whole: bool) -> None:
        self._stack, self._whole = stack, whole
        self._coming, self._held = [0, 0], [0, 0]
        self._wakes = Wakes(stack.events, Phase.LANES, self._look)
        self.fills, self.drains = [True, True], [not whole, not whole]

    def issue(self, region: int) -> None:
        """A page is sensed for a slot of ``region``."""
        self._coming[region] += 1
        self._held[region] += 1

    def filled(self, page: Page, clock: int) -> None:
        """The last beat of a page can be read in ``clock``."""
        if self._whole:
            self._after(clock, self._coming, page.region)

    def freed(self, page: Page, clock: int) -> None:
        """The slot of a page is free from ``clock`` on."""
        if self._whole:
            self._after(clock - LATENCIES.take, self._held, page.region)

    def _after(self, clock: int, counts: list[int], region: int) -> None:
        def count(now: int) -> None:
            counts[region] -= 1
            self._wakes.at(now)

        self._stack.events.at(clock + LATENCIES.take, Phase.REGISTERS, count)

    def _look(self, clock: int) -> None:
        """After the dies: a page that is sensed in this clock keeps its region filling."""
        for region in range(2):
            fills = self.fills[region]
            if self._held[region] == 0:
                fills = True
            elif self._coming[region] == 0:
                fills = False
            if fills != self.fills[region]:
                turn = partial(self._turn, region, fills)
                self._stack.events.at(clock + LATENCIES.take, Phase.REGISTERS, turn)

    def _turn(self, region: int, fills: bool, clock: int) -> None:
        self.fills[region], self.drains[region] = fills, not fills
        for path in range(2):
            self._stack.drains[path].admit(clock)
        self._stack.wake(clock)
