"""Bench for :class:`tests.tb.endpoint_design.EndDesign`: the endpoint at its flits, dice above.

Each test says what happens on the line; in all of them every message and beat must come once, in
order and unchanged, no rule of the link may be broken, and in the end all credits are home.
"""

import os
from collections import deque
from random import Random

import cocotb
from cocotb.triggers import RisingEdge

from hw.ucie.link_end import Channel
from tb.simulator.clock import start_clock
from tb.vip.agents import handles
from tb.vip.endpoint_pins import EndpointPins
from tb.vip.error_injector import answers_alone, clocks, groups, naks
from tb.vip.flit_channel import Noise
from tb.vip.ucie_endpoint import Item
from tests.tb.endpoint_design import SHAPES, channels_of
from tests.tb.endpoint_traffic import EndpointUser, Moods, check, random_item

SHAPE = SHAPES[os.environ.get("ENDPOINT_SHAPE", "small")]
SENDS, RECEIVES = channels_of(SHAPE)
LIMIT = int(os.environ.get("ENDPOINT_CLOCKS", "20000"))
AMOUNT = float(os.environ.get("ENDPOINT_AMOUNT", "1"))  # of traffic, of what it is else
QUIET = 3_000  # clocks until all credits are home: they are told again after 1024
READ_DATA = 2


class PortDriver:
    """Sends on a port of the design under its credits."""

    def __init__(self, dut, channel: Channel, pick: Random, amount: int) -> None:
        self._channel, self._pick, self.left = channel, pick, amount
        names = ("valid", "header", "credit")
        self._valid, self._header, self._credit = handles(dut, f"tx_{channel.name}", names)
        self._lanes = handles(dut, f"tx_{channel.name}__lanes", range(channel.lanes))
        self.credits = channel.depth
        self.sent: deque[Item] = deque()
        self.share = 0.7
        self._valid.value, self._header.value = 0, 0
        for lane in self._lanes:
            lane.value = 0

    def clock(self) -> None:
        self.credits += int(self._credit.value)
        name, depth = self._channel.name, self._channel.depth
        assert self.credits <= depth, f"{name}: {self.credits} credits came back, of {depth}"
        goes = bool(self.left and self.credits and self._pick.random() < self.share)
        self._valid.value = int(goes)
        if not goes:
            return
        item = random_item(self._channel, self._pick)
        self.credits -= 1
        self.left -= 1
        self.sent.append(item)
        self._header.value = int.from_bytes(item.header, "little")
        for k, lane in enumerate(self._lanes):
            lane.value = int.from_bytes(item.data[8 * k : 8 * k + 8], "little")


class PortReader:
    """Takes what a port of the design brings, out of a queue as deep as its credits."""

    def __init__(self, dut, channel: Channel, pick: Random) -> None:
        self._channel, self._moods, self._waiting = channel, Moods(pick), 0
        names = ("valid", "header", "credit")
        self._valid, self._header, self._credit = handles(dut, f"rx_{channel.name}", names)
        self._lanes = handles(dut, f"rx_{channel.name}__lanes", range(channel.lanes))
        self._credit.value = 0

    def clock(self, expected: dict[str, deque[Item]]) -> None:
        name = self._channel.name
        if int(self._valid.value):
            data = b"".join(int(lane.value).to_bytes(8, "little") for lane in self._lanes)
            check(name, expected, Item(int(self._header.value).to_bytes(16, "little"), data))
            self._waiting += 1
            assert self._waiting <= self._channel.depth, f"{name}: the queue behind it overflows"
        frees = self._waiting > 0 and self._moods.takes()
        self._waiting -= frees
        self._credit.value = int(frees)


