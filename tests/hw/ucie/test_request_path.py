"""Descriptors from sender to receiver over a channel, against consumers that stall."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.channel import RequestChannel
from hw.ucie.credit import RequestReceiver, RequestSender
from hw.ucie.transaction import Header
from tests.hw.pysim import simulate

ALL_BITS = (1 << 128) - 1


class RequestPath(wiring.Component):
    """Sender, channel and receiver in a row."""

    i: In(stream.Signature(Header))
    o: Out(stream.Signature(Header))

    def __init__(self, *, credits: int, cycles: int) -> None:
        super().__init__()
        self.sender = RequestSender(credits=credits)
        self.channel = RequestChannel(cycles=cycles)
        self.receiver = RequestReceiver(credits=credits)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sender = self.sender
        m.submodules.channel = self.channel
        m.submodules.receiver = self.receiver
        wiring.connect(m, wiring.flipped(self.i), self.sender.i)
        wiring.connect(m, self.sender.port, self.channel.i)
        wiring.connect(m, self.channel.o, self.receiver.port)
        wiring.connect(m, self.receiver.o, wiring.flipped(self.o))
        return m


class Wire:
    """Drives both ends of a path clock by clock and counts what is between sender and consumer."""

    def __init__(self, path: RequestPath, ctx: Any) -> None:
        self.path, self.ctx = path, ctx
        self.accepted: list[int] = []
        self.taken: list[int] = []
        self.credits_out = 0

    async def clock(self, header: int | None, ready: bool) -> None:
        path, ctx = self.path, self.ctx
        ctx.set(path.i.valid, header is not None)
        ctx.set(path.i.payload.as_value(), header or 0)
        ctx.set(path.o.ready, ready)
        if header is not None and ctx.get(path.i.ready):
            self.accepted.append(header)
        if ready and ctx.get(path.o.valid):
            self.taken.append(ctx.get(path.o.payload.as_value()))
        self.credits_out += ctx.get(path.sender.port.valid) - ctx.get(path.sender.port.credit)
        await ctx.tick()


Consumer = Callable[[random.Random, int], bool]
CONSUMERS: dict[str, Consumer] = {
    "always": lambda rng, clock: True,
    "random": lambda rng, clock: rng.random() < 0.5,
    "every other": lambda rng, clock: clock % 2 == 0,
    # Long enough for the queue to fill, then long enough to empty it.
    "stalls": lambda rng, clock: clock % 60 >= 30,
}


@pytest.mark.parametrize("consumer", CONSUMERS.values(), ids=CONSUMERS)
@pytest.mark.parametrize("pace", [0.3, 1.0])
@pytest.mark.parametrize(("credits", "cycles"), [(1, 1), (2, 2), (2, 6), (3, 1), (8, 6)])
def test_exactly_once_in_order_within_credits(
    credits: int, cycles: int, pace: float, consumer: Consumer
) -> None:
    path = RequestPath(credits=credits, cycles=cycles)
    seed = 1000 * credits + cycles
    rng = random.Random(seed)
    headers = [rng.getrandbits(128) for _ in range(40)]

    async def bench(ctx: Any) -> None:
        wire, clock = Wire(path, ctx), 0
        while len(wire.taken) < len(headers):
            waiting = headers[len(wire.accepted) :]
            offer = waiting[0] if waiting and rng.random() < pace else None
            await wire.clock(offer, consumer(rng, clock))
            assert 0 <= wire.credits_out <= credits, (seed, clock)
            assert wire.taken == headers[: len(wire.taken)], (seed, clock)
            clock += 1

    simulate(path, bench, clocks=3000)


@pytest.mark.parametrize(("credits", "cycles"), [(1, 1), (2, 6), (8, 3)])
def test_all_credits_are_home_when_it_is_quiet(credits: int, cycles: int) -> None:
    # Shown from outside: with a consumer that never takes, exactly that many are accepted.
    path = RequestPath(credits=credits, cycles=cycles)

    async def bench(ctx: Any) -> None:
        wire = Wire(path, ctx)
        for round_ in range(3):
            for _ in range(3 * credits + 10):
                await wire.clock(len(wire.accepted), ready=False)
            assert len(wire.accepted) == credits * (round_ + 1)
            for _ in range(2 * credits + 2 * cycles + 10):
                await wire.clock(None, ready=True)
            assert wire.taken == wire.accepted
            assert wire.credits_out == 0

    simulate(path, bench, clocks=1000)


@pytest.mark.parametrize("cycles", [1, 2, 7])
def test_latency(cycles: int) -> None:
    path = RequestPath(credits=4, cycles=cycles)
    seen: dict[str, int] = {}

    async def bench(ctx: Any) -> None:
        wire = Wire(path, ctx)
        ports = {
            "left": path.sender.port.valid,
            "arrived": path.receiver.port.valid,
            "offered": path.o.valid,
            "credit": path.receiver.port.credit,
            "credit back": path.sender.port.credit,
        }
        for clock in range(30):
            for name, signal in ports.items():
                if ctx.get(signal):
                    assert seen.setdefault(name, clock) == clock, name
            await wire.clock(ALL_BITS if clock == 0 else None, ready=True)

    simulate(path, bench, clocks=100)
    assert seen == {
        "left": 1,
        "arrived": 1 + cycles,
        "offered": 1 + cycles + 2,
        "credit": 1 + cycles + 3,
        "credit back": 1 + 2 * cycles + 3,
    }


def test_one_a_clock_when_credits_cover_the_round_trip() -> None:
    # Round trip: 1 to leave, 6 there, 2 through the queue, 1 for the credit, 6 back, 1 to count.
    path = RequestPath(credits=17, cycles=6)

    async def bench(ctx: Any) -> None:
        wire = Wire(path, ctx)
        for clock in range(100):
            await wire.clock(clock, ready=True)
        assert len(wire.accepted) == 100

    simulate(path, bench, clocks=200)
