# amaranth: UnusedElaboratable=no
"""Two adapters over channels that flip bits, lose groups and stand still."""

import random
from collections import deque

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.ucie.adapter import PATIENCE, D2DAdapter, replay_rows
from hw.ucie.flit import FORMATS, latency_optimised
from tests.hw.pysim import simulate
from tests.hw.ucie.flits import make_flit

SMALL = {"flit_format": latency_optimised(16), "flits": 2, "payload_bits": 160}
CHANNEL = 3  # clocks each way


class Pair(wiring.Component):
    """Two ends; the bench is the channel between them."""

    def __init__(self, **sizes) -> None:
        self.ends = D2DAdapter(**sizes), D2DAdapter(**sizes)
        super().__init__({})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.a, m.submodules.b = self.ends
        return m


class Line:
    """Both directions: what is under way, what was sent and what came, by sending end."""

    def __init__(self, pair, *, seed, errors=0.0, losses=0.0, offers=1.0, delay=CHANNEL):
        self.pair, self.pick = pair, random.Random(seed)
        self.errors, self.losses, self.offers = errors, losses, offers
        self.under_way = [deque([None] * delay) for _ in pair.ends]
        self.sent, self.came = ([], []), ([], [])
        self.counts = {"cancel": 0, "repeat": 0, "groups": 0, "clocks": 0, "retrain": 0}
        self.spoil = lambda end, flits: flits

    def _flip(self, flits):
        """Up to three flips in one half of one flit: what the CRC finds for certain."""
        k = self.pick.randrange(len(flits))
        half = self.pair.ends[0].flit_format.flit_bytes * 4
        first = self.pick.choice((0, half))
        for place in self.pick.sample(range(first, first + half), self.pick.randint(1, 3)):
            flits[k] ^= 1 << place
        return flits

    async def clock(self, ctx, *, offer=(1, 1), active=(1, 1)) -> None:
        for end, dut in enumerate(self.pair.ends):
            ctx.set(dut.active, active[end])
            ctx.set(dut.receiving, active[end])
            wants = offer[end] and self.pick.random() < self.offers
            ctx.set(dut.i.valid, wants)
            payload = self.pick.getrandbits(len(dut.i.payload))
            ctx.set(dut.i.payload, payload)
            self.under_way[end].append(self._leaving(ctx, dut, end))
            come = self.under_way[1 - end].popleft()
            ctx.set(dut.rx.valid, come is not None)
            for port, flit in zip(dut.rx.flits, come or (), strict=False):
                ctx.set(port, flit)
        for end, dut in enumerate(self.pair.ends):
            if ctx.get(dut.i.valid & dut.i.ready):
                self.sent[end].append(ctx.get(dut.i.payload))
            if ctx.get(dut.o.valid):
                self.came[1 - end].append(ctx.get(dut.o.payload))
            for name in ("cancel", "repeat", "retrain"):
                self.counts[name] += ctx.get(getattr(dut, name))
        self.counts["clocks"] += 1
        await ctx.tick()

    def _leaving(self, ctx, dut, end):
        if not ctx.get(dut.tx.valid):
            return None
        self.counts["groups"] += 1
        flits = [ctx.get(flit) for flit in dut.tx.flits]
        if self.pick.random() < self.losses:
            return None
        if self.pick.random() < self.errors:
            flits = self._flip(flits)
        return self.spoil(end, flits)

    async def finish(self, ctx) -> None:
        """Until nothing is unacknowledged."""
        self.errors = self.losses = 0.0
        quiet = 0
        while quiet < 4 * CHANNEL + 20:
            await self.clock(ctx, offer=(0, 0))
            idle = all(ctx.get(dut.idle) for dut in self.pair.ends)
            quiet = quiet + 1 if idle else 0


def run(pair, body, *, clocks=20_000):
    simulate(pair, body, clocks=clocks)


STORMS = {
    "clean": {},
    "few errors": {"errors": 0.01},
    "many errors": {"errors": 0.3},
    "lost groups": {"losses": 0.2},
    "all at once, few offers": {"errors": 0.2, "losses": 0.1, "offers": 0.3},
}


@pytest.mark.parametrize("storm", STORMS)
@pytest.mark.parametrize("pipeline", [1, 2])
def test_payload_comes_once_and_in_order_both_ways(storm, pipeline):
    pair = Pair(**SMALL, pipeline=pipeline)
    line = Line(pair, seed=7, **STORMS[storm])

    async def bench(ctx):
        for _ in range(300):
            await line.clock(ctx)
        await line.finish(ctx)

    run(pair, bench)
    assert line.came == line.sent and min(map(len, line.sent)) > 15
    assert (line.counts["cancel"] > 0) == bool(line.errors or STORMS[storm].get("errors"))
    if storm == "clean":
        assert line.counts["repeat"] == 0


@pytest.mark.parametrize("interval", [1, 2, 4])
def test_a_group_leaves_every_interval_and_all_carry_payload(interval):
    pair = Pair(**SMALL)
    line = Line(pair, seed=1)
    clocks = 400

    async def bench(ctx):
        for dut in pair.ends:
            ctx.set(dut.interval, interval)
        for _ in range(clocks):
            await line.clock(ctx)
        assert line.counts["groups"] == pytest.approx(2 * clocks / interval, abs=6)
        assert min(map(len, line.sent)) == clocks / interval
        await line.finish(ctx)

    run(pair, bench)
    assert line.came == line.sent


