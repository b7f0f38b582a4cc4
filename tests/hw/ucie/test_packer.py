# amaranth: UnusedElaboratable=no
"""Packer against the codec in plain Python: what leaves, when, and in how many groups."""

import math
import random
from fractions import Fraction

import pytest

from hw.ucie.packer import FLUSH_CLOCKS, GroupPacker
from tb.vip.group_codec import Beat, decode, encode
from tests.hw.pysim import simulate
from tests.hw.ucie.groups import FULL, SMALL, Feed, group_of, name_of, random_beat, random_header

BOTH = [*SMALL, *FULL.values()]


def things(seed: int, sizes: dict, messages: int, beats: int) -> tuple[list[bytes], list[Beat]]:
    pick = random.Random(seed)
    return (
        [random_header(pick) for _ in range(messages)],
        [random_beat(pick, sizes["lanes"]) for _ in range(beats)],
    )


class Bench:
    """Runs a packer clock by clock and keeps what it sent, by clock."""

    def __init__(self, sizes: dict, messages, beats, *, flush: int = 3) -> None:
        self.sizes = sizes
        self.packer = GroupPacker(**sizes, flush=flush)
        self.feed = Feed(self.packer, messages, beats)
        self.now, self.groups, self.left = 0, [], []
        self.beats_at, self.messages_at = [], []
        self._stalled = None

    async def clock(self, ctx, *, message=False, beat=False, ready=True) -> None:
        packer = self.packer
        ctx.set(packer.o.ready, ready)
        taken = self.feed.offer(ctx, message=message, beat=beat)
        valid = ctx.get(packer.o.valid)
        if self._stalled is not None:
            assert valid and ctx.get(packer.o.payload) == self._stalled, "o changed in a stall"
        self._stalled = ctx.get(packer.o.payload) if valid and not ready else None
        if valid and ready:
            self.groups.append(group_of(ctx, packer))
            self.left.append(self.now)
        if taken[0]:
            self.messages_at.append(self.now)
        if taken[1]:
            self.beats_at.append(self.now)
        await ctx.tick()
        self.feed.after(ctx, taken)
        self.now += 1

    def clear_stall(self) -> None:
        self._stalled = None

    def decoded(self):
        return decode(self.groups, data_bytes=8 * self.sizes["lanes"], slots=self.sizes["slots"])


RATES = {"busy": (1, 1, 1), "stalled": (0.5, 0.9, 0.3), "sparse": (0.1, 0.1, 0.8)}


@pytest.mark.parametrize("rates", RATES.values(), ids=RATES)
@pytest.mark.parametrize("sizes", BOTH, ids=name_of)
def test_groups_hold_what_was_given_in_order(sizes, rates):
    count = 60 if sizes in SMALL else 8
    messages, beats = things(1, sizes, count, count)
    bench, pick = Bench(sizes, messages, beats), random.Random(2)

    async def run(ctx):
        while not bench.feed.done:
            offers = [pick.random() < rate for rate in rates]
            await bench.clock(ctx, message=offers[0], beat=offers[1], ready=offers[2])
        for _ in range(10):
            await bench.clock(ctx)

    simulate(bench.packer, run, clocks=4000)
    assert bench.decoded() == (messages, beats)


