"""The timing record: what is stored, what is refused, and with which words."""

import copy
import json
from dataclasses import replace

import pytest

from hw.errors import InputError
from hw.presets import preset
from perfmodel.memory import from_record, link_limited, load_record, load_timing, save_record
from perfmodel.memory.record import TimingRecord


@pytest.fixture
def record_file(tmp_path, record_json):
    """Writes the record, changed, and returns its path."""

    def write(change=lambda record: None):
        record = copy.deepcopy(record_json)
        change(record)
        path = tmp_path / "record.json"
        path.write_text(json.dumps(record))
        return path

    return write


def test_round_trip(record_file, record_json, rtl_is_current, tmp_path):
    record = load_record(record_file())
    copy_path = tmp_path / "new" / "copy.json"
    save_record(record, copy_path)
    assert json.loads(copy_path.read_text()) == record_json
    assert load_record(copy_path) == record
    assert [path.name for path in copy_path.parent.iterdir()] == ["copy.json"]


def test_frozen(record_json):
    record = TimingRecord.model_validate(record_json)
    with pytest.raises(ValueError, match="frozen"):
        record.seed = 8


def _set(*path):
    *keys, last, value = path

    def change(record):
        for key in keys:
            record = record[key]
        record[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (_set("schema", "pagewave.timing/2"), "schema"),
        (_set("extra", 1), "extra"),
        (_set("observations", 0, "waveform", "note", 1), "observations.0.waveform.note"),
        (_set("observations", 0, "steady_bytes_per_s", 0), "observations.0.steady_bytes_per_s"),
        (_set("observations", 0, "route", "around"), "observations.0.route"),
        (_set("observations", 0, "topology", "star"), "topology must be one of dash"),
        (_set("observations", 0, "data_errors", 1), "data_errors must be 0"),
        (_set("observations", 0, "waveform", "last_beat_ns", 5.0), "must not go back"),
        (_set("observations", []), "observations"),
        (_set("fitted", "direct", "from", ["gone"]), "fitted.direct.from names no observation"),
        (_set("fitted", "direct", "from", []), "fitted.direct.from"),
        (_set("valid", "t_read_us", [8, 1]), "t_read_us must be [lowest, highest]"),
        (lambda record: record.pop("seed"), "seed"),
        (lambda record: record["observations"].append(record["observations"][0]), "occur once"),
    ],
)
def test_wrong_shape_is_refused_in_one_line(record_file, rtl_is_current, change, where):
    path = record_file(change)
    with pytest.raises(InputError) as caught:
        load_record(path)
    message = str(caught.value)
    assert message.startswith(f"timing record {path}: ")
    assert where in message
    assert "pagewave calibrate" in message
    assert "\n" not in message


def test_not_json_and_not_there(tmp_path):
    path = tmp_path / "record.json"
    with pytest.raises(InputError, match="cannot be read"):
        load_record(path)
    path.write_text("{")
    with pytest.raises(InputError, match="Invalid JSON"):
        load_record(path)


def test_stale_rtl_is_refused(record_file, monkeypatch):
    monkeypatch.setattr("hw.source.rtl_fingerprint", lambda: "ffff")
    path = record_file()
    with pytest.raises(InputError) as caught:
        load_record(path)
    assert str(caught.value) == (
        f"stale timing record {path}: rtl_fingerprint is 0123456789abcdef, the RTL is now ffff; "
        f"run `pagewave calibrate --preset paper --out {path}`"
    )


def test_other_machine_is_refused(record_file, rtl_is_current):
    path = record_file(_set("machine_fingerprint", "abc"))
    now = preset("paper").fingerprint
    with pytest.raises(InputError, match=f"machine_fingerprint is abc, the machine is now {now}"):
        load_record(path)
    path = record_file(_set("preset", "pocket"))
    with pytest.raises(InputError, match="preset is 'pocket': must be paper, mini"):
        load_record(path)


def test_measured_timing(record_file, rtl_is_current):
    machine = preset("paper")
    timing = load_timing(str(record_file()), machine)
    assert timing.direct.bytes_per_s == 1.59e12
    assert timing.relay.bytes_per_s == 1.57e12
    assert timing.direct.first_byte_s == pytest.approx(3.012e-6)
    assert timing.direct.request_gap_s == pytest.approx(12.5e-9)
    assert timing.dual_bytes_per_s == 2.8e12
    # 1,024 pins at 9.2 Gb/s are slower than the link.
    assert timing.hbm_local_bytes_per_s == pytest.approx(1.1776e12)
    assert "described, not measured" in timing.provenance


def test_extrapolation_is_said(record_file, rtl_is_current):
    timing = load_timing(str(record_file()), preset("paper"))
    assert timing.extrapolation(4096) is None
    assert timing.extrapolation(2 * 67108864) is None  # goes out as transactions of 16 MiB
    shorter = replace(timing, measured_request_bytes=(4096.0, 8388608.0))
    assert shorter.extrapolation(2 * 67108864) == (
        "requests of 16777216 B lie 2.00x above the measured range"
    )
    assert "2.00x below" in timing.extrapolation(2048)
    assert link_limited(preset("paper")).extrapolation(1) is None


def test_record_of_another_machine_or_without_a_route(record_json):
    record = TimingRecord.model_validate(record_json)
    with pytest.raises(InputError, match="measured on preset 'paper': serving needs one of 'mini'"):
        from_record(record, preset("mini"))
    del record_json["fitted"]["dual"]
    with pytest.raises(InputError, match=r"fitted\.dual is missing"):
        from_record(TimingRecord.model_validate(record_json), preset("paper"))


def test_link_limited_is_the_machine_and_nothing_else():
    timing = link_limited(preset("paper"))
    assert timing.direct == timing.relay
    assert timing.direct.bytes_per_s == timing.hbm_local_bytes_per_s == 1.6e12
    assert timing.dual_bytes_per_s == 3.2e12
    assert timing.direct.first_byte_s == pytest.approx(3e-6)


def test_choices(monkeypatch, tmp_path):
    machine = preset("paper")
    assert load_timing("link-limited", machine).label == "link-limited"
    with pytest.raises(InputError, match="must be link-limited, rtl, or the file"):
        load_timing("measured", machine)
    missing = tmp_path / "paper.json"
    monkeypatch.setattr("perfmodel.memory.timing.SHIPPED_RECORD", missing)
    with pytest.raises(
        InputError, match=f"run `pagewave calibrate --preset paper --out {missing}`"
    ):
        load_timing("rtl", machine)
