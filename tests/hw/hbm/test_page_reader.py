# amaranth: UnusedElaboratable=no
"""Pages of the HBM, read when they are granted and staged until they are fetched."""

import random
from collections import deque

import pytest

from hw.hbm.dram.stacks import stack
from hw.hbm.page_reader import PageReader
from hw.presets import preset
from tests.hw.beats import Quiet
from tests.hw.hbm.controller_model import LANES, ControllerModel, pattern
from tests.hw.hbm.local_bench import SIZES, WIDE_STACK
from tests.hw.machines import TINY, WIDE
from tests.hw.pysim import simulate

PAGES = 4  # of staging
BEATS = 4  # of a page


class Link:
    """Grants pages, takes those at hand and fetches their beats, as a write sender does."""

    def __init__(self, ctx, dut: PageReader, machine, hbm, *, seed: int) -> None:
        self.ctx, self.dut, self.machine, self.hbm = Quiet(ctx), dut, machine, hbm
        self.rng = random.Random(seed)
        self.model = ControllerModel(
            stack=hbm, ctx=self.ctx, request=dut.request, beats=dut.beats, rng=self.rng
        )
        self.accesses = BEATS * hbm.beat_accesses
        self.granted: deque[dict] = deque()  # to be offered
        self.offered = False
        self.held: deque[dict] = deque()  # in the reader, not handed over
        self.fetches: deque[tuple[dict, int]] = deque()  # beats to fetch, one a clock
        self.expected: tuple[dict, int] | None = None
        self.pages, self.clocks, self.came = 0, 0, []
        self.lost = False
        self.shares = {"grant": 0.7, "take": 0.3}

    def grant(self, count: int) -> None:
        for _ in range(count):
            page = self.rng.randrange(self.hbm.accesses // self.accesses)
            grant = {name: self.rng.getrandbits(12) for name in ("tag", "page", "token")}
            self.granted.append({"address": page * self.accesses, "grant": grant})

    async def clock(self) -> None:
        ctx, dut, rng = self.ctx, self.dut, self.rng
        self.offered = bool(self.granted) and not self.lost and (
            self.offered or rng.random() < self.shares["grant"]
        )  # fmt: skip
        ctx.set(dut.lost, self.lost)
        ctx.set(dut.i.valid, self.offered)
        if self.offered:
            ctx.set(dut.i.payload, self.granted[0])
        self.model.outputs()
        fetch = self.fetches.popleft() if self.fetches else None
        ctx.set(dut.fetch, {"valid": bool(fetch), "beat": fetch[1] if fetch else 0})
        # A page begins only behind the last beat of the one before.
        takes = len(self.fetches) <= 1 and not self.lost and rng.random() < self.shares["take"]
        ctx.set(dut.at_hand.ready, takes)
        self._lanes()
        assert ctx.get(dut.beats.ready), "nobody waits behind a page"
        if ctx.get(dut.at_hand.valid):
            assert not self.lost
            if takes:
                page = self.held.popleft()
                found = ctx.get(dut.at_hand.payload)
                assert {name: found[name] for name in page["grant"]} == page["grant"]
                self.fetches.extend((page, beat) for beat in range(BEATS))
                self.pages += 1
                self.came.append(self.clocks)
        if self.offered and ctx.get(dut.i.ready):
            self.held.append(self.granted.popleft())
            self.offered = False
        self.model.inputs()
        self.expected = fetch
        await ctx.tick()
        self.clocks += 1

    def _lanes(self) -> None:
        if self.expected is None:
            return
        page, beat = self.expected
        per = self.hbm.beat_accesses
        first = page["address"] + beat * per
        words = [self.ctx.get(lane) for lane in self.dut.lanes]
        for k in range(per):
            assert words[LANES * k : LANES * (k + 1)] == pattern(first + k, 0)
        poisoned = bool(self.model.poisoned & set(range(first, first + per)))
        assert self.ctx.get(self.dut.poison) == poisoned


def run(scenario, *, size="beats of an access", seed=0, clocks=5000, pages=PAGES) -> None:
    print(f"seed {seed}")
    machine, hbm = SIZES[size]
    dut = PageReader(machine, hbm, pages=pages)

    async def bench(ctx):
        await scenario(Link(ctx, dut, machine, hbm, seed=seed))

    simulate(dut, bench, clocks=clocks)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("take", "beat_share", "latency"),
    [(1.0, 1.0, 1), (0.05, 1.0, 5), (1.0, 0.3, 40), (0.3, 0.6, 9)],
)
def test_each_page_is_read_once_and_its_beats_come_by_fetch(size, take, beat_share, latency):
    async def scenario(link):
        link.shares["take"] = take
        link.model.beat_share, link.model.latency = beat_share, latency
        link.model.poisoned = {5, 9, 1000}
        link.grant(30)
        most = 0
        while link.granted or link.held or link.fetches:
            await link.clock()
            most = max(most, len(link.held))
        await link.clock()
        assert link.pages == len(link.model.taken) == 30
        assert {request["length"] for request in link.model.taken} == {link.accesses}
        assert link.ctx.get(link.dut.idle)
        assert most == PAGES or take == 1.0  # staging is full when the link is slow, and no fuller

    run(scenario, size=size, seed=round(100 * take))


@pytest.mark.parametrize("seed", range(3))
def test_a_reset_drops_what_was_not_handed_over(seed):
    async def scenario(link):
        pages = 0
        for _ in range(10):
            link.grant(8)
            for _ in range(link.rng.randrange(3, 60)):
                await link.clock()
            link.lost = True
            link.offered = False
            while not link.ctx.get(link.dut.idle):
                await link.clock()
            assert not link.fetches and link.model.idle
            link.held.clear()
            link.granted.clear()
            pages += link.pages
            link.lost = False
        link.grant(10)
        before = link.pages
        while link.granted or link.held or link.fetches:
            await link.clock()
        assert link.pages == before + 10 and pages > 10

    run(scenario, seed=seed)


def test_latency_and_a_beat_a_clock():
    async def scenario(link):
        link.shares = {"grant": 1.0, "take": 1.0}
        link.model.latency = link.model.beat_share = link.model.request_share = 1
        link.grant(20)
        while link.granted or link.held or link.fetches:
            await link.clock()
        # Asked in clock 0, four beats from clock 1 on, at hand in clock 5; then every four clocks.
        assert link.came == [5 + 4 * k for k in range(20)]

    run(scenario)


def test_staging_covers_what_the_controller_has_under_way():
    """The 256 slots of `hbm3e-9200`, of a beat each: 64 pages of four."""
    assert PageReader(preset("paper"), stack("hbm3e-9200")).pages == 64
    with pytest.raises(ValueError, match="a power of two of pages, at least 2, not 3"):
        PageReader(TINY, stack("mini"), pages=3)
    with pytest.raises(ValueError, match="beat_bytes of stack 'wide' is 128: must be 64"):
        PageReader(TINY, WIDE_STACK)
    PageReader(WIDE, WIDE_STACK)
