"""The transfer regions under all four accesses at once, against a plain model."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Cat

from hw.params import preset
from hw.sram.regions import TransferRegions
from tests.hw.pysim import simulate

GROUPS = range(4)
Bank = tuple[int, int]  # region and group


class Regions:
    """Drives all ports of a :class:`TransferRegions` clock by clock and predicts what they read."""

    def __init__(self, preset_name: str, seed: int) -> None:
        machine = preset(preset_name)
        self.dut = TransferRegions(machine)
        self.bits = 8 * machine.link.beat_bytes
        self.rng = random.Random(seed)
        last = machine.geometry.wave_pages - 1
        self.rows = sorted({0, 1, last // 2, last})
        self.now = 0
        self.stored: dict[tuple[int, int, int], int] = {}
        self.shown: dict[Bank, int | None] = {}  # last read of each bank
        self.read: dict[str, Bank | None] = {"direct": None, "relay": None}  # last of each path

    def at_random(self, port: Any, ctx: Any, en: bool) -> tuple[int, int]:
        region, row = self.rng.getrandbits(1), self.rng.choice(self.rows)
        ctx.set(port.en, en)
        ctx.set(port.region, region)
        ctx.set(port.row, row)
        return region, row

    async def clock(self, ctx: Any, fills: Callable[[], bool], reads: Callable[[], bool]) -> None:
        """One clock with every port at random; a group fills in two clocks of four only."""
        assert ctx.get(self.dut.now) == self.now
        for name, bank in self.read.items():
            if bank is not None and (expected := self.shown[bank]) is not None:
                lanes = getattr(self.dut, name).lanes
                assert ctx.get(Cat(*lanes)) == expected, (name, bank)
        # The table of time slots, from the side of the clock.
        for name, group in (("direct", self.now - 1), ("relay", self.now + 1)):
            en = reads()
            region, row = self.at_random(getattr(self.dut, name), ctx, en)
            if en:
                bank = region, group % 4
                self.read[name] = bank
                self.shown[bank] = self.stored.get((*bank, row))
        for group in GROUPS:
            en, beat = fills(), self.rng.getrandbits(self.bits)
            region, row = self.at_random(self.dut.fill[group], ctx, en)
            ctx.set(Cat(*self.dut.fill[group].lanes), beat)
            if en and group in (self.now, (self.now + 2) % 4):
                self.stored[region, group, row] = beat
        await ctx.tick()
        self.now = (self.now + 1) % 4


@pytest.mark.parametrize("name", ["formal", "mini"])
@pytest.mark.parametrize("reads", [1.0, 0.3], ids=["full rate", "held"])
def test_no_access_disturbs_another(name: str, reads: float) -> None:
    # Fill asks in every clock of every group: what comes outside its slots must be ignored.
    seed = 7
    regions = Regions(name, seed)
    print(f"seed {seed}")

    async def bench(ctx: Any) -> None:
        for _ in range(250):
            await regions.clock(ctx, lambda: True, lambda: regions.rng.random() < reads)
        assert len(regions.stored) == 2 * 4 * len(regions.rows)

    simulate(regions.dut, bench, clocks=300)


def test_every_region_group_and_row_is_its_own() -> None:
    # Written once each, then read once each by both paths; nothing shares a place.
    regions = TransferRegions(preset("formal"))
    places = [(region, row) for region in range(2) for row in range(4)]

    async def bench(ctx: Any) -> None:
        for region, row in places:
            for clock in GROUPS:
                for group in GROUPS:
                    port = regions.fill[group]
                    ctx.set(port.en, clock in (0, 1) and group % 2 == clock)
                    ctx.set(port.region, region)
                    ctx.set(port.row, row)
                    ctx.set(port.lanes[0], 1 + 100 * region + 10 * row + group)
                await ctx.tick()
        for port in regions.fill:
            ctx.set(port.en, 0)
        for region, row in places:
            for clock in GROUPS:
                for port in (regions.direct, regions.relay):
                    ctx.set(port.en, 1)
                    ctx.set(port.region, region)
                    ctx.set(port.row, row)
                await ctx.tick()
                for port, group in ((regions.direct, clock - 1), (regions.relay, clock + 1)):
                    expected = 1 + 100 * region + 10 * row + group % 4
                    assert ctx.get(port.lanes[0]) == expected

    simulate(regions, bench, clocks=100)
