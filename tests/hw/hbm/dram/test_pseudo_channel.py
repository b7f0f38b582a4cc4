# amaranth: UnusedElaboratable=no
"""A pseudo-channel by itself: data, order, timing, and how it schedules."""

import dataclasses
import itertools
import random

import pytest

from hw.hbm.dram.address import Place
from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import DramOrganization, DramScheduling
from hw.hbm.dram.stacks import stack
from tests.hw.hbm.dram.channel_bench import CHANNEL, Access, in_order, play, scattered

# Times of a few clocks, so that pysim sees many commands; 2 stack ids of 2 groups of 2 banks.
SMALL = dataclasses.replace(
    stack("formal"),
    organization=DramOrganization(
        pseudo_channels=2, stack_ids=2, bank_groups=2, banks=2, rows=8, row_bytes=256
    ),
    timing=dataclasses.replace(stack("formal").timing, refi_ns=100.0),
    scheduling=DramScheduling(
        reads=4, writes=4, patience_clocks=60, idle_clocks=4, postponed=2, beats=2, requests=2
    ),
)
T = clocks_of(SMALL)
# Without a refresh while a test runs.
QUIET = dataclasses.replace(SMALL, timing=dataclasses.replace(SMALL.timing, refi_ns=10_000.0))


def at(bank: int, row: int = 0, column: int = 0) -> Place:
    return Place(CHANNEL, bank, row, column)


