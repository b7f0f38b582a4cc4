"""Drain engine: whole pages, in turn, at their share of the link and only when admitted."""

from collections import deque
from fractions import Fraction

import pytest

from hw.sram.regions import READ_CLOCKS
from hw.ucie.transaction import MessageClass, Route
from tests.hw.hbf.drain_bench import DIES, drained, poisoned, stored

# The clock of the slot in which group 0 belongs to the path.
PATHS = [(Route.DIRECT, 1), (Route.RELAY, 3)]


@pytest.mark.parametrize(("route", "start"), PATHS)
@pytest.mark.parametrize(
    ("fill", "admit", "rate", "partial", "whole_regions", "hold", "drop"),
    [
        (0.02, 0.8, 65_536, 0.0, False, 0.0, 0.0),
        (0.3, 0.5, 51_200, 0.0, True, 0.0, 0.0),
        (0.3, 1.0, 65_536, 0.7, False, 0.5, 0.0),
        (0.02, 0.8, 51_200, 0.5, True, 0.0, 0.0),
        (0.3, 0.4, 65_536, 0.3, False, 0.4, 0.02),
        (0.3, 0.4, 65_536, 0.3, True, 0.4, 0.3),
    ],
)
def test_each_filled_page_leaves_once_and_whole(
    route, start, fill, admit, rate, partial, whole_regions, hold, drop
):
    print(f"seed {start}")
    trace = drained(
        route, start, rate=rate, fill=fill, admit=admit, seed=start, clocks=700, partial=partial,
        whole_regions=whole_regions, hold=hold, drop=drop,
    )  # fmt: skip
    queues = [deque() for _ in range(DIES)]
    for filled in trace.fills:
        queues[filled.die].append(filled)
    chosen, dropped = [], 0
    for sent, beats in trace.sent[:-2]:  # the last may be cut off
        drops = trace.dropping[sent]  # it alone decides for the whole page
        dropped += drops
        assert drops or (trace.admitted[sent] and not trace.held[sent])
        assert (sent + 1) % 4 == start
        # The reads of a frame tell the page, whatever part of it is wanted.
        region, row = next(trace.reads[at] for at in range(sent + 1, sent + 5) if at in trace.reads)
        die, subarray = row % DIES, row // DIES
        page = queues[die].popleft()  # first filled, first out
        assert page.slot == (subarray, region) and page.clock < sent
        assert trace.drains[sent] >> region & 1, "the region does not drain"
        chosen.append((sent + 4, die, page.slot))
        wanted = range(page.beats[0], page.beats[1] + 1)
        assert beats == len(wanted)
        groups = [group for group in range(4) if (group - die) % 4 in wanted]
        for group in groups:
            assert trace.reads.pop(sent + 1 + group) == (region, row)
            if drops:
                continue
            header, content = trace.beats.pop(sent + 1 + group + READ_CLOCKS)
            assert content == stored(region, row, group)
            # Beat b of die d lies in group (b + d) mod 4.
            assert (header.tag, header.page, header.beat) == (*page.label, (group - die) % 4)
            assert header.page_end == (group == groups[-1])
            assert header.chunk_end == trace.chunk_end[sent] and header.route == route
            want = MessageClass.RELAY_DATA if route is Route.RELAY else MessageClass.READ_DATA
            assert header.message_class == want
            assert header.poison == poisoned(region, row, group)
    assert len(chosen) > 30
    assert not drop or 10 < dropped < len(chosen) - 5
    assert trace.frees[: len(chosen)] == chosen  # in the last clock of the frame
    # Nothing else was read or sent.
    assert min([*trace.reads, *trace.beats], default=9999) > trace.sent[-3][0]


@pytest.mark.parametrize("rate", [65_536, 51_200, 1_000])
def test_a_loaded_path_has_its_share_of_the_link(rate):
    trace = drained(Route.DIRECT, 1, rate=rate, fill=1.0, admit=1.0, seed=0, clocks=1020)
    share = Fraction(rate, 65_536)
    frames = [(clock - 20) // 4 for clock, _ in trace.sent if clock >= 20]
    for first in range(0, 200, 37):
        for last in range(first + 1, 250, 29):
            granted = sum(first <= frame < last for frame in frames)
            # A grant saved up while the queues were empty, and one by rounding.
            assert abs(granted - share * (last - first)) <= 2


def test_dies_take_turns():
    trace = drained(Route.RELAY, 3, rate=65_536, fill=1.0, admit=1.0, seed=0, clocks=500)
    dies = [trace.reads[sent + 1][1] % DIES for sent, _ in trace.sent[:-1]]
    for k in range(len(dies) - DIES):
        assert set(dies[k : k + DIES]) == set(range(DIES)), f"from page {k}"


def test_a_lonely_die_does_not_wait_for_the_others():
    trace = drained(Route.DIRECT, 1, rate=65_536, fill=0.01, admit=1.0, seed=4, clocks=1200)
    waits = []
    queues = [deque() for _ in range(DIES)]
    for page in trace.fills:
        queues[page.die].append(page.clock)
    for sent, _ in trace.sent[:-1]:
        waits.append(sent - queues[trace.reads[sent + 1][1] % DIES].popleft())
    # Two clocks through the queue and up to three to the next frame.
    assert min(waits) <= 3 and sorted(waits)[len(waits) // 2] <= 5


def test_pages_are_dropped_without_credit_and_whatever_the_link_holds_up():
    """As fast as they could be sent, and nothing of them leaves."""
    trace = drained(
        Route.RELAY, 3, rate=65_536, fill=1.0, admit=0.0, seed=0, clocks=400, hold=1.0, drop=1.0
    )
    lost = [clock for clock, drops in enumerate(trace.dropping) if drops]
    assert len(lost) == 200  # every other clock, so also those of the choice
    assert [clock for clock, _ in trace.sent] == [c for c in lost if (c + 1) % 4 == 3]
    assert not trace.beats
    assert len(trace.frees) > 90
