"""Drain engine: whole pages, in turn, at their share of the link and only when admitted."""

from collections import deque
from fractions import Fraction

import pytest

from hw.ucie.transaction import MessageClass, Route
from tests.hw.hbf.drain_bench import DIES, drained, stored

# The clock of the slot in which group 0 belongs to the path.
PATHS = [(Route.DIRECT, 1), (Route.RELAY, 3)]


@pytest.mark.parametrize(("route", "start"), PATHS)
@pytest.mark.parametrize(("fill", "admit", "rate"), [(0.02, 0.8, 65_536), (0.3, 0.5, 51_200)])
def test_each_filled_page_leaves_once_and_whole(route, start, fill, admit, rate):
    trace = drained(route, start, rate=rate, fill=fill, admit=admit, seed=start, clocks=700)
    queues = [deque() for _ in range(DIES)]
    for filled in trace.fills:
        queues[filled[1]].append(filled)
    chosen = []
    for sent in trace.sent[:-2]:  # the last may be cut off
        assert trace.admitted[sent]
        assert (sent + 1) % 4 == start
        region, row = trace.reads[sent + 1]
        die, subarray = row % DIES, row // DIES
        filled_at, _, slot, (tag, page) = queues[die].popleft()  # first filled, first out
        assert slot == (subarray, region) and filled_at < sent
        chosen.append((sent + 4, die, slot))
        for group in range(4):
            assert trace.reads.pop(sent + 1 + group) == (region, row)
            header, content = trace.beats.pop(sent + 3 + group)
            assert content == stored(region, row, group)
            # Beat b of die d lies in group (b + d) mod 4.
            assert (header.tag, header.page, header.beat) == (tag, page, (group - die) % 4)
            assert header.chunk_end == trace.chunk_end[sent] and header.route == route
            want = MessageClass.RELAY_DATA if route is Route.RELAY else MessageClass.READ_DATA
            assert header.message_class == want and not header.poison
    assert len(chosen) > 30
    assert trace.frees[: len(chosen)] == chosen  # with the last read
    assert min([*trace.reads, *trace.beats], default=9999) > trace.sent[-3]  # nothing else


@pytest.mark.parametrize("rate", [65_536, 51_200, 1_000])
def test_a_loaded_path_has_its_share_of_the_link(rate):
    trace = drained(Route.DIRECT, 1, rate=rate, fill=1.0, admit=1.0, seed=0, clocks=1020)
    share = Fraction(rate, 65_536)
    frames = [(clock - 20) // 4 for clock in trace.sent if clock >= 20]
    for first in range(0, 200, 37):
        for last in range(first + 1, 250, 29):
            granted = sum(first <= frame < last for frame in frames)
            # A grant saved up while the queues were empty, and one by rounding.
            assert abs(granted - share * (last - first)) <= 2


def test_dies_take_turns():
    trace = drained(Route.RELAY, 3, rate=65_536, fill=1.0, admit=1.0, seed=0, clocks=500)
    dies = [trace.reads[sent + 1][1] % DIES for sent in trace.sent[:-1]]
    for k in range(len(dies) - DIES):
        assert set(dies[k : k + DIES]) == set(range(DIES)), f"from page {k}"


def test_a_lonely_die_does_not_wait_for_the_others():
    trace = drained(Route.DIRECT, 1, rate=65_536, fill=0.01, admit=1.0, seed=4, clocks=1200)
    waits = []
    queues = [deque() for _ in range(DIES)]
    for clock, die, *_ in trace.fills:
        queues[die].append(clock)
    for sent in trace.sent[:-1]:
        waits.append(sent - queues[trace.reads[sent + 1][1] % DIES].popleft())
    # Two clocks through the queue and up to three to the next frame.
    assert min(waits) <= 3 and sorted(waits)[len(waits) // 2] <= 5
