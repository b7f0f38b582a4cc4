# amaranth: UnusedElaboratable=no
"""Erase-block table against its twin by random operations; dead blocks are never lost."""

import random

import pytest

from hw.hbf.block_layouts import BlockOperation
from hw.hbf.block_table import BlockTable
from hw.presets import preset
from perfmodel.memory.blocks import Block, BlockLedger
from tests.hw.hbf.block_bench import (
    ADMIT,
    COLLECT,
    ERASED,
    FAILED,
    ILLEGAL,
    KV,
    NONE,
    OK,
    ORDER,
    PERIOD,
    QUERY,
    RELEASE,
    REPLAY,
    SENSED,
    TRIM,
    WEIGHT,
    Op,
    Reader,
    ask,
    operate,
)
from tests.hw.machines import TINY
from tests.hw.pysim import simulate


class Crowd:
    """Random operations that crowd a few blocks, most of them such that they succeed."""

    def __init__(self, ledger, pick, *, geometry, blocks):
        self.ledger, self.pick, self.pages = ledger, pick, geometry.pages_per_block
        self.blocks = blocks
        self.expected, self.deaths = [], []

    def draw(self, count):
        for _ in range(count):
            op = self._one()
            dead = set(self.ledger.dead)
            self.expected.append((op, *ask(self.ledger, op)))
            self.deaths += [(b.subarray, b.block) for b in self.ledger.dead if b not in dead]
            yield op

    def _one(self):
        pick = self.pick
        where = pick.choice(self.blocks)
        if self.ledger.dead and pick.random() < 0.1:
            block = pick.choice(self.ledger.dead)
            return Op(COLLECT, where=(block.subarray, block.block))
        entry = self.ledger.query(Block(die=0, subarray=where[0], block=where[1]))
        kind = pick.choices(
            list(BlockOperation), weights=(12, 1, 1, 1, 12, 0.5, 2, 1), k=1
        )[0]  # fmt: skip
        page, owner = pick.randrange(self.pages), pick.choice((NONE, WEIGHT, KV, KV, KV))
        if pick.random() < 0.7:
            owner = entry.owner or owner
            page = entry.next_page % self.pages if kind is ADMIT else max(0, entry.next_page - 1)
            if kind is ADMIT and page == 0 and entry.live_pages:
                kind = TRIM
        return Op(kind, where=where, page=page, owner=owner)


def check(dut, crowd, answers):
    assert len(answers) == len(crowd.expected)
    for number, (got, expected) in enumerate(zip(answers, crowd.expected, strict=True)):
        assert got == expected, f"operation {number}"


def check_counters(ctx, dut, ledger):
    wear = ledger.wear
    for name in ("erases", "collected", "max_cycles"):
        assert ctx.get(getattr(dut, name)) == getattr(wear, name), name
    assert ctx.get(dut.admitted) == wear.pages_programmed


CROWDED = {
    "formal": (preset("formal"), [(s, b) for s in range(2) for b in range(2)]),
    "tiny": (TINY, [(0, 0), (3, 1), (3, 2)]),
    "mini": (preset("mini"), [(31, 15), (7, 0)]),
    "one block": (TINY, [(2, 3)]),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("crowded", CROWDED)
def test_as_the_twin(crowded, seed):
    machine, blocks = CROWDED[crowded]
    pick = random.Random(seed)
    dut = BlockTable(machine, cycle_bits=4, read_bits=3)
    ledger = BlockLedger(machine.geometry, cycle_bits=4, read_bits=3)
    crowd = Crowd(ledger, pick, geometry=machine.geometry, blocks=blocks)
    reader = Reader(chance=1, pick=pick)
    fast = seed == 0
    pauses = None if fast else lambda: pick.choice((0, 0, 0, 1, 2, 5))

    async def bench(ctx):
        answers = await operate(ctx, dut, crowd.draw(1000), reader=reader, pauses=pauses)
        check(dut, crowd, answers)
        check_counters(ctx, dut, ledger)
        g = machine.geometry
        everywhere = [
            (s, b) for s in range(g.subarrays_per_die) for b in range(g.blocks_per_subarray)
        ]
        queries = await operate(ctx, dut, [Op(QUERY, where=where) for where in everywhere])
        for (subarray, block), (_, _, entry) in zip(everywhere, queries, strict=True):
            assert entry == ledger.query(Block(die=0, subarray=subarray, block=block))

    simulate(dut, bench, clocks=20_000)
    # A reader that never waits is offered every block that dies, once, in order.
    offers = [block for _, block in reader.offers]
    assert offers == crowd.deaths[: len(offers)] and len(crowd.deaths) - len(offers) <= 1
    seen = {(op.kind, verdict.status, verdict.erase) for op, verdict, _ in crowd.expected}
    assert seen >= {
        *((ADMIT, status, False) for status in (OK, ILLEGAL, ORDER, REPLAY)),
        (ADMIT, OK, True),
        (COLLECT, OK, True),
        *((kind, OK, False) for kind in (FAILED, ERASED, TRIM, RELEASE, SENSED, QUERY)),
        *((kind, ILLEGAL, False) for kind in (COLLECT, TRIM, RELEASE)),
        *((kind, ORDER, False) for kind in (COLLECT, TRIM)),
    }


@pytest.mark.parametrize("seed", range(4))
def test_no_dead_block_is_lost_when_the_queue_is_full(seed):
    """A slow reader of ``dead`` that asks COLLECT for each block it is offered gets them all."""
    pick = random.Random(seed)
    dut = BlockTable(TINY, dead_depth=2)
    ledger = BlockLedger(TINY.geometry)
    blocks = [(s, b) for s in range(4) for b in range(4)]
    reader = Reader(chance=0 if seed % 2 else 0.02, pick=pick)
    kills = []
    for block in pick.sample(blocks, len(blocks)):
        kills += [Op(ADMIT, where=block, page=page, owner=KV) for page in range(4)]
        kills += [Op(TRIM, where=block, page=page) for page in range(4)]
    at_random = Crowd(ledger, pick, geometry=TINY.geometry, blocks=blocks)

    async def bench(ctx):
        # The queue holds few of these sixteen, yet operations go on at full rate.
        answers = await operate(ctx, dut, kills, reader=reader)
        assert answers == [(op, *ask(ledger, op)) for op in kills]
        assert len(ledger.dead) == 16 and len(reader.offers) < 12
        if seed >= 2:
            answers = await operate(ctx, dut, at_random.draw(200), reader=reader)
            check(dut, at_random, answers)
        reader.chance, quiet, collected = 1, 0, len(reader.offers)
        waiting = {block for _, block in reader.offers}
        while quiet < 2 * 16 * PERIOD:
            reader.clock(ctx, dut, 0)
            await ctx.tick()
            quiet += 1
            for _, block in reader.offers[collected:]:
                waiting.add(block)
                quiet = 0
            collected = len(reader.offers)
        # Now it is quiet, and all that are dead were offered; COLLECT sorts out the others.
        assert {(b.subarray, b.block) for b in ledger.dead} <= waiting
        collects = [Op(COLLECT, where=block) for block in sorted(waiting)]
        answers = await operate(ctx, dut, collects)
        assert answers == [(op, *ask(ledger, op)) for op in collects]
        assert not ledger.dead

    simulate(dut, bench, clocks=20_000)