@pytest.mark.parametrize("writes", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("gap", [0, 8])
def test_random_accesses_see_what_they_must_and_break_no_rule(writes, gap):
    pick = random.Random(f"{writes} {gap}")
    accesses = scattered(SMALL, pick, 150, writes=writes, rows=3, gap=gap)
    played = play(SMALL, accesses)
    total = sum(
        played.counters[f"{kind}_{what}"]
        for kind in ("read", "write")
        for what in ("hits", "misses", "conflicts")
    )
    reads = sum(not a.write for a in accesses)
    assert len(played.returned) == reads and played.counters["read_bursts"] == 2 * reads
    # Writes that have just been taken may still wait in their queue.
    waiting = len(accesses) - total
    assert 0 <= waiting <= SMALL.scheduling.writes
    assert len(played.of("READ")) == played.counters["read_bursts"]
    assert len(played.of("WRITE")) == played.counters["write_bursts"]


def test_a_read_takes_the_time_of_its_bank():
    """Closed, open with its row, open with another: the three latencies."""
    far = 60
    wanted = [Access(at(3, 1), clock=5), Access(at(3, 1, 1), clock=5 + far),
              Access(at(3, 2), clock=5 + 2 * far)]  # fmt: skip
    played = play(QUIET, wanted)
    took = [played.returned[k] - played.taken[k] for k in range(3)]
    hit = took[1]
    # Two bursts of one bank group, tCCD_L apart, at a phase.
    assert hit == 1 + 1 + T.ccd_l // T.phases + T.read_latency + 1
    assert took[0] == hit + T.rcd_read
    assert took[2] == hit + T.rp + T.rcd_read
    assert [played.counters[f"read_{k}"] for k in ("misses", "hits", "conflicts")] == [1, 1, 1]


def test_bursts_of_an_open_row_leave_no_gap():
    """Reads of two bank groups: the data bus is never idle, to a fraction of a clock."""
    played = play(QUIET, [Access(at(2 * (k % 2), 1, k // 2 % 4)) for k in range(40)])
    times = [clock * T.phases + phase for clock, name, _, phase in played.commands
             if name == "READ"]  # fmt: skip
    assert len(times) == 80
    steady = times[8:]
    assert {b - a for a, b in itertools.pairwise(steady)} == {T.burst}


def test_reads_of_a_row_come_before_an_older_read_of_another():
    """First ready first: the conflict waits for the hits, but not for ever."""
    first = [Access(at(0, 1)), Access(at(0, 2))]
    played = play(QUIET, [*first, Access(at(0, 1, 1)), Access(at(0, 1, 2))])
    assert played.returned[2] < played.returned[1] and played.returned[3] < played.returned[1]
    assert played.counters["read_conflicts"] == 1


def test_nobody_starves():
    """One read against an endless stream of hits to its bank."""
    stream = [Access(at(0, 1, k % 4)) for k in range(160)]
    played = play(QUIET, [*stream[:2], Access(at(0, 2)), *stream[2:]])
    waited = played.returned[2] - played.taken[2]
    assert waited > SMALL.scheduling.patience_clocks  # so that patience is what ended it
    assert played.counters["starvations"] >= 1
    beyond = T.read_to_precharge + T.rp + T.rcd_read + T.read_latency + T.rfc + 20
    # The oldest of four for at most patience each, then its own row.
    assert waited <= 4 * SMALL.scheduling.patience_clocks + beyond


def test_writes_are_drained_by_level_and_reads_go_first_until_then():
    reads = [Access(at(0, 0, k % 4)) for k in range(60)]
    writes = [Access(at(6, 1, k), write=True, clock=30 + k) for k in range(4)]
    few = play(SMALL, [*reads, *writes[:3]])
    last_read = max(clock for clock, _ in few.of("READ"))
    assert all(clock > last_read for clock, _ in few.of("WRITE"))
    assert few.counters["full_drains"] == 0
    many = play(SMALL, [*reads, *writes])
    assert many.counters["full_drains"] == 1
    first_write = min(clock for clock, _ in many.of("WRITE"))
    assert first_write < max(clock for clock, _ in many.of("READ"))


def test_a_read_waits_for_a_write_of_its_bytes():
    """The drain that it causes, and nothing else, brings the write out."""
    busy = [Access(at(2, 0, k % 4)) for k in range(80)]
    write, read = Access(at(5, 3, 1), write=True, clock=20), Access(at(5, 3, 1), clock=40)
    at_door = [*busy[:30], read, *busy[30:]]
    played = play(SMALL, [write, *at_door])
    assert played.counters["drains"] >= 1 and played.counters["full_drains"] == 0
    written = min(clock for clock, _ in played.of("WRITE"))
    assert played.taken[31] > written


def test_both_directions_go_on_under_full_load():
    pick = random.Random(7)
    accesses = scattered(SMALL, pick, 240, writes=0.5, rows=2)
    played = play(SMALL, accesses)
    reads = [n for n, a in enumerate(accesses) if not a.write]
    writes = [n for n, a in enumerate(accesses) if a.write]
    half_way = played.clocks // 2
    for each in (reads, writes):
        done = sum(played.taken[n] < half_way for n in each)
        assert 0.25 < done / len(each) < 0.75
    assert played.counters["turnarounds"] > 4


def test_idle_banks_are_refreshed_in_turn_and_on_time():
    played = play(SMALL, [], linger=4 * T.refresh_every * 8 + 10)
    refreshed = played.of("REFRESH")
    assert [bank for _, bank in refreshed] == [k % 8 for k in range(len(refreshed))]
    assert len(refreshed) == 4 * 8
    gaps = {b - a for (a, _), (b, _) in itertools.pairwise(refreshed)}
    assert gaps == {T.refresh_every}
    assert played.counters["forced_refreshes"] == 0


def test_busy_banks_are_refreshed_when_no_more_can_be_owed():
    played = play(SMALL, [Access(at(0, 1, k % 4)) for k in range(120)])
    assert played.counters["forced_refreshes"] >= 2
    forced = [clock for clock, bank in played.of("REFRESH") if bank == 0]
    assert len(forced) >= played.counters["forced_refreshes"]


@pytest.mark.parametrize("flip", [1, 2])
def test_wrong_bits_are_corrected_or_poison(flip):
    accesses = [Access(at(k % 8, k % 3, k % 4)) for k in range(12)]
    played = play(SMALL, accesses, flip=flip, linger=8)
    corrected = len(accesses) if flip == 1 else 0
    assert played.poison == (set() if flip == 1 else set(range(12)))
    assert played.counters["corrected"] == corrected
    assert played.counters["uncorrectable"] == len(accesses) - corrected


def test_consecutive_reads_at_the_times_of_hbm3e():
    played = play(stack("mini"), in_order(stack("mini"), 60))
    assert len(played.returned) == 60
