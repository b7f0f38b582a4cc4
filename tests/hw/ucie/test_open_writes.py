# amaranth: UnusedElaboratable=no
"""Writes that are open, against a bag of operations and tags."""

import random
from collections import Counter

import pytest

from hw.ucie.open_writes import OpenWrites
from tests.hw.beats import Quiet
from tests.hw.pysim import simulate


@pytest.mark.parametrize("tags", [3, 4096], ids=["tags often alike", "tags apart"])
@pytest.mark.parametrize("depth", [1, 2, 5, 8])
def test_each_request_is_remembered_till_its_end_or_drop(depth, tags):
    pick = random.Random(f"{depth}/{tags}")
    print(f"seed {depth}/{tags}")
    dut = OpenWrites(depth=depth)
    seen = Counter()

    async def bench(ctx):
        ctx = Quiet(ctx)
        open_ = Counter()  # of (operation, tag)
        fills = 0.6
        for clock in range(3000):
            say = f"clock {clock}, depth {depth}"
            if pick.random() < 0.01:
                fills = pick.choice((0.1, 0.6, 1.0))
            some = ctx.get(dut.some)
            assert some.valid == bool(+open_), say
            shown = some.operation, some.tag
            if some.valid:
                assert open_[shown] > 0, say
            room = open_.total() < depth
            assert ctx.get(dut.room) == room, say
            begin, end, drop = {"valid": 0}, {"valid": 0, "tag": pick.randrange(tags)}, 0
            if room and pick.random() < fills:
                begin = {"valid": 1, "operation": pick.randint(1, 3), "tag": pick.randrange(tags)}
            what = pick.random()
            if what < 0.3 and +open_:
                end = {"valid": 1, "tag": pick.choice(sorted((+open_).elements()))[1]}
            elif what < 0.35:  # of no request that is open: nothing happens
                end = {"valid": not any(tag == end["tag"] for _, tag in +open_), "tag": end["tag"]}
                seen["stranger"] += end["valid"]
            elif what < 0.5:
                drop = bool(+open_)
            ctx.set(dut.begin, begin)
            ctx.set(dut.end, end)
            ctx.set(dut.drop, drop)
            alike = [request for request in +open_ if request[1] == end["tag"]]
            if drop:
                open_[shown] -= 1
                seen["drop"] += 1
            before = +open_
            if begin["valid"]:
                open_[begin["operation"], begin["tag"]] += 1
                seen["full"] += open_.total() == depth
            await ctx.tick()
            if end["valid"] and alike:
                seen["end"] += 1
                seen["which"] += len(alike) > 1
                # Which of those alike it was shows when all are dropped; operations of one tag
                # that differ are told apart then.
                gone = alike[0] if len(alike) == 1 else await _gone(ctx, dut, open_, alike)
                open_[gone] -= 1
                assert before[gone] > 0, say

    async def _gone(ctx, dut, open_, alike):
        """Drops all that is open, and takes it in again, to see which request was forgotten."""
        ctx.set(dut.begin, {"valid": 0})
        ctx.set(dut.end, {"valid": 0, "tag": 0})
        left = Counter()
        while ctx.get(dut.some.valid):
            left[ctx.get(dut.some.operation), ctx.get(dut.some.tag)] += 1
            ctx.set(dut.drop, 1)
            await ctx.tick()
        ctx.set(dut.drop, 0)
        missing = open_ - left
        assert missing.total() == 1 and not left - open_, missing
        gone = next(iter(missing))
        assert gone in alike
        for operation, tag in left.elements():
            ctx.set(dut.begin, {"valid": 1, "operation": operation, "tag": tag})
            await ctx.tick()
        ctx.set(dut.begin, {"valid": 0})
        return gone

    simulate(dut, bench, clocks=60_000)
    assert min(seen["drop"], seen["end"], seen["stranger"], seen["full"]) > 20, seen
    assert depth == 1 or tags > 3 or seen["which"] > 20, seen


def test_there_is_room_for_one():
    with pytest.raises(ValueError, match="depth must be at least 1, not 0"):
        OpenWrites(depth=0)
