"""Reads at full size: the rates of the paper's machine, over one stack pair."""

from functools import cache

import pytest

from hw.presets import preset, topology
from tb.play import design, play
from tb.reads import ReadRun
from tb.simulator import Simulator, build

pytestmark = pytest.mark.slow

PAPER = preset("paper")
LINKS = topology("compact")
TBPS = 1e12


@cache
def run(route, waves, **registers):
    machine = PAPER.with_registers(**registers)
    what = ReadRun(machine=machine, topology=LINKS, route=route, waves=waves)
    result = play(build(design(PAPER, LINKS), Simulator.VERILATOR), what)
    assert (result.data_errors, result.violations, result.poisoned) == (0, 0, 0)
    assert result.bytes == waves * 8 * 2**20
    assert result.senses == waves * 2048
    return result


def interior_rate(result):
    """Bytes a second until the last wave but two has ended, before the pipeline runs dry."""
    ends = result.wave_ends[:-2]
    clocks = (ends[-1] - ends[0]) / (len(ends) - 1)
    return result.run.wave_bytes / clocks * result.clock_hz


@pytest.mark.parametrize(("route", "least"), [("direct", 0.99), ("relay", 0.985)])
def test_one_path(verilator, route, least):
    assert least * 1.6 * TBPS <= run(route, 4).steady_bytes_per_s <= 1.001 * 1.6 * TBPS


def test_relay_is_later_by_a_chunk(verilator):
    later = run("relay", 4).first_byte_ns - run("direct", 4).first_byte_ns
    assert later == pytest.approx(4 * 2**20 / 1.6e12 * 1e9, rel=0.01)


@pytest.mark.parametrize(("t_read_us", "tbps"), [(3, 2.796), (2, 3.2)])
def test_both_paths(verilator, t_read_us, tbps):
    result = run("dual", 8, t_read_us=t_read_us)
    assert result.steady_bytes_per_s == pytest.approx(tbps * TBPS, rel=0.03)
    assert interior_rate(result) == pytest.approx(tbps * TBPS, rel=0.005)


def test_second_path_gains_nothing_behind_slow_tsvs(verilator):
    result = run("dual", 8, tsv_tbps=1.6)
    assert interior_rate(result) == pytest.approx(1.6 * TBPS, rel=0.005)
    # What the buffers held as the first wave ended comes on top of what the TSVs bring after it:
    # at most the relay regions, one wave, of which half is under way at any time.
    assert result.steady_bytes_per_s <= (1 + 0.5 / 7) * 1.6 * TBPS


def test_waves_have_their_views(verilator, tmp_path):
    # Verilator's waves hold no wide signals, and the machine is wider than the small ones.
    what = ReadRun(machine=PAPER, topology=LINKS, route="dual", waves=1)
    play(build(design(PAPER, LINKS), verilator), what, tmp_path / "read.vcd")
    assert {path.suffix for path in tmp_path.iterdir()} == {".vcd", ".gtkw", ".sucl"}
