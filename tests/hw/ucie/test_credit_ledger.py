# amaranth: UnusedElaboratable=no
"""The credit ledger at real depths against plain integers, over a link that loses and resets."""

from itertools import pairwise

import pytest
from amaranth.lib.data import Const

from hw.ucie.credit_ledger import CreditGiver, CreditTaker
from hw.ucie.credit_message import credit_message_layout, least_count_bits
from hw.ucie.transaction import HEADER_BYTES, Header, MessageClass
from tests.hw.pysim import simulate
from tests.hw.ucie.credit_model import Link, Pair

REAL = (32, 32, 256)  # requests, write requests, beats of write data


@pytest.mark.parametrize(("loss", "repeat"), [(0, 0), (0.5, 0), (0, 0.3), (0.5, 0.3)])
@pytest.mark.parametrize("depths", [REAL, (64, 128), (1, 2, 3, 4)])
def test_every_credit_comes_back_once(depths, loss, repeat):
    pair = Pair(depths, refresh=64)
    link = Link(pair, delay=9, seed=1, loss=loss, repeat=repeat)
    clocks = max(60, 3 * max(depths) // 2)  # enough to fill the buffers

    async def bench(ctx):
        for send, free in ((1, 0), (1, 0.1), (1, 1), (0.3, 0.9), (0.9, 0.3)):
            for _ in range(clocks if free == 0 else clocks // 3):
                await link.tick(ctx, send=send, free=free)
        await link.until_home(ctx, limit=2000)

    simulate(pair, bench, clocks=5000)
    assert all(c.most == d for c, d in zip(link.channels, depths, strict=True))


@pytest.mark.parametrize("first", ["giver", "taker"])
@pytest.mark.parametrize("gap", [0, 1, 7])
@pytest.mark.parametrize("depths", [REAL, (1, 2, 4)])
def test_a_reset_refunds_what_was_under_way(depths, gap, first):
    pair = Pair(depths, refresh=64)
    link = Link(pair, delay=9, seed=2)
    refunds = []

    async def bench(ctx):
        for _ in range(8):
            for _ in range(link.pick.randint(0, 100)):
                await link.tick(ctx, send=0.9, free=0.4)
            await link.reset(ctx, first=first, gap=gap)
            lost = [c.lost for c in link.channels]
            for _ in range(200):
                await link.tick(ctx)
                if ctx.get(pair.taker.settled):
                    break
            assert list(ctx.get(pair.taker.lost)) == lost
            refunds.append(lost)
        await link.until_home(ctx, limit=2000)

    simulate(pair, bench, clocks=9000)
    assert all(any(lost[k] for lost in refunds) for k in range(len(depths)))


def test_resets_in_a_row_refund_once():
    """The first message of the epoch between never gets through."""
    pair = Pair((32, 64))
    link = Link(pair, delay=30, seed=3)

    async def bench(ctx):
        for _ in range(60):
            await link.tick(ctx, send=1, free=0.2)
        total = [0, 0]
        for _ in range(9):  # more than there are epochs
            await link.reset(ctx, first="taker", gap=3)
            total = [t + c.lost for t, c in zip(total, link.channels, strict=True)]
            for _ in range(4):
                await link.tick(ctx, send=0.2)
            assert not ctx.get(pair.taker.settled)
        assert min(total) > 0
        for _ in range(200):
            await link.tick(ctx, send=0)
        assert list(ctx.get(pair.taker.lost)) == total
        await link.until_home(ctx, limit=1000)

    simulate(pair, bench, clocks=3000)


def test_a_retrain_keeps_everything():
    pair = Pair((8,))
    link = Link(pair, delay=5, seed=4)

    async def bench(ctx):
        for _ in range(100):
            await link.tick(ctx, send=1, free=0.3)
        for _ in range(20):
            for end in link.up:
                link.up[end] = False
            for _ in range(link.pick.randint(1, 40)):
                await link.tick(ctx, send=1, free=1)
            for end in link.up:
                link.up[end] = True
            for _ in range(link.pick.randint(1, 40)):
                await link.tick(ctx, send=1, free=0.3)
        await link.until_home(ctx, limit=500)
        assert ctx.get(pair.taker.lost[0]) == 0

    simulate(pair, bench, clocks=5000)


@pytest.mark.parametrize("period", [1, 2, 8])
def test_messages_are_at_once_when_it_was_quiet_and_else_a_period_apart(period):
    giver = CreditGiver(depths=(64,), period=period, refresh=50)
    starts = []

    async def bench(ctx):
        ctx.set(giver.active, 1)
        ctx.set(giver.message.ready, 1)
        for clock in range(300):
            pulse = clock == 20 or 100 <= clock < 140
            ctx.set(giver.credit, pulse)
            if ctx.get(giver.message.valid):
                starts.append((clock, ctx.get(giver.message.payload).freed[0]))
            await ctx.tick()

    simulate(giver, bench, clocks=400)
    busy = [(c, f) for c, f in starts if 100 < c <= 140 + period]
    assert starts[:2] == [(1, 0), (21, 1)]  # the first of the epoch, then at once
    assert busy[0] == (101, 2) and busy[-1][1] == 41
    assert {b[0] - a[0] for a, b in pairwise(busy)} == {period}
    assert starts[2] == (71, 1)  # said again
    quiet = [c for c, _ in starts if c > busy[-1][0]]
    assert [b - a for a, b in pairwise(quiet)] == [50] * (len(quiet) - 1)


def test_without_refresh_nothing_is_said_twice():
    giver = CreditGiver(depths=(4,), period=1, refresh=None)
    heard = []

    async def bench(ctx):
        ctx.set(giver.active, 1)
        ctx.set(giver.message.ready, 1)
        for clock in range(2000):
            ctx.set(giver.credit, clock == 1000)
            if ctx.get(giver.message.valid):
                heard.append(clock)
            await ctx.tick()

    simulate(giver, bench, clocks=2100)
    assert heard == [1, 1001]


def test_credits_follow_their_message_by_a_clock_one_a_clock():
    taker = CreditTaker(depths=(4, 4))
    layout = credit_message_layout(channels=2)
    seen = []

    async def bench(ctx):
        ctx.set(taker.active, 1)
        ctx.set(taker.sent, 3)
        await ctx.tick().repeat(4)
        ctx.set(taker.sent, 0)
        assert not ctx.get(taker.at_rest)
        ctx.set(taker.message, {"freed": [3, 1], "received": [0, 0]})
        ctx.set(taker.valid, 1)
        for _ in range(6):
            seen.append(ctx.get(taker.credit))
            await ctx.tick()
            ctx.set(taker.valid, 0)

    assert layout.size == 128
    simulate(taker, bench, clocks=20)
    assert seen == [0b00, 0b11, 0b01, 0b01, 0, 0]


@pytest.mark.parametrize(("channels", "bits"), [(4, 12), (4, 14), (3, 12), (1, 2)])
def test_the_message_overlays_the_header(channels, bits):
    layout = credit_message_layout(channels=channels, bits=bits)
    header = Header.as_shape()
    assert layout.size == header.size == 8 * HEADER_BYTES
    assert layout["message_class"] == header["message_class"]
    assert layout["spare"].offset <= layout.size - 1  # the framing's bit
    word = Const(layout, layout.const({"message_class": MessageClass.CREDIT}).as_value().value)
    assert word.message_class == MessageClass.CREDIT


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 7, 8, 31, 32, 255, 256])
def test_counts_tell_ahead_from_behind(depth):
    """All distances from ``-depth`` to ``depth`` differ modulo the counts, and one bit less is
    too few."""
    for bits, distinct in ((least_count_bits((depth,)), True), (least_count_bits((depth,)) - 1, 0)):
        values = {d % 2**bits for d in range(-depth, depth + 1)}
        assert (len(values) == 2 * depth + 1) == bool(distinct)


@pytest.mark.parametrize(
    ("block", "fields", "message"),
    [
        (CreditGiver, {"depths": ()}, "1 to 4 channels, not 0"),
        (CreditTaker, {"depths": (1,) * 5}, "1 to 4 channels, not 5"),
        (CreditTaker, {"depths": (4, 0)}, "at least 1, not 0"),
        (CreditGiver, {"depths": (4,), "bits": 3}, "at least 4 bits, not 3"),
        (CreditTaker, {"depths": (4,), "bits": 3}, "at least 4 bits, not 3"),
        (CreditTaker, {"depths": (4,), "epoch_bits": 0}, "at least 1 bit, not 0"),
        (CreditGiver, {"depths": (4,) * 4, "bits": 15}, "15 bits leave no free bit"),
        (CreditGiver, {"depths": (4,), "period": 0}, "at least 1 clock, not 0"),
        (CreditGiver, {"depths": (4,), "period": 9, "refresh": 8}, "the period, 9, not 8"),
    ],
)
def test_wrong_sizes_are_refused(block, fields, message):
    with pytest.raises(ValueError, match=message):
        block(**fields)
