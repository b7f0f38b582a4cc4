"""What the package bench has to reach: the cover points, and which bins cannot be hit."""

import itertools

from hw.hbf.read_issue import Blocked
from hw.links import LINK_A, LINK_B, LINK_C
from hw.ucie.transaction import PATHS, Status
from tb.coverage.points import Coverage, CoverPoint, Cross

PORTS = ("write", "writeback")
LINKS = tuple(link.name for link in (LINK_A, LINK_B, LINK_C))
COMMANDS = ("SENSE", "LATCH", "LOAD", "PROGRAM", "ERASE", "SUSPEND", "RESUME", "STATUS")
GATES = tuple(name.lower() for name in Blocked.__members__)
READERS = ("direct", "relay", "program")
MODES = (
    "cache_read",
    "lockstep",
    "drain_whole_region",
    "hold_until_programmed",
    "suspend_enable",
    "collect_enable",
)

# A slot of the transfer regions, and what happens to it.
STATES = ("free", "read_reserved", "filled", "draining", "write_reserved", "granted", "arrived")
STEPS = {  # of a slot, from which state to which
    "sense": ("free", "read_reserved"),
    "fill": ("read_reserved", "filled"),
    "drain": ("filled", "draining"),
    "drained": ("draining", "free"),
    "reserve": ("free", "write_reserved"),
    "grant": ("write_reserved", "granted"),
    "arrive": ("granted", "arrived"),
    "leave": ("arrived", "free"),
    "refuse": ("write_reserved", "free"),
}
RESET_STEPS = STEPS | {"cut": ("granted", "free")}  # if links are reset
WRITING = ("write_reserved", "granted", "arrived")
WRITE_STEPS = ("reserve", "grant", "arrive", "leave", "refuse", "cut")


def gate_bin(gates: list[str]) -> str:
    return "+".join(gates)


def goals(*, resets: bool = False) -> Coverage:
    """Fresh cover points, with ``resets`` those of runs that reset links, too."""
    steps = RESET_STEPS if resets else STEPS
    gates = [gate_bin(list(some)) for n in range(1, 5) for some in itertools.combinations(GATES, n)]
    # All four beats are a whole page, and no piece of one.
    pieces = [(first, last) for first in range(4) for last in range(first, 4)]
    beats = [f"{first}-{last}" for first, last in pieces if (first, last) != (0, 3)]
    last = [status.name for status in Status if resets or status is not Status.LINK_RESET]
    # Refused or ended as a whole, so no page is told of.
    whole = ("OK", "BAD_ADDRESS", "OVERLAP", "LINK_RESET")
    of_resets = [
        # What of the link is under way when it is reset.
        Cross(
            "reset_meets",
            [LINKS, ("nothing", "reads", "writes", "both")],
            never=[("link_b", "writes"), ("link_b", "both")],
        ),
        # Of a read that ends with it: pages that came before.
        Cross("reset_read", [PATHS, ("no page", "some pages")]),
    ]
    return Coverage(
        [
            *(of_resets if resets else ()),
            CoverPoint("gates", gates),
            CoverPoint("blocked_on", GATES),
            CoverPoint("slot_steps", steps),
            # The other slot of the subarray; it has one write under way at a time.
            Cross(
                "slot_beside",
                [STATES, list(steps)],
                never=[(state, step) for state in WRITING for step in WRITE_STEPS if step in steps],
            ),
            CoverPoint("write_status", last),
            CoverPoint("page_status", [name for name in last if name not in whole]),
            CoverPoint("write_port", [f"{port}/{status}" for port in PORTS for status in last]),
            CoverPoint("commands", COMMANDS),
            Cross("suspend", [("program", "erase"), ("in time", "too late")]),
            CoverPoint("read_while_suspended", ("program", "erase")),
            CoverPoint("read_held", PATHS),
            Cross("read_meets_write", [("older", "younger"), PATHS, PORTS]),
            CoverPoint("collection", ("erased", "failed")),
            CoverPoint("array_failure", ("program", "erase")),
            Cross("ecc", [("corrected", "uncorrectable"), READERS]),
            Cross("small_read", [PATHS, beats]),
            Cross("modes", [MODES, ("on", "off")]),
            CoverPoint("consumer", ("runs", "hesitates", "stands")),
        ]
    )