@pytest.mark.parametrize("sizes", BOTH, ids=name_of)
def test_saturated_packer_fills_every_slot_of_every_clock(sizes):
    region, beat_slots = sizes["slots"] - 1, 1 + sizes["lanes"] // 2
    count = region + 2
    messages, beats = things(3, sizes, count * -(-beat_slots // region) + 1, count)
    bench = Bench(sizes, messages, beats)

    async def run(ctx):
        while bench.feed.beats_taken < len(beats):
            await bench.clock(ctx, message=True, beat=True)

    simulate(bench.packer, run, clocks=6 * count)
    assert bench.left == list(range(1, bench.now))  # from the clock after the first beat on
    sent = len(bench.groups)
    tightest = encode(messages, beats, data_bytes=8 * sizes["lanes"], slots=sizes["slots"])
    assert bench.groups == tightest[:sent]
    # Beats are taken at S/L a clock: the beat that begins in a group is taken with it.
    assert bench.beats_at == [n * beat_slots // region for n in range(count)]
    assert len(bench.messages_at) == bench.now
    starts = {n * beat_slots % region for n in range(count)}
    assert starts == set(range(0, region, math.gcd(beat_slots, region)))  # all slots there can be


def spread(clock: int) -> bool:
    return (clock + 1) * 25 // 32 > clock * 25 // 32


PATTERNS = {
    "evenly": spread,
    "frames of four clocks": lambda clock: spread(clock // 4),
    "25 in a row": lambda clock: clock % 32 < 25,
}


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("number", FULL)
def test_beats_of_the_link_cost_no_more_than_their_slots(number, pattern):
    sizes, clocks = FULL[number], 8 * 32
    region = sizes["slots"] - 1
    offered = sum(map(pattern, range(clocks)))
    assert offered == 25 * 8
    pick = random.Random(5)
    zero = Beat(bytes(16), bytes(1024))
    bench = Bench(sizes, [bytes(16)] * clocks, [zero] * offered, flush=FLUSH_CLOCKS)

    async def run(ctx):
        due = 0
        for clock in range(clocks):
            due += pattern(clock)
            message = due > 0 and pick.random() < 0.5
            await bench.clock(ctx, message=message, beat=bench.feed.beats_taken < due)

    simulate(bench.packer, run, clocks=clocks + 1)
    taken = bench.feed.beats_taken
    assert taken >= offered - 3  # the others wait
    assert bench.feed.messages_taken > 100
    slots = Fraction(taken * 65, region)
    assert slots - 3 < len(bench.groups) <= slots  # none is for messages only, none is not full
    figure = 25 * len(bench.groups) / taken
    print(f"format {number}: {figure:.2f} groups for 25 beats")
    assert figure < Fraction(32 * 31, 36)  # what 31 rows carry in a round trip of 36 clocks


@pytest.mark.parametrize("flush", [0, 1, 5])
def test_what_waits_leaves_after_flush(flush):
    sizes = SMALL[0]
    messages, beats = things(6, sizes, 2, 1)
    bench = Bench(sizes, messages, beats, flush=flush)

    async def run(ctx):
        await bench.clock(ctx, message=True)  # clock 0: nothing is under way
        await bench.clock(ctx)
        await bench.clock(ctx, beat=True)  # clock 2
        await bench.clock(ctx, message=True)  # clock 3: while beats flow
        while bench.now < 12:
            await bench.clock(ctx)

    simulate(bench.packer, run, clocks=20)
    assert bench.left == [1, 3, 4 + flush]
    assert bench.messages_at == [0, 3 + flush]
    assert bench.decoded() == (messages, beats)


def test_a_pause_of_flush_clocks_forces_nothing_out_and_one_more_does():
    sizes, flush = SMALL[0], 4
    for pause, groups in ((flush, 3), (flush + 1, 4)):
        bench = Bench(sizes, *things(7, sizes, 0, 2), flush=flush)

        async def run(ctx, bench=bench, pause=pause):
            for clock in range(pause + 20):
                await bench.clock(ctx, beat=clock in (0, pause + 1))

        simulate(bench.packer, run, clocks=60)
        assert len(bench.groups) == groups
        assert bench.beats_at == [0, pause + 1]
        assert len(bench.decoded()[1]) == 2


def test_stalls_do_not_count_as_a_pause():
    sizes, flush = SMALL[0], 3
    bench = Bench(sizes, *things(8, sizes, 0, 2), flush=flush)

    async def run(ctx):
        await bench.clock(ctx, beat=True)
        for _ in range(20):
            await bench.clock(ctx, ready=False)
        await bench.clock(ctx, beat=True)
        for _ in range(20):
            await bench.clock(ctx)

    simulate(bench.packer, run, clocks=60)
    assert bench.beats_at == [0, 21]
    assert len(bench.groups) == 3  # ten slots


@pytest.mark.parametrize("ready", [True, False])
def test_clear_forgets_what_has_not_left(ready):
    sizes = SMALL[0]
    messages, beats = things(9, sizes, 2, 3)
    bench = Bench(sizes, messages, beats)
    packer = bench.packer

    async def run(ctx):
        await bench.clock(ctx, beat=True)
        await bench.clock(ctx, ready=ready)  # a rest is kept; without ready a group is too
        ctx.set(packer.clear, 1)
        bench.clear_stall()
        ctx.set(packer.o.ready, 0)
        taken = bench.feed.offer(ctx, message=True, beat=True)
        assert taken == (False, False)
        await ctx.tick()
        ctx.set(packer.clear, 0)
        assert not ctx.get(packer.o.valid)
        bench.groups.clear()
        while not bench.feed.done:
            await bench.clock(ctx, message=True, beat=True)
        for _ in range(8):
            await bench.clock(ctx)

    simulate(packer, run, clocks=60)
    assert bench.decoded() == (messages, beats[1:])
    assert bench.groups == encode(messages, beats[1:], data_bytes=64, slots=5)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"lanes": 3, "slots": 2}, "even and at least 2, not 3"),
        ({"lanes": 0, "slots": 2}, "even and at least 2, not 0"),
        ({"lanes": 8, "slots": 7}, "2 to 6.*not 7"),
        ({"lanes": 8, "slots": 1}, "2 to 6.*not 1"),
        ({"lanes": 8, "slots": 5, "flush": -1}, "not -1"),
    ],
)
def test_sizes_that_cannot_work_are_refused(sizes, words):
    with pytest.raises(ValueError, match=words):
        GroupPacker(**sizes)
