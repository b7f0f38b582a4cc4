# amaranth: UnusedElaboratable=no
"""The transfer regions under all accesses and with planted errors, against a plain model."""

import random
import re
from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Fragment

from hw.params import MIB
from hw.presets import preset
from hw.sram.beat import BeatSram1rw
from hw.sram.macro import MacroPlatform
from hw.sram.regions import FILL_CLOCKS, READ_CLOCKS, READERS, TransferRegions
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

GROUPS = range(4)
Place = tuple[int, int, int]  # region, group, row


@dataclass(frozen=True)
class Stored:
    """A beat in a bank: what was filled, and which bits of which word are wrong."""

    beat: int
    word: int = 0
    wrong: frozenset[int] = frozenset()

    def read(self, words: int) -> tuple[int, bool, bool]:
        """Lanes, corrected, poison."""
        if len(self.wrong) < 2:
            return self.beat, bool(self.wrong), False
        flips = sum(1 << bit * words + self.word for bit in self.wrong if bit < 64)
        return self.beat ^ flips, False, True


class Regions:
    """Drives all ports of a :class:`TransferRegions` clock by clock and predicts what they read."""

    def __init__(self, preset_name: str, seed: int) -> None:
        machine = preset(preset_name)
        self.dut = TransferRegions(machine)
        self.words = machine.lanes
        self.bits = 8 * machine.link.beat_bytes
        self.rng = random.Random(seed)
        last = machine.geometry.wave_pages - 1
        self.rows = sorted({0, 1, last // 2, last})
        self.clocks = 0
        self.writes: deque[tuple[int, Place, Stored]] = deque()  # clock of the write
        self.stored: dict[Place, Stored] = {}
        self.reads: deque[tuple[int, str, Place, Stored]] = deque()  # clock of the beat
        self.shown: dict[str, Stored] = {}
        self.left = self.armed = 0  # beats to get the planted error
        self.error: tuple[int, frozenset[int]] = (0, frozenset())
        self.log = {"corrected": 0, "uncorrectable": 0}
        self.first: tuple[bool, Place, int] | None = None
        self.events: deque[tuple[int, Place, Stored]] = deque()  # clock of the report
        self.counts = {"single": 0, "double": 0, "program": 0, "cleared": 0}

    def at_random(self, port: Any, ctx: Any, en: bool) -> tuple[int, int]:
        region, row = self.rng.getrandbits(1), self.rng.choice(self.rows)
        ctx.set(port.en, en)
        ctx.set(port.region, region)
        ctx.set(port.row, row)
        return region, row

    async def clock(self, ctx: Any, fills: float, reads: float) -> None:
        """One clock with every port at random; a group fills in two clocks of four only."""
        now, rng = self.clocks % 4, self.rng
        assert ctx.get(self.dut.now) == now
        self.look(ctx)
        # What is written in this clock is there for the reads of the next.
        due = []
        while self.writes and self.writes[0][0] == self.clocks:
            due.append(self.writes.popleft()[1:])
        busy = {(region, group) for (region, group, _), _ in due}

        # The table of time slots, from the side of the clock.
        for name, group in (("direct", now - 1), ("relay", now + 1), ("program", now)):
            port = getattr(self.dut, name)
            en = rng.random() < reads
            if name == "program":
                asked = rng.choice((now, rng.randrange(4)))
                ctx.set(port.group, asked)
            region, row = self.at_random(port, ctx, en)
            if name == "program":
                if (region, group) in busy:  # the user's duty
                    ctx.set(port.en, 0)
                    en = False
                en = en and asked == now
                self.counts["program"] += en
            place = region, group % 4, row
            if en and place in self.stored:
                self.reads.append((self.clocks + READ_CLOCKS, name, place, self.stored[place]))
            elif en:  # nobody knows what comes
                self.reads.append((self.clocks + READ_CLOCKS, name, place, Stored(-1)))
        self.stored.update(due)

        armed = self.left
        for group in GROUPS:
            en, beat = rng.random() < fills, rng.getrandbits(self.bits)
            region, row = self.at_random(self.dut.fill[group], ctx, en)
            ctx.set(Cat(*self.dut.fill[group].lanes), beat)
            if en and group in (now, (now + 2) % 4):
                wrong = self.error if self.left else (0, frozenset())
                self.left -= bool(self.left)
                self.writes.append(
                    (self.clocks + FILL_CLOCKS, (region, group, row), Stored(beat, *wrong))
                )
        inject = self.dut.ecc.inject
        hits = armed - self.left
        assert ctx.get(inject.armed) == bool(self.armed)
        arm = not self.armed and self.clocks % 5 == 0
        ctx.set(inject.arm, arm)
        if arm and rng.random() < 0.8:
            self.plant(ctx)
        elif arm:
            ctx.set(inject.beats, 0)
        await ctx.tick()
        self.armed = self.left or hits
        self.clocks += 1

    def plant(self, ctx: Any) -> None:
        """Arms an error of one or two bits for the beats from the next clock on."""
        inject, rng = self.dut.ecc.inject, self.rng
        word, first, second = rng.randrange(self.words), rng.randrange(72), rng.randrange(72)
        double = rng.getrandbits(1)
        self.left = rng.choice((1, 2, 3))
        ctx.set(inject.beats, self.left)
        ctx.set(inject.word, word)
        ctx.set(inject.first, first)
        ctx.set(inject.second, second)
        ctx.set(inject.double, double)
        # The same bit twice is one wrong bit.
        self.error = word, frozenset((first, second) if double else (first,))

    def look(self, ctx: Any) -> None:
        """Compares what the readers and the log show with what they should."""
        while self.reads and self.reads[0][0] == self.clocks:
            _, name, place, stored = self.reads.popleft()
            self.shown[name] = stored
            if stored.wrong:
                self.events.append((self.clocks + 1, place, stored))
                self.counts["single" if len(stored.wrong) == 1 else "double"] += 1
        for name, stored in self.shown.items():
            port = getattr(self.dut, name)
            if stored.beat >= 0:
                lanes, corrected, poison = stored.read(self.words)
                assert ctx.get(port.poison) == poison, (name, stored)
                assert ctx.get(port.corrected) == corrected, (name, stored)
                assert ctx.get(Cat(*port.lanes)) == lanes, (name, stored)

        log = self.dut.ecc.log
        for name, count in self.log.items():
            assert ctx.get(getattr(log, name)) == count
        assert ctx.get(log.first.valid) == (self.first is not None)
        if self.first is not None:
            found = ctx.get(log.first)
            place = found.place.region, found.place.group, found.place.row
            assert (bool(found.uncorrectable), place, found.word) == self.first
        clear = self.rng.random() < 0.03
        ctx.set(log.clear, clear)
        if clear:
            self.counts["cleared"] += 1
            self.log, self.first = {"corrected": 0, "uncorrectable": 0}, None
        while self.events and self.events[0][0] == self.clocks:
            _, place, stored = self.events.popleft()
            double = len(stored.wrong) == 2
            self.log["uncorrectable" if double else "corrected"] += 1
            self.first = self.first or (double, place, stored.word)


@pytest.mark.parametrize("platform", [None, "formal"])
@pytest.mark.parametrize("name", ["formal", "mini"])
@pytest.mark.parametrize("reads", [1.0, 0.3], ids=["full rate", "held"])
def test_no_access_disturbs_another(name: str, reads: float, platform: str | None) -> None:
    # Fill asks in every clock of every group: what comes outside its slots must be ignored.
    seed = 7
    regions = Regions(name, seed)
    print(f"seed {seed}")

    async def bench(ctx: Any) -> None:
        for clock in range(260):
            # The second part leaves clocks to program reads, and finds old errors again.
            fills = 1.0 if clock < 160 else 0.3
            await regions.clock(ctx, fills, reads)
        assert len(regions.stored) == 2 * 4 * len(regions.rows)
        print(regions.counts)
        assert min(regions.counts.values()) > 5

    simulate(Fragment.get(regions.dut, platform), bench, clocks=300)


def test_two_accesses_of_a_bank_are_noticed_by_the_property() -> None:
    regions = TransferRegions(preset("formal"))

    async def bench(ctx: Any) -> None:
        ctx.set(regions.fill[2].en, 1)
        await ctx.tick()
        ctx.set(regions.fill[2].en, 0)
        await ctx.tick()
        ctx.set(regions.program.en, 1)
        ctx.set(regions.program.group, 2)  # now is 2, and so is the fill
        await ctx.tick()

    with pytest.raises(AssertionError, match="two accesses of a bank group"):
        simulate(Fragment.get(regions, "formal"), bench, clocks=20)


def test_every_region_group_and_row_is_its_own() -> None:
    # Written once each, then read once each by every reader; nothing shares a place.
    regions = TransferRegions(preset("formal"))
    places = [(region, row) for region in range(2) for row in range(4)]
    readers = {"direct": -1, "relay": 1, "program": 0}

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
        expected = []
        for region, row in places:
            for clock in GROUPS:
                expected.append(
                    {
                        name: 1 + 100 * region + 10 * row + (clock + offset) % 4
                        for name, offset in readers.items()
                    }
                )
                for name in readers:
                    port = getattr(regions, name)
                    ctx.set(port.en, 1)
                    ctx.set(port.region, region)
                    ctx.set(port.row, row)
                ctx.set(regions.program.group, clock)
                await ctx.tick()
                if len(expected) >= READ_CLOCKS:
                    for name, content in expected[-READ_CLOCKS].items():
                        assert ctx.get(getattr(regions, name).lanes[0]) == content

    simulate(regions, bench, clocks=100)


@pytest.mark.parametrize("machine", [preset("paper"), preset("mini"), TINY], ids=lambda m: m.name)
def test_banks_hold_data_and_check_bits(machine: Any) -> None:
    sram, depth = machine.sram, machine.geometry.wave_pages
    group = BeatSram1rw(lanes=machine.lanes, depth=depth, bank_bytes=sram.bank_bytes, check=True)
    text = rtlil.convert(group, platform=MacroPlatform(), emit_src=False)
    widths = [int(bits) for bits in re.findall(r"parameter (?:signed )?\\WIDTH (\d+)", text)]
    assert widths == [9 * sram.bank_bytes] * (machine.link.beat_bytes // sram.bank_bytes)
    physical = sram.hbf_regions * len(GROUPS) * depth * sum(widths) // 8
    assert physical == sram.physical_bytes(sram.hbf_usable_bytes)
    if machine.name == "paper":
        assert (physical, sram.hbf_usable_bytes) == (18 * MIB, 16 * MIB)


def test_the_readers_are_those_of_the_log() -> None:
    members = TransferRegions(preset("formal")).signature.members
    assert {name for name in members if name not in ("now", "fill", "ecc")} == set(READERS)
