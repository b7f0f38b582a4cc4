"""Requests that the base dies must refuse, and the status each must end with."""

import enum

from hw.errors import InputError
from hw.params import Machine
from hw.ucie.transaction import ADDRESS_UNIT_BYTES, Operation, Owner, Status
from tb.writes import WriteRequest

OTHER = {Owner.KV: Owner.WEIGHT, Owner.WEIGHT: Owner.KV}
NEVER_WRITTEN = 63  # version of data that must not reach the NAND


class Refusal(enum.Enum):
    """What is asked for in vain."""

    READ_ADDRESS = "read-address"  # past the end of the stack
    READ_PIECE = "read-piece"  # past the end of its page
    WRITE_ADDRESS = "write-address"  # past the end of the stack
    OVERLAP = "overlap"  # a page of a write that is under way
    ORDER = "order"  # a page that is not the next of its erase block
    OWNER = "owner"  # a page of somebody else's erase block

    @property
    def of_read(self) -> bool:
        return self in (Refusal.READ_ADDRESS, Refusal.READ_PIECE)

    @property
    def status(self) -> Status:
        """How it must end."""
        return _STATUS[self]


_STATUS = {
    Refusal.READ_ADDRESS: Status.BAD_ADDRESS,
    Refusal.READ_PIECE: Status.BAD_ADDRESS,
    Refusal.WRITE_ADDRESS: Status.BAD_ADDRESS,
    Refusal.OVERLAP: Status.OVERLAP,
    Refusal.ORDER: Status.ORDER,
    Refusal.OWNER: Status.ILLEGAL_OWNER,
}


def refused_reads(
    machine: Machine, kinds: tuple[Refusal, ...]
) -> tuple[tuple[int, int, int, int], ...]:
    """First page, pages, and offset and length of the piece in address units."""
    units = machine.geometry.page_bytes // ADDRESS_UNIT_BYTES
    last = machine.geometry.stack_pages - 1
    asked = {Refusal.READ_ADDRESS: (last, 2, 0, 0), Refusal.READ_PIECE: (0, 1, units - 1, 2)}
    return tuple(asked[kind] for kind in kinds if kind.of_read)


def with_refused_writes(
    machine: Machine, writes: tuple[WriteRequest, ...], kinds: tuple[Refusal, ...]
) -> tuple[WriteRequest, ...]:
    """``writes`` of one port with those among and behind them that must be refused.

    What is trimmed or released comes last: its blocks may be anybody's then.

    Raises:
        InputError: nothing is written that could be in the way, or all pages of the block that was
            written last may be written next.
    """
    kinds = tuple(kind for kind in kinds if not kind.of_read)
    if not kinds:
        return writes
    if not writes:
        raise InputError(
            f"refuse is {kinds[0].value!r}: needs writes to be refused beside (--write-waves)"
        )
    first = writes[0]

    def vain(kind: Refusal, page: int, **fields) -> WriteRequest:
        return WriteRequest(
            first=page, port=first.port, version=NEVER_WRITTEN, expects=kind.status,
            **{"pages": 1, "owner": first.owner, "barrier": True, **fields},
        )  # fmt: skip

    done = [write for write in writes if write.operation is Operation.WRITE]
    others = writes[len(done) :]
    last = done[-1]
    for kind in kinds:
        if kind is Refusal.WRITE_ADDRESS:
            done.append(vain(kind, machine.geometry.stack_pages - 1, pages=2))
        elif kind is Refusal.OVERLAP:
            # Right behind the first, sent as soon as the link has taken that: its pages still come.
            done.insert(1, vain(kind, first.first, barrier=False))
        elif kind is Refusal.ORDER:
            done.append(vain(kind, _out_of_turn(machine, last)))
        elif kind is Refusal.OWNER:
            done.append(vain(kind, first.first, owner=OTHER[first.owner]))
    return (*done, *others)


def _out_of_turn(machine: Machine, write: WriteRequest) -> int:
    """A page of the block that ``write`` wrote last, not its first nor its next.

    Raises:
        InputError: it has none, since its blocks are too small.
    """
    g = machine.geometry
    last = (write.first + write.pages - 1) // g.wave_pages  # its row
    page = last % g.pages_per_block
    if not page and g.pages_per_block < 3:
        raise InputError(
            f"refuse is 'order': the writes end with page 0 of blocks of {g.pages_per_block} "
            f"pages in preset {machine.name!r}, which leaves no page out of turn; write more rows"
        )
    return (last if page else last + 2) * g.wave_pages + write.first % g.wave_pages
