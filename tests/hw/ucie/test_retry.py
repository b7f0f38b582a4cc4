# amaranth: UnusedElaboratable=no
"""Retry over a channel that corrupts groups and answers: exactly once, in order, at its rate."""

import random
from collections import deque

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.ucie.retry import RetryReceiver, RetrySender
from tests.hw.pysim import simulate


class Pair(wiring.Component):
    """A sender and a receiver; the bench is the channel between them."""

    def __init__(self, **sizes) -> None:
        self.sender = RetrySender(**sizes)
        self.receiver = RetryReceiver(
            flits=sizes["flits"], **({"last": sizes["last"]} if "last" in sizes else {})
        )
        super().__init__({})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.sender, m.submodules.receiver = self.sender, self.receiver
        return m


class Line:
    """The bench: buffer, both directions of the channel, and what went up.

    A group leaves in each clock, an answer every ``answer_clocks``. With ``spare`` no error strikes
    before the loss that the one before caused is mended.
    """

    def __init__(
        self,
        pair,
        *,
        delay,
        errors,
        answer_errors,
        seed,
        offers=1.0,
        answer_clocks=1,
        spare=False,
    ):
        self.pair, self.pick = pair, random.Random(seed)
        self.answer_clocks, self.spare = answer_clocks, spare
        self.struck = self.owes = False
        self.withdrawn = 0  # Naks that were owed and never left
        self.errors, self.answer_errors, self.offers = errors, answer_errors, offers
        self.down, self.up = deque([None] * delay), deque([None] * delay)
        self.buffer, self.given, self.came = {}, 0, []
        self.clocks = self.replays = self.naks = 0

    async def clock(self, ctx, *, offer=True) -> None:
        tx, rx = self.pair.sender, self.pair.receiver
        answers = self.clocks % self.answer_clocks == 0
        ctx.set(tx.active, 1)
        ctx.set(tx.offer, offer and self.pick.random() < self.offers)
        answer = self.up.popleft()
        ctx.set(tx.answer.valid, answer is not None)
        if answer is not None:
            ctx.set(tx.answer, {"valid": 1, "nak": answer[0], "sequence": answer[1]})
        row, send = ctx.get(tx.row), ctx.get(tx.send)
        if ctx.get(tx.store):
            self.buffer[row] = self.given
            self.given += 1
        self.replays += ctx.get(tx.replay)
        group = (self.buffer[row] if send.payload else None, send.payload, send.sequence)
        self.down.append((*group, self.pick.random() < self.errors))

        come = self.down.popleft()
        ctx.set(rx.valid, come is not None)
        if come is not None:
            content, payload, sequence, bad = come
            bad = bad and not (self.spare and self.struck)
            noise = {"payload": self.pick.getrandbits(1), "sequence": self.pick.getrandbits(3)}
            labels = noise if bad else {"payload": payload, "sequence": sequence}
            ctx.set(rx.group, labels)
            ctx.set(rx.bad, bad)
            self.struck |= bad
            if ctx.get(rx.take):
                self.came.append(content)
                self.struck = False
                self.withdrawn += self.owes
        answer = ctx.get(rx.answer)
        self.naks += answer.nak and answers
        self.owes = answer.nak and not answers
        ctx.set(rx.answered, answers)
        lost = self.pick.random() < self.answer_errors or not answers
        self.up.append(None if lost else (answer.nak, answer.sequence))
        await ctx.tick()
        self.clocks += 1


SMALL = {"flits": 2, "rows": 3, "last": 15, "timeout": 40}
FULL = {"flits": 4, "rows": 31}
STORMS = {
    "clean": (0.0, 0.0),
    "groups": (0.2, 0.0),
    "answers": (0.0, 0.4),
    "both": (0.3, 0.3),
    "storm": (0.6, 0.6),
}


@pytest.mark.parametrize("storm", STORMS.values(), ids=STORMS)
@pytest.mark.parametrize("offers", [1.0, 0.3], ids=["busy", "idle at times"])
@pytest.mark.parametrize(("sizes", "delay"), [(SMALL, 1), (SMALL, 5), (FULL, 18)])
def test_every_group_goes_up_once_and_in_order(sizes, delay, storm, offers):
    groups, errors, seed = 150, storm, 1
    pair = Pair(**sizes)
    line = Line(
        pair, delay=delay, errors=errors[0], answer_errors=errors[1], seed=seed, offers=offers
    )

    async def bench(ctx):
        while len(line.came) < groups or not ctx.get(pair.sender.idle):
            await line.clock(ctx, offer=line.given < groups)
        for _ in range(4 * delay):
            await line.clock(ctx, offer=False)

    simulate(pair, bench, clocks=60_000)
    assert line.came == list(range(groups))
    assert (line.replays > 0) == (storm != STORMS["clean"]) or storm == STORMS["answers"]
    assert (line.naks > 0) == (errors[0] > 0)


@pytest.mark.parametrize("offers", [1.0, 0.3], ids=["busy", "idle at times"])
def test_a_nak_that_is_no_longer_needed_costs_no_timeout(offers):
    """A NOP that is lost owes a Nak, which the next group in turn withdraws before it has left.

    That happens while answers leave less often than groups come. Whatever is lost behind it owes
    a Nak of its own: so everything comes, and there is no timeout that could help.
    """
    groups, never = 100, 10**6
    pair = Pair(**SMALL | {"timeout": never})
    line = Line(
        pair,
        delay=3,
        errors=0.3,
        answer_errors=0,
        seed=1,
        offers=offers,
        answer_clocks=3,
        spare=True,
    )

    async def bench(ctx):
        while len(line.came) < groups or not ctx.get(pair.sender.idle):
            await line.clock(ctx, offer=line.given < groups)

    simulate(pair, bench, clocks=10_000)
    assert line.came == list(range(groups))
    assert line.naks > 0 and line.withdrawn > 0


@pytest.mark.parametrize("round_trip", [20, 30, 32, 36, 48])
def test_rate_is_rows_a_round_trip(round_trip):
    pair = Pair(**FULL)
    line = Line(pair, delay=round_trip // 2, errors=0, answer_errors=0, seed=1)
    seen = []

    async def bench(ctx):
        for _ in range(1000):
            await line.clock(ctx)
            seen.append(len(line.came))

    simulate(pair, bench, clocks=1100)
    expected = min(1.0, FULL["rows"] / (2 * (round_trip // 2)))
    assert (seen[-1] - seen[199]) / 800 == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"flits": 3, "rows": 2}, "power of two"),
        ({"flits": 1, "rows": 2}, "power of two"),
        ({"flits": 4, "rows": 32}, "rows must be 1 to 31"),
        ({"flits": 2, "rows": 1, "last": 14}, "2\\*\\*n - 1"),
        ({"flits": 2, "rows": 1, "timeout": 1}, "timeout must be at least 2"),
    ],
)
def test_sizes_that_cannot_work_are_refused(sizes, words):
    with pytest.raises(ValueError, match=words):
        RetrySender(**sizes)
