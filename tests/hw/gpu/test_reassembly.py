"""Reassembly: the address of every beat, and one completion after the last page."""

import random
from collections import deque

import pytest

from hw.gpu.reassembly import BY_DATA, BY_WORD, Reassembly
from hw.presets import preset
from hw.ucie.transaction import Status
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SLOTS, RX_BEATS = 4, 8  # of TINY


class Read:
    """A read whose pages come in any order, each with its beats from any on."""

    def __init__(self, pick: random.Random, slot: int, tag: int):
        self.slot, self.tag = slot, tag
        self.first, self.pages = pick.randrange(200), pick.choice((1, 2, 3, 12))
        self.left = pick.sample(range(self.pages), self.pages)
        self.to_take = 4 * self.pages
        self.poisoned = pick.random() < 0.3
        self.poison_at = pick.randrange(4 * self.pages) if self.poisoned else None


@pytest.mark.parametrize(("seed", "stall"), [(0, 0.0), (1, 0.5), (2, 0.9)])
def test_every_beat_has_its_address_and_every_read_completes_once(seed, stall):
    pick = random.Random(seed)
    dut = Reassembly(TINY)
    completed = []

    async def bench(ctx):
        ctx = Quiet(ctx)
        open_reads: dict[int, Read] = {}
        beats = deque()  # of the page that is coming
        on_way = deque()  # (read, page, beat, poison, content)
        expected: dict[int, tuple[int, bool]] = {}  # completions by clock
        credits, tag, content, pages_done, counted = RX_BEATS, 0, 0, 0, 0
        clock = 0
        while len(completed) < 25:
            say = f"clock {clock}, seed {seed}"
            begin = {"valid": 0}
            if len(open_reads) < SLOTS and pick.random() < 0.3:
                slot = pick.choice([s for s in range(SLOTS) if s not in open_reads])
                read = open_reads[slot] = Read(pick, slot, tag)
                tag = (tag + 801) % 4096
                begin = {
                    "valid": 1,
                    "slot": slot,
                    "first": read.first,
                    "pages": read.pages,
                    "tag": read.tag,
                }
            elif not beats:
                able = [read for read in open_reads.values() if read.left]
                if able:
                    read = pick.choice(able)
                    page, start = read.left.pop(), pick.randrange(4)
                    for k in range(4):
                        number = 4 * (read.pages - len(read.left) - 1) + k
                        poison = number == read.poison_at
                        beats.append((read, page, (start + k) % 4, k == 3, poison, content))
                        content += 1
            ctx.set(dut.begin, begin)
            sends = bool(beats) and credits > 0 and not begin["valid"] and pick.random() < 0.8
            ctx.set(dut.port.valid, sends)
            if sends:
                read, page, beat, ends, poison, word = beats.popleft()
                on_way.append((read, page, beat, poison, word))
                ctx.set(
                    dut.port.header,
                    {
                        "tag": read.slot,
                        "page": page,
                        "beat": beat,
                        "page_end": ends,
                        "poison": poison,
                    },
                )
                set_lanes(ctx, dut.port, word)
                credits -= 1
            credits += ctx.get(dut.port.credit)
            assert credits <= RX_BEATS, say

            event = ctx.get(dut.end[BY_DATA])
            assert event.valid == (clock in expected), say
            assert not ctx.get(dut.end[BY_WORD].valid), say
            if event.valid:
                slot, poisoned = expected[clock]
                assert (event.slot, event.poison) == (slot, poisoned), say
                assert event.status == Status.OK, say
                completed.append(open_reads.pop(slot).tag)

            ready = pick.random() >= stall
            ctx.set(dut.o.ready, ready)
            taken = ready and ctx.get(dut.o.valid)
            if taken:
                read, page, beat, poison, word = on_way.popleft()
                header = ctx.get(dut.o.header)
                # 256 B pages of four 64 B beats: one address unit a beat.
                assert header.address * 64 == (read.first + page) * 256 + beat * 64, say
                assert (header.tag, header.page, header.beat) == (read.tag, page, beat), say
                assert header.poison == poison and get_lanes(ctx, dut.o) == word, say
                read.to_take -= 1
                counted += 1
                if not read.to_take:
                    expected[clock + 1] = read.slot, read.poisoned
            page_ends = bool(taken) and counted % 4 == 0
            assert ctx.get(dut.received) == page_ends, say
            pages_done += page_ends
            await ctx.tick()
            clock += 1

    simulate(dut, bench, clocks=20_000)
    assert len(set(completed)) >= 25


