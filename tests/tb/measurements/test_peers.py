"""Peers: published figures against their own laws, and the experiment on the small machine."""

import math

import pytest

from hw.params import Sensing
from hw.presets import PRESETS, preset
from tb.measurements import peers
from tb.measurements.published import HBFSIM_REST_NS, ONE_SHOTS, SUSTAINED, OneShot, Sustained
from tests.tb.measurements.mini import MINI

SHOTS = {case.id: case for case in ONE_SHOTS}
STREAMS = {case.id: case for case in SUSTAINED}


def peer_ns(case: OneShot) -> float:
    return case.waves * case.machine.geometry.wave_bytes / case.peer_bytes_per_s * 1e9


@pytest.mark.parametrize(
    ("case", "ns"),
    # cycles of 1 ns: 1 + tSense, 19 a page of a bank, 19 until the last one is handed on
    [("A1", 1 + 4000 + 19 * 256 + 19), ("A1b", 1 + 10 + 19 * 16 + 19)],
)
def test_openhbx_takes_what_its_law_says(case, ns):
    assert peer_ns(SHOTS[case]) == pytest.approx(ns, rel=1e-6)


@pytest.mark.parametrize("grade", ["g1", "g2", "g3"])
@pytest.mark.parametrize("t_read_us", [4, 2])
def test_hbfsim_senses_back_to_back(grade, t_read_us):
    case = SHOTS[f"{grade}, tR {t_read_us} us"]
    rest_ns = peer_ns(case) - case.waves * t_read_us * 1000
    assert rest_ns == pytest.approx(HBFSIM_REST_NS, abs=100)


def test_peers_ask_for_what_they_published():
    pages = {name: case.waves * case.machine.geometry.wave_pages for name, case in SHOTS.items()}
    assert pages["A1"] == 4096
    assert pages["A1b"] == 256
    assert {4 * pages[name] for name, case in SHOTS.items() if case.peer == "HBFSim"} == {4096}
    assert pages["A3c, 1 wave"] == 2048
    assert peer_ns(SHOTS["A3c, 1 wave"]) == pytest.approx(11_110, rel=0.001)


def sum_of(text: str) -> float:
    return eval(text.replace(",", "").replace("x", "*"), {"__builtins__": {}})


@pytest.mark.parametrize("case", ONE_SHOTS, ids=lambda case: case.id)
def test_the_peer_sum_is_the_peer_figure(case):
    assert sum_of(case.peer_sum) == pytest.approx(peer_ns(case), rel=1e-3)


@pytest.mark.parametrize(
    ("case", "ns"),
    # By hand: tR, and a page a bank at the lane rate; in between the longer of both.
    [
        ("A1", 4001 + 256 * 19),
        ("A1b", 11 + 16 * 19),
        ("g1, tR 4 us", 8 * 4000 + 16 * 4096 / 48),
        ("g1, tR 1 us", 1000 + 8 * 16 * 4096 / 48),
        ("g2, tR 1 us", 4 * 1000 + 16 * 4096 / 96),
        ("g3, tR 2 us", 4 * 2000 + 16 * 4096 / 192),
        ("A3c, 1 wave", 3000 + 64 * 4096 / 32),
        ("A3c, 4 waves", 4 * (3000 + 64 * 4096 / 32)),
        ("A3c, 4 waves, overlapped", 3000 + 4 * 64 * 4096 / 32),
    ],
)
def test_closed_form_of_a_one_shot(case, ns):
    shot = SHOTS[case]
    assert peers.one_shot_ns(shot.machine, shot.waves) == pytest.approx(ns)


@pytest.mark.parametrize(
    ("case", "count", "gbps"),
    [
        ("A1", 2, 3449.3),
        ("A1, usual links", 2, 3200),
        ("g1, tR 4 us", 1, 131.1),
        ("g1, tR 1 us", 1, 384),
        ("g2, tR 2 us", 1, 524.3),
        ("g3, tR 1 us", 1, 1048.6),
        ("A3c", 1, 749.5),
        ("A3c, overlapped", 1, 1024),
    ],
)
def test_closed_form_of_a_stream(case, count, gbps):
    machine = STREAMS[case].machine
    assert peers.paths(machine) == count
    assert machine.steady_bound_bytes_per_s(count) / 1e9 == pytest.approx(gbps, abs=0.05)


def test_lane_rates_are_whole_to_a_thousandth():
    # A rate register holds 1/65536 of a beat a clock.
    for case in (*ONE_SHOTS, *SUSTAINED):
        rate = float(case.machine.tsv_beats_per_clock_per_die) * 65536
        assert round(rate) == pytest.approx(rate, rel=1e-3)
        assert case.machine.name in PRESETS


ONE_REGISTER = MINI.with_registers(sensing=Sensing.LOCKSTEP, cache_read=False)


