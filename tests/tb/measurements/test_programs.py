"""The experiment with programs beside reads, on the small machine."""

from types import SimpleNamespace

import pytest

from tb.measurements import programs
from tests.tb.measurements.mini import MINI


@pytest.fixture(scope="module")
def rows(verilator):
    measurement = programs.measure(MINI, 1, lambda line: None)
    assert not measurement.misses
    return {row["case"]: row for row in measurement.rows}


def test_each_case_reads_its_planes_and_writes_one_wave(rows):
    wave = MINI.geometry.wave_bytes
    shares = {"half": 1 / 2, "all": 1, "seven": 7 / 8}
    for name, row in rows.items():
        share = shares[name.split()[0].rstrip(",")]
        assert row["read_bytes"] == programs.READ_WAVES * wave * share, name
        assert row["written_bytes"] == (wave if "programs" in name else 0), name


def test_programs_cost_reads_of_other_planes_nothing_beyond_their_tsv_time(rows):
    for name in ("half, programs on the other half", "seven eighths, programs on an eighth"):
        row = rows[name]
        assert row["read_us"] - row["alone_us"] <= row["tsv_us"], name


def test_programs_everywhere_stop_reads_for_about_a_program(rows):
    row = rows["all, programs on all, no suspend"]
    program_us = MINI.nand.t_program_ns / 1e3
    assert 0.9 * program_us < row["read_us"] - row["alone_us"] < 1.5 * program_us
    assert row["suspends"] == 0 < rows["all, programs on all, suspend"]["suspends"]


def test_a_cost_beyond_the_tsv_time_is_a_miss():
    alone = SimpleNamespace(delivered=SimpleNamespace(ns=1000.0))
    for tsv_us, misses in ((0.1, 1), (0.3, 0)):
        case = programs.cases(MINI)[3]
        seen = SimpleNamespace(case=case, alone=alone, read_us=1.2, tsv_us=tsv_us)
        assert len(programs.missed([seen])) == misses
