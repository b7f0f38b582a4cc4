"""What is wrong with a run: all that the faults it planted do not account for."""

from collections import Counter
from typing import TYPE_CHECKING

from hw.ucie.transaction import Status
from tb.excuses import excused_beats, excused_writes, failed_words, planted_words

if TYPE_CHECKING:
    from tb.read_result import ReadResult

# How requests may end when a page that they need has failed, or was collected since.
_CONSEQUENCES = {Status.PROGRAM_FAILED, Status.ORDER, Status.ILLEGAL_OWNER}


def wrongs(result: "ReadResult") -> list[str]:
    """One sentence for each thing that is wrong; none for a run as it should be."""
    found = []
    if result.violations:
        rules = ", ".join(result.broken_rules)
        found.append(f"{result.violations} NAND rules were broken ({rules})")
    wrong, excused = result.writes.wrong_beats, excused_writes(result)
    if wrong > excused:
        found.append(f"{wrong} wrong beats reached the NAND{_accounted(excused)}")
    if result.stale:
        found.append("pages did not come as they were written last")
    if (excused_reads := excused_beats(result)) is not None and result.data_errors > excused_reads:
        found.append(
            f"{result.data_errors} beats are wrong, and erased pages and faults account for "
            f"{excused_reads}"
        )
    return found + _faults_not_asked_for(result) + _wrong_statuses(result)


def _accounted(excused: int) -> str:
    return f", and faults account for {excused}" if excused else ""


def _faults_not_asked_for(result: "ReadResult") -> list[str]:
    """More failures than were planted."""
    run, writes = result.run, result.writes
    faults, any_number = run.faults, 2**64
    found = []
    for what, count, most in (
        (
            "programs failed",
            writes.program_failures,
            any_number if faults.programs else run.topology.pairs * bool(faults.program_at),
        ),
        ("erases failed", writes.erase_failures, any_number if faults.erases else 0),
        ("words of the SRAM were corrected", result.corrected, planted_words(run, bits=1)),
        ("words of the SRAM were uncorrectable", result.uncorrected, planted_words(run, bits=2)),
    ):
        if count > most:
            found.append(f"{count} {what}, not {most} as asked for")
    return found


def _wrong_statuses(result: "ReadResult") -> list[str]:
    """Requests that should have been refused and were not, or the other way round."""
    run = result.run
    reads = Counter({Status.BAD_ADDRESS: len(run.refused), Status.OK: len(run.requests())})
    found = []
    if Counter(result.read_statuses) != reads:
        found.append(f"reads ended with {_named(result.read_statuses)}, not {_named(reads)}")
    return found + _wrong_writes(result)


def _wrong_writes(result: "ReadResult") -> list[str]:
    run, writes = result.run, result.writes
    want: Counter[Status] = Counter()
    free = 0  # requests that end with OK or, where collection was first, with ILLEGAL_OWNER
    for write in run.writes:
        if write.races_collection and run.modes.collect:
            free += run.topology.pairs
        else:
            want[write.expects] += run.topology.pairs
    spoilt = failed_words(result)
    failed = writes.program_failures or writes.erase_failures or spoilt
    have = Counter(writes.statuses)
    more = {status for status in Status if have[status] > want[status]}
    fewer = {status for status in Status if have[status] < want[status]}
    may_be_more = {Status.OK, Status.ILLEGAL_OWNER} if free else set()
    may_be_fewer: set[Status] = set()
    if failed:  # one page that fails makes others fail
        may_be_more |= _CONSEQUENCES
        may_be_fewer = {Status.OK}
    to_tell = writes.program_failures or (spoilt and writes.wrong_beats)
    if (
        have.total() == want.total() + free
        and more <= may_be_more
        and fewer <= may_be_fewer
        and have[Status.OK] <= want[Status.OK] + free
        and (have[Status.PROGRAM_FAILED] or not to_tell)
    ):
        return []
    also = f" and {free} OK or ILLEGAL_OWNER" if free else ""
    return [f"writes ended with {_named(writes.statuses)}, not {_named(want)}{also}"]


def _named(statuses: dict[Status, int]) -> str:
    return ", ".join(
        f"{count} {status.name}" for status, count in sorted(statuses.items()) if count
    )
