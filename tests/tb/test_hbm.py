"""The HBM controller of ``mini`` in cocotb: every access compared, every command checked."""

import dataclasses
import itertools
from functools import cache

import pytest

from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import DramScheduling
from hw.hbm.dram.pseudo_channel import COUNTERS
from hw.hbm.dram.stacks import stack
from tb.coverage.points import Coverage, CoverPoint
from tb.hbm_reference import ReferenceChannel, random_places
from tb.hbm_runs import (
    ChannelRun,
    StackRun,
    channel_build,
    play_channels,
    play_stack,
    stack_build,
)
from tb.simulator import Simulator
from tb.vip.hbm_traffic import Pattern

# Patience short enough to run out.
MINI = dataclasses.replace(
    stack("mini"), scheduling=dataclasses.replace(stack("mini").scheduling, patience_clocks=60)
)
# The model of its own knows no patience.
PATIENT = dataclasses.replace(MINI, scheduling=DramScheduling(reads=4, writes=4))
RUNS = {
    "sequential": StackRun(requests=6, length=64, record=2000),
    "single": StackRun(requests=60, length=1, pattern=Pattern.RANDOM, record=2000),
    "mixed": StackRun(
        requests=40, length=7, pattern=Pattern.RANDOM, write_share=128, bad_share=20, stall=60,
        late=60, record=4000,
    ),
    "writes": StackRun(requests=6, length=64, write_share=256, late=30, record=2000),
    "half writes": StackRun(requests=16, length=33, write_share=128, record=4000),
}  # fmt: skip


@cache
def played(simulator: Simulator, name: str):
    return play_stack(stack_build(MINI, simulator), RUNS[name])


@pytest.mark.parametrize("name", RUNS)
def test_every_request_ends_and_every_access_is_right(verilator, name):
    result, asked = played(verilator, name), RUNS[name]
    assert result.ended == asked.requests and result.errors == 0
    assert not result.violations, "\n".join(map(str, result.violations[:10]))
    assert result.recorded > 100
    accesses = asked.requests * asked.length
    assert result.read + result.written == accesses or asked.bad_share
    assert result.counters["read_bursts"] == 2 * result.read


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "mixed")) for n in RUNS]
)
def test_simulators_agree_on_every_counter(verilator, icarus, name):
    one, other = (dataclasses.replace(played(s, name), wall_s=0) for s in (verilator, icarus))
    assert one == other


def test_runs_reach_every_kind(verilator):
    """Hits, misses and conflicts both ways, turnarounds, full queues, refreshes, starvation."""
    kinds = [name for name in COUNTERS if name not in ("corrected", "uncorrectable")]
    coverage = Coverage([CoverPoint("kinds", kinds)])
    for name in RUNS:
        counters = played(verilator, name).counters
        coverage.add({"kinds": {kind: counters[kind] for kind in kinds}})
    assert coverage.missed == {}


@pytest.mark.parametrize("flip", [1, 2])
def test_wrong_bits_are_corrected_or_reach_the_reader_as_poison(verilator, flip):
    result = play_stack(
        stack_build(MINI, verilator), StackRun(requests=20, length=5, flip=flip, record=0)
    )
    accesses = 20 * 5
    assert result.counters["corrected"] == (accesses if flip == 1 else 0)
    assert result.counters["uncorrectable"] == (0 if flip == 1 else accesses)
    # A beat of `mini` is one access; the bench counts poison as wrong.
    assert result.errors == (0 if flip == 1 else accesses)


# On Icarus: a build for Verilator takes longer than these runs.
def test_reads_of_one_bank_take_a_row_cycle_each(icarus):
    result = play_channels(
        channel_build(PATIENT, 1, icarus), ChannelRun(reads=40, pattern=Pattern.ONE_BANK)
    )
    cycle = clocks_of(PATIENT).rc
    assert cycle <= result.clocks / 39 < 1.15 * cycle  # refreshes between


@pytest.mark.parametrize("window", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_the_reference_reads_what_the_rtl_reads(icarus, window):
    """The same random stream in a model of its own: the RTL keeps up with it, and is not faster."""
    result = play_channels(
        channel_build(PATIENT, 1, icarus),
        ChannelRun(reads=200, pattern=Pattern.RANDOM, window=window, record=2000),
    )
    assert not result.violations and result.errors == 0
    places = itertools.islice(random_places(PATIENT, 0, 1), 200)
    reference = ReferenceChannel(PATIENT, window).bytes_per_s(places)
    assert 0.9 < result.bytes_per_s / reference <= 1
