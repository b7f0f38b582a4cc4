# amaranth: UnusedElaboratable=no
"""Resets of a whole link, as the two dies see them."""

import dataclasses
import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from hw.ucie.flit import latency_optimised
from hw.ucie.link import SIDEBAND_CLOCKS, UcieLink
from hw.ucie.link_codes import StateStatus
from hw.ucie.link_end import Channel
from hw.ucie.link_shape import LinkShape
from hw.ucie.transaction import MessageClass
from hw.ucie.ucie_end import QUIET_CLOCKS, UcieEnd
from tests.hw.beats import Quiet

SHAPE = LinkShape(
    flit_format=latency_optimised(24), flits=2, lanes=2, modules=1, module_lanes=6,
    timeout_clocks=200,
)  # fmt: skip
REQUEST, REPLY = Channel(name="request", depth=4), Channel(name="reply", depth=3)
DATA = Channel(name="data", depth=6, lanes=2)
SIDES = ("near", "far")
BEGUN = 8  # clocks from `lost` in which a die sends what it had begun


class Sender:
    """Sends numbers under credit; remembers which of them the link may not deliver any more."""

    def __init__(self, port, channel: Channel):
        self.port, self.channel = port, channel
        self.credits, self.number, self.share = channel.depth, 0, 0.5
        self.fresh = 0  # the first number that was sent since the link came back

    def step(self, ctx, pick: random.Random, *, may: bool) -> None:
        sends = bool(may and self.credits and pick.random() < self.share)
        ctx.set(self.port.valid, sends)
        if sends:
            header = {"message_class": MessageClass.REQUEST, "address": self.number}
            ctx.set(self.port.header, header)
            self.number += 1
        self.credits += ctx.get(self.port.credit) - sends
        assert self.credits <= self.channel.depth, f"{self.channel.name}: a credit too many"


class Receiver:
    """Takes numbers, and gives credits back after a while."""

    def __init__(self, port, sender: Sender):
        self.port, self.sender = port, sender
        self.held, self.last, self.took = 0, -1, 0
        self.share = 0.3

    def step(self, ctx, pick: random.Random, *, quiet: bool, fresh: bool) -> None:
        if ctx.get(self.port.valid):
            number = ctx.get(self.port.header).address
            name = self.sender.channel.name
            assert not quiet, f"{name}: {number} came to a quiet die"
            assert number > self.last, f"{name}: {number} after {self.last}"
            assert not fresh or number >= self.sender.fresh, f"{name}: {number} is an old one"
            self.last, self.held, self.took = number, self.held + 1, self.took + 1
            assert self.held <= self.sender.channel.depth
        gives = bool(self.held and pick.random() < self.share)
        ctx.set(self.port.credit, gives)
        self.held -= gives


class Die:
    """One side: traffic while the link is there, and `settled` when the bench says so."""

    def __init__(self, reset, sends: list[Sender], receives: list[Receiver]):
        self.reset, self.sends, self.receives = reset, sends, receives
        self.settled, self.since, self.losses, self.returned = 1, None, 0, -1

    def step(self, ctx, pick: random.Random, clock: int) -> None:
        lost, quiet = ctx.get(self.reset.lost), ctx.get(self.reset.quiet)
        if lost and self.since is None:
            self.since, self.losses = clock, self.losses + 1
        elif not lost and self.since is not None:
            self.since, self.returned = None, clock
            for sender in self.sends:
                sender.fresh = sender.number
        assert quiet == (self.since is not None and clock >= self.since + QUIET_CLOCKS)
        ctx.set(self.reset.settled, self.settled)
        for sender in self.sends:
            sender.step(ctx, pick, may=self.since is None or clock < self.since + BEGUN)
        for receiver in self.receives:
            receiver.step(ctx, pick, quiet=bool(quiet), fresh=self.losses and self.since is None)


