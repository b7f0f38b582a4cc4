# amaranth: UnusedElaboratable=no
"""Groups over several modules: each byte where UCIe puts it, whole groups whatever is lost."""

import random
from itertools import product

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.ucie.modules import NUMBER_BITS, Deskewer, Striper, blocks
from tb.vip.module_channel import ModuleChannel
from tests.hw.pysim import simulate

MODULES, LANES, GROUP, SKEW = 4, 6, 96, 3
WORD = GROUP // MODULES
SIZES = {"modules": MODULES, "lanes": LANES, "group_bytes": GROUP}
MASKS = [0b1111, 0b0011, 0b1100, 0b0001, 0b0010, 0b0100, 0b1000]


def split(group: bytes, mask: int) -> list[dict[int, bytes]]:
    """Words of the modules, slice by slice: bytes are dealt out lane by lane, module by module."""
    active = [k for k in range(MODULES) if mask >> k & 1]
    rest, slices = list(group), []
    while rest:
        words: dict[int, list[int]] = {k: [] for k in active}
        for _ in range(WORD // LANES):
            for k in active:
                words[k] += [rest.pop(0) for _ in range(LANES)]
        slices.append({k: bytes(word) for k, word in words.items()})
    return slices


class Way(wiring.Component):
    """Striper, wires and deskewer."""

    def __init__(self, delays=(1, 1, 1, 1), max_skew=SKEW) -> None:
        self.tx, self.rx = Striper(**SIZES), Deskewer(**SIZES, max_skew=max_skew)
        self.wires = ModuleChannel(word_bytes=WORD, delays=delays)
        super().__init__({})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.tx, m.submodules.rx, m.submodules.wires = self.tx, self.rx, self.wires
        for k in range(MODULES):
            wiring.connect(m, self.tx.o[k], self.wires.i[k])
            wiring.connect(m, self.wires.o[k], self.rx.i[k])
        return m


class Line:
    """Offers random groups and collects what comes."""

    def __init__(self, way: Way, *, seed: int = 1, offers: float = 1.0) -> None:
        self.way, self.pick, self.offers = way, random.Random(seed), offers
        self.sent: list[int] = []
        self.came: list[int] = []
        self.group: int | None = None
        self.clocks = 0

    async def clock(self, ctx, *, dead: int = 0, offer: bool = True) -> None:
        tx, rx = self.way.tx, self.way.rx
        if self.group is None and offer and self.pick.random() < self.offers:
            self.group = self.pick.getrandbits(8 * GROUP)
        ctx.set(tx.i.valid, self.group is not None)
        ctx.set(tx.i.payload, self.group or 0)
        ctx.set(self.way.wires.dead, dead)
        if ctx.get(rx.valid):
            self.came.append(ctx.get(rx.payload))
        if self.group is not None and ctx.get(tx.i.ready):
            self.sent.append(self.group)
            self.group = None
        await ctx.tick()
        self.clocks += 1

    async def restart(self, ctx, mask: int) -> None:
        tx, rx = self.way.tx, self.way.rx
        ctx.set(tx.i.valid, 0)
        for _ in range(max(self.way.wires.delays) + MODULES + 1):  # nothing is under way
            await ctx.tick()
        for end in (tx, rx):
            ctx.set(end.enabled, mask)
            ctx.set(end.restart, 1)
        await ctx.tick()
        for end in (tx, rx):
            ctx.set(end.restart, 0)
        self.sent.clear()
        self.came.clear()

    def errors(self, ctx) -> tuple[int, int]:
        return ctx.get(self.way.rx.lost), ctx.get(self.way.rx.starved)


def test_masks_are_the_aligned_blocks():
    assert blocks(MODULES) == MASKS
    assert blocks(1) == [1]


@pytest.mark.parametrize("mask", MASKS, ids=bin)
def test_bytes_go_to_modules_and_lanes_in_ascending_order(mask):
    tx = Striper(**SIZES)
    groups = [bytes((17 * k + b) % 256 for b in range(GROUP)) for k in range(3)]
    expected = [words for group in groups for words in split(group, mask)]

    async def bench(ctx):
        ctx.set(tx.enabled, mask)
        left, seen = list(groups), 0
        while seen < len(expected):
            ctx.set(tx.i.valid, bool(left))
            ctx.set(tx.i.payload, int.from_bytes(left[0], "little") if left else 0)
            taken = left and ctx.get(tx.i.ready)
            await ctx.tick()
            if taken:
                left.pop(0)
            valid = [k for k in range(MODULES) if ctx.get(tx.o[k].valid)]
            words = {k: ctx.get(tx.o[k].word).to_bytes(WORD, "little") for k in valid}
            assert words == expected[seen], seen  # a slice in each clock, from the first one on
            assert {ctx.get(tx.o[k].number) for k in valid} == {seen}
            seen += 1
        ctx.set(tx.i.valid, 0)
        await ctx.tick()
        assert not any(ctx.get(port.valid) for port in tx.o)

    simulate(tx, bench, clocks=100)


@pytest.mark.parametrize("mask", MASKS, ids=bin)
def test_rate_is_a_group_in_as_many_clocks_as_slices(mask):
    way, clocks = Way(), 100
    line = Line(way)

    async def bench(ctx):
        await line.restart(ctx, mask)
        for _ in range(20):
            await line.clock(ctx)
        before = len(line.came)
        for _ in range(clocks):
            await line.clock(ctx)
        assert len(line.came) - before == clocks * mask.bit_count() // MODULES
        assert line.errors(ctx) == (0, 0)

    simulate(way, bench, clocks=2 * clocks)


FAR = 1 + SKEW
SKEWS = [
    (1, 1, 1, 1),
    *(tuple(FAR if k == late else 1 for k in range(MODULES)) for late in range(MODULES)),
    (FAR, 1, FAR, 1),
    (4, 2, 1, 3),
]


@pytest.mark.parametrize("delays", SKEWS, ids=str)
def test_every_skew_comes_out_whole_with_every_mask(delays):
    way = Way(delays)
    line = Line(way, offers=0.8)

    async def bench(ctx):
        for mask in MASKS:
            await line.restart(ctx, mask)
            for _ in range(24):
                await line.clock(ctx)
            for _ in range(14):
                await line.clock(ctx, offer=line.group is not None)
            assert len(line.sent) > 3
            assert line.came == line.sent
            assert line.errors(ctx) == (0, 0)

    simulate(way, bench, clocks=2000)


@pytest.mark.parametrize("mask", MASKS, ids=bin)
@pytest.mark.parametrize("length", [1, 2, 4, 1000])
def test_a_loss_stops_the_groups_until_restart(mask, length):
    """One module, or all, for one word, some, or from then on: in every place of a group."""
    way = Way((2, 4, 1, 3))
    line = Line(way)
    one = mask & -mask

    async def bench(ctx):
        for place, dead in product(range(length % 3, 5, 3), {one, mask}):
            await line.restart(ctx, mask)
            for clock in range(40):
                await line.clock(ctx, dead=dead * (12 + place <= clock < 12 + place + length))
            assert line.came == line.sent[: len(line.came)]
            # With all modules gone for good there is nothing to see, nor when what is lost is
            # whole groups at the end.
            if length < 1000 or dead != mask:
                assert any(line.errors(ctx))
                assert len(line.came) < 20
            before = len(line.came)
            for _ in range(10):
                await line.clock(ctx)
            if any(line.errors(ctx)):
                assert len(line.came) == before
        await line.restart(ctx, mask)
        for _ in range(20):
            await line.clock(ctx)
        assert line.errors(ctx) == (0, 0)
        assert len(line.came) >= 2
        assert line.came == line.sent[: len(line.came)]

    simulate(way, bench, clocks=4000)


@pytest.mark.parametrize("bit", range(NUMBER_BITS))
def test_a_wrong_number_stops_the_groups_as_a_loss_does(bit):
    deskewer = Deskewer(**SIZES, max_skew=SKEW)
    came = []

    async def bench(ctx):
        ctx.set(deskewer.enabled, 0b1111)
        ctx.set(deskewer.restart, 1)
        await ctx.tick()
        ctx.set(deskewer.restart, 0)
        for number in range(12):
            for k, module in enumerate(deskewer.i):
                ctx.set(module.valid, 1)
                ctx.set(module.number, number ^ (k == 2 and number == 5) << bit)
                ctx.set(module.word, number)
            await ctx.tick()
            if ctx.get(deskewer.valid):
                came.append(ctx.get(deskewer.payload) & 0xFF)
        assert ctx.get(deskewer.lost)

    simulate(deskewer, bench, clocks=50)
    assert came == [0, 1, 2, 3, 4]


def test_more_skew_than_allowed_is_noticed():
    way = Way((1, 1, 1, 1 + SKEW + 1))
    line = Line(way)

    async def bench(ctx):
        await line.restart(ctx, 0b1111)
        for _ in range(20):
            await line.clock(ctx)
        assert line.errors(ctx) == (0, 1)
        assert line.came == []

    simulate(way, bench, clocks=100)


def test_restart_drops_what_is_left_of_a_group():
    way = Way()
    line = Line(way)

    async def bench(ctx):
        await line.restart(ctx, 0b0001)
        await line.clock(ctx)
        await line.clock(ctx)
        assert not ctx.get(way.tx.idle)
        for end in (way.tx, way.rx):
            ctx.set(end.restart, 1)
        await ctx.tick()
        assert ctx.get(way.tx.idle)
        assert not ctx.get(way.tx.i.ready)
        await line.restart(ctx, 0b1000)
        for _ in range(12):
            await line.clock(ctx)
        assert line.came == line.sent[: len(line.came)] != []

    simulate(way, bench, clocks=100)


def test_wires_flip_bits_and_lose_words():
    wires = ModuleChannel(word_bytes=1, delays=[1, 3])

    async def bench(ctx):
        for clock in range(6):
            for k, port in enumerate(wires.i):
                ctx.set(port.valid, clock < 2)
                ctx.set(port.number, clock)
                ctx.set(port.word, 16 * k + clock)
            ctx.set(wires.flip[1], 0x80)
            ctx.set(wires.dead, 0b10 if clock == 4 else 0)
            seen = [(ctx.get(o.valid), ctx.get(o.number), ctx.get(o.word)) for o in wires.o]
            if clock in (1, 2):
                assert seen[0] == (1, clock - 1, clock - 1)
            assert seen[1][0] == (clock == 3)
            if clock == 3:
                assert seen[1] == (1, 0, 0x80 + 16)
            await ctx.tick()

    simulate(wires, bench, clocks=10)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Striper(**SIZES | {"modules": 3}), "power of two"),
        (lambda: Striper(**SIZES | {"lanes": 0}), "lanes"),
        (lambda: Striper(**SIZES | {"group_bytes": 100}), "multiple of 24"),
        (lambda: Deskewer(**SIZES, max_skew=64), "max_skew"),
        (lambda: ModuleChannel(word_bytes=1, delays=[0]), "at least 1 clock"),
    ],
)
def test_wrong_sizes_are_refused(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_sizes_can_be_read():
    block = Deskewer(**SIZES, max_skew=2)
    assert (block.modules, block.lanes, block.group_bytes) == (MODULES, LANES, GROUP)
    assert (block.word_bytes, block.max_skew) == (WORD, 2)
