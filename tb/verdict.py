"""What is wrong with a run: all that the faults it planted do not account for."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from hw.ucie.transaction import Operation, Status
from tb.delivery import wanted_beats
from tb.reads import ReadRun

if TYPE_CHECKING:
    from tb.read_result import ReadResult


def wrongs(result: "ReadResult") -> list[str]:
    """One sentence for each thing that is wrong; none for a run as it should be."""
    found = []
    if result.violations:
        rules = ", ".join(result.broken_rules)
        found.append(f"{result.violations} NAND rules were broken ({rules})")
    if result.writes.wrong_beats:
        found.append(f"{result.writes.wrong_beats} wrong beats reached the NAND")
    if result.stale:
        found.append("pages did not come as they were written last")
    if (excused := excused_beats(result)) is not None and result.data_errors > excused:
        found.append(f"{result.data_errors} beats are wrong, and the faults account for {excused}")
    found += _wrong_statuses(result)
    return found


def excused_beats(result: "ReadResult") -> int | None:
    """How many wrong beats the faults of a run explain at most; ``None`` for any number.

    A word that cannot be corrected spoils its beat. A failed program spoils its page and a failed
    erase all pages of its block, each as often as it is read.
    """
    run, machine = result.run, result.run.machine
    torn = run.modes.suspend and result.writes.erases and not run.writes_first
    if run.corrupt or torn:  # a read may meet an erase that is suspended
        return None
    pages = (
        result.writes.program_failures
        + result.writes.erase_failures * machine.geometry.pages_per_block
    )
    excused = pages * machine.page_beats * _reads_of_a_page(run) if pages else 0
    return excused + result.uncorrected * (len(run.faults.ecc_bits) == 2)


def _reads_of_a_page(run: ReadRun) -> int:
    """How often the page that is read most is read."""
    beats = run.machine.page_beats
    begins = np.zeros(run.machine.geometry.stack_pages + 1, dtype=np.int64)
    for wanted in wanted_beats(run):
        begins[wanted.start // beats] += 1
        begins[(wanted.stop - 1) // beats + 1] -= 1
    return int(begins.cumsum().max())


def _wrong_statuses(result: "ReadResult") -> list[str]:
    """Requests that should have been refused and were not, or the other way round."""
    run, pairs = result.run, result.run.topology.pairs
    reads = {Status.BAD_ADDRESS: len(run.refused)} if run.refused else {}
    reads[Status.OK] = len(run.requests())
    found = []
    if result.read_statuses != reads:
        found.append(f"reads ended with {_named(result.read_statuses)}, not {_named(reads)}")
    faults, have = run.faults, result.writes.statuses
    if faults.programs or faults.program_at or faults.erases or result.uncorrected:
        return found  # one page that fails makes others fail
    writes = {
        status: count * pairs
        for status, count in Counter(write.expects for write in run.writes).items()
    }
    # TRIM and RELEASE meet the collection of their blocks in the background: either may be first.
    exact = all(write.operation is Operation.WRITE for write in run.writes)
    fewer = any(have.get(status, 0) < count for status, count in writes.items() if status)
    if fewer or (exact and have != writes):
        found.append(f"writes ended with {_named(have)}, not {_named(writes)}")
    return found


def _named(statuses: dict[Status, int]) -> str:
    return ", ".join(f"{count} {status.name}" for status, count in sorted(statuses.items()))