class Bench:
    """A link between two dies; ``run`` plays a scenario from reset on, as often as it is called."""

    def __init__(self, monkeypatch):
        ends: list[UcieEnd] = []

        def keep(**settings) -> UcieEnd:
            ends.append(UcieEnd(**settings))
            return ends[-1]

        monkeypatch.setattr("hw.ucie.link.UcieEnd", keep)
        self.link = UcieLink(shape=SHAPE, cycles=4, forward=(REQUEST,), backward=(DATA, REPLY))
        self.scenario, self.ran = None, False
        self.simulator = Simulator(self.link)
        self.simulator.add_clock(1e-9)
        self.simulator.add_testbench(self._play)
        self.ends = ends

    def run(self, scenario, *, clocks: int) -> None:
        self.scenario, self.over = scenario, False
        if self.ran:
            self.simulator.reset()
        self.ran = True
        for _ in range(2 * clocks):
            if not self.simulator.advance():
                break
        assert self.over, f"still running after {clocks} clocks"

    async def _play(self, ctx) -> None:
        self.ctx, self.clock, self.pick = Quiet(ctx), 0, random.Random(self.seed)
        link, senders, receivers = self.link, {s: [] for s in SIDES}, {s: [] for s in SIDES}
        for here, there, channels in (("near", "far", (REQUEST,)), ("far", "near", (DATA, REPLY))):
            for channel in channels:
                sender = Sender(getattr(link, f"{here}_{channel.name}"), channel)
                senders[here].append(sender)
                port = getattr(link, f"{there}_{channel.name}")
                receivers[there].append(Receiver(port, sender))
        self.dies = [
            Die(getattr(link, f"{side}_reset"), senders[side], receivers[side]) for side in SIDES
        ]
        await self.scenario(self)
        self.over = True

    seed = 0

    async def step(self, **causes: int) -> None:
        """``reset`` or ``error`` with the number of the end that asks for it."""
        ctx = self.ctx
        ctx.set(self.link.reset, causes.get("reset") == 0)
        ctx.set(self.ends[1].reset, causes.get("reset") == 1)
        for k in range(2):
            ctx.set(self.ends[k].error, causes.get("error") == k)
        for die in self.dies:
            die.step(ctx, self.pick, self.clock)
        await ctx.tick()
        self.clock += 1

    async def steps(self, clocks: int) -> None:
        for _ in range(clocks):
            await self.step()

    async def until(self, what, most: int) -> int:
        for clock in range(most):
            if what():
                return clock
            await self.step()
        raise AssertionError(f"not within {most} clocks")

    @property
    def active(self) -> bool:
        return all(self.ctx.get(end.state) == StateStatus.ACTIVE for end in self.ends)

    def up(self) -> bool:
        return self.active and all(die.since is None for die in self.dies)

    async def rest(self) -> None:
        """All that was sent has come or come back: each sender has what it began with."""
        for die in self.dies:
            for sender in die.sends:
                sender.share = 0
            for receiver in die.receives:
                receiver.share = 1
        await self.steps(100)
        for die in self.dies:
            for sender in die.sends:
                assert sender.credits == sender.channel.depth, sender.channel.name
            assert not any(receiver.held for receiver in die.receives)


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        yield Bench(patch)


@pytest.mark.parametrize("cause", ["reset", "error"])
@pytest.mark.parametrize("end", [0, 1])
def test_a_reset_is_told_to_both_dies_and_waits_for_them(bench, cause, end):
    """The later die settles long after any timeout; what was sent before does not come after."""
    late = 350

    async def scenario(bench: Bench) -> None:
        near, far = bench.dies
        await bench.until(bench.up, 100)
        assert not near.losses and not far.losses  # what waited for the link was not lost
        await bench.steps(60)
        assert all(receiver.took for die in bench.dies for receiver in die.receives)
        assert all(receiver.last >= 0 for die in bench.dies for receiver in die.receives)
        for turn in range(2):
            slow = bench.dies[(end + turn) % 2]
            slow.settled = 0
            await bench.step(**{cause: end})
            await bench.until(lambda: near.since is not None and far.since is not None, 60)
            assert near.losses == far.losses == turn + 1
            for _ in range(late):
                await bench.step()
                assert near.since is not None and far.since is not None
                assert not bench.active
            slow.settled = 1
            await bench.until(bench.up, 150)
            await bench.steps(60)
        await bench.rest()

    bench.seed = f"{cause}/{end}"
    bench.run(scenario, clocks=2_000)


def test_settling_counts_only_with_quiet(bench):
    """Dies that say so all the time wait QUIET_CLOCKS each; one that takes it back waits."""

    async def scenario(bench: Bench) -> None:
        near, far = bench.dies
        await bench.until(bench.up, 100)
        await bench.step(reset=0)
        # The far die is told later, when the near end is down already and only waits for it.
        await bench.until(lambda: far.since is not None, 40)
        began = far.since
        await bench.steps(QUIET_CLOCKS - 2)
        far.settled = 0  # before it is quiet
        await bench.steps(150)
        assert far.since == began and near.since is not None
        far.settled = 1
        released = bench.clock
        await bench.until(bench.up, 150)
        assert min(near.returned, far.returned) >= released + SHAPE.training_clocks
        await bench.step(reset=0)
        await bench.until(lambda: far.since is not None, 40)
        began = far.since
        await bench.until(bench.up, 200)
        # Each end hears of the other's training SIDEBAND_CLOCKS later.
        least = QUIET_CLOCKS + SHAPE.training_clocks + SIDEBAND_CLOCKS
        assert min(near.returned, far.returned) >= began + least
        await bench.rest()

    bench.seed = 1
    bench.run(scenario, clocks=1_000)


