# amaranth: UnusedElaboratable=no
"""Unpacker against groups of the codec in plain Python, and behind the packer."""

import random

import pytest

from hw.ucie.packer import FLUSH_CLOCKS
from hw.ucie.unpacker import GroupUnpacker
from tb.vip.group_codec import GroupEncoder
from tests.formal.variants import variant
from tests.hw.pysim import simulate
from tests.hw.ucie.groups import (
    FULL,
    SMALL,
    Feed,
    Pair,
    beat_of,
    message_of,
    name_of,
    random_beat,
    random_header,
)

BOTH = [*SMALL, *FULL.values()]


async def put(ctx, unpacker, group: bytes | None) -> tuple[bytes | None, object]:
    """Message and beat of the clock after ``group``."""
    ctx.set(unpacker.i.valid, group is not None)
    noise = bytes([255]) * 16 * unpacker.layout.slots
    ctx.set(unpacker.i.payload, int.from_bytes(noise if group is None else group, "little"))
    await ctx.tick()
    return message_of(ctx, unpacker), beat_of(ctx, unpacker)


def group_by_group(sizes: dict, seed: int, groups: int, fill: float):
    """Groups of a sender that often does not wait until they are full, with what each ends."""
    pick = random.Random(seed)
    encoder = GroupEncoder(data_bytes=8 * sizes["lanes"], slots=sizes["slots"])
    message, under_way, found = None, [], []
    for _ in range(groups):
        if not encoder.full and pick.random() < fill:
            beat = random_beat(pick, sizes["lanes"])
            under_way.append(beat)
            encoder.put_beat(beat)
        message = random_header(pick) if pick.random() < 0.5 else None
        if message:
            encoder.put_message(message)
        group = encoder.group()
        left = -(-encoder.pending // (1 + sizes["lanes"] // 2))  # beats that have not ended
        assert len(under_way) - left in (0, 1)
        found.append((group, message, under_way.pop(0) if len(under_way) > left else None))
    return found


def run_groups(unpacker, groups, seed: int, gaps: float) -> list[int]:
    """Each group's message and beat come one clock later; the places where beats are wrong."""
    pick, wrong = random.Random(seed), []

    async def bench(ctx):
        for number, (group, message, beat) in enumerate(groups):
            while pick.random() < gaps:
                assert await put(ctx, unpacker, None) == (None, None)
            if await put(ctx, unpacker, group) != (message, beat):
                wrong.append(number)
        assert await put(ctx, unpacker, None) == (None, None)

    simulate(unpacker, bench, clocks=40 * len(groups))
    return wrong


@pytest.mark.parametrize("fill", [1.0, 0.5], ids=["full", "with pauses"])
@pytest.mark.parametrize("sizes", BOTH, ids=name_of)
def test_messages_and_beats_come_one_clock_after_their_group(sizes, fill):
    count = 200 if sizes in SMALL else 70 if fill == 1 else 25
    groups = group_by_group(sizes, 1, count, fill)
    assert sum(beat is not None for *_, beat in groups) > count // 8
    assert run_groups(GroupUnpacker(**sizes), groups, 2, gaps=0.3) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(known >= beat_slots)", "(known > beat_slots)"),
        ("ends & ~begins", "0"),
        ("carries.eq(data[FILLED])", "carries.eq(1)"),
    ],
    ids=["end of region", "empty rest", "empty region"],
)
def test_wrong_unpackers_are_noticed(old, new):
    sizes = SMALL[0]
    broken = variant(GroupUnpacker, (old, new))
    assert run_groups(broken(**sizes), group_by_group(sizes, 1, 60, 0.5), 2, gaps=0.3)


@pytest.mark.parametrize("sizes", SMALL, ids=name_of)
def test_clear_forgets_the_beat_under_way_and_the_group_of_its_clock(sizes):
    unpacker, pick = GroupUnpacker(**sizes), random.Random(4)
    beat_slots = 1 + sizes["lanes"] // 2

    async def bench(ctx):
        for before in range(1, 2 * beat_slots):
            old = group_by_group(sizes, before, before + 1, 1.0)
            for group, message, beat in old[:-1]:
                assert await put(ctx, unpacker, group) == (message, beat)
            ctx.set(unpacker.clear, 1)
            assert await put(ctx, unpacker, old[-1][0]) == (None, None)
            ctx.set(unpacker.clear, 0)
            new = group_by_group(sizes, pick.getrandbits(9), 3 * beat_slots, 1.0)
            for group, message, beat in new:
                assert await put(ctx, unpacker, group) == (message, beat)
            ctx.set(unpacker.clear, 1)
            assert await put(ctx, unpacker, None) == (None, None)
            ctx.set(unpacker.clear, 0)

    simulate(unpacker, bench, clocks=20 * beat_slots**2 + 200)


@pytest.mark.parametrize("rates", [(1, 1, 1), (0.3, 0.8, 0.6), (0.1, 0.1, 0.5)], ids=str)
@pytest.mark.parametrize("sizes", BOTH, ids=name_of)
def test_what_went_into_the_packer_comes_out_of_the_unpacker(sizes, rates):
    pick = random.Random(6)
    pair = Pair(**sizes, flush=FLUSH_CLOCKS)
    count = 80 if sizes in SMALL else 12
    messages = [random_header(pick) for _ in range(count)]
    beats = [random_beat(pick, sizes["lanes"]) for _ in range(count)]
    feed = Feed(pair.packer, messages, beats)
    came: tuple[list, list] = ([], [])

    async def bench(ctx):
        rest = 3 * FLUSH_CLOCKS
        while rest:
            offers = [pick.random() < rate for rate in rates]
            ctx.set(pair.packer.o.ready, offers[2] or feed.done)
            taken = feed.offer(ctx, message=offers[0], beat=offers[1])
            await ctx.tick()
            feed.after(ctx, taken)
            found = message_of(ctx, pair.unpacker), beat_of(ctx, pair.unpacker)
            for thing, things in zip(found, came, strict=True):
                things += [] if thing is None else [thing]
            rest -= feed.done

    simulate(pair, bench, clocks=100 * count)
    assert came == (messages, beats)


def test_sizes_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="slots must be 2 to 6"):
        GroupUnpacker(lanes=8, slots=7)
    assert GroupUnpacker(lanes=8, slots=6).layout.beats_a_group == 1
