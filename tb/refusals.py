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
        InputError: nothing is written that could be in the way.
    """
    kinds = tuple(kind for kind in kinds if not kind.of_read)
    if not kinds:
        return writes
    if not writes:
        raise InputError(
            f"refuse is {kinds[0].value!r}: needs writes to be refused beside (--write-waves)"
        )
    first = writes[0]

    def vain(page: int, status: Status, *, pages: int = 1, **fields) -> WriteRequest:
        return WriteRequest(
            first=page, pages=pages, port=first.port, version=NEVER_WRITTEN, expects=status,
            **{"owner": first.owner, **fields},
        )  # fmt: skip

    done = [write for write in writes if write.operation is Operation.WRITE]
    others = writes[len(done) :]
    last = done[-1]
    for kind in kinds:
        if kind is Refusal.WRITE_ADDRESS:
            page = machine.geometry.stack_pages - 1
            done.append(vain(page, Status.BAD_ADDRESS, pages=2, barrier=True))
        elif kind is Refusal.OVERLAP:
            # Right behind it, while its pages are programmed.
            done.insert(1, vain(first.first, Status.OVERLAP))
        elif kind is Refusal.ORDER:
            done.append(vain(_out_of_turn(machine, last), Status.ORDER, barrier=True))
        elif kind is Refusal.OWNER:
            done.append(
                vain(first.first, Status.ILLEGAL_OWNER, owner=OTHER[first.owner], barrier=True)
            )
    return (*done, *others)


def _out_of_turn(machine: Machine, write: WriteRequest) -> int:
    """A page of the block that ``write`` wrote last, not its first nor its next."""
    g = machine.geometry
    last = (write.first + write.pages - 1) // g.wave_pages  # its row
    row = last if last % g.pages_per_block else last + 2
    return row * g.wave_pages + write.first % g.wave_pages
