"""Cover points with named bins, crosses of them, and their sum over runs."""

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path


class CoverPoint:
    """Counts hits of named bins; a hit of any other bin is an error.

    Attributes:
        name: Unique in a :class:`Coverage`.
        bins: Hits by bin.
    """

    def __init__(self, name: str, bins: Iterable[str]) -> None:
        self.name = name
        self.bins = dict.fromkeys(bins, 0)
        if not self.bins:
            raise ValueError(f"cover point {name!r} has no bins")

    def hit(self, bin_name: str, times: int = 1) -> None:
        """Count; a bin that the point does not have raises :class:`KeyError`."""
        if bin_name not in self.bins:
            raise KeyError(f"cover point {self.name!r} has no bin {bin_name!r}")
        self.bins[bin_name] += times

    @property
    def missed(self) -> list[str]:
        """Bins without a hit."""
        return [name for name, hits in self.bins.items() if not hits]


class Cross(CoverPoint):
    """A point whose bins are all combinations of the bins of several dimensions, joined by ``/``.

    ``never`` names combinations that cannot be; a hit of one is an error like that of any unknown
    bin, so a wrong belief shows.
    """

    def __init__(
        self,
        name: str,
        dimensions: Sequence[Sequence[str]],
        *,
        never: Iterable[tuple[str, ...]] = (),
    ) -> None:
        without = set(never)
        combinations = list(itertools.product(*dimensions))
        if unknown := without.difference(combinations):
            raise ValueError(f"cross {name!r} has no combination {min(unknown)!r}")
        super().__init__(name, ("/".join(each) for each in combinations if each not in without))


class Coverage:
    """A set of cover points; sums of several runs have the same points."""

    def __init__(self, points: Iterable[CoverPoint]) -> None:
        self.points = {point.name: point for point in points}

    @property
    def missed(self) -> dict[str, list[str]]:
        """Bins without a hit, by point; points that are whole are left out."""
        return {name: point.missed for name, point in self.points.items() if point.missed}

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Hits by point and bin."""
        return {name: dict(point.bins) for name, point in self.points.items()}

    def add(self, hits: dict[str, dict[str, int]]) -> None:
        """Add what another run has hit; points and bins must be known."""
        for name, bins in hits.items():
            for bin_name, times in bins.items():
                self.points[name].hit(bin_name, times)

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.as_dict(), indent=1) + "\n")

    def table(self) -> str:
        """One line a point: bins hit of all, hits, and what is missed."""
        lines = [f"{'point':<22}{'bins':>9}{'hits':>10}  missed"]
        for name, point in self.points.items():
            hit, hits = len(point.bins) - len(point.missed), sum(point.bins.values())
            share = f"{hit}/{len(point.bins)}"
            lines.append(f"{name:<22}{share:>9}{hits:>10}  {', '.join(point.missed)}".rstrip())
        return "\n".join(lines)
