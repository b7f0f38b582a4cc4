"""What a NAND die forbids, by name."""

import enum


class NandRule(enum.Enum):
    """A rule, and its bit in what counts the rules that were broken."""

    # Reads
    SENSE_OVER_PAGE = 0  # the data register holds a page that was not latched
    SENSE_OVER_CACHE = 1  # without cache read the cache register must be empty too
    LATCH_NOTHING = 2  # nothing was sensed
    LATCH_EARLY = 3  # before t_read after SENSE
    LATCH_OVER_PAGE = 4  # the cache register is not empty
    READ_NOTHING = 5  # the cache register holds no page to read
    READ_EARLY = 6  # before t_latch + t_rr after LATCH
    READ_ORDER = 7  # beats of a page rise by one
    # The TSV lane of a die
    TWO_BEATS = 8  # two read-outs of a die in one clock
    BEATS_CLOSE = 9  # less than t_ccs between beats of two subarrays of a die
    # Programs
    LOAD_OVER_PAGE = 10  # a register is not empty
    WRITE_NOTHING = 11  # no LOAD, or all four beats are in
    WRITE_EARLY = 12  # before t_adl after LOAD
    WRITE_ORDER = 13  # beats come from 0 to 3
    PROGRAM_INCOMPLETE = 14  # less than four beats were written in before this clock
    PROGRAM_ROW = 15  # another row than that of LOAD
    PROGRAM_OVER_PAGE = 16  # the page passes the data register, which holds another
    PROGRAM_ORDER = 17  # not the next page of its block
    PROGRAM_NOT_ERASED = 18  # page 0 of a block that was programmed before
    # All work in the array
    ERASE_OVER_PAGE = 19  # a register is not empty
    BUSY = 20  # a program or erase runs in the subarray
    SUSPENDED = 21  # LOAD, PROGRAM or ERASE while one is suspended
    STATUS_EARLY = 22  # before t_wb after PROGRAM or ERASE
    SUSPEND_NOTHING = 23  # nothing runs, as STATUS has told, or it is told to stop already
    RESUME_NOTHING = 24  # nothing is suspended
    RESUME_OVER_PAGE = 25  # the data register holds a page
    PLANE_BUSY = 26  # before t_plane_busy after a command to the same plane


def rules_in(kinds: int) -> list[NandRule]:
    """The rules whose bits are set."""
    return [rule for rule in NandRule if kinds >> rule.value & 1]