def amounts_of(channels: tuple[Channel, ...], amount: int) -> dict[str, int]:
    """Channels of few credits are slow, whatever the link does."""
    return {channel.name: amount if channel.depth > 4 else amount // 4 for channel in channels}


class Bench:
    """The design between dice and the endpoint."""

    def __init__(self, dut, name: str, amount: int) -> None:
        amount = round(amount * AMOUNT)
        self.dut, pick = dut, Random(f"{cocotb.RANDOM_SEED}/{name}")
        self.pins = EndpointPins(
            dut, shape=SHAPE, sends=SENDS, receives=RECEIVES, random=pick, cycles=4
        )
        self.monitor = self.pins.monitor
        amounts, to_send = (amounts_of(channels, amount) for channels in (RECEIVES, SENDS))
        self.user = EndpointUser(self.pins.endpoint, RECEIVES, SENDS, pick, amounts)
        self.drivers = [PortDriver(dut, channel, pick, to_send[channel.name]) for channel in SENDS]
        self.readers = [PortReader(dut, channel, pick) for channel in RECEIVES]
        self.user.expected = {
            channel.name: driver.sent for channel, driver in zip(SENDS, self.drivers, strict=True)
        }
        dut.active.value = dut.receiving.value = dut.interval.value = 1
        dut.clear.value = 0
        for corrupt in handles(dut, "corrupt", range(SHAPE.flits)):
            corrupt.value = 0

    @property
    def done(self) -> bool:
        drivers = any(driver.left for driver in self.drivers)
        return not drivers and self.user.done and not any(self.user.sent.values())

    def clock(self) -> None:
        self.pins.clock()
        self.user.clock()
        for driver in self.drivers:
            driver.clock()
        for reader in self.readers:
            reader.clock(self.user.sent)

    async def clocks(self, count: int) -> None:
        for _ in range(count):
            self.clock()
            await RisingEdge(self.dut.clk)

    async def play(self) -> None:
        """Until all has come and all credits are home."""
        await start_clock(self.dut)
        while not self.done:
            self.clock()
            assert self.pins.now < LIMIT, f"not all has come: {self.monitor.unrest()}"
            await RisingEdge(self.dut.clk)
        await self.rest()

    async def reset(self, clocks: int) -> int:
        """The link goes down for so long, loses all that is under way, and comes up again."""
        dut, pins = self.dut, self.pins
        dut.active.value = dut.receiving.value = 0
        pins.down()
        await self.clocks(clocks)
        dut.clear.value = 1
        await self.clocks(1)
        lost = self.user.reset()
        pins.up()
        dut.clear.value, dut.active.value, dut.receiving.value = 0, 1, 1
        return lost

    async def rest(self) -> None:
        line = self.pins
        for injector in (line.to_design, line.to_endpoint):
            injector.rate = injector.lose = 0.0
        for _ in range(QUIET):
            if line.at_rest and int(self.dut.at_rest.value):
                return
            self.clock()
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"no rest: {self.monitor.unrest() or 'the endpoint'}")


async def storm(dut, rate: float, noise: Noise, amount: int) -> Bench:
    bench = Bench(dut, f"storm {rate}", amount)
    for injector in (bench.pins.to_design, bench.pins.to_endpoint):
        injector.rate, injector.noise, injector.lose = rate, noise, rate / 10
    await bench.play()
    return bench


@cocotb.test()
async def calm(dut):
    """Without errors nothing is sent twice."""
    bench = await storm(dut, 0.0, Noise.FLIPS, 250)
    assert bench.monitor.retry.passes == bench.pins.endpoint.sender.replays == 0
    # Numbers wrapped twice, over zero.
    assert AMOUNT < 1 or SHAPE.flits * bench.monitor.retry.sent > 2 * 255


@cocotb.test()
@cocotb.parametrize(rate=[1e-3, 0.1, 0.3])
async def storms(dut, rate):
    """Errors of all kinds both ways, and groups that never arrive."""
    noise = {1e-3: Noise.BURST, 0.1: Noise.INJECTION, 0.3: Noise.FLIPS}[rate]
    bench = await storm(dut, rate, noise, {1e-3: 120, 0.1: 80, 0.3: 15}[rate])
    passes = bench.monitor.retry.passes, bench.pins.endpoint.sender.replays
    assert rate < 0.1 or min(passes) > 10 * AMOUNT


