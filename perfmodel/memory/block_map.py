"""Who owns which erase blocks of a stack (DASH paper, V-A2, figure 5b).

Flash is erased in blocks. A block that held weights and KV together would have its weights moved
whenever its KV is collected; so regions take whole blocks, and no block has two owners.
"""

import dataclasses
from dataclasses import dataclass

from hw.address_map import AddressMap, Run
from hw.errors import InputError
from hw.ucie.transaction import Owner


def _overlap(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


@dataclass(frozen=True, kw_only=True)
class Region:
    """Erase blocks with one owner: ``blocks`` of every subarray in ``planes``, in all dies."""

    name: str
    owner: Owner
    planes: range
    blocks: range

    def shares_blocks(self, other: "Region") -> bool:
        return _overlap(self.planes, other.planes) and _overlap(self.blocks, other.blocks)


@dataclass(frozen=True, kw_only=True)
class BlockMap:
    """The regions of a stack. Immutable: an allocation gives a new map.

    Raises:
        InputError: regions that share a block or a name, have no owner or leave the stack.
    """

    map: AddressMap
    regions: tuple[Region, ...] = ()

    def __post_init__(self) -> None:
        g = self.map.geometry
        for k, region in enumerate(self.regions):
            if region.owner is Owner.NONE:
                raise InputError(f"region {region.name!r} has owner NONE: must be WEIGHT or KV")
            for name, size in (("planes", g.planes), ("blocks", g.blocks_per_subarray)):
                span = getattr(region, name)
                if span.step != 1 or not 0 <= span.start < span.stop <= size:
                    raise InputError(
                        f"region {region.name!r} has {name} {span!r}: must be consecutive, at "
                        f"least one, within 0 to {size - 1}"
                    )
            for other in self.regions[:k]:
                if other.name == region.name:
                    raise InputError(f"region {region.name!r} is there twice: names are unique")
                if other.shares_blocks(region):
                    raise InputError(
                        f"region {region.name!r} has planes {region.planes!r} and blocks "
                        f"{region.blocks!r}, of which region {other.name!r} owns some: no erase "
                        "block may have two owners"
                    )

    def allocate(
        self, name: str, owner: Owner, *, pages: int, planes: range | None = None
    ) -> "BlockMap":
        """The map with another region of at least ``pages``, at the lowest blocks that are free.

        Args:
            name: Of the region.
            owner: Of its blocks.
            pages: To hold.
            planes: To keep to; all by default.

        Raises:
            InputError: the planes have no room, or what :class:`BlockMap` refuses.
        """
        g = self.map.geometry
        planes = range(g.planes) if planes is None else planes
        if pages < 1:
            raise InputError(f"pages is {pages!r}: must be at least 1")
        of_number = len(planes) * g.subarrays * g.dies * g.pages_per_block
        need = -(-pages // of_number) if of_number else 0
        taken = [r.blocks for r in self.regions if _overlap(r.planes, planes)]
        for first in sorted({0, *(blocks.stop for blocks in taken)}):
            blocks = range(first, first + need)
            if blocks.stop <= g.blocks_per_subarray and not any(
                _overlap(blocks, other) for other in taken
            ):
                region = Region(name=name, owner=owner, planes=planes, blocks=blocks)
                return dataclasses.replace(self, regions=(*self.regions, region))
        raise InputError(
            f"region {name!r} of {pages} pages takes {need} blocks of every subarray of planes "
            f"{planes!r}: there is no such room among {g.blocks_per_subarray}"
        )

    def region(self, name: str) -> Region:
        """The region of that name.

        Raises:
            InputError: there is none.
        """
        for region in self.regions:
            if region.name == name:
                return region
        known = ", ".join(region.name for region in self.regions) or "none"
        raise InputError(f"region {name!r} is unknown: there are {known}")

    def rows(self, name: str) -> range:
        """Rows of the subarrays that a region takes."""
        blocks, depth = self.region(name).blocks, self.map.geometry.pages_per_block
        return range(blocks.start * depth, blocks.stop * depth)

    def runs(self, name: str) -> list[Run]:
        """All pages of a region."""
        return self.map.plane_runs(self.region(name).planes, self.rows(name))

    def owner(self, page: int) -> Owner:
        """Whose block a page is in; ``NONE`` if nobody's."""
        place = self.map.place(page)
        for region in self.regions:
            if place.plane in region.planes and place.block in region.blocks:
                return region.owner
        return Owner.NONE