@pytest.mark.parametrize("delay", [2, 12, 13, 15])
def test_full_rate_up_to_as_many_clocks_of_round_trip_as_rows(delay):
    rows = 31
    pair = Pair(**SMALL, rows=rows)
    line = Line(pair, seed=1, delay=delay)
    round_trip = 4 + 2 * 1 + 2 * delay
    clocks = 10 * round_trip

    async def bench(ctx):
        for _ in range(clocks):
            await line.clock(ctx)

    run(pair, bench)
    assert len(line.sent[0]) == pytest.approx(clocks * min(1, rows / round_trip), abs=2)


def test_retrain_keeps_what_was_taken():
    pair = Pair(**SMALL)
    line = Line(pair, seed=3)

    async def bench(ctx):
        for _ in range(5):
            for _ in range(40):
                await line.clock(ctx)
            # One end stops before the other; all that is under way is lost.
            await line.clock(ctx, active=(0, 1))
            line.losses = 1.0
            for _ in range(30):
                await line.clock(ctx, active=(0, 0))
            line.losses = 0.0
        await line.finish(ctx)

    run(pair, bench)
    assert line.came == line.sent and len(line.sent[0]) > 100


def test_nothing_is_sent_or_taken_while_not_active():
    pair = Pair(**SMALL)
    line = Line(pair, seed=3)

    async def bench(ctx):
        for _ in range(50):
            await line.clock(ctx, active=(0, 0))

    run(pair, bench)
    assert line.counts["groups"] == 0 and line.sent == ([], [])


def test_clear_forgets_everything_and_starts_anew():
    pair = Pair(**SMALL)
    line = Line(pair, seed=5, errors=0.1)

    async def bench(ctx):
        for _ in range(100):
            await line.clock(ctx)
        line.losses = 1.0
        for end in pair.ends:
            ctx.set(end.clear, 1)
        await line.clock(ctx, offer=(0, 0), active=(0, 0))
        for end in pair.ends:
            ctx.set(end.clear, 0)
        for _ in range(2 * CHANNEL):
            await line.clock(ctx, offer=(0, 0), active=(0, 0))
        assert all(ctx.get(end.idle) for end in pair.ends)
        line.losses, line.sent, line.came = 0.0, ([], []), ([], [])
        for _ in range(100):
            await line.clock(ctx)
        await line.finish(ctx)

    run(pair, bench)
    assert line.came == line.sent and len(line.sent[0]) > 30


def test_a_channel_that_brings_nothing_back_asks_for_a_retrain():
    pair = Pair(**SMALL)
    line = Line(pair, seed=5, losses=1.0)
    told = []

    async def bench(ctx):
        for clock in range(1_200):
            await line.clock(ctx)
            if ctx.get(pair.ends[0].retrain):
                told.append(clock)

    run(pair, bench)
    # 375 flit times, two a clock, and each pass of the buffer is one.
    assert told[0] == pytest.approx(PATIENCE * 375 / 2, abs=40)


@pytest.mark.parametrize("flit_format", FORMATS, ids=lambda f: f"format {f.number}")
def test_flits_on_the_wire_are_those_of_the_specification(flit_format):
    """First payload group and NOPs after it, against flits made in plain Python."""
    size = flit_format.payload_bytes
    pair = Pair(flit_format=flit_format, flits=4, payload_bits=8 * 4 * size - 64)
    line = Line(pair, seed=1)
    wire = []

    def keep(end, flits):
        if end == 0:
            wire.append([flit.to_bytes(256, "little") for flit in flits])
        return flits

    line.spoil = keep

    async def bench(ctx):
        await line.clock(ctx, offer=(1, 0))
        for _ in range(12):
            await line.clock(ctx, offer=(0, 0))

    run(pair, bench)
    payload = line.sent[0][0].to_bytes(4 * size, "little")
    # First byte: protocol 1 in bits 7:6, sequence 7:4; second: use in bits 5:4, sequence 3:0.
    # Nothing has come yet, so the Ack names flit 255, the one before 1.
    ack, protocol = 0x1F << 8 | 0x0F, 0x40
    heads = [0x0100 | protocol, ack | protocol, 0x0300 | protocol, ack | protocol]
    parts = [payload[k * size : (k + 1) * size] for k in range(4)]
    number = flit_format.number
    assert wire[0] == [make_flit(number, p, h) for p, h in zip(parts, heads, strict=True)]
    assert wire[1] == [make_flit(number, bytes(size), h) for h in (0, ack, 0, ack)]


def test_corrupted_crcs_cancel_the_group_and_only_that():
    pair = Pair(**SMALL)
    line = Line(pair, seed=2)

    async def bench(ctx):
        for clock in range(200):
            ctx.set(pair.ends[0].corrupt[1], 0b10 if clock % 50 == 20 else 0)
            await line.clock(ctx)
        await line.finish(ctx)

    run(pair, bench)
    assert line.came == line.sent
    assert line.counts["cancel"] == 4


def test_rows_are_as_many_as_127_flits_allow():
    assert [replay_rows(flits) for flits in (1, 2, 4)] == [127, 63, 31]
    assert D2DAdapter(flit_format=FORMATS[0], flits=4, payload_bits=64).rows == 31
    with pytest.raises(ValueError, match="payload_bits must be 1 to 7680, not 7681"):
        D2DAdapter(flit_format=FORMATS[0], flits=4, payload_bits=7681)
