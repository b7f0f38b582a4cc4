# amaranth: UnusedElaboratable=no
"""Erase-block table: every rule by hand, wear counters, clocks of an operation."""

import pytest

from hw.hbf.block_layouts import entry_layout
from hw.hbf.block_table import BlockTable
from hw.params import BLOCK_READ_BITS, ERASE_CYCLE_BITS
from hw.presets import preset
from perfmodel.memory.blocks import BlockEntry, BlockLedger, Verdict
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
    ask,
    operate,
)
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

# By hand: operation, its status, whether it asks for an erase -------------------------------------


def step(kind, status=OK, *, page=0, owner=NONE, erase=False, where=(1, 0)):
    return Op(kind, where=where, page=page, owner=owner), Verdict(status=status, erase=erase)


def admit(page, owner, status=OK, *, erase=False, where=(1, 0)):
    return step(ADMIT, status, page=page, owner=owner, erase=erase, where=where)


def written(owner, pages=4):
    return [admit(page, owner) for page in range(pages)]


def trims(*pages):
    return [step(TRIM, page=page) for page in pages]


TAKES_PAGE_0 = [admit(0, KV, erase=True)]
FAILED_KV = [*written(KV, 2), step(FAILED)]
RULES = {
    "pages of a block come in order, each once": [
        admit(0, KV),
        admit(2, KV, ORDER),
        admit(1, KV),
        admit(1, KV, ORDER),
        *written(WEIGHT, 0),
        admit(2, KV),
        admit(3, KV),
        admit(3, KV, ORDER),
    ],
    "page 0 of a written block erases it first": [
        *written(WEIGHT, 2),
        admit(0, WEIGHT, erase=True),
        admit(2, WEIGHT, ORDER),
        admit(1, WEIGHT),
    ],
    "nobody may not write": [
        admit(0, NONE, ILLEGAL),
        admit(1, NONE, ILLEGAL),
        admit(0, 3, ILLEGAL),
        *FAILED_KV,
        admit(1, NONE, ILLEGAL),
        step(COLLECT, ORDER),
    ],
    "a block without owner is opened by page 0 only": [admit(1, WEIGHT, ILLEGAL), admit(0, WEIGHT)],
    "KV takes no block of weights": [
        *written(WEIGHT, 2),
        admit(0, KV, ILLEGAL),
        admit(2, KV, ILLEGAL),
        admit(2, WEIGHT),
    ],
    "weights take a KV block when no page is live": [
        *written(KV, 2),
        admit(0, WEIGHT, ILLEGAL),
        *trims(0),
        admit(0, WEIGHT, ILLEGAL),
        admit(2, WEIGHT, ILLEGAL),
        *trims(1),
        admit(2, WEIGHT, ILLEGAL),
        admit(0, WEIGHT, erase=True),
    ],
    "KV writes its own block again, live pages or not": [
        *written(KV, 2),
        admit(0, KV, erase=True),
        step(TRIM, page=0),
        step(TRIM, ORDER, page=0),
    ],
    "a failed block is replayed from page 0": [
        *FAILED_KV,
        admit(2, KV, REPLAY),
        admit(1, WEIGHT, REPLAY),
        admit(0, KV, erase=True),
        admit(1, KV),
    ],
    "garbage collection takes closed KV blocks without live pages": [
        step(COLLECT, ILLEGAL),
        *written(KV, 3),
        *trims(0, 1, 2),
        step(COLLECT, ORDER),  # open
        admit(3, KV),
        step(COLLECT, ORDER),  # live
        *trims(3),
        step(COLLECT, erase=True),
        step(COLLECT, ILLEGAL),
        admit(0, WEIGHT),  # erased
    ],
    "garbage collection takes failed KV blocks without live pages": [
        *FAILED_KV,
        step(COLLECT, ORDER),
        *trims(0, 1),
        step(COLLECT, erase=True),
        admit(0, KV),
    ],
    "an erase of garbage collection that fails is made up by page 0": [
        *written(KV),
        *trims(0, 1, 2, 3),
        step(COLLECT, erase=True),
        step(FAILED),
        admit(1, KV, REPLAY),
        admit(0, KV, erase=True),
    ],
    "only written pages of KV die": [
        step(TRIM, ILLEGAL),
        *written(KV, 2),
        step(TRIM, ORDER, page=2),
        *trims(1, 0),
        step(TRIM, ORDER, page=0),
    ],
    "weights stay through TRIM and COLLECT": [
        *written(WEIGHT),
        step(TRIM, ILLEGAL, page=3),
        step(COLLECT, ILLEGAL),
        step(FAILED),
        step(COLLECT, ILLEGAL),
        step(TRIM, ILLEGAL),
    ],
    "a released block of weights goes to KV": [
        *written(WEIGHT, 1),
        step(RELEASE),
        step(RELEASE, ILLEGAL),
        admit(1, WEIGHT, ILLEGAL),
        step(COLLECT, ILLEGAL),
        *TAKES_PAGE_0,
    ],
    "a KV block is released when no page is live": [
        step(RELEASE, ILLEGAL),
        *written(KV),
        *trims(0, 1, 2),
        step(RELEASE, ILLEGAL),
        *trims(3),
        step(RELEASE),
        step(COLLECT, ILLEGAL),
        step(TRIM, ILLEGAL),
        admit(0, WEIGHT, erase=True),
    ],
    "neighbours are not touched": [
        *written(WEIGHT),
        *(admit(0, KV, where=where) for where in ((0, 0), (2, 0), (1, 1), (1, 3))),
        *(step(FAILED, where=where) for where in ((0, 0), (2, 0), (1, 1), (1, 3))),
        admit(0, KV, ILLEGAL),
    ],
}


