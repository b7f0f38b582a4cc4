"""Reads over every route: what arrives, how fast, and what the clocks of the run say."""

from functools import cache

import numpy as np
import pytest
from vcdvcd import VCDVCD

from hw.errors import InputError
from hw.gpu.router import Choice
from hw.params import Sensing
from hw.presets import preset, topology
from tb.play import design, play
from tb.reads import ReadRun, with_pairs
from tb.simulator import Simulator, build

MINI = preset("mini")
ONE_PAIR = topology("compact")
LOCKSTEP = Sensing.LOCKSTEP
GBPS = 1e9
# Clocks in which the link passes a relay chunk of 64 pages: 256 beats at 25 of 32.
CHUNK_CLOCKS = 256 * 32 / 25


def plan(route, waves=4, links=ONE_PAIR, machine=MINI, **changes):
    return ReadRun(machine=machine, topology=links, route=route, waves=waves, **changes)


@cache
def simulation(simulator, links=ONE_PAIR):
    return build(design(MINI, links), simulator)


@cache
def fast(route, waves=4, machine=MINI, **changes):
    """A run on Verilator, which is built for one topology only."""
    what = plan(route, waves, machine=machine, **changes)
    return play(simulation(Simulator.VERILATOR), what)


def assert_delivered(result):
    """All that was asked for came, over the path that was asked for, and nothing else."""
    run = result.run
    g, pairs = run.machine.geometry, run.topology.pairs
    pages = run.waves * g.wave_pages * pairs
    assert (result.data_errors, result.violations, result.poisoned) == (0, 0, 0)
    assert result.bytes == pages * g.page_bytes
    assert result.senses == pages
    assert len(result.wave_ends) == run.waves
    asked = {choice: 0 for choice in Choice}
    for _, size, choice in run.requests():
        asked[choice] += size * pairs * g.page_bytes
    either = asked[Choice.LEAST_LOADED]
    assert 0 <= result.bytes_direct - asked[Choice.DIRECT] <= either
    assert result.bytes_direct + result.bytes_relay == result.bytes


@pytest.mark.parametrize("route", ["direct", "relay", "dual", "auto"])
def test_route_delivers(verilator, route):
    result = fast(route)
    assert_delivered(result)
    assert (result.bytes_direct > 0) == (route != "relay")
    assert (result.bytes_relay > 0) == (route != "direct")


@pytest.mark.parametrize(
    ("name", "pairs", "route"),
    [("direct-only", 2, "direct"), ("relay-only", 1, "relay")],
)
def test_topology_delivers(icarus, name, pairs, route):
    links = with_pairs(topology(name), pairs)
    result = play(simulation(icarus, links), plan(route, 1, links))
    assert_delivered(result)
    assert result.bytes == pairs * MINI.geometry.wave_bytes


@pytest.mark.parametrize(
    ("route", "pages"), [("direct", 1), ("relay", 3), ("dual", 1), ("auto", 7)]
)
def test_scattered_reads_deliver(verilator, route, pages):
    assert_delivered(fast(route, 2, request_pages=pages, scatter=True, seed=pages))


@pytest.mark.parametrize(
    ("route", "stall"), [("dual", (64, 0)), ("dual", (0, 64)), ("auto", (200, 200))]
)
def test_slow_consumers_lose_nothing(verilator, route, stall):
    result = fast(route, stall=stall)
    assert_delivered(result)
    if min(stall) > 100:  # a consumer that takes 56 of 256 clocks cannot keep up with 25 of 32
        assert result.cycles > 2 * fast(route).cycles


@pytest.mark.parametrize(
    "registers",
    [
        {"sensing": LOCKSTEP},
        {"cache_read": False},
        {"sensing": LOCKSTEP, "cache_read": False},
        {"tsv_tbps": 0.1},
        {"t_read_us": 0.75},
        {"tsv_tbps": 0.1, "t_read_us": 0.75, "cache_read": False},
        {"link_tbps": 0.05},
    ],
    ids=str,
)
def test_registers_rule_the_rate(verilator, registers):
    machine = MINI.with_registers(**registers)
    result = fast("dual", 7, machine)
    assert_delivered(result)
    ideal = result.run.wave_bytes / machine.steady_bound_bytes_per_s(2) * machine.clock_hz
    # Without cache read a wave of lockstep waits for the last page of the one before, whose SENSE
    # came as many clocks after the first as a die has subarrays.
    nand = machine.nand
    issue = machine.geometry.subarrays_per_die + 1 if nand.sensing is LOCKSTEP else 0
    assert 0.99 * ideal <= interior_clocks(result) <= 1.02 * ideal + issue * (not nand.cache_read)


def interior_clocks(result):
    """Clocks of a wave while the pipeline is full.

    The first two waves show how it fills, the last two how it runs dry: what the relay regions hold
    comes late.
    """
    ends = result.wave_ends[1:-2]
    return (ends[-1] - ends[0]) / (len(ends) - 1)