def shot(name, machine, waves):
    return OneShot(
        id=name, peer="p", title="t", machine=machine, waves=waves, peer_bytes_per_s=1e11,
        peer_sum="1",
    )  # fmt: skip


def stream(name, machine, limit="l"):
    return Sustained(
        id=name, peer="p", title="t", machine=machine, limit=limit, peer_bytes_per_s=None
    )


def test_small_machine_in_place_of_peers(verilator):
    sensed = MINI.with_registers(t_read_us=0.5)  # longer than fill and drain
    measurement = peers.measure(
        1,
        lambda line: None,
        one_shots=(shot("one", MINI, 1), shot("four", sensed, 4), shot("lock", ONE_REGISTER, 2)),
        sustained=(stream("free", sensed), stream("lock", ONE_REGISTER), stream("dual", MINI)),
    )
    assert measurement.presets == ("mini",)
    one, four, lock = measurement.rows[:3]
    # By hand: waves of 32 KiB at 200 GB/s take 163.84 ns.
    closed = {"one": 187.5 + 163.84, "four": 4 * 500 + 163.84, "lock": 2 * (187.5 + 163.84)}
    for row, waves in ((one, 1), (four, 4), (lock, 2)):
        assert row["pages"] == 128 * waves
        assert row["closed_form_ns"] == pytest.approx(closed[row["id"]])
        # The way of the request to the dies, and a few clocks a wave.
        assert 5 < row["fill_ns"] - closed[row["id"]] < 15 + 5 * waves
        assert row["fill_bytes_per_s"] == pytest.approx(waves * 32768 / row["fill_ns"] * 1e9)
        assert row["delivered_ns"] > row["fill_ns"] + 10
        assert row["peer_ns"] == pytest.approx(waves * 327.68)
    bounds = (32768 / 500e-9, 32768 / 351.34e-9, 32768 / 187.5e-9)
    for row, bound in zip(measurement.rows[3:], bounds, strict=True):
        assert row["bound_bytes_per_s"] == pytest.approx(bound)
        assert row["fill_bytes_per_s"] == pytest.approx(bound, rel=0.01)
        assert row["delivered_bytes_per_s"] == pytest.approx(bound, rel=0.01)
    assert measurement.misses == ()
    assert [len(table.rows) for table in measurement.tables] == [3, 3, 3]
    text = measurement.markdown()
    assert "| 188 + 164 = 351 |" in text
    assert "| 500 + 3 x 500 + 164 = 2,164 |" in text


def test_a_stream_off_its_closed_form_is_a_miss(verilator, monkeypatch):
    monkeypatch.setattr(peers, "LIMIT_PCT", 1e-3)  # 0.2 % are lost to the clocks between commands
    measurement = peers.measure(
        1, lambda line: None, one_shots=(), sustained=(stream("free", MINI),)
    )
    (miss,) = measurement.misses
    assert miss.startswith("free, sustained: ") and miss.endswith("from 174.8")


def test_geometries_are_those_of_the_peers():
    of = {name: preset(name).geometry for name in PRESETS}
    assert (of["openhbx"].dies, of["openhbx"].subarrays_per_die) == (16, 256)
    assert (of["hbfsim-g1"].dies, of["hbfsim-g1"].subarrays_per_die) == (8, 16)
    assert (of["hbfsim-g2"].dies, of["hbfsim-g2"].subarrays_per_die) == (16, 16)
    assert (of["ramulator-hbf"].dies, of["ramulator-hbf"].subarrays_per_die) == (32, 64)
    assert of["ramulator-hbf"].wave_bytes == of["paper"].wave_bytes
    page_ns = {
        name: 4096 * of[name].dies / preset(name).tsv.bytes_per_s * 1e9
        for name in ("openhbx", "hbfsim-g1", "hbfsim-g2", "ramulator-hbf")
    }
    assert page_ns["openhbx"] == pytest.approx(19)
    assert page_ns["hbfsim-g1"] == pytest.approx(4096 / 48)
    assert page_ns["hbfsim-g2"] == pytest.approx(4096 / 96)
    assert page_ns["ramulator-hbf"] == pytest.approx(128)
    assert math.isclose(preset("openhbx").link.usable_bytes_per_s, 2.048e12)


def test_behind_slow_links_the_gpu_side_is_judged(verilator):
    slow = MINI.with_registers(link_tbps=0.06)
    measurement = peers.measure(
        1, lambda line: None, one_shots=(), sustained=(stream("slow", slow, "links"),)
    )
    (row,) = measurement.rows
    assert row["bound_bytes_per_s"] == pytest.approx(2 * 60e9)
    assert row["delivered_bytes_per_s"] == pytest.approx(2 * 60e9, rel=0.01)
    assert row["deviation_pct"] == pytest.approx(row["delivered_bytes_per_s"] / 1.2e9 - 100)
    assert measurement.tables[-1].rows[0][5] == f"**{row['delivered_bytes_per_s'] / 1e9:.1f}**"
