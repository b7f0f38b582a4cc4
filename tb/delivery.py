"""What a run must have delivered, from its requests alone."""

import numpy as np

from hw.ucie.transaction import ADDRESS_UNIT_BYTES, Operation, Status
from tb.reads import ReadRun


def wanted_beats(what: ReadRun) -> list[range]:
    """Beats of the stack that each request wants, the same of every stack."""
    per_page = what.machine.page_beats
    beat_units = what.machine.link.beat_bytes // ADDRESS_UNIT_BYTES
    requests = what.requests()
    wanted = []
    for (first, pages, _), (offset, units) in zip(
        requests, what.pieces() or [(0, 0)] * len(requests), strict=True
    ):
        begin, end = 0, pages * per_page
        if units:
            begin, end = offset // beat_units, (offset + units - 1) // beat_units + 1
        wanted.append(range(first * per_page + begin, first * per_page + end))
    return wanted


def misdelivered(what: ReadRun, beats: int, address_sum: int) -> int:
    """Beats missing or too many; one if the count is right but the addresses are not."""
    pairs = what.topology.pairs
    wanted = wanted_beats(what)
    want_beats = pairs * sum(map(len, wanted))
    if beats != want_beats:
        return abs(beats - want_beats)
    want_sum = pairs * sum(len(run) * (run.start + run.stop - 1) // 2 for run in wanted)
    return int(address_sum != want_sum % 2**64)


def stale(what: ReadRun, version_sum: int, versioned_sum: int, *, failures: int = 0) -> bool | None:
    """Whether some page did not come in the version that was written last.

    Args:
        what: A run whose data had no error.
        version_sum: Sum of the versions of all beats.
        versioned_sum: Sum of version times number of the beat.
        failures: Programs and erases that failed, and written pages that the SRAM spoilt.

    Returns:
        ``None`` where the requests do not say which version that is: reads beside writes, writes of
        two ports, pages that were given up, and writes that failed.
    """
    if not what.writes:
        return bool(version_sum or versioned_sum)
    if (
        failures
        or not what.writes_first
        or len({write.port for write in what.writes}) > 1
        or any(write.operation != Operation.WRITE for write in what.writes)
    ):
        return None
    versions = np.zeros(what.machine.geometry.stack_pages, dtype=np.uint8)
    for write in what.writes:  # overlapping ones are apart by a barrier, so the last one stays
        if write.expects is Status.OK:
            versions[write.first : write.first + write.pages] = write.version
    total, weighted = 0, 0
    for run in wanted_beats(what):
        numbers = np.arange(run.start, run.stop, dtype=np.uint64)
        of_beats = versions[numbers // what.machine.page_beats]
        total += int(of_beats.sum())
        weighted += int((of_beats * numbers).sum())
    pairs, ring = what.topology.pairs, 2**64
    want = pairs * total % ring, pairs * weighted % ring
    return (version_sum, versioned_sum) != want
