# amaranth: UnusedElaboratable=no
"""Packets over a narrow bus: words and their times, wrong bits, packets that break off."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ucie.sideband_packet import PacketPort, SidebandPacket
from hw.ucie.sideband_serial import (
    CFG_BUS,
    Pace,
    SidebandBus,
    SidebandReceiver,
    SidebandTransmitter,
    wire_pace,
)
from tests.hw.pysim import simulate
from tests.hw.ucie.sideband import OPCODES, checked, random_packet, words_of

SLOW = Pace(word_clocks=3, gap_clocks=4, padded=True)
PACES = {"cfg bus": CFG_BUS, "slow wire": SLOW, "gaps only": Pace(gap_clocks=2)}


class Loop(wiring.Component):
    """A transmitter and a receiver; the bench may change or take words between them."""

    def __init__(self, width: int, pace: Pace) -> None:
        self.sender = SidebandTransmitter(width=width, pace=pace)
        self.receiver = SidebandReceiver(width=width, pace=pace)
        super().__init__({"wrong": In(width), "cut": In(1), "o": Out(PacketPort())})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.sender, m.submodules.receiver = self.sender, self.receiver
        m.d.comb += [
            self.receiver.bus.vld.eq(self.sender.bus.vld & ~self.cut),
            self.receiver.bus.cfg.eq(self.sender.bus.cfg ^ self.wrong),
        ]
        connect(m, self.receiver.o, flipped(self.o))
        return m


class Bench:
    """Sends packets and notes words, packets and errors with their clocks."""

    def __init__(self, width: int, pace: Pace) -> None:
        self.loop = Loop(width, pace)
        self.accepted, self.words, self.packets = [], [], []
        self.errors, self.clocks = {"control": [], "data": [], "framing": []}, 0

    async def clock(self, ctx, packet=None, *, wrong=0, cut=0) -> bool:
        loop = self.loop
        ctx.set(loop.sender.i.valid, packet is not None)
        if packet is not None:
            ctx.set(loop.sender.i.payload, {"header": packet[0], "data": packet[1]})
        sends = ctx.get(loop.sender.bus.vld)
        ctx.set(loop.wrong, wrong if sends else 0)
        ctx.set(loop.cut, cut)
        if sends:
            self.words.append((self.clocks, ctx.get(loop.sender.bus.cfg)))
        taken = packet is not None and ctx.get(loop.sender.i.ready)
        if taken:
            self.accepted.append(self.clocks)
        if ctx.get(loop.o.valid):
            got = ctx.get(loop.o.packet)
            self.packets.append((self.clocks, got.header, got.data))
        for name, found in self.errors.items():
            if ctx.get(getattr(loop.receiver, f"{name}_error")):
                found.append(self.clocks)
        await ctx.tick()
        self.clocks += 1
        return bool(taken)

    async def send(self, ctx, packet, **kwargs) -> None:
        while not await self.clock(ctx, packet, **kwargs):
            pass

    async def rest(self, ctx, clocks, **kwargs) -> None:
        for _ in range(clocks):
            await self.clock(ctx, **kwargs)


def times(accepted: int, bits: int, width: int, pace: Pace, gaps: bool) -> tuple[list[int], int]:
    """When the words of a packet are out, and when the next one may be accepted."""
    gap = pace.gap_clocks if gaps else 0
    clocks, now = [], accepted
    for chunk in [64, 64 if bits and pace.padded else bits]:
        for _ in range(chunk // width):
            now += pace.word_clocks
            clocks.append(now)
        now += gap if chunk else 0
    return clocks, now


@pytest.mark.parametrize("performant", [False, True], ids=["gaps", "performant"])
@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
def test_packets_go_word_by_word_in_time_and_come_back(pace, width, performant):
    bench, pick = Bench(width, pace), random.Random(width)
    packets = [random_packet(pick) for _ in range(25)]
    after = 2 * (pace.word_clocks + pace.gap_clocks) + 2

    async def drive(ctx):
        ctx.set(bench.loop.sender.performant, performant)
        for k, (header, data) in enumerate(packets):
            if k > 15:
                await bench.rest(ctx, pick.randrange(3 * after))
            # Parity is the transmitter's, and data that is not announced is not sent.
            spoilt = header ^ pick.randrange(4) << 62
            bits = OPCODES[header & 0x1F]
            await bench.send(ctx, (spoilt, data | pick.getrandbits(64) >> bits << bits))
        await bench.rest(ctx, 16 * after * pace.word_clocks)

    simulate(bench.loop, drive, clocks=60_000)
    expected, free = [], 0
    for k, (accepted, (header, data)) in enumerate(zip(bench.accepted, packets, strict=True)):
        if 0 < k <= 15:
            assert accepted == free, "as soon as it may"
        assert accepted >= free
        clocks, free = times(accepted, OPCODES[header & 0x1F], width, pace, not performant)
        expected += list(zip(clocks, words_of(header, data, width, pace.padded), strict=True))
        assert bench.packets[k] == (clocks[-1] + 1, header, data)
    assert bench.words == expected
    assert len(bench.packets) == len(packets)
    assert not any(bench.errors.values())


@pytest.mark.parametrize("width", [8, 16, 32])
def test_the_wire_takes_the_times_of_the_specification(width):
    """120 ns a header, 240 ns with data, 80 ns for each 64 bits when performant, at 2 GHz."""
    for performant, bare, full in ((0, 240, 480), (1, 160, 320)):
        bench = Bench(width, wire_pace(width))

        async def drive(ctx, bench=bench, performant=performant):
            ctx.set(bench.loop.sender.performant, performant)
            for opcode in (0b00000, 0b01001, 0b00001, 0b00000):
                await bench.send(ctx, (checked(opcode, 0), 0))

        simulate(bench.loop, drive, clocks=2000)
        first, second, third, fourth = bench.accepted
        assert second - first == bare
        assert third - second == fourth - third == full


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
def test_every_single_wrong_bit_is_reported_and_its_packet_dropped(pace):
    width = 32
    bench = Bench(width, pace)
    data = 0x0123_4567_89AB_CDEE
    bad = (checked(0b01001, data), data)
    good = (checked(0b10001 | 5 << 22, 0xFEDC), 0xFEDC)
    pause = 2 * (pace.word_clocks + pace.gap_clocks)
    total = 128 // width

    async def drive(ctx):
        for bit in range(128):
            word, count = bit // width, 0
            await bench.send(ctx, bad)
            while count < total:
                wrong = 1 << bit % width if count == word else 0
                count += ctx.get(bench.loop.sender.bus.vld)
                await bench.clock(ctx, wrong=wrong)
            await bench.rest(ctx, pause)
            seen = [len(found) for found in bench.errors.values()]
            header = min(bit + 1, 63)  # the parity of the data counts as data
            assert seen == [header, bit + 1 - header, 0], bit
            assert len(bench.packets) == bit
            await bench.send(ctx, good)
            await bench.rest(ctx, total * pace.word_clocks + pause)
            assert bench.packets[-1][1:] == good
            assert len(bench.packets) == bit + 1

    simulate(bench.loop, drive, clocks=60_000)


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
def test_a_header_that_lies_costs_only_what_follows_without_a_pause(pace):
    bench, pick = Bench(16, pace), random.Random(3)
    header = checked(0b00000, 0)
    lie = header ^ 1  # announces data, which does not follow
    rest = [random_packet(pick) for _ in range(4)]

    async def drive(ctx):
        await bench.send(ctx, (header, 0))
        while not ctx.get(bench.loop.sender.bus.vld):
            await bench.clock(ctx)
        await bench.clock(ctx, wrong=header ^ lie)
        await bench.send(ctx, rest[0])
        await bench.send(ctx, rest[1])
        await bench.rest(ctx, 9 * pace.word_clocks + 3 * pace.gap_clocks + 40)
        assert bench.packets == []
        assert len(bench.errors["control"]) == 1
        for packet in rest[2:]:
            await bench.send(ctx, packet)
        await bench.rest(ctx, 9 * pace.word_clocks + 3 * pace.gap_clocks + 40)

    simulate(bench.loop, drive, clocks=3000)
    assert [packet[1:] for packet in bench.packets] == rest[2:]


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
@pytest.mark.parametrize("words", range(1, 8))
def test_a_packet_that_breaks_off_is_reported_and_the_next_one_comes(pace, words):
    bench = Bench(16, pace)
    packet = (checked(0b11001, 1), 1)
    pause = 2 * (pace.word_clocks + pace.gap_clocks)

    async def drive(ctx):
        await bench.send(ctx, packet)
        while len(bench.words) < words:
            await bench.clock(ctx)
        while len(bench.words) < 8:
            await bench.clock(ctx, cut=1)
        await bench.rest(ctx, pause, cut=1)
        assert len(bench.errors["framing"]) == 1
        assert bench.packets == []
        await bench.send(ctx, packet)
        await bench.rest(ctx, 9 * pace.word_clocks + pause)

    simulate(bench.loop, drive, clocks=1000)
    assert [p[1:] for p in bench.packets] == [packet]
    assert [len(e) for e in bench.errors.values()] == [0, 0, 1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SidebandBus(12), "width must be one of"),
        (lambda: Pace(word_clocks=0), "at least one clock"),
        (lambda: Pace(gap_clocks=-1), "must not be negative"),
        (lambda: wire_pace(8, lclk_mhz=2050), "no whole number"),
    ],
)
def test_sizes_that_cannot_work_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_packets_between_blocks_have_128_bits():
    assert SidebandPacket.as_shape().size == 128
