"""What the erase-block table of one NAND die holds, is asked and answers."""

from amaranth.lib import data, enum

from hw.params import Machine


class BlockOperation(enum.Enum, shape=3):
    """What can happen to an erase block, or be asked of it."""

    ADMIT = 0  # may this page be written?
    FAILED = 1  # a program or an erase of the block has failed
    ERASED = 2  # the erase that goes before an admitted page 0 has finished
    COLLECT = 3  # may garbage collection erase the block now?
    TRIM = 4  # a page of the block is dead
    RELEASE = 5  # the block has no owner any more
    SENSED = 6  # a page of the block has been sensed
    QUERY = 7  # changes nothing


def block_layout(machine: Machine) -> data.StructLayout:
    """Names an erase block of one die; its value is the row of the block in the table."""
    g = machine.geometry
    return data.StructLayout(
        {"block": range(g.blocks_per_subarray), "subarray": range(g.subarrays_per_die)}
    )


def operation_layout(machine: Machine) -> data.StructLayout:
    """An operation: ``page`` of the block is read by ADMIT and TRIM only, ``owner`` by ADMIT."""
    return data.StructLayout(
        {
            "kind": BlockOperation,
            "where": block_layout(machine),
            "page": range(machine.geometry.pages_per_block),
            "owner": 2,
        }
    )


def entry_layout(machine: Machine, *, cycle_bits: int, read_bits: int) -> data.StructLayout:
    """State of one erase block; all zero is erased, without an owner, and never cycled.

    Members
    -------
    owner : an :class:`hw.ucie.codes.Owner`
    dirty : not erased
    failed : a program or erase failed since the last page 0
    next_page : the only page that may be written next, or the pages of a block: it is closed
    live_pages : of KV blocks: pages that were written and not trimmed
    erase_cycles, reads : how often it was erased, and sensed since then; both saturate
    """
    pages = range(machine.geometry.pages_per_block + 1)
    return data.StructLayout(
        {
            "owner": 2,
            "dirty": 1,
            "failed": 1,
            "next_page": pages,
            "live_pages": pages,
            "erase_cycles": cycle_bits,
            "reads": read_bits,
        }
    )
