"""The whole package of the smallest machine, end to end: every beat asked for, right, once."""

import dataclasses

import pytest

from hw.gpu.router import Choice
from hw.package import Package
from hw.presets import preset, topology
from tests.hw.pysim import simulate
from tests.hw.read_bench import Settings, play, registers

FORMAL = preset("formal")
D, R, L = Choice.DIRECT, Choice.RELAY, Choice.LEAST_LOADED
# Of 16 pages: one, a few that start anywhere, all of them, and pages asked for twice.
READS = [(5, 1, D), (3, 7, R), (0, 16, D), (15, 1, R), (5, 1, R), (6, 9, L)]


def expected(reads, pairs: int) -> tuple[int, int]:
    """Beats, and the sum of their numbers, with four beats a page."""
    beats = [4 * page + beat for first, n, _ in reads for page in range(first, first + n)
             for beat in range(4)]  # fmt: skip
    return pairs * len(beats), pairs * sum(beats)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(lockstep=True, cache_read=False),
        Settings(t_read=1, stall=(200, 30)),
        Settings(t_read=40, stall=(30, 200), window=1),
    ],
    ids=["lockstep", "slow Direct", "slow Relay"],
)
def test_reads_over_both_paths_bring_every_beat_once(settings):
    counters = play(FORMAL, topology("compact"), READS, settings, clocks=20_000)
    beats, address_sum = expected(READS, 1)
    assert counters["beats_direct"] + counters["beats_relay"] == beats
    assert counters["beats_relay"] >= 4 * sum(n for _, n, choice in READS if choice is R)
    assert counters["address_sum"] == address_sum
    assert counters["completed"] == len(READS)
    assert counters["senses"] == beats // 4
    assert counters["errors"] == counters["violations"] == counters["poisoned"] == 0


@pytest.mark.parametrize(("name", "pairs"), [("dash", 2), ("relay-only", 1), ("direct-only", 1)])
def test_every_pair_brings_its_stripe_over_the_paths_there_are(name, pairs):
    which = dataclasses.replace(topology(name), pairs=pairs)
    both = which.direct and which.relay
    reads = [(first, n, choice if both else L) for first, n, choice in READS[:4]]
    counters = play(FORMAL, which, reads, clocks=20_000)
    beats, address_sum = expected(reads, pairs)
    by_path = counters["beats_direct"], counters["beats_relay"]
    assert sum(by_path) == beats and counters["address_sum"] == address_sum
    assert (by_path[0] > 0, by_path[1] > 0) == (which.direct, which.relay)
    assert counters["errors"] == counters["violations"] == 0
    assert counters["completed"] == len(reads)


def test_a_register_is_set_and_read_over_the_sideband():
    """An access is a packet of 64 UI one way and one of 64 + 32 + 64 UI the other, at 800 MHz."""
    wire = dataclasses.replace(topology("direct-only"), pairs=1, sideband=True)
    dut = Package(FORMAL, wire)
    found = []

    async def bench(ctx):
        over_sideband = registers(ctx, dut.registers[0])
        await over_sideband.write(t_read=9)
        found.append(await over_sideband.read("t_read"))

    accesses = 2
    one = (64 + 64 + 32 + 64) * 2.5 + 2 * FORMAL.link.one_way_cycles
    simulate(dut, bench, clocks=round(accesses * (one + 16)))
    assert found == [9]


def test_corrupt_data_is_seen_in_every_beat():
    reads = [(0, 4, D), (4, 4, R)]
    counters = play(FORMAL, topology("compact"), reads, Settings(corrupt=True), clocks=5000)
    assert counters["errors"] == 4 * 8
