"""The traffic ledger: how many tokens of KV went from where to where."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from perfmodel.tiers.tier import NOWHERE, Tier

_NAMES = (*(tier.name.lower() for tier in Tier), "nowhere")


@dataclass
class Ledger:
    """``moved[source][target]`` in tokens; ``NOWHERE`` stands for computing and for discarding.

    Every token that is written anywhere is counted once in its column, so that for each tier
    ``written - left`` is what is in it.
    """

    moved: list[list[int]] = field(
        default_factory=lambda: [[0] * (NOWHERE + 1) for _ in range(NOWHERE + 1)]
    )

    def add(self, source: int, target: int, tokens: int) -> None:
        self.moved[source][target] += tokens

    def written(self, tier: int) -> int:
        """Tokens that came into a tier, from other tiers and from computation."""
        return sum(row[tier] for row in self.moved)

    def left(self, tier: int) -> int:
        """Tokens that went out of a tier, to other tiers or discarded."""
        return sum(self.moved[tier])

    def between(self, sources: tuple[int, ...], targets: tuple[int, ...]) -> int:
        """Tokens from any of ``sources`` to any of ``targets``."""
        return sum(self.moved[source][target] for source in sources for target in targets)

    @property
    def computed(self) -> int:
        """Tokens whose KV was computed, in prefill and in decode."""
        return sum(self.moved[NOWHERE])

    @property
    def discarded(self) -> int:
        """Tokens whose KV was dropped, from whatever tier."""
        return self.written(NOWHERE)

    @property
    def to_host(self) -> int:
        """Tokens over PCIe from the device."""
        return self.between((Tier.HBM, Tier.HBF), (Tier.DRAM, Tier.SSD))

    @property
    def from_host(self) -> int:
        """Tokens over PCIe to the device."""
        return self.between((Tier.DRAM, Tier.SSD), (Tier.HBM, Tier.HBF))

    def plus(self, other: "Ledger") -> "Ledger":
        """Both together."""
        pairs = zip(self.moved, other.moved, strict=True)
        return Ledger([[a + b for a, b in zip(*rows, strict=True)] for rows in pairs])

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """Source, target and tokens of every way that was used."""
        for source, row in enumerate(self.moved):
            for target, tokens in enumerate(row):
                if tokens:
                    yield _NAMES[source], _NAMES[target], tokens
