"""Writes, trims and releases that a run plays beside its reads."""

from dataclasses import dataclass

from hw.address_map import AddressMap, Run
from hw.errors import InputError
from hw.hbf.layouts import MAX_PAGES
from hw.params import Machine, Topology
from hw.ucie.transaction import Operation, Owner, Status
from tb.vip.write_source import write_tag

LINKS = {"write": "direct", "writeback": "relay"}  # port of the package, path of the topology
VERSIONS = 63


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """A write of ``pages`` pages from page ``first`` of every stack.

    Attributes:
        port: ``write`` from the GPU over link A, or ``writeback`` from the HBM over link C.
        version: Of the content, 1 to 63, see :mod:`tb.vip.content`.
        relocated: The pages were written before, elsewhere.
        barrier: It is sent only when all writes that its port sent before have been answered; for
            runs in which only that port writes.
        expects: Status with which it must end, where the run plants no faults.
        races_collection: A block of it may be collected before, which makes it end with
            ``ILLEGAL_OWNER``.
    """

    first: int
    pages: int
    port: str = "write"
    version: int = 1
    operation: Operation = Operation.WRITE
    owner: Owner = Owner.KV
    relocated: bool = False
    barrier: bool = False
    expects: Status = Status.OK
    races_collection: bool = False

    def check(self, where: str, machine: Machine, topology: Topology) -> None:
        """Refuse what the package cannot be asked for.

        Raises:
            InputError: with the field and its value.
        """
        if self.port not in LINKS:
            raise InputError(f"{where}.port {self.port!r} is unknown: choose {', '.join(LINKS)}")
        if not getattr(topology, LINKS[self.port]):
            raise InputError(
                f"{where}.port {self.port!r} needs the {LINKS[self.port]} path, which topology "
                f"{topology.name!r} does not have"
            )
        if not 1 <= self.pages <= MAX_PAGES:
            raise InputError(f"{where}.pages is {self.pages!r}: must be 1 to {MAX_PAGES}")
        if not 1 <= self.version <= VERSIONS:
            raise InputError(f"{where}.version is {self.version!r}: must be 1 to {VERSIONS}")

    def payload(self, index: int) -> dict[str, int]:
        """Fields of :func:`hw.ucie.write_sender.write_request_layout`."""
        return {
            "first": self.first,
            "pages": self.pages,
            "tag": write_tag(index, self.version),
            "operation": int(self.operation),
            "owner": int(self.owner),
            "relocated": int(self.relocated),
        }


def kv_writes(
    machine: Machine,
    *,
    waves: int,
    planes: range,
    port: str = "write",
    owner: Owner = Owner.KV,
    rewrite: bool = False,
    trim: bool = False,
    release: bool = False,
    relocated: bool = False,
    named: str = "waves",
) -> tuple[WriteRequest, ...]:
    """Page waves from row 0 of some planes on.

    Args:
        machine: Whose geometry counts.
        waves: How many pages, in page waves; fewer planes take more rows for them.
        planes: Where they go.
        port: ``write`` or ``writeback``.
        owner: Of their blocks.
        rewrite: Write them all once more, so that their blocks are erased first.
        trim: Give them all up in the end, so that full blocks are collected.
        release: Take the owner from their blocks after that.
        relocated: They move what was written before, elsewhere.
        named: What ``waves`` is called where it is refused.

    Raises:
        InputError: they do not fit.
    """
    g = machine.geometry
    if waves * g.planes % max(1, len(planes)):
        raise InputError(
            f"{named} is {waves!r}: must fill whole rows of the {len(planes)} planes from "
            f"{planes.start} to {planes.stop - 1}"
        )
    rows = waves * g.planes // max(1, len(planes))
    if not 0 < rows <= g.rows:
        raise InputError(
            f"{named} is {waves!r}: must be 1 to {g.rows * len(planes) // g.planes} in planes "
            f"{planes.start} to {planes.stop - 1}"
        )
    at = AddressMap(g)
    weight = owner is Owner.WEIGHT

    def ends(operation: Operation) -> Status:
        """TRIM is for KV; RELEASE for weights, and for KV that has been given up."""
        refused = operation is Operation.TRIM and weight
        refused |= operation is Operation.RELEASE and not (weight or trim)
        return Status.ILLEGAL_OWNER if refused else Status.OK

    def races(operation: Operation, run: Run) -> bool:
        """It releases blocks that are full and given up."""
        row = run.first // g.wave_pages
        full = (row // g.pages_per_block + 1) * g.pages_per_block <= rows
        return operation is Operation.RELEASE and trim and not weight and full

    def runs(written: range) -> list[Run]:
        return at.split(at.plane_runs(planes, written), MAX_PAGES)

    passes = [(Operation.WRITE, 1, runs(range(rows)))]
    if rewrite:
        passes.append((Operation.WRITE, 2, runs(range(rows))))
    if trim:
        passes.append((Operation.TRIM, 1, runs(range(rows))))
    if release:  # any page names its block, and each block is named once
        firsts = range(0, rows, g.pages_per_block)
        passes.append(
            (Operation.RELEASE, 1, [r for row in firsts for r in runs(range(row, row + 1))])
        )
    return tuple(
        WriteRequest(
            first=run.first,
            pages=run.pages,
            port=port,
            version=version,
            operation=operation,
            owner=owner,
            relocated=relocated,
            barrier=k == 0 and n > 0,
            expects=ends(operation),
            races_collection=races(operation, run),
        )
        for n, (operation, version, of_pass) in enumerate(passes)
        for k, run in enumerate(of_pass)
    )
