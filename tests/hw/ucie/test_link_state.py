# amaranth: UnusedElaboratable=no
"""Both ends of a link: each state by each request, agreement after any, and what ends a wait."""

import random
from collections import deque

import pytest
from amaranth.hdl import Const, Module
from amaranth.lib import wiring

from hw.ucie.link_codes import StateRequest, StateStatus, agreed_epoch, largest_block
from hw.ucie.link_state import LinkState
from hw.ucie.modules import blocks
from tests.hw.pysim import simulate

NOP, UP = StateRequest.NOP, StateRequest.ACTIVE
TIMES = {"training_clocks": 6, "timeout": 40, "residency": 25}
MODULES = 4


class Pair(wiring.Component):
    """Two ends; the bench is the sideband, and the adapters above."""

    def __init__(self, **times) -> None:
        self.ends = [LinkState(modules=MODULES, **TIMES | times) for _ in range(2)]
        super().__init__({})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.a, m.submodules.b = self.ends
        return m


class Bench:
    """Drives both ends clock by clock."""

    def __init__(self, pair: Pair, *, delays=(1, 1), alive=(15, 15), answers=True) -> None:
        self.ends, self.answers, self.cut = pair.ends, answers, False
        self.request = [NOP, NOP]
        self.error, self.retrain, self.alive = [0, 0], [0, 0], list(alive)
        self.late = [deque([0] * (delay - 1)) for delay in delays]
        self.ack, self.takes = [0, 0], [0, 0]
        self.clears, self.restarts, self.clocks = [0, 0], [0, 0], 0
        self.shown: list[list[StateStatus]] = [[], []]

    async def clock(self, ctx) -> None:
        told = [ctx.get(end.peer_o.as_value()) for end in self.ends]
        for k, end in enumerate(self.ends):
            ctx.set(end.lp_state_req, self.request[k])
            ctx.set(end.lp_linkerror, self.error[k])
            ctx.set(end.retrain, self.retrain[k])
            ctx.set(end.alive, self.alive[k])
            ctx.set(end.lp_stallack, self.ack[k])
            ctx.set(end.lp_rx_active_sts, self.takes[k])
            self.ack[k] = ctx.get(end.pl_stallreq) if self.answers else 0
            self.takes[k] = ctx.get(end.pl_rx_active_req)
        for k, line in enumerate(self.late):
            line.append(told[1 - k])
        await ctx.tick()
        self.clocks += 1
        for k, end in enumerate(self.ends):
            late = self.late[k].popleft()
            if not self.cut:
                ctx.set(end.peer_i.as_value(), late)
            self.clears[k] += ctx.get(end.clear)
            self.restarts[k] += ctx.get(end.restart)
            status = self.status(ctx, k)
            if self.shown[k][-1:] != [status]:
                self.shown[k].append(status)
        a, b = self.ends
        if any(ctx.get(x.active) and ctx.get(y.receiving) for x, y in ((a, b), (b, a))):
            assert ctx.get(a.enabled) == ctx.get(b.enabled) != 0
            assert ctx.get(a.epoch) == ctx.get(b.epoch)

    def status(self, ctx, k: int) -> StateStatus:
        return StateStatus(ctx.get(self.ends[k].pl_state_sts))

    async def until(self, ctx, *expected: StateStatus, limit: int = 300) -> int:
        for waited in range(limit):
            if [self.status(ctx, k) for k in range(2)] == list(expected):
                return waited
            await self.clock(ctx)
        raise AssertionError(f"{self.shown} instead of {expected}")

    async def run(self, ctx, clocks: int) -> None:
        for _ in range(clocks):
            await self.clock(ctx)

    async def up(self, ctx) -> None:
        self.request = [NOP, NOP]
        await self.run(ctx, 2)
        self.request = [UP, UP]
        await self.until(ctx, StateStatus.ACTIVE, StateStatus.ACTIVE)


RESET, ACTIVE, RETRAIN = StateStatus.RESET, StateStatus.ACTIVE, StateStatus.RETRAIN
LINKRESET, LINKERROR = StateStatus.LINKRESET, StateStatus.LINKERROR

