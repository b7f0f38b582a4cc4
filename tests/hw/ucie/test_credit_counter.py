# amaranth: UnusedElaboratable=no
"""The credit counter against a plain count."""

import random
from typing import Any

import pytest

from hw.ucie.credit import CreditCounter
from tests.hw.pysim import simulate


@pytest.mark.parametrize(
    ("initial", "limit", "max_take"), [(1, 1, 1), (0, 3, 1), (2, 2, 2), (5, 7, 4), (64, 64, 4)]
)
def test_credits_are_conserved(initial: int, limit: int, max_take: int) -> None:
    counter = CreditCounter(initial=initial, limit=limit, max_take=max_take)
    seed = 100 * limit + max_take
    rng = random.Random(seed)

    async def bench(ctx: Any) -> None:
        held, seen = initial, set()
        for clock in range(1500):
            assert ctx.get(counter.count) == held, (seed, clock)
            seen.add(held)
            # Phases that drain and phases that fill, so that both ends are reached.
            greedy = clock // 200 % 2 == 0
            take = min(held, rng.randint(0, max_take)) if greedy or rng.random() < 0.1 else 0
            give = int(held - take < limit and rng.random() < (0.3 if greedy else 0.9))
            ctx.set(counter.take, take)
            ctx.set(counter.give, give)
            await ctx.tick()
            held += give - take
        assert {0, limit} <= seen, seed

    simulate(counter, bench, clocks=2000)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"initial": -1, "limit": 4}, "0 to the limit 4, not -1"),
        ({"initial": 5, "limit": 4}, "0 to the limit 4, not 5"),
        ({"initial": 0}, "0 to the limit 0, not 0"),
        ({"initial": 4, "max_take": 0}, "1 to the limit 4, not 0"),
        ({"initial": 4, "max_take": 5}, "1 to the limit 4, not 5"),
    ],
)
def test_wrong_credits_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CreditCounter(**fields)
