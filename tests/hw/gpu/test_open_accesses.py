# amaranth: UnusedElaboratable=no
"""Beats of open reads of the HBM stack, against a set of accesses."""

import random
from collections import deque

import pytest

from hw.gpu.open_accesses import OpenAccesses
from hw.hbm.dram.stacks import stack
from tests.hw.beats import Quiet
from tests.hw.gpu.local_bench import FEW, NARROW, pieces
from tests.hw.pysim import simulate


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("of", [FEW, NARROW], ids=["beats of four", "beats of one"])
def test_every_read_of_a_small_stack_has_the_beats_that_hold_it(of, slots):
    """All addresses and lengths, in any order, several at a time; some end early."""
    seed = f"{of.name}/{slots}"
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = OpenAccesses(of, slots=slots)
    spans = [(a, n) for a in range(of.accesses) for n in range(1, of.accesses - a + 1)]
    pick.shuffle(spans)
    ended = {"whole": 0, "cut": 0, "untouched": 0}

    async def bench(ctx):
        ctx = Quiet(ctx)
        left, reads = deque(spans), {}
        while left or reads:
            free = [slot for slot in range(slots) if slot not in reads]
            begin, begun = {"valid": 0}, None
            if left and free and pick.random() < 0.7:
                begun = pick.choice(free)
                address, length = left.popleft()
                begin = {"valid": 1, "slot": begun, "address": address, "length": length}
            beat = {"valid": 0, "slot": pick.randrange(slots)}
            end, received = dict(beat), 0
            if reads and pick.random() < 0.9:
                beat = {"valid": 1, "slot": pick.choice(sorted(reads))}
            others = sorted(slot for slot in reads if slot != beat["slot"])
            if others and pick.random() < 0.02:
                end = {"valid": 1, "slot": pick.choice(others)}
            ctx.set(dut.begin, begin)
            ctx.set(dut.beat, beat)
            ctx.set(dut.end, end)
            assert ctx.get(dut.open) == sum(1 << slot for slot in reads)
            for slot, (rest, _) in reads.items():
                if slot == beat["slot"]:  # also if nothing is taken
                    place = ctx.get(dut.place)
                    shown = (place.address, place.wanted, place.last)
                    assert shown == (rest[0].address, rest[0].wanted, rest[0].last), seed
            if beat["valid"]:
                rest, _ = reads[beat["slot"]]
                received += rest.popleft().wanted.bit_count()
                if not rest:
                    del reads[beat["slot"]]
                    ended["whole"] += 1
            if end["valid"]:
                rest, beats = reads.pop(end["slot"])
                received += sum(piece.wanted.bit_count() for piece in rest)
                ended["cut" if len(rest) < beats else "untouched"] += 1
            assert ctx.get(dut.received) == received, seed
            await ctx.tick()
            if begun is not None:
                beats = deque(pieces(address, length, of.beat_accesses))
                reads[begun] = (beats, len(beats))

    simulate(dut, bench, clocks=20 * len(spans))
    assert sum(ended.values()) == len(spans) and ended["whole"] > len(spans) // 2
    assert slots == 1 or min(ended["cut"], ended["untouched"]) > 0, ended


def test_the_largest_read_of_a_full_stack():
    """2^19 - 1 accesses up to the end of 24 GiB: more beats than 14 bits count."""
    of = stack("hbm3e-9200")
    dut = OpenAccesses(of, slots=2)
    length = 2**19 - 1
    first = of.accesses - length

    async def bench(ctx):
        ctx.set(dut.begin, {"valid": 1, "slot": 1, "address": first, "length": length})
        await ctx.tick()
        ctx.set(dut.begin.valid, 0)
        ctx.set(dut.beat, {"valid": 1, "slot": 1})
        at = first - first % 16
        assert ctx.get(dut.place.wanted) == 0xFFFF & ~((1 << first % 16) - 1) != 0xFFFF
        for _ in range(40):
            place = ctx.get(dut.place)
            assert (place.address, place.last) == (at, 0)
            at += 16
            await ctx.tick()
        ctx.set(dut.beat.valid, 0)
        ctx.set(dut.end, {"valid": 1, "slot": 1})
        assert ctx.get(dut.received) == of.accesses - at

    simulate(dut, bench, clocks=60)


def test_a_slot_is_needed():
    with pytest.raises(ValueError, match="slots must be at least 1, not 0"):
        OpenAccesses(FEW, slots=0)
