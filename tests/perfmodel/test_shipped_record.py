"""The record that `--timing rtl` takes."""

import pytest

from hw.presets import preset
from perfmodel.memory.record import load_record
from perfmodel.memory.timing import SHIPPED_RECORD

TB = 1e12


def test_it_belongs_to_the_rtl_and_machine_of_today():
    record = load_record(SHIPPED_RECORD)  # refuses a stale one by name
    assert record.preset == "paper"
    assert record.machine_fingerprint == preset("paper").fingerprint


def test_full_size_reaches_what_sensing_tsvs_and_links_allow():
    record = load_record(SHIPPED_RECORD)
    assert record.fitted["direct"].steady_bytes_per_s >= 0.99 * 1.6 * TB
    assert record.fitted["relay"].steady_bytes_per_s >= 0.985 * 1.6 * TB
    assert record.fitted["dual"].steady_bytes_per_s == pytest.approx(2.796 * TB, rel=0.002)
    assert record.fitted["direct"].residual_pct < 0.1
    assert record.fitted["relay"].residual_pct < 0.1
    assert record.fitted["dual"].residual_pct < 25  # two requests, one a path: see docs/timing.md
    by_registers = {(s.t_read_us, s.tsv_tbps): s for s in record.observations if s.route == "dual"}
    assert by_registers[2.0, 3.2].steady_bytes_per_s == pytest.approx(3.2 * TB, rel=0.03)
    # A whole run of 1.6 TB/s of fill; its last wave is drained at the rate of two links.
    assert by_registers[3.0, 1.6].steady_bytes_per_s == pytest.approx(1.6 * TB, rel=0.04)
