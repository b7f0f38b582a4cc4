"""What the HBF base die declares to wait for, against what stands still in cocotb."""

from functools import cache

from hw.hbf.base_die import HbfBaseDie
from tb.channel_probe import HbfProbe
from tb.channel_runs import ChannelResult, ChannelRun, probe_hbf

WRITE_DATA = [port for port in HbfProbe.INPUTS if port.endswith("write_data")]
LATE = 2_500  # when all that waits for a channel without credit has long stood still


@cache
def played(blocked: str, late: int = 0) -> ChannelResult:
    return probe_hbf(ChannelRun(blocked=blocked, late=late))


def declared() -> set[tuple[str, str]]:
    return {(port, other) for port, others in HbfBaseDie.WAITS.items() for other in others}


def test_nothing_stands_still_while_no_channel_is_blocked(verilator):
    result = played("")
    assert result.still == frozenset()
    assert min(result.passed[port] for port in HbfProbe.INPUTS) > 8


def test_requests_wait_for_what_is_declared_and_write_data_for_nothing(verilator):
    """Each wait that is declared is seen, and no other."""
    measured = {
        (port, blocked)
        for blocked in (*HbfProbe.OUTPUTS, *WRITE_DATA)
        for port in played(blocked).still
    }
    assert measured == declared()


def test_write_data_that_come_late_are_taken_while_all_else_stands_still(verilator):
    """Their slots were granted before."""
    for blocked in ("a_reply", "c_data"):
        result = played(blocked, LATE)
        assert sum(result.passed[port] for port in WRITE_DATA) > 0
        assert {"a_write", "c_write"} <= result.still
        assert {(port, blocked) for port in result.still} <= declared()
