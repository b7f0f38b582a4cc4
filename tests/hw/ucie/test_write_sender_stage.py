# amaranth: UnusedElaboratable=no
"""A write sender whose granted pages wait elsewhere until their data are at hand."""

import random
from collections import deque

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.ucie.pacer import RATE_ONE
from hw.ucie.ucie_end import QUIET_CLOCKS
from hw.ucie.write_sender import WriteSender
from tests.hw.beats import set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate
from tests.hw.ucie.test_write_sender import SHARES, Ends, completion, grant

OUTPUTS = ("fetch", "done", "read_done")


def twins() -> tuple[Module, WriteSender, WriteSender]:
    """A plain sender, and beside it one with a stage that holds nothing, with the same inputs."""
    m = Module()
    m.submodules.plain = plain = WriteSender(TINY)
    m.submodules.staged = staged = WriteSender(TINY, staged=True)
    wiring.connect(m, staged.granted, staged.at_hand)
    m.d.comb += [
        staged.rate.eq(plain.rate),
        staged.i.valid.eq(plain.i.valid),
        staged.i.payload.eq(plain.i.payload),
        staged.reply.valid.eq(plain.reply.valid),
        staged.reply.header.eq(plain.reply.header),
        staged.request.credit.eq(plain.request.credit),
        staged.data.credit.eq(plain.data.credit),
        staged.reset.lost.eq(plain.reset.lost),
        staged.reset.quiet.eq(plain.reset.quiet),
        *(a.eq(b) for a, b in zip(staged.fetch_lanes, plain.fetch_lanes, strict=True)),
    ]
    return m, plain, staged


def outputs(ctx, sender: WriteSender) -> list:
    found = [ctx.get(getattr(sender, name)).as_bits() for name in OUTPUTS]
    for port in (sender.request, sender.data):
        found += [ctx.get(port.valid), ctx.get(port.header).as_bits()]
    rest = (sender.reply.credit, sender.i.ready, sender.reset.settled)
    return found + [ctx.get(signal) for signal in rest]


@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_a_stage_that_holds_nothing_costs_no_clock(shares):
    """Every output of both senders is the same in every clock, with a reset in between."""
    rng = random.Random(7)
    print("seed 7")
    design, plain, staged = twins()
    clocks = 0

    async def bench(ctx):
        nonlocal clocks
        ends = Ends(plain, ctx, TINY.credits, rate=RATE_ONE, seed=7)
        ends.answers = True
        for number in range(20):
            request = {"first": number, "pages": 1, "tag": number, "operation": 1}
            ends.requests.append({**request, "owner": 1, "relocated": 0})
            for _ in range(3):
                ends.replies.append(grant(number, rng.randrange(99), rng.randrange(99)))
            ends.replies.append(completion(number, status=rng.randrange(3), last=0))
        while ends.requests or ends.replies or ends.grants or ends.page:
            assert outputs(ctx, plain) == outputs(ctx, staged), f"clock {clocks}"
            await ends.clock(**shares)
            clocks += 1
        for lost in range(QUIET_CLOCKS + 40):
            ctx.set(plain.reset.lost, 1)
            ctx.set(plain.reset.quiet, lost >= QUIET_CLOCKS)
            # Grants that come late are dropped.
            ctx.set(plain.reply.valid, lost < 2)
            ctx.set(plain.reply.header, grant(1, lost, 1))
            await ctx.tick()
            assert outputs(ctx, plain) == outputs(ctx, staged), f"lost for {lost} clocks"

    simulate(design, bench, clocks=8000)
    assert clocks > 240


@pytest.mark.parametrize("seed", range(2))
def test_pages_are_sent_in_the_order_in_which_they_come_back(seed):
    """The stage keeps pages for any time and gives them back in another order, some wrong."""
    rng = random.Random(seed)
    print(f"seed {seed}")
    sender = WriteSender(TINY, staged=True)
    sent = []

    async def bench(ctx):
        ctx.set(sender.rate, RATE_ONE)
        replies = deque(grant(rng.randrange(9), page, 7 * page) for page in range(40))
        credits, owed, stage, out = TINY.credits.descriptors, 0, [], deque()
        offered = fetched = None
        beats = []
        while len(beats) < 160:
            ctx.set(sender.reply.valid, bool(replies and credits))
            if replies and credits:
                ctx.set(sender.reply.header, replies.popleft())
                credits -= 1
            ctx.set(sender.granted.ready, len(stage) < 8 and rng.random() < 0.5)
            if offered is None and stage and rng.random() < 0.3:
                offered = stage.pop(rng.randrange(len(stage)))
                ctx.set(sender.at_hand.payload, offered)
            ctx.set(sender.at_hand.valid, offered is not None)
            ctx.set(sender.data.credit, owed > 0)
            owed -= owed > 0
            if fetched is not None:
                set_lanes(ctx, FetchLanes(sender), fetched)
                ctx.set(sender.fetch_poison, fetched % 3 == 0)
            if ctx.get(sender.data.valid):
                header = ctx.get(sender.data.header)
                beats.append((header.page, header.beat))
                assert (header.tag, header.page, header.credit) == out[0]
                assert header.poison == (fetched % 3 == 0)
                owed += 1
                if header.page_end:
                    sent.append(out.popleft())
            fetch = ctx.get(sender.fetch)
            fetched = fetch.page << 2 | fetch.beat if fetch.valid else None
            if ctx.get(sender.granted.valid) and ctx.get(sender.granted.ready):
                page = ctx.get(sender.granted.payload)
                stage.append({"tag": page.tag, "page": page.page, "token": page.token})
            if offered and ctx.get(sender.at_hand.ready):
                out.append((offered["tag"], offered["page"], offered["token"]))
                offered = None
            credits += ctx.get(sender.reply.credit)
            assert credits <= TINY.credits.descriptors
            await ctx.tick()

    simulate(sender, bench, clocks=4000)
    pages = [page for _, page, _ in sent]
    assert sorted(pages) == list(range(40)) != pages


class FetchLanes:
    def __init__(self, sender: WriteSender) -> None:
        self.lanes = sender.fetch_lanes
