# amaranth: UnusedElaboratable=no
"""Two users of one controller: shares by weight, beats back to whom they belong."""

import random
from collections import Counter, deque

import pytest

from hw.hbm.controller_share import ControllerShare
from tests.hw.beats import Quiet
from tests.hw.hbm.local_bench import WIDE_STACK
from tests.hw.pysim import simulate

LINES = ("read", "write", "page")


def taken(*, weights: tuple[int, int], asks: tuple[float, float, float], seed: int = 0) -> Counter:
    """Requests of each line that the controller took, of 400; each checked, in its order."""
    print(f"seed {seed}")
    dut, rng, found = ControllerShare(WIDE_STACK), random.Random(seed), Counter()

    async def bench(ctx):
        ctx = Quiet(ctx)
        for port, weight in zip(dut.weight, weights, strict=True):
            ctx.set(port, weight)
        sent = {line: deque() for line in LINES}
        number, offered = 0, dict.fromkeys(LINES)
        while found.total() < 400:
            for line, share in zip(LINES, asks, strict=True):
                if offered[line] is None and rng.random() < share:
                    offered[line] = {"address": number, "length": 3, "tag": number % 2048}
                    offered[line]["write"] = line == "write"
                    number += 1
                port = getattr(dut, line)
                ctx.set(port.valid, offered[line] is not None)
                ctx.set(port.payload, offered[line] or {})
            ctx.set(dut.request.ready, rng.random() < 0.7)
            if ctx.get(dut.request.valid) and ctx.get(dut.request.ready):
                got = ctx.get(dut.request.payload)
                line = "page" if got.tag >> 11 else "write" if got.write else "read"
                want = sent[line].popleft()
                assert (got.address, got.length) == (want["address"], 3)
                assert got.tag % 2048 == want["tag"]
                found[line] += 1
            for line in LINES:
                if offered[line] and ctx.get(getattr(dut, line).ready):
                    sent[line].append(offered[line])
                    offered[line] = None
            await ctx.tick()

    simulate(dut, bench, clocks=5000)
    return found


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (1, 2)])
def test_users_share_by_weight_and_reads_take_turns_with_writes(weights):
    found = taken(weights=weights, asks=(1.0, 1.0, 1.0))
    share = weights[1] / sum(weights)
    assert found["page"] == pytest.approx(400 * share, abs=3)
    assert abs(found["read"] - found["write"]) <= 2


def test_a_line_that_seldom_asks_leaves_the_rest_to_others():
    found = taken(weights=(1, 1), asks=(0.05, 0.0, 1.0), seed=1)
    assert found["page"] > 340 and found["read"] > 15


def test_beats_find_their_user_and_only_it_holds_them_up():
    dut, rng = ControllerShare(WIDE_STACK), random.Random(2)
    print("seed 2")
    came = {"local_beats": [], "page_beats": []}

    async def bench(ctx):
        expected = {name: [] for name in came}
        for beat in range(200):
            user = rng.randrange(2)
            name = ("local_beats", "page_beats")[user]
            tag = rng.randrange(2048)
            expected[name].append((tag, beat))
            ctx.set(dut.beats.valid, 1)
            ctx.set(dut.beats.label, {"tag": user << 11 | tag, "beat": beat})
            ctx.set(dut.beats.lanes[3], beat)
            passes = False
            while not passes:
                for port in came:
                    ctx.set(getattr(dut, port).ready, rng.random() < 0.5)
                other = getattr(dut, ("page_beats", "local_beats")[user])
                port = getattr(dut, name)
                assert ctx.get(port.valid) and not ctx.get(other.valid)
                passes = ctx.get(dut.beats.ready)
                assert passes == ctx.get(port.ready)
                if passes:
                    came[name].append((ctx.get(port.label).tag, ctx.get(port.lanes[3])))
                await ctx.tick()
        assert came == expected

    simulate(dut, bench, clocks=2000)
