# amaranth: UnusedElaboratable=no
"""Requests cut to beats, and the room and the order of what comes back."""

import dataclasses
import random

from hw.hbm.dram.beat_walk import BeatWalk
from hw.hbm.dram.description import DramOrganization, DramScheduling
from hw.hbm.dram.read_order import ReadOrder
from hw.hbm.dram.stacks import stack
from tests.hw.pysim import simulate

# Beats of two accesses, over two halves of two pseudo-channels.
STACK = dataclasses.replace(
    stack("formal"),
    organization=DramOrganization(
        pseudo_channels=4, stack_ids=1, bank_groups=2, banks=1, rows=2, row_bytes=128
    ),
    scheduling=DramScheduling(reads=2, writes=2, beats=4, requests=2),
    beat_bytes=128,
)


def test_every_request_leaves_as_the_beats_that_hold_it():
    wide = dataclasses.replace(STACK, beat_bytes=256)
    dut, pick = BeatWalk(wide), random.Random(1)
    accesses = wide.accesses
    requests = [(a, n) for a in range(accesses) for n in range(1, accesses - a + 1)]
    assert len(requests) > 100
    expected = []
    for tag, (address, length) in enumerate(requests):
        first, last = address // 4, (address + length - 1) // 4
        for number in range(first, last + 1):
            wanted = {k for k in range(4) if address <= 4 * number + k < address + length}
            expected.append((number, tag, number - first, wanted, number == last))
    found = []

    async def ask(ctx):
        for tag, (address, length) in enumerate(requests):
            ctx.set(dut.i.payload, {"address": address, "length": length, "tag": tag})
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def take(ctx):
        while len(found) < len(expected):
            ctx.set(dut.o.ready, pick.random() < 0.8)
            if ctx.get(dut.o.valid) and ctx.get(dut.o.ready):
                beat = ctx.get(dut.o.payload)
                wanted = {k for k in range(4) if beat.label.wanted >> k & 1}
                label = beat.label
                found.append((beat.number, label.tag, label.beat, wanted, bool(label.last)))
            await ctx.tick()

    simulate(dut, ask, take, clocks=20 * len(expected))
    assert found == expected


def test_beats_leave_in_order_whatever_order_their_accesses_come_in():
    """No slot is given twice, none is lost, and each lane is that of its access."""
    dut, pick = ReadOrder(STACK), random.Random(2)
    total, slots = 120, STACK.scheduling.beats
    beats = [(pick.randrange(2), pick.randrange(1, 4), pick.random() < 0.2) for _ in range(total)]
    given, missing, taken = 0, [], []
    most = 0

    async def bench(ctx):
        nonlocal given, most
        while len(taken) < total:
            # Accesses come back, at most one a pseudo-channel and clock, in any order.
            for channel in range(4):
                mine = [m for m in missing if m[0] == channel]
                ctx.set(dut.returned[channel].valid, 0)
                if mine and pick.random() < 0.5:
                    item = pick.choice(mine)
                    missing.remove(item)
                    _, slot, number, poison = item
                    ctx.set(dut.returned[channel], {"valid": 1, "tag": slot, "poison": poison})
                    for k in range(8):
                        ctx.set(dut.lanes[channel][k], number << 8 | channel << 4 | k)
            ctx.set(dut.give, 0)
            if given < total and pick.random() < 0.7:
                half, wanted, poison = beats[given]
                if ctx.get(dut.room) >> half & 1:
                    slot = ctx.get(dut.slot[half])
                    ctx.set(dut.give, 1)
                    ctx.set(dut.half, half)
                    ctx.set(dut.label, {"tag": given, "wanted": wanted, "last": given % 3 == 0})
                    missing.extend(
                        (2 * half + i, slot, given, poison) for i in range(2) if wanted >> i & 1
                    )
                    given += 1
            most = max(most, given - len(taken))
            ctx.set(dut.o.ready, pick.random() < 0.8)
            if ctx.get(dut.o.valid) and ctx.get(dut.o.ready):
                number = len(taken)
                half, wanted, poison = beats[number]
                label = ctx.get(dut.o.label)
                assert label.tag == number and label.wanted == wanted
                assert label.last == (number % 3 == 0) and label.poison == poison
                for i in range(2):
                    for k in range(8):
                        right = number << 8 | (2 * half + i) << 4 | k if wanted >> i & 1 else 0
                        assert ctx.get(dut.o.lanes[8 * i + k]) == right
                taken.append(number)
            await ctx.tick()

    simulate(dut, bench, clocks=40 * total)
    # Room for `beats` of each half, and what stands at the output.
    assert slots < most <= 2 * slots + 2