# From a state, what one end asks, and where both ends are afterwards.
WALK = [
    (RESET, "active only", RESET),
    (RESET, "nop", RESET),
    (RESET, "link reset", RESET),
    (RESET, "retrain", RESET),
    (RESET, "link error", LINKERROR),
    (ACTIVE, "nop", ACTIVE),
    (ACTIVE, "active only", ACTIVE),
    (ACTIVE, "L1", ACTIVE),
    (ACTIVE, "L2", ACTIVE),
    (ACTIVE, "link reset", RESET),
    (ACTIVE, "disabled", RESET),
    (ACTIVE, "retrain", RETRAIN),
    (ACTIVE, "adapter retrain", RETRAIN),
    (ACTIVE, "link error", LINKERROR),
    (RETRAIN, "nop", RETRAIN),
    (RETRAIN, "active only", ACTIVE),
    (RETRAIN, "link reset", RESET),
    (RETRAIN, "disabled", RESET),
    (RETRAIN, "link error", LINKERROR),
    (LINKERROR, "nop", LINKERROR),
    (LINKERROR, "active only", LINKERROR),
    (LINKERROR, "retrain", LINKERROR),
    (LINKERROR, "link reset", RESET),
]
REQUESTS = {
    "nop": NOP,
    "active only": UP,
    "L1": StateRequest.L1,
    "L2": StateRequest.L2,
    "link reset": StateRequest.LINKRESET,
    "disabled": StateRequest.DISABLED,
    "retrain": StateRequest.RETRAIN,
}


async def reach(bench: Bench, ctx, state: StateStatus) -> None:
    if state is RESET:
        bench.request = [UP, UP]  # since power came: without NOP this asks for nothing
        await bench.run(ctx, 5)
        return
    await bench.up(ctx)
    if state is RETRAIN:
        bench.request = [StateRequest.RETRAIN] * 2
    elif state is LINKERROR:
        bench.error = [1, 1]
    await bench.until(ctx, state, state)
    bench.error = [0, 0]


@pytest.mark.parametrize(("state", "asked", "then"), WALK, ids=str)
def test_every_state_by_every_request(state, asked, then):
    pair = Pair()
    bench = Bench(pair, delays=(2, 3))

    async def walk(ctx):
        await reach(bench, ctx, state)
        others = StateRequest.RETRAIN if state is RETRAIN and then is RETRAIN else UP
        bench.request = [REQUESTS.get(asked, UP), others]
        bench.error[0] = asked == "link error"
        bench.retrain[0] = asked == "adapter retrain"
        if bench.retrain[0] or asked == "retrain":
            await bench.until(ctx, then, then)
        else:
            await bench.run(ctx, 90)
            assert [bench.status(ctx, k) for k in range(2)] == [then, then]

    simulate(pair, walk, clocks=1000)


@pytest.mark.parametrize("seed", range(4))
def test_ends_agree_whatever_both_ask_at_once(seed):
    pick = random.Random(seed)
    pair = Pair()
    bench = Bench(pair, delays=(pick.randint(1, 7), pick.randint(1, 7)))
    requests = [*StateRequest, UP, UP, UP]

    async def walk(ctx):
        for _ in range(12):
            for _ in range(pick.randint(1, 6)):
                bench.request = [pick.choice(requests) for _ in range(2)]
                bench.error = [pick.random() < 0.1 for _ in range(2)]
                bench.retrain = [pick.random() < 0.2 for _ in range(2)]
                bench.alive = [15 - (1 << pick.randrange(5)) % 16 for _ in range(2)]
                await bench.run(ctx, pick.randint(1, 40))
            bench.error = bench.retrain = [0, 0]
            bench.request = [StateRequest.LINKRESET] * 2
            await bench.until(ctx, RESET, RESET)
            await bench.run(ctx, 20)
            before = [ctx.get(end.epoch) for end in bench.ends]
            clears = list(bench.clears)
            await bench.up(ctx)
            common = bench.alive[0] & bench.alive[1]
            mask = next(mask for mask in blocks(MODULES) if mask & common == mask)
            for k, end in enumerate(bench.ends):
                assert ctx.get(end.enabled) == mask
                assert (bench.clears[k] > clears[k]) == (ctx.get(end.epoch) != before[k])
            assert ctx.get(bench.ends[0].epoch) == ctx.get(bench.ends[1].epoch)

    simulate(pair, walk, clocks=12_000)


