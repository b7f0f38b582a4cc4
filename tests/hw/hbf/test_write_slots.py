"""Which slot a write reserves: never the one that a read may take in the same clock."""

import itertools

import pytest

from hw.hbf.write_admission import WriteAdmission
from hw.ucie.transaction import Operation, Owner
from tests.hw.machines import TINY
from tests.hw.pysim import simulate


@pytest.mark.parametrize("busy", list(itertools.product((0, 1), repeat=2)), ids=str)
def test_slot_of_a_write(busy):
    dut = WriteAdmission(TINY, die=0, links=1)
    reserved = []

    async def bench(ctx):
        for region in range(2):
            ctx.set(dut.slot_busy[region], busy[region])  # of subarray 0
        write = {"first": 0, "pages": 1, "operation": Operation.WRITE, "owner": Owner.KV}
        ctx.set(dut.i.payload, write)
        ctx.set(dut.i.valid, 1)
        await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        for _ in range(20):
            *_, reserve = await ctx.tick().sample(dut.reserve)
            if reserve.valid:
                reserved.append(reserve.slot.region)

    simulate(dut, bench, clocks=30)
    # Of two free slots reads take region 0; they leave the last free one to the write.
    assert reserved == {(0, 0): [1], (0, 1): [0], (1, 0): [1], (1, 1): []}[busy]