def test_resets_at_random_lose_no_credit_and_bring_nothing_old(bench):
    async def scenario(bench: Bench) -> None:
        pick, losses = bench.pick, deque()
        for _ in range(6):
            for die in bench.dies:
                die.settled = 1
                for sender in die.sends:
                    sender.share = pick.choice((0.05, 0.5, 1.0))
                for receiver in die.receives:
                    receiver.share = pick.choice((0.05, 0.3, 1.0))
            await bench.until(bench.up, 400)
            await bench.steps(pick.randrange(60))
            for _ in range(pick.choice((1, 1, 2))):  # the second one hits the first, or the way up
                await bench.step(**{pick.choice(("reset", "error")): pick.randrange(2)})
                for die in bench.dies:
                    die.settled = pick.random() < 0.5
                await bench.steps(pick.randrange(120))
            losses.append([die.losses for die in bench.dies])
        for die in bench.dies:
            die.settled = 1
        await bench.until(bench.up, 600)
        await bench.steps(50)
        assert min(losses[-1]) >= 4, losses
        await bench.rest()

    print("seed 2")
    bench.seed = 2
    bench.run(scenario, clocks=6_000)


@pytest.mark.parametrize(
    ("before", "whole"),
    [
        pytest.param(0, False, id="for the first time"),
        pytest.param(0, True, id="for the first time, whole", marks=pytest.mark.slow),
        pytest.param(1, False, id="after a reset", marks=pytest.mark.slow),
    ],
)
def test_a_reset_in_any_clock_of_the_way_up(bench, before, whole):
    """One end may have been ready already: it goes on or is lost, but is never lost for good.

    Every clock of the ``whole`` way, or the ten in which one end may be up before the other.
    """
    way: list[int] = []  # its first and last clock

    async def come_up(bench: Bench) -> None:
        for _ in range(before):
            await bench.until(bench.up, 100)
            await bench.step(reset=0)
            await bench.until(lambda: all(die.since is not None for die in bench.dies), 60)

    async def undisturbed(bench: Bench) -> None:
        await come_up(bench)
        way.append(bench.clock)
        await bench.until(bench.up, 300)
        way.append(bench.clock)

    bench.seed = 3
    bench.run(undisturbed, clocks=400)
    alone = set()
    begin, end = way if whole else (way[1] - 20, way[1] - 11)
    for clock in range(begin, end + 1):

        async def scenario(bench: Bench, clock: int = clock) -> None:
            await come_up(bench)
            await bench.steps(clock - bench.clock)
            ready = [die.since is None for die in bench.dies]
            await bench.step(reset=0)
            for _ in range(30):
                ready = [
                    was or die.since is None for was, die in zip(ready, bench.dies, strict=True)
                ]
                await bench.step()
            alone.add(tuple(ready))
            await bench.until(bench.up, 300)
            await bench.steps(20)
            await bench.rest()

        bench.run(scenario, clocks=800)
    assert not before or len(alone) > 1, alone  # one end was up alone


@pytest.mark.parametrize("cycles", [0, 32])
def test_wires_as_long_as_the_training_are_refused(cycles):
    with pytest.raises(ValueError, match=rf"cycles must be 1 to .* 32 clocks, not {cycles}"):
        UcieLink(shape=SHAPE, cycles=cycles, forward=(REQUEST,), backward=(REPLY,))


def test_a_name_of_both_directions_is_refused():
    with pytest.raises(ValueError, match="channels of both directions are called request"):
        UcieLink(shape=SHAPE, cycles=4, forward=(REQUEST,), backward=(DATA, REQUEST))


def test_errors_shorter_than_the_sideband_there_and_back_are_refused():
    shape = dataclasses.replace(SHAPE, timeout_clocks=2 * SIDEBAND_CLOCKS - 1)
    with pytest.raises(ValueError, match=r"timeout_clocks must be at least 16, .* not 15"):
        UcieLink(shape=shape, cycles=1, forward=(REQUEST,), backward=(REPLY,))
