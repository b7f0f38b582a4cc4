"""What ``pagewave simulate`` says of faults and erases: no failure where they account for all."""

import json

import pytest

from scripts.main import main

CORNER = ["simulate", "--topology", "dash", "--preset", "mini", "--route", "direct", "--waves", "1"]
FAST = ["--t-program-us", "0.5", "--t-erase-us", "2"]


@pytest.mark.parametrize(
    "options",
    [
        ["--write-waves", "1", "--rewrite", "--waves", "256", *FAST],
        ["--write-waves", "16", "--trim", "--waves", "256", *FAST],
        ["--write-waves", "1", "--ecc-beats", "3", "--ecc-bits", "5,9", *FAST],
        ["--write-waves", "1", "--ecc-beats", "3", "--ecc-bits", "5,9", "--writes-first", *FAST],
    ],
    ids=["rewrite", "trim", "SRAM", "SRAM and read back"],
)
def test_what_erases_and_faults_spoil_is_no_failure(verilator, options, capsys):
    assert main([*CORNER, "--json", *options]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen["data_errors"] + seen["writes"]["wrong_beats"] > 0


def test_a_fault_that_never_strikes_is_told(verilator, capsys):
    assert main([*CORNER, "--write-waves", "1", "--fail-program-at", "999", *FAST]) == 0
    assert "never came: 128 programs, not 999" in capsys.readouterr().out
