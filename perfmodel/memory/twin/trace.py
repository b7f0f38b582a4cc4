"""What both levels are asked to do: reads of a package, in order."""

import enum
from dataclasses import dataclass

from hw.errors import InputError
from hw.params import TRANSACTION_PAGES, Machine, Topology

UNIT_BYTES = 64  # of the address of a read, OCP HBF 0.7.0


class Path(enum.IntEnum):
    """The path that a read asks for, numbered as the router of the RTL numbers them."""

    DIRECT = 0
    RELAY = 1
    LEAST_LOADED = 2


@dataclass(frozen=True, kw_only=True)
class Read:
    """One read of every stack.

    Attributes:
        first: First page of the stack.
        pages: Consecutive pages; one if it reads a piece.
        path: Direct, Relay, or the one with less outstanding.
        at: Clock, counted from the first read, before which it is not offered.
        offset, units: The piece of that page, in units of 64 bytes; no units for whole pages.
    """

    first: int
    pages: int
    path: Path = Path.LEAST_LOADED
    at: int = 0
    offset: int = 0
    units: int = 0


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Reads that a package is offered one after the other, each once the one before is accepted.

    Attributes:
        machine: With the registers of the run.
        topology: Links and stack pairs.
        reads: In the order in which they are offered.
        window_pages: Pages outstanding on a path, over all pairs, at which it takes no more.
        drain_whole_region: Pages leave only when their region has filled.
    """

    machine: Machine
    topology: Topology
    reads: tuple[Read, ...]
    window_pages: int
    drain_whole_region: bool = False

    def __post_init__(self) -> None:
        if not self.reads:
            raise InputError("reads is empty: a trace has at least one read")
        if self.window_pages < 1:
            raise InputError(f"window_pages is {self.window_pages!r}: must be at least 1")
        if self.topology.flits:
            raise InputError("topology.flits is True: the twin knows links that only delay")
        if self.reads[0].at:
            raise InputError(f"reads[0].at is {self.reads[0].at!r}: clocks count from it, so 0")
        for k, read in enumerate(self.reads):
            self._check(f"reads[{k}]", read)
            if k and read.at < self.reads[k - 1].at:
                raise InputError(
                    f"reads[{k}].at is {read.at!r}: must not be before that of the read before, "
                    f"{self.reads[k - 1].at}"
                )

    def _check(self, where: str, read: Read) -> None:
        g = self.machine.geometry
        most = min(TRANSACTION_PAGES, g.stack_pages)
        page_units = g.page_bytes // UNIT_BYTES
        if not 1 <= read.pages <= most:
            raise InputError(f"{where}.pages is {read.pages!r}: must be 1 to {most}")
        if not 0 <= read.first <= g.stack_pages - read.pages:
            raise InputError(
                f"{where}.first is {read.first!r}: must be 0 to {g.stack_pages - read.pages}, so "
                f"that its {read.pages} pages lie in the stack"
            )
        there = {Path.DIRECT: self.topology.direct, Path.RELAY: self.topology.relay}
        if not there.get(read.path, True):
            raise InputError(
                f"{where}.path is {read.path.name}, which topology {self.topology.name!r} does "
                "not have"
            )
        if read.units and (read.pages != 1 or not 0 < read.units < page_units):
            raise InputError(
                f"{where}.units is {read.units!r} of {read.pages} pages: a piece is 1 to "
                f"{page_units - 1} units of one page"
            )
        if not 0 <= read.offset <= page_units - max(1, read.units):
            raise InputError(
                f"{where}.offset is {read.offset!r}: must be 0 to "
                f"{page_units - max(1, read.units)}, so that the piece lies in its page"
            )

    @property
    def bytes(self) -> int:
        """What the reads bring from one stack."""
        page = self.machine.geometry.page_bytes
        return sum(r.units * UNIT_BYTES if r.units else r.pages * page for r in self.reads)
