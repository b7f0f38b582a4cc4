"""The registers of the package over the sideband: the same data, at the same rates."""

import dataclasses
from functools import cache

import pytest

from hw.errors import InputError
from hw.presets import preset, topology
from hw.registers.description import Kind
from hw.registers.hbf import hbf_description
from tb.play import design, play
from tb.reads import ReadRun
from tb.settings import Modes
from tb.simulator import BenchFailed, Simulator, build
from tb.verdict import wrongs

MINI = preset("mini")
MODES = Modes(drain_whole_region=True, suspend=True)  # so that not only resets are written


@cache
def played(sideband, simulator=Simulator.VERILATOR, **options):
    links = dataclasses.replace(topology("compact"), sideband=sideband, **options)
    what = ReadRun(machine=MINI, topology=links, route="dual", waves=4, modes=MODES)
    return play(build(design(MINI, links), simulator), what)


def accesses(names):
    """Of a port, to set these fields: a write of each word, and a read where fields are kept."""
    words = [
        {part.field.name: part.field.kind for part in parts}
        for parts in hbf_description().words.values()
    ]
    written = [word for word in words if not names.isdisjoint(word)]
    kept = [
        word
        for word in written
        if any(kind is Kind.CONFIG and name not in names for name, kind in word.items())
    ]
    return len(written) + len(kept)


def test_the_same_data_comes_at_the_same_rates(verilator):
    port, wire = played(False), played(True)
    assert wrongs(port) == [] and wrongs(wire) == []
    assert (wire.bytes_direct, wire.bytes_relay) == (port.bytes_direct, port.bytes_relay)
    assert wire.senses == port.senses
    assert wire.steady_bytes_per_s == pytest.approx(port.steady_bytes_per_s, rel=2e-3)
    # Frames of four clocks may lie otherwise.
    assert wire.first_byte_ns == pytest.approx(port.first_byte_ns, abs=2)


def test_setting_the_registers_takes_the_time_of_the_wire(verilator):
    """An access is a packet of 64 UI one way and one of 64 + 32 + 64 UI the other, at 800 MHz."""
    plan = played(True).run.plan()
    count = accesses(plan["registers"].keys() | plan["controls"].keys())
    wire = (64 + 64 + 32 + 64) * 2.5 + 2 * MINI.link.one_way_cycles
    assert 0 <= played(True).set_up_clocks / count - wire <= 16
    assert played(False).set_up_clocks <= 6 * count


@pytest.mark.slow
def test_both_simulators_do_the_same(verilator, icarus):
    ours, other = (played(True, simulator) for simulator in Simulator)
    assert ours.cycles == other.cycles and ours.set_up_clocks == other.set_up_clocks
    assert ours.wave_ends == other.wave_ends


@pytest.mark.slow
def test_an_access_that_takes_longer_than_the_timeout_is_an_error(verilator):
    with pytest.raises(BenchFailed, match="ended as TIMEOUT"):
        played(True, sideband_timeout_us=0.1)


def test_a_timeout_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="sideband_timeout_us"):
        dataclasses.replace(topology("compact"), sideband_timeout_us=0)
