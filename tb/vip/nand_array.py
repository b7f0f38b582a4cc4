"""What the array of one NAND die holds: versions of programmed pages, and what was erased."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import Command
from hw.hbf.page_walk import log2
from hw.params import Machine
from hw.sram.macro import Sram1r1w
from tb.vip.content import VERSION_BITS, Form

PAGE_ENTRIES = 8192  # of one die
WORD_BLOCKS = 64  # whose marks are in one word

CONTENT = data.StructLayout({"version": VERSION_BITS, "form": Form})


class BlockState(enum.Enum, shape=2):
    """What the pages of a block hold that were not programmed since."""

    PRELOADED = 0  # version 0
    ERASED = 1
    BAD = 2  # an erase failed: nothing can be read or programmed


def page_slots(machine: Machine) -> int:
    """Rows of one subarray whose content is kept, at least 64 at full size."""
    g = machine.geometry
    return min(g.rows, max(1, PAGE_ENTRIES // g.subarrays_per_die))


class NandArray(wiring.Component):
    """Contents of one die, one version a programmed page.

    Contract: takes SENSE, PROGRAM and ERASE. One clock after SENSE, ``content`` with
    ``content_valid`` is what the row holds. One clock after PROGRAM, ``order`` tells that the page
    was not the next of its block, and ``not_erased`` that it was page 0 of a block in use. ``fail``
    of a program or an erase makes the page, or the whole block, garbage.

    Every block is known, but of the programmed pages of a subarray only :func:`page_slots`, in the
    row's slot; the last one stays. Reading one that had to go returns garbage, and ``overflow``
    pulses with its content.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        g = machine.geometry
        super().__init__(
            {
                "valid": In(1),
                "command": In(Command),
                "subarray": In(range(g.subarrays_per_die)),
                "row": In(range(g.rows)),
                "unsettled": In(1),  # SENSE of a page that is being programmed or erased
                "fail": In(1),
                "written": In(CONTENT),  # of PROGRAM
                "content_valid": Out(1),
                "content": Out(CONTENT),
                "content_subarray": Out(range(g.subarrays_per_die)),
                "order": Out(1),
                "not_erased": Out(1),
                "overflow": Out(1),
            }
        )

    def _slot(self, row):
        """Blocks begin at four places of a subarray's slots, lest page 0 of all meet in one."""
        g, slots = self._machine.geometry, page_slots(self._machine)
        if slots == g.rows:
            return row
        page_bits = log2(g.pages_per_block)
        shift = min(page_bits, log2(slots) - 2)
        return (row[:page_bits] + (row[page_bits:] << shift))[: log2(slots)]

    def elaborate(self, platform) -> Module:
        m = Module()
        g = self._machine.geometry
        page_bits, row_bits = log2(g.pages_per_block), log2(g.rows)
        sense = self.valid & (self.command == Command.SENSE)
        program = self.valid & (self.command == Command.PROGRAM)
        erase = self.valid & (self.command == Command.ERASE)
        asks = sense | program | erase

        block_layout = data.StructLayout(
            {"state": BlockState, "next": range(g.pages_per_block + 1)}
        )
        page_layout = data.StructLayout({"row": row_bits, "content": CONTENT})
        slots = page_slots(self._machine)
        blocks = max(2, g.subarrays_per_die * g.blocks_per_subarray)
        m.submodules.blocks = block_table = Sram1r1w(width=block_layout.size, depth=blocks)
        m.submodules.pages = page_table = Sram1r1w(
            width=page_layout.size, depth=max(2, g.subarrays_per_die * slots)
        )
        # SRAM holds anything at first: marks tell which blocks are in the table.
        mark_bits = min(WORD_BLOCKS, g.blocks_per_subarray)
        words = g.subarrays_per_die * g.blocks_per_subarray // mark_bits
        m.submodules.marks = marks = Memory(shape=mark_bits, depth=words, init=[])
        mark_write, mark_read = marks.write_port(), marks.read_port(domain="comb")

        # Clock 0: look up.
        block_of = Cat(self.row[page_bits:], self.subarray)
        page_at = Cat(self._slot(self.row), self.subarray[: log2(g.subarrays_per_die)])
        m.d.comb += [
            block_table.r_en.eq(asks),
            block_table.r_addr.eq(block_of),
            page_table.r_en.eq(sense),
            page_table.r_addr.eq(page_at),
            mark_read.addr.eq(block_of >> log2(mark_bits)),
        ]

        # Clock 1: answer, and store.
        sensed, programmed, erased = Signal(), Signal(), Signal()
        row, where = Signal(row_bits), Signal.like(self.subarray)
        unsettled, failed, written = Signal(), Signal(), Signal(CONTENT)
        marked, block_at, slot_at = Signal(mark_bits), Signal(range(blocks)), Signal.like(page_at)
        m.d.sync += [sensed.eq(sense), programmed.eq(program), erased.eq(erase)]
        with m.If(asks):
            m.d.sync += [
                row.eq(self.row),
                where.eq(self.subarray),
                unsettled.eq(self.unsettled),
                failed.eq(self.fail),
                written.eq(self.written),
                marked.eq(mark_read.data),
                block_at.eq(block_of),
                slot_at.eq(page_at),
            ]
        block, entry = Signal(block_layout), data.View(page_layout, page_table.r_data)
        mark = Signal(mark_bits)
        page = row[:page_bits]
        m.d.comb += mark.eq(1 << block_at[: log2(mark_bits)])
        with m.If((marked & mark).any()):
            m.d.comb += block.eq(block_table.r_data)

        m.d.comb += [
            self.content_valid.eq(sensed),
            self.content_subarray.eq(where),
        ]
        lost = Signal()
        with m.If(unsettled | (block.state == BlockState.BAD)):
            m.d.comb += self.content.form.eq(Form.GARBAGE)
        with m.Elif(page < block.next):
            with m.If(entry.row == row):
                m.d.comb += self.content.eq(entry.content)
            with m.Else():
                m.d.comb += [self.content.form.eq(Form.GARBAGE), lost.eq(1)]
        with m.Elif(block.state == BlockState.ERASED):
            m.d.comb += self.content.form.eq(Form.BLANK)
        m.d.comb += self.overflow.eq(sensed & lost)

        usable = block.state != BlockState.BAD
        in_turn = usable & (block.next == page)
        m.d.comb += [
            self.order.eq(programmed & ~in_turn & (page != 0)),
            self.not_erased.eq(programmed & ~in_turn & (page == 0)),
        ]
        after, stored = Signal(block_layout), Signal(page_layout)
        m.d.comb += [
            after.state.eq(
                Mux(erased, Mux(failed, BlockState.BAD, BlockState.ERASED), block.state)
            ),
            after.next.eq(Mux(erased, 0, page + 1)),
            stored.row.eq(row),
            stored.content.form.eq(Mux(failed, Form.GARBAGE, written.form)),
            stored.content.version.eq(Mux(failed, 0, written.version)),
            block_table.w_en.eq(programmed | erased),
            block_table.w_addr.eq(block_at),
            block_table.w_data.eq(after),
            page_table.w_en.eq(programmed),
            page_table.w_addr.eq(slot_at),
            page_table.w_data.eq(stored),
            mark_write.en.eq(programmed | erased),
            mark_write.addr.eq(block_at >> log2(mark_bits)),
            mark_write.data.eq(marked | mark),
        ]
        return m