@pytest.mark.parametrize("steps", RULES.values(), ids=RULES)
def test_rule(steps):
    dut = BlockTable(TINY)
    ops, verdicts = [op for op, _ in steps], [verdict for _, verdict in steps]
    touched = {op.where for op in ops}
    untouched = [(s, b) for s in range(4) for b in range(4) if (s, b) not in touched]

    async def bench(ctx):
        answers = await operate(ctx, dut, ops)
        assert [verdict for _, verdict, _ in answers] == verdicts
        others = await operate(ctx, dut, [Op(QUERY, where=where) for where in untouched])
        assert {entry for _, _, entry in others} == {BlockEntry()}

    simulate(dut, bench, clocks=1_000)
    ledger = BlockLedger(TINY.geometry)
    assert [ask(ledger, op)[0] for op in ops] == verdicts


def test_refused_operations_leave_weights_bit_for_bit():
    dut = BlockTable(TINY)
    kinds = [Op(TRIM, page=page) for page in range(4)] + [Op(COLLECT), Op(QUERY)]
    kinds += [Op(ADMIT, page=page, owner=owner) for page in range(4) for owner in (NONE, KV)]

    async def bench(ctx):
        states = [[op for op, _ in written(WEIGHT, pages)] for pages in (1, 4)]
        states += [[Op(ADMIT, owner=WEIGHT), Op(FAILED), Op(SENSED), Op(ERASED), Op(SENSED)]]
        for state in states:
            *_, (_, _, entry) = await operate(ctx, dut, state)
            answers = await operate(ctx, dut, kinds)
            assert {after for _, _, after in answers} == {entry}
            assert entry.owner is WEIGHT

    simulate(dut, bench, clocks=1_000)


def test_wear_counters_saturate():
    dut = BlockTable(TINY, cycle_bits=2, read_bits=3)
    ops = [Op(SENSED)] * 9 + [Op(ERASED)] + [Op(SENSED)] + [Op(ERASED)] * 4
    closes = [op for op, _ in [*written(KV), *trims(0, 1, 2, 3)]]

    async def bench(ctx):
        entries = [entry for _, _, entry in await operate(ctx, dut, ops)]
        assert [entry.reads for entry in entries] == [*range(1, 8), 7, 7, 0, 1, 0, 0, 0, 0]
        assert [entry.erase_cycles for entry in entries] == [0] * 9 + [1, 1, 2, 3, 3, 3]
        *_, (_, verdict, entry) = await operate(ctx, dut, [*closes, Op(COLLECT)])
        assert verdict.erase and entry == BlockEntry(erase_cycles=3)
        assert ctx.get(dut.max_cycles) == 3
        assert (ctx.get(dut.erases), ctx.get(dut.collected), ctx.get(dut.admitted)) == (6, 1, 4)

    simulate(dut, bench, clocks=1_000)


def test_an_operation_takes_three_clocks():
    dut = BlockTable(TINY)

    async def bench(ctx):
        accepted = []
        ctx.set(dut.op.valid, 1)
        for now in range(30):
            if ctx.get(dut.op.ready):
                accepted.append(now)
            await ctx.tick()
        assert accepted == list(range(0, 30, PERIOD))

    simulate(dut, bench, clocks=100)


def test_an_entry_of_the_paper_is_one_word():
    layout = entry_layout(preset("paper"), cycle_bits=ERASE_CYCLE_BITS, read_bits=BLOCK_READ_BITS)
    assert layout.size == 64
    assert 2**ERASE_CYCLE_BITS > 100_000  # cycles that SLC is said to live


@pytest.mark.parametrize(
    ("field", "value"), [("dead_depth", 1), ("cycle_bits", 0), ("read_bits", 0)]
)
def test_wrong_parameter(field, value):
    with pytest.raises(ValueError, match=f"{field} must be at least"):
        BlockTable(TINY, **{field: value})
