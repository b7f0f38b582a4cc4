"""Users of the block table of one die: writes, sensed pages and questions of the host."""

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.hbf.block_layouts import (
    BlockOperation,
    block_layout,
    entry_layout,
    operation_layout,
)
from hw.hbf.block_table import BlockTable
from hw.params import BLOCK_READ_BITS, ERASE_CYCLE_BITS, Machine


def answer_layout(machine: Machine) -> data.StructLayout:
    """Answer of :class:`hw.hbf.block_table.BlockTable` at its usual widths."""
    return data.StructLayout(
        {
            "valid": 1,
            "kind": BlockOperation,
            "where": block_layout(machine),
            "status": 4,
            "erase": 1,
            "entry": entry_layout(machine, cycle_bits=ERASE_CYCLE_BITS, read_bits=BLOCK_READ_BITS),
        }
    )


class BlockPort(wiring.Component):
    """The block table of one die, shared.

    Promise: operations of ``op`` go first, then questions, then sensed pages; each user sees its
    own in order. ``answer`` is that of the table, for all users; they tell theirs by kind. A sensed
    page is counted in a queue of one page a subarray; ``sensed.ready`` falls when that is full.

    Members
    -------
    op : In(stream of operations)
    query : In(stream of blocks)
    sensed : In(stream of blocks)
    answer, dead : Out: of :class:`hw.hbf.block_table.BlockTable`
    max_cycles : Out
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        block = block_layout(machine)
        super().__init__(
            {
                "op": In(stream.Signature(operation_layout(machine))),
                "query": In(stream.Signature(block)),
                "sensed": In(stream.Signature(block)),
                "answer": Out(answer_layout(machine)),
                "dead": Out(stream.Signature(block)),
                "max_cycles": Out(ERASE_CYCLE_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.table = table = BlockTable(self._machine)
        block = data.Layout.cast(block_layout(self._machine))
        m.submodules.queue = queue = SyncFIFOBuffered(
            width=block.size, depth=self._machine.geometry.subarrays_per_die + 1
        )
        m.d.comb += [
            queue.w_data.eq(self.sensed.payload),
            queue.w_en.eq(self.sensed.valid),
            self.sensed.ready.eq(queue.w_rdy),
            table.op.valid.eq(self.op.valid | self.query.valid | queue.r_rdy),
            self.answer.eq(table.answer),
            self.max_cycles.eq(table.max_cycles),
        ]
        with m.If(self.op.valid):
            m.d.comb += [table.op.payload.eq(self.op.payload), self.op.ready.eq(table.op.ready)]
        with m.Elif(self.query.valid):
            m.d.comb += [
                table.op.payload.kind.eq(BlockOperation.QUERY),
                table.op.payload.where.eq(self.query.payload),
                self.query.ready.eq(table.op.ready),
            ]
        with m.Else():
            m.d.comb += [
                table.op.payload.kind.eq(BlockOperation.SENSED),
                table.op.payload.where.eq(queue.r_data),
                queue.r_en.eq(table.op.ready),
            ]
        wiring.connect(m, table.dead, wiring.flipped(self.dead))
        return m
