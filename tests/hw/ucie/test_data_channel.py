# amaranth: UnusedElaboratable=no
"""The channel for data beats: an exact delay each way."""

import random
from typing import Any

import pytest
from amaranth.hdl import Cat

from hw.ucie.channel import DataChannel
from tests.hw.pysim import simulate


@pytest.mark.parametrize("cycles", range(2, 8))
@pytest.mark.parametrize(("lanes", "bank_bytes"), [(4, 8), (8, 64)])
def test_delay_is_exact_each_way(cycles: int, lanes: int, bank_bytes: int) -> None:
    channel = DataChannel(lanes=lanes, cycles=cycles, bank_bytes=bank_bytes)
    seed = 100 * lanes + cycles
    rng = random.Random(seed)
    # Back to back, then with gaps of all kinds.
    valid = [True] * 20 + [rng.random() < 0.4 for _ in range(60)]
    beats = [(rng.getrandbits(128), rng.getrandbits(64 * lanes)) if v else None for v in valid]
    credits = [rng.getrandbits(1) for _ in valid]

    async def bench(ctx: Any) -> None:
        for clock, (beat, credit) in enumerate(zip(beats, credits, strict=True)):
            header, data = beat or (rng.getrandbits(128), rng.getrandbits(64 * lanes))
            ctx.set(channel.i.valid, beat is not None)
            ctx.set(channel.i.header.as_value(), header)
            ctx.set(Cat(*channel.i.lanes), data)
            ctx.set(channel.o.credit, credit)
            sent, given = None, 0
            if clock >= cycles:
                sent, given = beats[clock - cycles], credits[clock - cycles]
            assert ctx.get(channel.o.valid) == (sent is not None), (seed, clock)
            if sent is not None:
                seen = ctx.get(channel.o.header.as_value()), ctx.get(Cat(*channel.o.lanes))
                assert seen == sent, (seed, clock)
            assert ctx.get(channel.i.credit) == given, (seed, clock)
            await ctx.tick()

    simulate(channel, bench, clocks=100)


@pytest.mark.parametrize(
    ("lanes", "cycles", "bank_bytes", "message"),
    [(8, 1, 16, "at least 2 clocks, not 1"), (8, 0, 16, "at least 2 clocks, not 0")],
)
def test_wrong_parameters_are_refused(
    lanes: int, cycles: int, bank_bytes: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        DataChannel(lanes=lanes, cycles=cycles, bank_bytes=bank_bytes)
