"""What travels inside the HBF base die, sized for one machine."""

from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from hw.params import NAND_TIME_BITS, RATE_BITS, TRANSACTION_PAGES, Machine

MAX_PAGES = TRANSACTION_PAGES


class Command(enum.Enum, shape=3):
    """What a die's command port carries, each for one subarray."""

    SENSE = 0  # array row into the data register, takes tR
    LATCH = 1  # data register into the cache register, takes tRCBSY
    LOAD = 2  # opens the cache register for a page of data, tADL before the first beat
    PROGRAM = 3  # cache register into the array row, takes tPROG
    ERASE = 4  # the block of the row, takes tBERS
    SUSPEND = 5  # the running program or erase, takes the suspend time
    RESUME = 6  # the suspended program or erase, for the time that was left
    STATUS = 7  # answered one clock later


def descriptor_layout(machine: Machine) -> data.StructLayout:
    """A read of ``pages`` consecutive pages of the stack from page ``first``.

    Of each page the beats ``first_beat`` to ``last_beat`` are wanted. ``epoch`` alternates at
    writes, see :class:`hw.hbf.read_epochs.ReadEpochs`.
    """
    return data.StructLayout(
        {
            "first": range(machine.geometry.stack_pages),
            "pages": range(MAX_PAGES + 1),
            "tag": 12,
            "first_beat": 2,
            "last_beat": 2,
            "epoch": 1,
        }
    )


def slot_layout(machine: Machine) -> data.StructLayout:
    """A page slot of one die: its region, and the subarray that owns it there."""
    return data.StructLayout({"subarray": range(machine.geometry.subarrays_per_die), "region": 1})


def page_layout(machine: Machine) -> data.StructLayout:
    """A page between a cache register and its slot: a read of ``path``, or a ``write``."""
    return data.StructLayout(
        {
            "slot": slot_layout(machine),
            "write": 1,
            "path": 1,
            "first_beat": 2,
            "last_beat": 2,
        }
    )


def slot_event(machine: Machine) -> data.StructLayout:
    """Something happened to a slot in this clock."""
    return data.StructLayout({"valid": 1, "slot": slot_layout(machine)})


def moved_layout(machine: Machine) -> data.StructLayout:
    """A page is wholly in its slot, or wholly out of it; ``poison`` if any beat of it is wrong."""
    return data.StructLayout({"valid": 1, "slot": slot_layout(machine), "poison": 1})


def token_layout(machine: Machine) -> data.StructLayout:
    """A page slot of the stack, as GRANT and WRITE_DATA carry it in ``credit``."""
    return data.StructLayout(
        {"die": range(machine.geometry.dies), **dict(slot_layout(machine).members)}
    )


def label_layout() -> data.StructLayout:
    """Whose page it is: transaction tag and page of the transaction."""
    return data.StructLayout({"tag": 12, "page": 12})


class CommandPort(wiring.Signature):
    """Command port of one NAND die: one command a clock, never refused.

    One clock after STATUS, ``ready`` tells that no program or erase of the subarray runs or is
    suspended, and ``fail`` that the last one failed.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "command": Out(Command),
                "subarray": Out(range(machine.geometry.subarrays_per_die)),
                "row": Out(range(machine.geometry.rows)),
                "ready": In(1),
                "fail": In(1),
            }
        )


class ReadoutPort(wiring.Signature):
    """Read-out of one beat over the TSVs into one bank group.

    With ``valid`` the base die asks for ``beat`` of the page in the cache register of
    (``die``, ``subarray``); ``lanes`` carry it one clock later. Beats of a page rise by one;
    ``last`` empties the register.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "die": Out(range(machine.geometry.dies)),
                "subarray": Out(range(machine.geometry.subarrays_per_die)),
                "beat": Out(2),
                "last": Out(1),
                "lanes": In(64).array(machine.lanes),
            }
        )


class WriteinPort(wiring.Signature):
    """Write-in of one beat over the TSVs, one a clock and stack.

    With ``valid``, ``lanes`` are ``beat`` of the page that LOAD opened in the cache register of
    (``die``, ``subarray``). The four beats of a page come in order.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "die": Out(range(machine.geometry.dies)),
                "subarray": Out(range(machine.geometry.subarrays_per_die)),
                "beat": Out(2),
                "lanes": Out(64).array(machine.lanes),
            }
        )


CLOCK_BITS = 25  # of a free-running clock count: twice the longest time


POLL_BITS = 16
MODES = (
    "cache_read",
    "lockstep",
    "drain_whole_region",
    "hold_until_programmed",
    "suspend_enable",
    "collect_enable",
)


class Registers(wiring.Signature):
    """Run-time registers as the blocks of the HBF base die see them (set while it is idle).

    Members
    -------
    t_read .. t_plane_busy : NAND timing in clocks, see :class:`hw.params.NandTiming`
    tsv_rate : beats a clock on the TSV lane of one die, in 1/65536
    link_rate : beats a clock on each link, in 1/65536
    cache_read : a subarray may sense the next page while its cache register still holds one
    lockstep : subarrays sense a whole wave at a time
    drain_whole_region : pages leave only when their region has filled
    hold_until_programmed : a written page keeps its slot until its program has ended
    suspend_enable : programs and erases are suspended for reads that wait
    collect_enable : dead blocks are erased in the background
    poll_clocks : between two STATUS of an operation
    """

    def __init__(self) -> None:
        super().__init__(
            {
                **{name: Out(bits) for name, bits in NAND_TIME_BITS.items()},
                "tsv_rate": Out(RATE_BITS + 1),
                "link_rate": Out(RATE_BITS + 1),
                **{name: Out(1) for name in MODES},
                "poll_clocks": Out(POLL_BITS),
            }
        )