@pytest.mark.parametrize(("route", "least"), [("direct", 0.99), ("relay", 0.974)])
def test_one_path_runs_at_the_rate_of_its_link(verilator, route, least):
    # Relay loses a credit round trip, 12 to 17 clocks, in every two chunks of 328.
    rate = fast(route).steady_bytes_per_s
    assert MINI.steady_bound_bytes_per_s(1) == 100 * GBPS
    assert least * 100 * GBPS <= rate <= 100.1 * GBPS


def test_two_paths_together_run_at_the_rate_of_sensing(verilator):
    result = fast("dual", 16)
    bound = MINI.steady_bound_bytes_per_s(2)
    assert bound == pytest.approx(128 * 256 / 187.5e-9)  # a wave every tR
    assert interior_clocks(result) == pytest.approx(375, rel=0.01)
    # At the end the last chunk waits for itself once more: no more than its time is lost.
    ideal_clocks = 15 * result.run.wave_bytes / bound * result.clock_hz
    clocks = result.wave_ends[-1] - result.wave_ends[0]
    assert ideal_clocks <= clocks <= ideal_clocks / 0.99 + CHUNK_CLOCKS


def test_relay_is_later_by_a_chunk(verilator):
    direct, relay = fast("direct"), fast("relay")
    later = (relay.first_byte_ns - direct.first_byte_ns) * 2  # clocks
    assert CHUNK_CLOCKS <= later <= CHUNK_CLOCKS + 40  # with the ways over one die more


def test_first_byte_is_sensing_fill_and_the_way(verilator):
    # Two links of 6 clocks, 4 beats of 2.56 clocks on the TSV lane.
    clocks = fast("direct").first_byte_ns * 2
    least = MINI.t_read_cycles + 2 * 6 + 4 * 2.56
    assert least <= clocks <= least + 30


def test_wrong_bytes_are_counted(verilator):
    result = fast("dual", 1, corrupt=True)
    assert result.data_errors == result.bytes // MINI.link.beat_bytes
    assert result.violations == 0


@pytest.mark.parametrize(
    ("links", "route"),
    [
        ("direct-only", "relay"),
        ("direct-only", "dual"),
        ("direct-only", "auto"),
        ("relay-only", "direct"),
        ("relay-only", "dual"),
        ("dash", "fastest"),
    ],
)
def test_route_that_does_not_exist(links, route):
    with pytest.raises(InputError, match=f"route '{route}'"):
        plan(route, links=topology(links))


@pytest.mark.parametrize(
    "changes", [{"waves": 0}, {"waves": 257}, {"request_pages": 4097}, {"request_pages": -1}]
)
def test_plan_out_of_range(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        plan("direct", **changes)


def test_seed_decides_everything(verilator):
    def scattered(seed):
        what = plan("dual", 1, request_pages=5, scatter=True, seed=seed)
        result = play(simulation(verilator), what)
        return result.wave_ends, result.last_beat, result.run.requests()

    first, again, other = map(scattered, (3, 3, 4))
    assert first == again
    assert first != other


def test_simulators_agree_on_every_clock(verilator, icarus):
    what = plan("dual", 1, request_pages=9, scatter=True, stall=(64, 32))
    fast_run, exact = (play(simulation(simulator), what) for simulator in (verilator, icarus))
    for stamp in ("cycles", "accepted", "first_beat", "last_beat", "wave_ends"):
        assert getattr(fast_run, stamp) == getattr(exact, stamp)
    assert_delivered(exact)


@pytest.mark.parametrize("stall", [(0, 0), (80, 40)])
def test_stamps_are_those_of_the_waveform(verilator, tmp_path, stall):
    what = plan("dual", 3, stall=stall)
    result = play(simulation(verilator), what, tmp_path / "read.vcd")
    vcd = VCDVCD(str(result.waveform))

    def samples(name):
        """The signal just before each rising edge of the clock."""
        times, values = zip(*((t, int(v, 2)) for t, v in vcd[f"top.{name}"].tv), strict=True)
        return np.array(values)[np.searchsorted(times, edges, side="left") - 1]

    edges = np.array([t for t, value in vcd["top.clk"].tv if value == "1" and t > 0])
    edges = edges[samples("rst") == 0]  # the first of them is that of clock 0
    accepted = samples("read__valid") & samples("read__ready")
    beats = sum(
        samples(f"package.{path}_o__0__valid") & samples(f"package.{path}_o__0__ready")
        for path in ("direct", "relay")
    )
    assert np.flatnonzero(accepted)[0] == result.accepted
    assert np.flatnonzero(beats)[0] == result.first_beat
    assert np.flatnonzero(beats)[-1] == result.last_beat
    assert beats.sum() * MINI.link.beat_bytes == result.bytes
    wave_beats = MINI.geometry.wave_pages * 4
    ends = np.searchsorted(np.cumsum(beats), wave_beats * np.arange(1, 4))
    assert tuple(ends) == result.wave_ends
