"""The receive queue of a data port against a plain queue."""

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Cat

from hw.ucie.beat_queue import BeatQueue
from tests.hw.pysim import simulate

LANES = 4
Ready = Callable[[random.Random, int], bool]


class Ends:
    """Both ends of a queue, driven clock by clock; the sender obeys its credits."""

    def __init__(self, queue: BeatQueue, ctx: Any, rng: random.Random) -> None:
        self.queue, self.ctx, self.rng = queue, ctx, rng
        self.credits = queue.depth
        self.inside: deque[tuple[int, int]] = deque()
        self.taken_before = False
        self.held: tuple[int, int] | None = None

    async def clock(self, send: bool, ready: bool) -> bool:
        """One clock, checked; tells whether a beat was taken."""
        queue, ctx = self.queue, self.ctx
        credit = ctx.get(queue.port.credit)
        assert credit == self.taken_before
        self.credits += credit
        assert self.credits <= queue.depth
        send = send and self.credits > 0
        beat = self.rng.getrandbits(128), self.rng.getrandbits(64 * LANES)  # driven if idle, too
        ctx.set(queue.port.valid, send)
        ctx.set(queue.port.header.as_value(), beat[0])
        ctx.set(Cat(*queue.port.lanes), beat[1])
        ctx.set(queue.o.ready, ready)

        valid = bool(ctx.get(queue.o.valid))
        shown = ctx.get(queue.o.header.as_value()), ctx.get(Cat(*queue.o.lanes))
        if self.held is not None:  # a stalled beat stays as it is
            assert (valid, shown) == (True, self.held)
        taken = valid and ready
        self.held = shown if valid and not ready else None
        if taken:
            assert shown == self.inside.popleft()
        if send:
            self.credits -= 1
            self.inside.append(beat)
        self.taken_before = taken
        await ctx.tick()
        return taken


CONSUMERS: dict[str, Ready] = {
    "always": lambda rng, clock: True,
    "random": lambda rng, clock: rng.random() < 0.5,
    "every other": lambda rng, clock: clock % 2 == 0,
    "stalls": lambda rng, clock: clock % 50 >= 25,
}


@pytest.mark.parametrize("ready", CONSUMERS.values(), ids=CONSUMERS)
@pytest.mark.parametrize("pace", [0.4, 1.0])
@pytest.mark.parametrize("depth", [2, 3, 8])
def test_nothing_is_lost_or_reordered(depth: int, pace: float, ready: Ready) -> None:
    queue = BeatQueue(lanes=LANES, depth=depth, bank_bytes=16)
    seed = depth
    rng = random.Random(seed)
    print(f"seed {seed}")

    async def bench(ctx: Any) -> None:
        ends = Ends(queue, ctx, rng)
        taken = 0
        for clock in range(200):
            taken += await ends.clock(rng.random() < pace, ready(rng, clock))
        assert taken >= 20
        for _ in range(2 * depth + 4):
            await ends.clock(False, True)
        assert not ends.inside
        assert ends.credits == depth

    simulate(queue, bench, clocks=300)


def test_all_of_the_depth_can_be_filled() -> None:
    queue = BeatQueue(lanes=LANES, depth=8, bank_bytes=16)

    async def bench(ctx: Any) -> None:
        ends = Ends(queue, ctx, random.Random(0))
        for _ in range(8):
            await ends.clock(True, False)
        assert ends.credits == 0
        assert [await ends.clock(False, True) for _ in range(9)] == [True] * 8 + [False]

    simulate(queue, bench, clocks=50)


def test_latency_is_two_clocks_and_rate_one_a_clock() -> None:
    queue = BeatQueue(lanes=LANES, depth=8, bank_bytes=16)

    async def bench(ctx: Any) -> None:
        ends = Ends(queue, ctx, random.Random(0))
        taken = [await ends.clock(clock < 50, True) for clock in range(60)]
        assert taken == [2 <= clock < 52 for clock in range(60)]

    simulate(queue, bench, clocks=100)
