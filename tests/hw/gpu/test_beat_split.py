"""Beats of link B to their consumers."""

import random
from collections import deque

import pytest

from hw.gpu.beat_split import BeatSplit
from hw.ucie.transaction import MessageClass
from tests.hw.beats import Quiet, clocked, get_lanes, set_lanes
from tests.hw.pysim import simulate

CLASSES = {  # all that link B carries beside data, and to whom it goes
    MessageClass.RELAY_DATA: "relay",
    MessageClass.COMPLETION: "relay",
    MessageClass.READ_DATA: "local",
}


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_each_beat_goes_to_its_consumer_in_order_and_waits_for_no_other(stall):
    pick = random.Random(f"{stall}")
    dut = BeatSplit(lanes=2)
    beats = [(pick.choice(list(CLASSES)), k) for k in range(200)]
    came = []

    async def bench(ctx):
        ctx = Quiet(ctx)
        left = deque(beats)
        while left:
            kind, number = left[0]
            header = {"message_class": kind, "tag": number, "poison": number % 2}
            ctx.set(dut.i.valid, valid := pick.random() < 0.8)
            ctx.set(dut.i.header, header)
            set_lanes(ctx, dut.i, number)
            ready = {name: pick.random() >= stall for name in ("relay", "local")}
            for name, is_ready in ready.items():
                ctx.set(getattr(dut, name).ready, is_ready)
            for name, is_ready in ready.items():
                out = getattr(dut, name)
                mine = CLASSES[kind] == name
                assert ctx.get(out.valid) == (valid and mine)
                if mine:
                    assert ctx.get(dut.i.ready) == is_ready
                if mine and valid and is_ready:
                    assert ctx.get(out.header) == dut.i.header.shape().const(header)
                    came.append((kind, get_lanes(ctx, out)))
                    left.popleft()
            await ctx.tick()

    simulate(clocked(dut), bench, clocks=2000)
    assert came == beats
