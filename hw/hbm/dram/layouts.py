"""What travels inside the HBM controller, sized for one stack, and the ports of the DRAM."""

from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import ACCESS_BYTES, BURSTS, HbmStack

ACCESS_LANES = ACCESS_BYTES // 8
CHECK_BITS = ACCESS_BYTES  # of an access: 8 a word
BURST_BITS = 8 * ACCESS_BYTES // BURSTS
BURST_CHECK_BITS = CHECK_BITS // BURSTS


class RowCommand(enum.Enum, shape=2):
    """What the row command bus carries, each for one bank."""

    ACTIVATE = 0
    PRECHARGE = 1
    REFRESH = 2


def place_layout(stack: HbmStack) -> data.StructLayout:
    """An access of one pseudo-channel."""
    o = stack.organization
    return data.StructLayout(
        {"bank": range(o.bank_count), "row": range(o.rows), "column": range(o.columns)}
    )


def row_layout(stack: HbmStack) -> data.StructLayout:
    """A row command; ``row`` of ACTIVATE only."""
    o = stack.organization
    return data.StructLayout(
        {"valid": 1, "command": RowCommand, "bank": range(o.bank_count), "row": range(o.rows)}
    )


def column_layout(stack: HbmStack) -> data.StructLayout:
    """READ or WRITE of one burst, ``half`` of an access, ``phase`` into its clock."""
    o = stack.organization
    return data.StructLayout(
        {
            "valid": 1,
            "write": 1,
            "bank": range(o.bank_count),
            "column": range(o.columns),
            "half": 1,
            "phase": range(max(2, clocks_of(stack).phases)),
        }
    )


class DramPort(wiring.Signature):
    """The PHY of one pseudo-channel, seen from its controller.

    Members
    -------
    row, column : at most one command a clock on each bus
    write_data : the burst of a WRITE, in its clock, check bits above the data; the PHY delays it
    read_valid, read_data : a burst as a whole, in the order of the READs
    """

    def __init__(self, stack: HbmStack) -> None:
        width = BURST_BITS + BURST_CHECK_BITS
        super().__init__(
            {
                "row": Out(row_layout(stack)),
                "column": Out(column_layout(stack)),
                "write_data": Out(width),
                "read_valid": In(1),
                "read_data": In(width),
            }
        )
