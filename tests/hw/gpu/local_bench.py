"""A machine and stacks of few accesses, and what reads and writes of them are made of."""

import dataclasses
from dataclasses import dataclass

from hw.hbm.dram.stacks import stack
from tests.hw.machines import TINY

ACCESS = 64
# Beats of four accesses, and a stack of 32.
WIDE = dataclasses.replace(
    TINY,
    name="wide",
    geometry=dataclasses.replace(TINY.geometry, page_bytes=4 * TINY.geometry.page_bytes),
    link=dataclasses.replace(TINY.link, lanes=4 * TINY.link.lanes, beat_bytes=256),
    sram=dataclasses.replace(
        TINY.sram,
        hbf_region_bytes=4 * TINY.sram.hbf_region_bytes,
        relay_region_bytes=4 * TINY.sram.relay_region_bytes,
    ),
)
FEW = dataclasses.replace(
    stack("formal"),
    name="few",
    organization=dataclasses.replace(stack("formal").organization, pseudo_channels=4),
    beat_bytes=256,
)
NARROW = stack("formal")  # beats of one access, and a stack of 16


@dataclass(frozen=True)
class Piece:
    """A beat of a request.

    Attributes:
        address: Of its first access, wanted or not.
        wanted: A bit an access of the beat.
        last: No other beat of the request follows.
    """

    address: int
    wanted: int
    last: bool


def pieces(address: int, length: int, accesses: int) -> list[Piece]:
    """The beats that hold a request, found access by access."""
    wanted: dict[int, int] = {}
    for access in range(address, address + length):
        beat = access // accesses
        wanted[beat] = wanted.get(beat, 0) | 1 << access % accesses
    last = max(wanted, default=None)
    return [Piece(beat * accesses, bits, beat == last) for beat, bits in sorted(wanted.items())]
