"""What travels inside the HBF base die, sized for one machine."""

from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from hw.params import RATE_BITS, TRANSACTION_PAGES, Machine

MAX_PAGES = TRANSACTION_PAGES


class Command(enum.Enum, shape=1):
    """What a die's command port carries."""

    SENSE = 0  # array row into the data register of a subarray, takes tR
    LATCH = 1  # data register into the cache register of a subarray


def descriptor_layout(machine: Machine) -> data.StructLayout:
    """A read of ``pages`` consecutive pages of the stack from page ``first``."""
    return data.StructLayout(
        {
            "first": range(machine.geometry.stack_pages),
            "pages": range(MAX_PAGES + 1),
            "tag": 12,
        }
    )


def slot_layout(machine: Machine) -> data.StructLayout:
    """A page slot of one die: its region, and the subarray that owns it there."""
    return data.StructLayout({"subarray": range(machine.geometry.subarrays_per_die), "region": 1})


def label_layout() -> data.StructLayout:
    """Whose page it is: transaction tag and page of the transaction."""
    return data.StructLayout({"tag": 12, "page": 12})


class CommandPort(wiring.Signature):
    """Command port of one NAND die: one command a clock, never refused."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "command": Out(Command),
                "subarray": Out(range(machine.geometry.subarrays_per_die)),
                "row": Out(range(machine.geometry.rows)),
            }
        )


class ReadoutPort(wiring.Signature):
    """Read-out of one beat over the TSVs into one bank group.

    With ``valid`` the base die asks for ``beat`` of the page in the cache register of
    (``die``, ``subarray``); ``lanes`` carry it one clock later.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "die": Out(range(machine.geometry.dies)),
                "subarray": Out(range(machine.geometry.subarrays_per_die)),
                "beat": Out(2),
                "lanes": In(64).array(machine.lanes),
            }
        )


class Registers(wiring.Signature):
    """Run-time registers of the HBF base die (set while it is idle).

    Members
    -------
    t_read : clocks from SENSE to the data register
    tsv_rate : beats a clock on the TSV lane of one die, in 1/65536
    link_rate : beats a clock on each link, in 1/65536
    cache_read : a subarray may sense the next page while its cache register still holds one
    lockstep : subarrays sense a whole wave at a time
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "t_read": Out(20),
                "tsv_rate": Out(RATE_BITS + 1),
                "link_rate": Out(RATE_BITS + 1),
                "cache_read": Out(1),
                "lockstep": Out(1),
            }
        )
