# amaranth: UnusedElaboratable=no
"""Erase-block table: garbage collection and trim leave weights alone, in every reachable state."""

import pytest
from amaranth.hdl import Assert, Cover, Module, Signal
from amaranth.lib.wiring import In

from hw.hbf.block_layouts import BlockOperation, block_layout
from hw.hbf.block_table import BlockTable
from hw.presets import preset
from hw.ucie.codes import Owner, Status
from tests.formal.harness import Counterexample, Properties, before, constant, prove
from tests.formal.variants import variant

MACHINE = preset("formal")
MAY_CHANGE_WEIGHTS = (
    BlockOperation.FAILED,
    BlockOperation.ERASED,
    BlockOperation.SENSED,
    BlockOperation.RELEASE,
)


class Table(Properties):
    """Any operations in any order, taken from ``dead`` at any time; one block is watched, any.

    ``known`` is the block as its last answer told it, so each answer is judged against the one
    before: whatever happened in between, to this block or to others, has left it as it was. What
    the block claims of each decision by itself (``BlockTable._claim``) is proved as well.
    """

    def __init__(self, table: type = BlockTable) -> None:
        self._table = table(MACHINE, dead_depth=2, cycle_bits=2, read_bits=2)
        payload = self._table.op.payload.shape()
        super().__init__({"valid": In(1), "payload": In(payload), "dead_ready": In(1)})

    def describe(self, m: Module) -> None:
        m.submodules.table = table = self._table
        at = constant(m, "at", block_layout(MACHINE).size)
        m.d.comb += [
            table.op.valid.eq(self.valid),
            table.op.payload.eq(self.payload),
            table.dead.ready.eq(self.dead_ready),
        ]
        taken = table.op.valid & table.op.ready
        owner = before(m, before(m, self.payload.owner))
        answer, kinds = table.answer, BlockOperation
        known, was_kv = Signal.like(answer.entry), Signal()
        here, weight = Signal(), Signal()
        m.d.comb += [
            here.eq(answer.valid & (answer.where.as_value() == at)),
            weight.eq(known.owner == Owner.WEIGHT),
        ]
        with m.If(here):
            m.d.sync += known.eq(answer.entry)
        with m.If(here & (answer.entry.owner == Owner.KV)):
            m.d.sync += was_kv.eq(1)
        reclaims = (answer.kind == kinds.TRIM) | (answer.kind == kinds.COLLECT)
        may_change = (answer.kind == kinds.ADMIT) & (owner == Owner.WEIGHT)
        for kind in MAY_CHANGE_WEIGHTS:
            may_change |= answer.kind == kind
        offered = table.dead.valid & (table.dead.payload.as_value() == at)
        with m.If(here & weight):
            m.d.comb += [
                Assert(may_change | (answer.entry == known), "weights stay bit for bit"),
                Assert(~reclaims | (answer.status == Status.ILLEGAL_OWNER), "weights are refused"),
                Assert(~reclaims | ~answer.erase, "weights are not erased to reclaim them"),
                Assert(
                    (answer.kind == kinds.RELEASE) | (answer.entry.owner == Owner.WEIGHT),
                    "only a release ends the ownership",
                ),
                Cover(reclaims & (known.next_page > 1), "asked to reclaim weights"),
            ]
        m.d.comb += [
            Assert(answer.valid == before(m, before(m, taken)), "an answer two clocks later"),
            Assert(~offered | was_kv, "only KV blocks are offered"),
            Assert(
                ~(here & (answer.kind == kinds.QUERY)) | (answer.entry == known),
                "a block is what its last answer told",
            ),
            Cover(offered & weight, "a block of weights that was dead before it was theirs"),
            Cover(here & (answer.kind == kinds.COLLECT) & answer.erase, "a dead block goes"),
        ]


@pytest.mark.formal
def test_block_table() -> None:
    prove(Table())
    prove(Table(), mode="cover", depth=40)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        # A collector that forgets to look at the owner.
        ("~wanted & entry.dirty", "(entry.live_pages == 0) & entry.dirty", "weights|offered"),
        ("with m.If(~is_kv):", "with m.If(0):", "weights|untouched"),
        # Page 0 of KV opens a block that holds weights.
        ("(is_weight | (is_kv & any_live))", "(is_kv & any_live)", "weights"),
        # The row of the sweep is written back in place of that of an operation.
        ("changed.eq(change & ~sweeps)", "changed.eq(1)", "weights|told|release"),
        ("table.w_addr.eq(self.answer.where", "table.w_addr.eq(sought", "weights|told|release"),
    ],
)
def test_broken_tables_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Table(variant(BlockTable, (old, new))))