def test_retrain_keeps_the_epoch_and_link_reset_begins_a_new_one():
    pair = Pair()
    bench = Bench(pair, delays=(3, 2))
    end = pair.ends[0]

    async def walk(ctx):
        await bench.up(ctx)
        assert (ctx.get(end.epoch), bench.clears, bench.restarts) == (1, [1, 1], [1, 1])
        bench.retrain = [0, 1]
        bench.alive = [0b1011, 0b1111]
        in_doubt = [0, 0]  # clocks in which an end tells that it does not trust what it receives
        while [bench.status(ctx, k) for k in range(2)] != [RETRAIN, RETRAIN]:
            for k, one in enumerate(pair.ends):
                ctx.set(one.retrain, bench.retrain[k])
                assert ctx.get(one.pl_error) == (
                    bench.retrain[k] and bench.status(ctx, k) == ACTIVE
                )
                in_doubt[k] += ctx.get(one.pl_error)
            await bench.clock(ctx)
        assert in_doubt[1] and not in_doubt[0]
        assert not ctx.get(pair.ends[1].pl_error)
        assert ctx.get(end.pl_phyinrecenter) and ctx.get(end.pl_inband_pres)
        bench.retrain = [0, 0]
        await bench.until(ctx, ACTIVE, ACTIVE)
        assert (ctx.get(end.epoch), bench.clears, bench.restarts) == (1, [1, 1], [2, 2])
        assert ctx.get(end.enabled) == 0b0011
        for asked, round in ((StateRequest.LINKRESET, 2), (StateRequest.DISABLED, 3)):
            bench.request = [asked, UP]
            await bench.until(ctx, RESET, RESET)
            assert not ctx.get(end.pl_inband_pres)
            await bench.up(ctx)
            assert (ctx.get(end.epoch), bench.clears) == (round, [round, round])
        assert [ctx.get(end.retrains), ctx.get(end.resets), ctx.get(end.errors)] == [1, 2, 0]

    simulate(pair, walk, clocks=2000)


def test_up_takes_training_and_the_sideband():
    pair = Pair(training_clocks=20)
    bench = Bench(pair)

    async def walk(ctx):
        await bench.run(ctx, 2)
        bench.request = [UP, NOP]
        await bench.run(ctx, 100)  # waits for the other end for any time
        assert bench.shown == [[RESET], [RESET]]
        bench.request = [UP, UP]
        assert 20 <= await bench.until(ctx, ACTIVE, ACTIVE) <= 20 + 12

    simulate(pair, walk, clocks=300)


def test_nothing_alive_at_both_ends_is_a_training_error():
    pair = Pair()
    bench = Bench(pair, alive=(0b0011, 0b1100))

    async def walk(ctx):
        await bench.run(ctx, 2)
        bench.request = [UP, UP]
        await bench.until(ctx, LINKERROR, LINKERROR)
        assert any(ctx.get(end.pl_trainerror) for end in bench.ends)
        assert bench.restarts == [0, 0]

    simulate(pair, walk, clocks=300)


def test_link_error_lasts_its_residency_and_goes_before_all_else():
    pair = Pair(residency=70)
    bench = Bench(pair)

    async def walk(ctx):
        await bench.up(ctx)
        bench.request = [StateRequest.LINKRESET, StateRequest.RETRAIN]
        bench.error = [0, 1]
        await bench.run(ctx, 1)
        assert bench.status(ctx, 1) is LINKERROR
        await bench.until(ctx, LINKERROR, LINKERROR)
        bench.error = [0, 0]
        begun = bench.clocks
        await bench.until(ctx, RESET, RESET)
        assert 68 <= bench.clocks - begun <= 80
        assert LINKERROR in bench.shown[0]

    simulate(pair, walk, clocks=500)


@pytest.mark.parametrize("missing", ["stall answer", "other end"])
def test_a_missing_answer_ends_in_link_error(missing):
    pair = Pair()
    bench = Bench(pair)

    async def walk(ctx):
        await bench.up(ctx)
        bench.answers, bench.cut = missing != "stall answer", missing == "other end"
        bench.request = [StateRequest.RETRAIN, UP]
        begun = bench.clocks
        while bench.status(ctx, 0) is not LINKERROR:
            assert bench.clocks < begun + 60
            await bench.clock(ctx)
        assert bench.clocks - begun >= TIMES["timeout"]

    simulate(pair, walk, clocks=500)


def test_blocks_and_epochs_are_chosen_alike():
    async def bench(ctx):
        for alive in range(16):
            fits = [mask for mask in blocks(MODULES) if mask & alive == mask]
            assert ctx.get(largest_block(Const(alive, 4), MODULES)) == (fits or [0])[0]
        for own in range(4):
            newer = (own + 1) % 4
            for clear in range(2):
                for a, b in ((own, newer), (newer, own)):
                    found = ctx.get(agreed_epoch(Const(a, 2), Const(b, 2), Const(clear, 1)))
                    assert found == newer
                found = ctx.get(agreed_epoch(Const(own, 2), Const(own, 2), Const(clear, 1)))
                assert found == (newer if clear else own)

    simulate(Pair(), bench, clocks=10)


@pytest.mark.parametrize("wrong", [{"training_clocks": 0}, {"timeout": 0}, {"modules": 3}])
def test_wrong_sizes_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LinkState(**{"modules": 4, **TIMES, **wrong})
    block = LinkState(modules=2, **TIMES)
    assert (block.modules, block.training_clocks, block.timeout, block.residency) == (2, 6, 40, 25)