@cocotb.test()
async def answers_are_lost(dut):
    """Only NOPs suffer, which carry nothing but answers."""
    bench = Bench(dut, "answers", 100)
    for injector in (bench.pins.to_design, bench.pins.to_endpoint):
        injector.rate, injector.nops_only = 0.6, True
    await bench.play()


@cocotb.test()
async def naks_are_lost(dut):
    """A group is struck and the Nak of it, too, again and again: the timeout helps."""
    bench = Bench(dut, "naks", 60)
    for injector in (bench.pins.to_design, bench.pins.to_endpoint):
        injector.scripts += [groups(range(5, 60, 9), times=2), naks(5)]
    await bench.play()
    assert min(bench.monitor.retry.passes, bench.pins.endpoint.sender.replays) >= 2


@cocotb.test()
async def replays_are_struck_again(dut):
    """The fifth group, and then its replay, four times; a group around the wrap of the numbers."""
    bench = Bench(dut, "again", 150)
    for injector in (bench.pins.to_design, bench.pins.to_endpoint):
        injector.scripts += [groups([5], times=5), groups(range(125, 130), times=3)]
    await bench.play()
    assert bench.monitor.retry.passes >= 8


@cocotb.test()
async def the_last_group_is_lost(dut):
    """Before the line goes quiet; there is nothing behind it, and no Nak of a struck NOP comes."""
    bench = Bench(dut, "last", 0)
    await start_clock(dut)
    await bench.clocks(40)
    driver = bench.drivers[1]
    for _ in range(6):
        await bench.clocks(20)
        number, passes = bench.monitor.retry.sent, bench.monitor.retry.passes
        bench.pins.to_endpoint.scripts = [groups([number])]
        bench.pins.to_design.scripts = [naks(1)]
        driver.left = 1
        await bench.clocks(150)
        assert bench.monitor.retry.passes == passes and bench.user.expected["request"]
        await bench.clocks(100)
        assert bench.monitor.retry.passes == passes + 1 and not bench.user.expected["request"]
    await bench.rest()


@cocotb.test()
async def the_window_fills(dut):
    """No answer comes for a while: 127 flits, or the most that are whole groups, and no more."""
    bench = Bench(dut, "window", 200)
    bench.pins.to_design.scripts = [clocks(60, 60 + 170), clocks(600, 600 + 400)]
    most = 0
    for driver in bench.drivers:
        driver.share = 1.0
    await start_clock(dut)
    while not bench.done:
        bench.clock()
        retry = bench.monitor.retry
        most = max(most, retry.sent - retry.acknowledged)
        assert bench.pins.now < LIMIT
        await RisingEdge(dut.clk)
    assert most == 127 // SHAPE.flits
    await bench.rest()


@cocotb.test()
async def one_way_is_worse(dut):
    """Nothing is wrong in one direction, then in the other."""
    bench = Bench(dut, "one way", 120)
    await start_clock(dut)
    for _ in range(4):
        for injector in (bench.pins.to_design, bench.pins.to_endpoint):
            injector.rate, injector.scripts = 0.5, [answers_alone(0, 10**9)]
            await bench.clocks(300)
            injector.rate, injector.scripts = 0.0, []
    while not bench.done:
        await bench.clocks(1)
        assert bench.pins.now < LIMIT
    await bench.rest()


@cocotb.test()
async def resets_lose_what_is_under_way(dut):
    """And nothing else: what comes later comes once and in order, and no credit is missing."""
    bench = Bench(dut, "resets", 400)
    pick = Random(f"{cocotb.RANDOM_SEED}/when")
    for injector in (bench.pins.to_design, bench.pins.to_endpoint):
        injector.rate = 0.05
    await start_clock(dut)
    lost = 0
    for _ in range(12):
        await bench.clocks(pick.randrange(1, 150))
        lost += await bench.reset(pick.randrange(32, 100))
    assert lost > 12 * AMOUNT and bench.monitor.epoch == 12 % 4
    while not bench.done:
        await bench.clocks(1)
        assert bench.pins.now < LIMIT, f"not all has come: {bench.monitor.unrest()}"
    await bench.rest()
