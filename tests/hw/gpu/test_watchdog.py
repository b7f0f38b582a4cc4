# amaranth: UnusedElaboratable=no
"""Overdue transactions against a table of when each began."""

import random
from collections import Counter

import pytest

from hw.gpu.watchdog import Watchdog
from tests.hw.beats import Quiet
from tests.hw.pysim import simulate


@pytest.mark.parametrize(("slots", "bits"), [(1, 4), (4, 5), (5, 5), (8, 3)])
@pytest.mark.parametrize("changes", [False, True], ids=["one timeout", "timeout changes"])
def test_what_is_open_too_long_is_reported_once_and_in_time(slots, bits, changes):
    """Also what is open for many times the longest timeout that there is."""
    seed = f"{slots}/{bits}/{changes}"
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = Watchdog(slots=slots, bits=bits)
    seen = Counter()

    async def bench(ctx):
        ctx = Quiet(ctx)
        began: dict[int, tuple[int, int]] = {}  # clock and tag, by slot
        told: set[int] = set()
        timeout, since, lasts = 5, 0, 0.1
        ctx.set(dut.timeout, timeout)
        for clock in range(4000):
            say = f"clock {clock}, seed {seed}"
            if pick.random() < 0.01:
                lasts = pick.choice((0.3, 0.1, 0.02, 0.0))
            if changes and pick.random() < 0.02:
                timeout, since = pick.choice((0, 0, 1, pick.randrange(1 << bits))), clock
                ctx.set(dut.timeout, timeout)
            begin = {"valid": 0, "slot": pick.randrange(slots), "tag": pick.randrange(4096)}
            begin["valid"] = begin["slot"] not in began and pick.random() < 0.5
            end = {"valid": 0, "slot": pick.randrange(slots)}
            end["valid"] = end["slot"] in began and pick.random() < lasts
            ctx.set(dut.begin, begin)
            ctx.set(dut.end, end)
            overdue = ctx.get(dut.overdue)
            assert overdue.count == seen["told"] % (1 << 32), say
            ends = {end["slot"]} if end["valid"] else set()
            if overdue.valid:
                assert timeout and overdue.slot in began.keys() - told - ends, say
                at, tag = began[overdue.slot]
                assert overdue.tag == tag and clock - at >= timeout, say
                told.add(overdue.slot)
                seen["told"] += 1
                seen["long ago"] += clock - at > 2 << bits
            for slot in began.keys() - told - ends:
                # Reported by now, unless the timeout was another one.
                late = clock - max(began[slot][0] + timeout, since) >= slots
                assert not (timeout and late), say
            if end["valid"]:
                seen["ended late" if end["slot"] in told else "ended in time"] += 1
                del began[end["slot"]]
                told.discard(end["slot"])
            if begin["valid"]:
                began[begin["slot"]] = (clock, begin["tag"])
            await ctx.tick()

    simulate(dut, bench, clocks=4010)
    assert min(seen["told"], seen["ended late"], seen["ended in time"]) > 20, seen
    assert not changes or seen["long ago"], seen


@pytest.mark.parametrize(
    ("slots", "bits", "message"),
    [
        (0, 4, "slots must be 1 to 16, not 0"),
        (17, 4, "slots must be 1 to 16, not 17"),
        (1, 0, "bits must be at least 1, not 0"),
    ],
)
def test_slots_are_looked_at_within_the_longest_timeout(slots, bits, message):
    with pytest.raises(ValueError, match=message):
        Watchdog(slots=slots, bits=bits)
