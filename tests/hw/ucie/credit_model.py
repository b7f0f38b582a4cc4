"""A credited link in plain Python around both ends of the ledger: who holds which credit."""

import random
from collections import deque
from types import SimpleNamespace

from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.ucie.credit_ledger import CreditGiver, CreditTaker
from hw.ucie.transaction import MessageClass


class Pair(wiring.Component):
    """Both ends; the bench is everything else."""

    def __init__(self, depths, *, period=8, refresh=1024, **sizes) -> None:
        self.giver = CreditGiver(depths=depths, period=period, refresh=refresh, **sizes)
        self.taker = CreditTaker(depths=depths, **sizes)
        super().__init__({})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.giver, m.submodules.taker = self.giver, self.taker
        return m


class Link:
    """Senders, link and receivers in plain Python, one object for each thing that is sent.

    ``loss`` and ``repeat`` are of CREDIT messages; the way of each takes ``delay`` clocks.
    """

    def __init__(self, pair, *, delay, seed, loss=0.0, repeat=0.0):
        self.pair, self.pick, self.delay = pair, random.Random(seed), delay
        self.loss, self.repeat = loss, repeat
        self.depths = pair.giver.depths
        self.channels = [
            SimpleNamespace(
                credits=depth, flight=deque(), held=0, lost=0, owed=0, freed=0, pulse=0, most=0
            )
            for depth in self.depths
        ]
        self.back = deque()  # clock, message
        self.clock = self.messages = 0
        self.up = {"giver": True, "taker": True}

    async def tick(self, ctx, *, send=0.5, free=0.5, clear=()):
        """A clock; ``clear`` names the ends that are cleared in it."""
        giver, taker, pick = self.pair.giver, self.pair.taker, self.pick
        flows = all(self.up.values())
        ctx.set(giver.active, self.up["giver"])
        ctx.set(taker.active, self.up["taker"])
        ctx.set(giver.clear, "giver" in clear)
        ctx.set(taker.clear, "taker" in clear)

        # Ports that send and receive
        sent = came = pulses = 0
        for k, channel in enumerate(self.channels):
            pulses |= channel.pulse << k
            channel.pulse = 0
            if channel.credits and pick.random() < send:
                channel.credits -= 1
                channel.flight.append(self.clock + self.delay)
                sent |= 1 << k
            if flows and channel.flight and channel.flight[0] <= self.clock:
                channel.flight.popleft()
                channel.held += 1
                came |= 1 << k
            channel.most = max(channel.most, channel.held)
            if channel.held and pick.random() < free:
                channel.held -= 1
                channel.owed += 1
                channel.pulse = 1
        ctx.set(taker.sent, sent)
        ctx.set(giver.came, came)
        ctx.set(giver.credit, pulses)

        # The CREDIT messages
        ready = flows and pick.random() < 0.7
        ctx.set(giver.message.ready, ready)
        if ctx.get(giver.message.valid) and ready:
            self.messages += 1
            message = ctx.get(giver.message.payload)
            assert message.message_class == MessageClass.CREDIT
            if pick.random() >= self.loss:
                self.back.append((self.clock + self.delay, message))
        due = flows and self.back and self.back[0][0] <= self.clock
        ctx.set(taker.valid, bool(due))
        if due:
            again = pick.random() < self.repeat
            ctx.set(taker.message, self.back[0][1] if again else self.back.popleft()[1])

        # What the ports of the sender see
        credit = ctx.get(taker.credit)
        assert not credit or (self.up["taker"] and "taker" not in clear)
        for k, channel in enumerate(self.channels):
            if credit >> k & 1:
                assert channel.owed, (k, self.clock)
                channel.owed -= 1
                channel.credits += 1
            total = channel.credits + len(channel.flight) + channel.held + channel.owed
            assert total == self.depths[k], (k, self.clock)
        await ctx.tick()
        self.clock += 1

    async def reset(self, ctx, *, first, gap):
        """One end, then the other ``gap`` clocks later; ports go on all the time."""
        other = {"giver": "taker", "taker": "giver"}[first]
        self.up = {"giver": False, "taker": False}
        old = [len(c.flight) for c in self.channels]
        for clock in range(gap + 1):
            clear = {first} if clock == 0 else set()
            clear |= {other} if clock == gap else set()
            before = [len(c.flight) for c in self.channels]
            await self.tick(ctx, clear=clear)
            if "taker" in clear:  # what is sent from here on is of the new epoch
                old = [len(c.flight) for c in self.channels]
            assert all(len(c.flight) >= b for c, b in zip(self.channels, before, strict=True))
        self.back.clear()
        for channel, gone in zip(self.channels, old, strict=True):
            for _ in range(gone):
                channel.flight.popleft()
            channel.lost = gone
            channel.owed += gone
        for _ in range(self.pick.randint(0, 5)):
            await self.tick(ctx)
        self.up = {"giver": True, "taker": True}

    async def until_home(self, ctx, *, limit):
        """Nothing is sent any more; all credits must come home within ``limit`` clocks."""
        for _ in range(limit):
            if all(c.credits == d for c, d in zip(self.channels, self.depths, strict=True)):
                break
            await self.tick(ctx, send=0, free=1)
        for _ in range(3):
            await self.tick(ctx, send=0, free=1)
        assert [c.credits for c in self.channels] == list(self.depths)
        assert ctx.get(self.pair.taker.at_rest)
