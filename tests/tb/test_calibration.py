"""Calibration of the small machine, against closed forms and against itself."""

import dataclasses
import json

import pytest

from hw.presets import preset
from perfmodel.memory.record import TimingRecord, load_record, save_record
from scripts.main import main
from tb.calibration import calibrate, grid, observation
from tb.play import read
from tb.waveform import read_instants

LINK = 100e9
WAVE = 32 * 1024


@pytest.fixture(scope="module")
def record(verilator) -> TimingRecord:
    return calibrate("mini")


def test_rates_reach_what_sensing_and_links_allow(record):
    fitted = record.fitted
    assert fitted["direct"].steady_bytes_per_s == pytest.approx(LINK, rel=0.002)
    # Two chunks of half a wave cost one credit round trip, 12 to 17 clocks of 2 GHz.
    relay = [WAVE / (WAVE / LINK + clocks / 2e9) for clocks in (12, 17)]
    assert relay[1] < fitted["relay"].steady_bytes_per_s < relay[0]
    sensing = WAVE / 187.5e-9
    assert fitted["dual"].steady_bytes_per_s == pytest.approx(sensing, rel=0.01)


def test_first_bytes_come_after_sensing_and_after_a_chunk(record):
    direct, relay = record.fitted["direct"], record.fitted["relay"]
    assert 187.5 < direct.first_byte_ns < 187.5 + 50
    chunk_ns = WAVE / 2 / LINK * 1e9
    assert chunk_ns < relay.first_byte_ns - direct.first_byte_ns < chunk_ns + 30


def test_other_registers_show(record):
    by_id = {seen.id: seen for seen in record.observations}
    (faster,) = [s for s in by_id.values() if s.t_read_us == pytest.approx(0.125)]
    # Pages leave in frames of four clocks, 2 ns.
    assert faster.first_byte_ns == pytest.approx(record.fitted["dual"].first_byte_ns - 62.5, abs=2)
    (half,) = [s for s in by_id.values() if s.tsv_tbps == pytest.approx(0.1)]
    assert half.steady_bytes_per_s < 1.02 * LINK  # no gain from a second path


def test_command_writes_the_same_record_again(record, capsys, tmp_path):
    file = tmp_path / "mini.json"
    assert main(["calibrate", "--preset", "mini", "--out", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(file.read_text())
    assert load_record(file) == record
    save_record(record, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == file.read_text()


def test_wrong_data_and_contradictions_stop_calibration(verilator, tmp_path):
    run = dataclasses.replace(grid(preset("mini"), 1)[0], corrupt=True)
    vcd = tmp_path / "run.vcd"
    bad = read(run, waves=vcd)
    instants = read_instants(vcd, run)
    with pytest.raises(RuntimeError, match="data errors"):
        observation(bad, instants)
    good = dataclasses.replace(bad, data_errors=0, first_beat=bad.first_beat + 1)
    with pytest.raises(RuntimeError, match="the waveform shows"):
        observation(good, instants)
