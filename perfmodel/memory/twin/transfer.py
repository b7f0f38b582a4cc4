"""A read under way, and one of its pages."""

from typing import NamedTuple

from perfmodel.memory.twin.pacer import FRAME
from perfmodel.memory.twin.trace import Path, Read


class Transfer:
    """A read that the router has accepted.

    Attributes:
        index: Of the read in its trace.
        path, slot: Where it goes, and its number there.
        first, pages: Pages of the stack.
        first_beat, last_beat: Of each page, the beats that are wanted.
        accepted: Clock in which the router took it.
        left: Pages that have not come.
        first_in, last_in: Clocks in which its first and last beat are taken at the GPU side.
        done: Clock in which it is reported whole.
    """

    __slots__ = (
        "accepted", "done", "first", "first_beat", "first_in", "frames", "index", "last_beat",
        "last_in", "left", "pages", "path", "slot",
    )  # fmt: skip

    def __init__(
        self, index: int, read: Read, *, path: Path, slot: int, accepted: int, beat_units: int
    ) -> None:
        self.index, self.path, self.slot, self.accepted = index, path, slot, accepted
        self.first, self.pages = read.first, read.pages
        self.first_beat, self.last_beat = 0, FRAME - 1
        if read.units:
            self.first_beat = read.offset // beat_units
            self.last_beat = (read.offset + read.units - 1) // beat_units
        self.left = self.pages
        self.first_in = self.last_in = self.done = 0
        # Groups of a frame that are read, by the number of the die modulo four: beat b of a page
        # of die d lies in group (b + d) mod 4.
        self.frames = [
            [g for g in range(FRAME) if self.first_beat <= (g - d) % FRAME <= self.last_beat]
            for d in range(FRAME)
        ]

    @property
    def beats(self) -> int:
        """Wanted beats of each page."""
        return self.last_beat - self.first_beat + 1


class Page(NamedTuple):
    """A page between its SENSE and its drain."""

    die: int
    subarray: int
    region: int
    of: Transfer
