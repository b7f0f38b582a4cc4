# amaranth: UnusedElaboratable=no
"""The shared block table: who goes first, who gets which answer, and no sensed page uncounted."""

import random
from collections import Counter

import pytest

from hw.hbf.block_layouts import BlockOperation
from hw.hbf.block_port import BlockPort
from hw.ucie.codes import Owner, Status
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

ADMIT, QUERY, SENSED = BlockOperation.ADMIT, BlockOperation.QUERY, BlockOperation.SENSED
SUBARRAYS = TINY.geometry.subarrays_per_die
BLOCKS = TINY.geometry.blocks_per_subarray
# Clocks from the table's taking an operation to its answer.
LATENCY = 2


def block(where):
    return {"subarray": where[0], "block": where[1]}


def place(view):
    return view.subarray, view.block


@pytest.mark.parametrize("seed", range(3))
def test_operations_go_before_questions_and_these_before_sensed_pages(seed):
    pick = random.Random(seed)
    dut = BlockPort(TINY)
    asked = {kind: [] for kind in (ADMIT, QUERY, SENSED)}
    answered = {kind: [] for kind in asked}
    waiting = []  # (operation, question) in each clock

    async def bench(ctx):
        streams = {ADMIT: dut.op, QUERY: dut.query, SENSED: dut.sensed}
        shown = dict.fromkeys(streams)
        clock = 0
        while clock < 600 or any(len(answered[k]) < len(asked[k]) for k in asked):
            for kind, port in streams.items():
                if shown[kind] is None and clock < 600 and pick.random() < 0.1:
                    shown[kind] = where = pick.randrange(SUBARRAYS), pick.randrange(BLOCKS)
                    payload = block(where)
                    if kind == ADMIT:
                        payload = {"kind": ADMIT, "where": payload, "owner": Owner.KV}
                    ctx.set(port.payload, payload)
                ctx.set(port.valid, shown[kind] is not None)
            waiting.append((shown[ADMIT] is not None, shown[QUERY] is not None))
            if ctx.get(dut.answer.valid):
                kind = BlockOperation(ctx.get(dut.answer.kind))
                answered[kind].append(place(ctx.get(dut.answer.where)))
                operation, question = waiting[clock - LATENCY]
                assert kind == ADMIT or not operation
                assert kind != SENSED or not question
            for kind, port in streams.items():
                if shown[kind] is not None and ctx.get(port.ready):
                    asked[kind].append(shown[kind])
                    shown[kind] = None
            await ctx.tick()
            clock += 1

    simulate(dut, bench, clocks=1500)
    assert answered == asked
    assert min(map(len, asked.values())) > 25


def test_every_sensed_page_is_counted_though_operations_hold_the_table():
    """A page of every subarray fits in while nothing is counted; then ``ready`` falls."""
    dut = BlockPort(TINY)
    taken = Counter()
    reads = {}

    async def bench(ctx):
        ctx.set(dut.op.valid, 1)
        ctx.set(dut.op.payload, {"kind": ADMIT, "where": block((0, 0)), "owner": Owner.NONE})
        ctx.set(dut.sensed.valid, 1)
        ready = []
        for k in range(3 * SUBARRAYS):
            where = k % SUBARRAYS, k % BLOCKS
            ctx.set(dut.sensed.payload, block(where))
            ready.append(ctx.get(dut.sensed.ready))
            taken[where] += ready[-1]
            if ctx.get(dut.answer.valid):
                assert ctx.get(dut.answer.kind) == ADMIT
                assert ctx.get(dut.answer.status) == Status.ILLEGAL_OWNER
            await ctx.tick()
        assert ready == sorted(ready, reverse=True)
        assert SUBARRAYS <= sum(ready) < len(ready)

        ctx.set(dut.op.valid, 0)
        ctx.set(dut.sensed.valid, 0)
        for _ in range(4 * len(ready)):
            await ctx.tick()
        assert ctx.get(dut.sensed.ready)
        for where in taken:
            ctx.set(dut.query.valid, 1)
            ctx.set(dut.query.payload, block(where))
            while not ctx.get(dut.query.ready):
                await ctx.tick()
            await ctx.tick()
            ctx.set(dut.query.valid, 0)
            while not ctx.get(dut.answer.valid):
                await ctx.tick()
            reads[where] = ctx.get(dut.answer.entry.reads)

    simulate(dut, bench, clocks=400)
    assert reads == dict(taken)