def test_beats_of_large_pages_are_several_address_units_apart():
    """In `paper` a beat of 1,024 bytes is 16 units of 64 bytes."""
    dut = Reassembly(preset("paper"))
    found = []

    async def bench(ctx):
        begin = {"valid": 1, "slot": 3, "first": 1_000_000, "pages": 4096, "tag": 77}
        ctx.set(dut.begin, begin)
        await ctx.tick()
        ctx.set(dut.begin.valid, 0)
        ctx.set(dut.o.ready, 1)
        for clock in range(9):
            ctx.set(dut.port.valid, clock < 4)
            ctx.set(dut.port.header, {"tag": 3, "page": 4095, "beat": (clock + 2) % 4})
            if ctx.get(dut.o.valid):
                found.append(64 * ctx.get(dut.o.header.address))
            await ctx.tick()

    simulate(dut, bench, clocks=20)
    page = (1_000_000 + 4095) * 4096
    assert found == [page + 2048, page + 3072, page, page + 1024]


def test_latency_of_beats_and_completions():
    dut = Reassembly(TINY)
    beats, completions = [], []

    async def bench(ctx):
        ctx.set(dut.begin, {"valid": 1, "slot": 1, "first": 0, "pages": 1, "tag": 5})
        await ctx.tick()
        ctx.set(dut.begin.valid, 0)
        ctx.set(dut.o.ready, 1)
        for clock in range(10):
            ctx.set(dut.port.valid, clock < 4)
            ctx.set(dut.port.header, {"tag": 1, "beat": clock % 4, "page_end": clock == 3})
            beats.append(ctx.get(dut.o.valid))
            completions.append(ctx.get(dut.end[BY_DATA].valid))
            await ctx.tick()

    simulate(dut, bench, clocks=20)
    assert beats == [0, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    assert completions == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("beats", [[0], [3], [1, 2], [2, 3, 0], [0, 1, 2, 3]])
def test_a_piece_of_a_page_is_a_whole_read(beats):
    """A small read brings some beats of its page, in any order; the last is marked."""
    dut = Reassembly(TINY)
    came, completions = [], []

    async def bench(ctx):
        begin = {"valid": 1, "slot": 2, "first": 9, "pages": 1, "tag": 5}
        for at, clocks in ((0, 12), (20, 12)):  # twice: the first leaves nothing behind
            ctx.set(dut.begin, begin)
            await ctx.tick()
            ctx.set(dut.begin.valid, 0)
            ctx.set(dut.o.ready, 1)
            for clock in range(clocks):
                ctx.set(dut.port.valid, clock < len(beats))
                if clock < len(beats):
                    ends = clock == len(beats) - 1
                    header = {"tag": 2, "beat": beats[clock], "page_end": ends}
                    ctx.set(dut.port.header, header)
                if ctx.get(dut.o.valid):
                    came.append(64 * ctx.get(dut.o.header.address))
                if ctx.get(dut.end[BY_DATA].valid):
                    completions.append((at + clock, ctx.get(dut.end[BY_DATA].slot)))
                await ctx.tick()

    simulate(dut, bench, clocks=50)
    assert came == [9 * 256 + 64 * beat for beat in beats] * 2
    end = 2 + len(beats)  # two clocks of latency, and one after the last beat
    assert completions == [(end, 2), (20 + end, 2)]
