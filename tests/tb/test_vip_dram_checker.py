"""The timing checker: for each rule the earliest legal command, and one that comes too soon.

All numbers are of ``hbm3e-9200`` at 2 GHz: a clock has 0.5 ns, a phase a 23rd of it, a burst 40
phases. Banks 0 to 3 are bank group 0, 4 to 7 group 1; from 16 on they are of the other stack id.
"""

import dataclasses

import pytest

from hw.hbm.dram.stacks import stack
from tb.vip.dram_checker import DramChecker, DramRule

STACK = stack("hbm3e-9200")
PHASES = 23
FAST_PRECHARGE = dataclasses.replace(STACK, timing=dataclasses.replace(STACK.timing, rp_ns=10.0))

# The commands before, those of the rule, its kinds, and the last command: legal, and too soon.
# A, P and F are ACTIVATE, PRECHARGE and refresh: clock and bank; R and W: clock, phase and bank.
CASES = {
    "RCD_READ": ("A 0 0", "R 38 18 0", "R 38 17 0"),
    "RCD_WRITE": ("A 0 0", "W 18 18 0", "W 18 17 0"),
    "RAS": ("A 0 0", "P 57 0", "P 56 0"),
    "RP": ("A 0 0, P 100 0", "A 133 0", "A 132 0"),
    "RP of refresh": ("A 0 0, P 100 0", "F 133 0", "F 132 0"),
    "RTP": ("A 0 0, R 60 0 0", "P 72 0", "P 71 0"),
    "WR": ("A 0 0, W 60 0 0", "P 116 0", "P 115 0"),
    "RRD_S": ("A 0 0", "A 5 4", "A 4 4"),
    "RRD_S of refresh": ("A 0 0", "F 5 4", "F 4 4"),
    "RRD_L": ("A 0 0", "A 7 1", "A 6 1"),
    "RRD_L past another group": ("A 0 0, A 5 4", "A 10 1", None),
    "FAW": ("A 0 0, A 5 4, A 10 8, A 15 12", "A 30 16", "A 29 16"),
    "CCD_L": ("A 0 0, A 7 1, R 60 0 0", "R 63 11 1", "R 63 10 1"),
    "CCD_L of writes": ("A 0 0, A 7 1, W 60 5 0", "W 63 16 1", "W 63 15 1"),
    "CCD_R": ("A 0 0, A 5 16, R 60 0 0", "R 62 14 16", "R 62 13 16"),
    "WTR_S": ("A 0 0, A 5 4, W 60 0 0", "R 83 0 4", "R 82 22 4"),
    "WTR_L": ("A 0 0, A 7 1, W 60 0 0", "R 86 17 1", "R 86 16 1"),
    "RTW": ("A 0 0, A 5 4, R 60 0 0", "W 85 0 4", "W 84 22 4"),
    "RFC": ("F 0 0", "A 400 0", "A 399 0"),
    "RFC of refresh": ("F 0 0", "F 400 0", "F 399 0"),
    "RREFD": ("F 0 0", "A 10 4", "A 9 4"),
    "RREFD of refresh": ("F 0 0", "F 10 1", "F 9 1"),
    "ROW_BUS": ("A 0 4, A 100 0", "P 102 4", "P 101 4"),
    "REFRESH_LATE": ("", "F 9993 0", "F 9994 0"),
    "COLUMN_OF_CLOSED": ("A 0 0, P 100 0", None, "R 120 0 0"),
    "COLUMN_OF_CLOSED, write": ("", None, "W 120 0 0"),
    "ACTIVATE_OF_OPEN": ("A 0 0", None, "A 200 0"),
    "PRECHARGE_OF_CLOSED": ("", None, "P 200 0"),
    "REFRESH_OF_OPEN": ("A 0 0", None, "F 200 0"),
}  # fmt: skip


def found(commands: str, which=STACK) -> set[DramRule]:
    checker = DramChecker(which, PHASES)
    for text in filter(None, commands.split(", ")):
        kind, *numbers = text.split()
        values = [int(number) for number in numbers]
        match kind:
            case "A":
                checker.activate(*values, row=7)
            case "P":
                checker.precharge(*values)
            case "F":
                checker.refresh(*values)
            case _:
                checker.column(*values, write=kind == "W")
    return {violation.rule for violation in checker.violations}


@pytest.mark.parametrize("case", CASES)
def test_a_command_too_soon_breaks_its_rule_and_no_other(case):
    before, legal, soon = CASES[case]
    if legal:
        assert found(f"{before}, {legal}") == set()
    if soon:
        assert found(f"{before}, {soon}") == {DramRule[case.split(",")[0].split(" ")[0]]}


def test_every_rule_has_a_case():
    elsewhere = {DramRule.RC, DramRule.CCD_S, DramRule.DATA_BUS, DramRule.NO_SUCH_ROW}
    named = {DramRule[case.split(",")[0].split(" ")[0]] for case in CASES}
    assert named | elsewhere == set(DramRule)


def test_rc_beyond_ras_and_rp():
    assert found("A 0 0, P 57 0, A 90 0", FAST_PRECHARGE) == set()
    assert found("A 0 0, P 57 0, A 89 0", FAST_PRECHARGE) == {DramRule.RC}
    assert found("A 0 0, P 57 0, F 89 0", FAST_PRECHARGE) == {DramRule.RC}


def test_bursts_follow_each_other_without_a_gap_and_never_overlap():
    opened = "A 0 0, A 5 4, A 10 8, R 60 0 0"
    assert found(f"{opened}, R 61 17 4, R 63 11 8, R 65 5 0") == set()
    assert found(f"{opened}, R 61 16 4") == {DramRule.CCD_S, DramRule.DATA_BUS}
    # The data of a WRITE come 6.25 ns sooner after it than those of a READ.
    assert found(f"{opened}, W 72 12 4") == {DramRule.RTW, DramRule.DATA_BUS}


def test_rows_end():
    checker = DramChecker(STACK, PHASES)
    checker.activate(0, 0, STACK.organization.rows - 1)
    assert not checker.violations
    checker.activate(10, 4, STACK.organization.rows)
    (broken,) = checker.violations
    assert broken.rule is DramRule.NO_SUCH_ROW and str(broken).startswith("NO_SUCH_ROW at 5.000 ns")


def test_a_bank_that_nobody_refreshes_is_found_at_the_end():
    checker = DramChecker(STACK, PHASES)
    checker.end(9993)
    assert not checker.violations
    checker.end(9994)
    assert len(checker.violations) == STACK.organization.bank_count
