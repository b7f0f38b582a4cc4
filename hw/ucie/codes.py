"""Codes of the transaction format that plain Python shares with the RTL."""

import enum


class Owner(enum.IntEnum):
    """Whose erase block it is (DASH section V-A2); NONE is one that belongs to nobody yet."""

    NONE = 0
    WEIGHT = 1
    KV = 2


class Status(enum.IntEnum):
    """How a transaction or page ended; the numbers are those of the OCP HBF specification 0.7.0.

    Read codes are those of its table 12, write codes those of its table 13. LINK_RESET is our own:
    a reset of a link came between, and the outcome is not known.
    """

    OK = 0
    BAD_ADDRESS = 1
    OVERLAP = 2
    ILLEGAL_OWNER = 3
    ORDER = 6
    PROGRAM_FAILED = 7
    LINK_RESET = 15
