# amaranth: UnusedElaboratable=no
"""Reads of every address and length against a list of bytes, and under credit."""

import dataclasses
import random
from collections import deque

import pytest

from hw.hbf.layouts import MAX_PAGES
from hw.hbf.request_decoder import RequestDecoder
from hw.params import KIB, Credits, Geometry, Link, Sram, Tsv
from hw.presets import preset
from hw.ucie.transaction import Status
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

# Two address units a beat, so that a unit is not a beat: 8 pages of 512 bytes.
WIDE = dataclasses.replace(
    preset("formal"),
    geometry=Geometry(
        dies=2, planes=2, subarrays=1, page_bytes=512, pages_per_block=2, blocks_per_subarray=1
    ),
    tsv=Tsv(bytes_per_s=400e9),
    link=Link(
        modules=2, lanes=16, usable_bytes_per_s=200e9, beat_bytes=128, flit_bytes=64,
        one_way_cycles=2,
    ),
    sram=Sram(hbf_region_bytes=2 * KIB, relay_region_bytes=KIB, bank_bytes=16),
    credits=Credits(rx_beats=8, descriptors=8, writes=2),
)  # fmt: skip


def expected(machine, address: int, length: int):
    """(first page, pages, first beat, last beat), by counting the units; None if refused."""
    per_page = machine.geometry.page_bytes // 64
    per_beat = machine.link.beat_bytes // 64
    wanted = range(address, address + length)
    if not wanted or wanted[-1] >= machine.geometry.stack_pages * per_page:
        return None
    pages = wanted[-1] // per_page - wanted[0] // per_page + 1
    if pages > MAX_PAGES:
        return None
    beats = [wanted[0] % per_page // per_beat, wanted[-1] % per_page // per_beat]
    if pages > 1 and (wanted[0] % per_page or length % per_page):
        return None
    return wanted[0] // per_page, pages, *beats


class Ends:
    """Both ends of a decoder; the sender obeys its credits."""

    def __init__(self, decoder, ctx, credits: int) -> None:
        self.decoder, self.ctx, self.credits = decoder, ctx, credits
        self.limit = credits
        self.waiting: deque = deque()
        self.descriptors: list = []
        self.refused: list = []
        self.order: list[int] = []
        self.inside: deque = deque()  # tags of reads that have not left
        self.dropped: list[int] = []
        self.left = 0

    async def clock(self, *, send=True, ready=(1, 1), lost=False) -> None:
        decoder, ctx = self.decoder, self.ctx
        self.credits += ctx.get(decoder.port.credit)
        assert self.credits <= self.limit
        send = bool(send and self.waiting and self.credits)
        ctx.set(decoder.port.valid, send)
        if send:
            tag, address, length = self.waiting.popleft()
            self.credits -= 1
            self.sending = tag
            ctx.set(decoder.port.header, {"tag": tag, "address": address, "length": length})
        ctx.set(decoder.lost, lost)
        ctx.set(decoder.o.ready, ready[0])
        ctx.set(decoder.refused.ready, ready[1])
        if lost:
            assert not ctx.get(decoder.o.valid) and not ctx.get(decoder.refused.valid)
        if not ctx.get(decoder.empty):
            assert self.inside
            if lost:
                self.dropped.append(self.inside.popleft())
        else:
            assert not ctx.get(decoder.o.valid) and not ctx.get(decoder.refused.valid)
        pages = ctx.get(decoder.pages)
        assert not (ctx.get(decoder.o.valid) and ctx.get(decoder.refused.valid))
        if ready[0] and ctx.get(decoder.o.valid):
            d = ctx.get(decoder.o.payload)
            assert pages == d.pages
            self.descriptors.append((d.tag, d.first, d.pages, d.first_beat, d.last_beat))
            self.order.append(d.tag)
        else:
            assert pages == 0
        if ready[1] and ctx.get(decoder.refused.valid):
            r = ctx.get(decoder.refused.payload)
            self.refused.append((r.tag, r.status))
            self.order.append(r.tag)
        left = len(self.order) - self.left
        self.left = len(self.order)
        for tag in self.order[len(self.order) - left :]:
            assert self.inside.popleft() == tag
        if send:
            self.inside.append(self.sending)
        await ctx.tick()


def check(machine, reads, *, clocks, choose=None) -> None:
    """Send ``reads`` (address, length) and compare all that leaves with :func:`expected`."""
    decoder = RequestDecoder(machine)
    asked = [(tag % 4096, *read) for tag, read in enumerate(reads)]

    async def bench(ctx):
        ends = Ends(decoder, ctx, machine.credits.descriptors)
        ends.waiting.extend(asked)
        while len(ends.order) < len(asked):
            await ends.clock(**(choose() if choose else {}))
        for _ in range(4):
            await ends.clock()
        assert ends.credits == machine.credits.descriptors
        results = [(tag, expected(machine, address, length)) for tag, address, length in asked]
        assert ends.order == [tag for tag, _ in results]
        assert ends.descriptors == [(tag, *found) for tag, found in results if found]
        assert ends.refused == [(tag, Status.BAD_ADDRESS) for tag, found in results if not found]

    simulate(decoder, bench, clocks=clocks)


@pytest.mark.parametrize("machine", [WIDE, preset("formal")], ids=["two units a beat", "formal"])
def test_every_address_and_length_of_a_small_stack(machine):
    units = machine.geometry.stack_bytes // 64
    reads = [(a, n) for a in range(units + 2) for n in range(units + 3 - a)]
    assert 1000 < len(reads) < 4096
    check(machine, reads, clocks=12 * len(reads))


def test_longest_read_and_the_ends_of_the_largest_stack():
    machine = preset("paper")
    units, longest = machine.geometry.stack_bytes // 64, MAX_PAGES * 64
    reads = [
        (0, longest),
        (0, longest + 1),
        (0, longest + 64),
        (0, 2**19 - 64),
        (64, longest),
        (units - longest, longest),
        (units - longest + 64, longest),
        (units - 64, 64),
        (units - 1, 1),
        (units - 1, 2),
        (units, 1),
        (units, 0),
        (2**40 - 64, 64),
        (2**40 - 1, 1),
        (63, 1),
        (63, 2),
        (15, 2),
        (16, 16),
        (47, 2),
        (1, 63),
        (1, 64),
    ]
    check(machine, reads, clocks=200)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_while_either_side_stalls(seed):
    rng = random.Random(seed)
    reads = []
    for _ in range(200):
        length = rng.choice([0, rng.randrange(1, 5), 4 * rng.randrange(1, 300)])
        reads.append((rng.choice([1, 4]) * rng.randrange(0, 260), length))
    found = [expected(TINY, *read) is not None for read in reads]
    assert min(found.count(True), found.count(False)) > 40
    pace, take = rng.choice([0.3, 1]), [rng.choice([0.2, 0.7, 1]) for _ in range(2)]

    def choose():
        return {"send": rng.random() < pace, "ready": [rng.random() < share for share in take]}

    check(TINY, reads, clocks=6000, choose=choose)


@pytest.mark.parametrize("seed", range(4))
def test_reads_of_a_lost_link_are_dropped_and_those_after_it_are_not(seed):
    """Every read leaves in order or is dropped; a queue of them is empty after as many clocks."""
    rng = random.Random(seed)
    print(f"seed {seed}")
    credits = TINY.credits.descriptors
    decoder = RequestDecoder(TINY)
    take = [rng.choice([0.1, 0.7]) for _ in range(2)]

    async def bench(ctx):
        ends = Ends(decoder, ctx, credits)
        for tag in range(300):
            length = rng.choice([0, rng.randrange(1, 5), 4 * rng.randrange(1, 50)])
            ends.waiting.append((tag, rng.choice([1, 4]) * rng.randrange(0, 260), length))
        asked = {tag: expected(TINY, *read) for tag, *read in ends.waiting}
        while ends.waiting:
            for _ in range(rng.randrange(1, 30)):
                ready = [rng.random() < share for share in take]
                await ends.clock(send=rng.random() < 0.7, ready=ready)
            # What had come to the port as the link was lost comes in the first clocks.
            for clock in range(33):
                ready = [rng.random() < share for share in take]
                await ends.clock(send=clock < 3 and rng.random() < 0.5, ready=ready, lost=True)
                if clock > credits + 5:
                    assert ctx.get(decoder.empty) and not ends.inside
            assert ends.credits == credits
        while ends.inside:
            await ends.clock()
        assert sorted([*ends.order, *ends.dropped]) == list(range(300))
        assert ends.order == sorted(ends.order)
        assert min(len(ends.descriptors), len(ends.refused), len(ends.dropped)) > 10
        assert ends.descriptors == [(t, *asked[t]) for t in ends.order if asked[t]]
        assert ends.refused == [(t, Status.BAD_ADDRESS) for t in ends.order if not asked[t]]

    simulate(decoder, bench, clocks=6000)


def test_a_read_takes_two_clocks_and_the_next_comes_one_later():
    machine = preset("mini")
    count = machine.credits.descriptors
    decoder = RequestDecoder(machine)
    seen = []

    async def bench(ctx):
        ctx.set(decoder.o.ready, 1)
        for clock in range(count + 5):
            ctx.set(decoder.port.valid, clock < count)
            units = machine.geometry.page_bytes // 64
            ctx.set(decoder.port.header, {"tag": clock, "address": 0, "length": units})
            if ctx.get(decoder.o.valid):
                seen.append((clock, ctx.get(decoder.o.payload.tag)))
            await ctx.tick()

    simulate(decoder, bench, clocks=count + 6)
    assert seen == [(tag + 2, tag) for tag in range(count)]
