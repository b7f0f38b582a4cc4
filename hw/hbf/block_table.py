"""Erase-block table of one NAND die: owner, page order, liveness and wear of every block."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.hbf.block_layouts import BlockOperation, block_layout, entry_layout, operation_layout
from hw.params import BLOCK_READ_BITS, ERASE_CYCLE_BITS, Machine
from hw.sram.macro import Sram1r1w
from hw.ucie.codes import Owner, Status

COUNTER_BITS = 40  # 32,768 blocks of 256 pages, 100,000 times


class BlockTable(wiring.Component):
    """Decides which pages may be written and which blocks may be erased, and counts wear.

    Promise, by operation; one that is refused changes nothing:

    ADMIT
        Page 0 opens the block for ``owner``. ILLEGAL_OWNER if the block belongs to another owner
        and is WEIGHT-owned or has live KV pages. ``erase`` tells that it must be erased first.
        Any other page must be the next of its block: PROGRAM_FAILED if the block has failed,
        ILLEGAL_OWNER if it is not of ``owner``, ORDER if the page is not the next. A writer that
        is neither WEIGHT nor KV is an ILLEGAL_OWNER.
    FAILED
        The block has failed, and counts as not erased, until its next page 0.
    ERASED
        One more cycle, no reads. Only for the erase of an admitted page 0.
    COLLECT
        ``erase`` if the block is dead: KV-owned, no live page, and closed or failed. It is then
        erased and without an owner, one cycle older; an erase that fails is reported with FAILED.
        Otherwise ILLEGAL_OWNER if it is not KV-owned, ORDER if it is not dead.
    TRIM
        One live page less. ILLEGAL_OWNER if the block is not KV-owned, ORDER if the page is not
        written or no page is live.
    RELEASE
        The block has no owner. ILLEGAL_OWNER if it had none, or has live KV pages.
    SENSED, QUERY
        One read more; nothing. ``entry`` is the block after the operation, for all kinds.

    **No operation changes a WEIGHT-owned block but ADMIT by WEIGHT, FAILED, ERASED, SENSED and
    RELEASE**: TRIM and COLLECT leave it bit for bit (asserted in pysim and proofs).

    A block that dies (by TRIM or FAILED) is offered on ``dead``. If the queue of ``dead_depth``
    is full, nothing waits: the whole table is swept for dead blocks, one row whenever the queue is
    empty and no operation comes, until every row was seen since. So no dead block is lost, no
    operation waits for the reader of ``dead``, which may itself need one, and a block may be
    offered twice, or no longer be dead: COLLECT decides.

    The table knows admissions, not programs: the caller asks COLLECT only when no admitted page of
    the block is still to be programmed, and replays page 0 of a failed block only when all its
    writes have ended. Trimming a page twice is the host's fault and counts twice: to know every
    page would take 256 bits a block, in ``paper`` 1 MiB a die and 16 MiB a stack, as much as all
    transfer regions; the table takes 64 bits a block, 256 KiB and 4 MiB. It must be all zero, or
    loaded, before the reset ends.

    Latency: two clocks. Throughput: one operation in three clocks, so that each sees all before it;
    a die senses a page in 47 clocks at most. Answers are never refused. Source: DASH section V-A2;
    rules of writes from OCP HBF 0.7.0.

    Members
    -------
    op : In(stream)
    answer : Out
        ``valid`` for one clock; ``kind`` and ``where`` are those of the operation.
    dead : Out(stream of blocks)
    erases, collected : Out
        Erases counted by ERASED and COLLECT, and by COLLECT alone.
    admitted : Out
        Pages.
    max_cycles : Out
        Erase cycles of the block that has most.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        dead_depth: int = 8,
        cycle_bits: int = ERASE_CYCLE_BITS,
        read_bits: int = BLOCK_READ_BITS,
    ) -> None:
        least = {"dead_depth": (dead_depth, 2), "cycle_bits": (cycle_bits, 1)}
        for name, (value, bound) in {**least, "read_bits": (read_bits, 1)}.items():
            if value < bound:
                raise ValueError(f"{name} must be at least {bound}, not {value!r}")
        self._machine, self._dead_depth = machine, dead_depth
        self._entry = entry_layout(machine, cycle_bits=cycle_bits, read_bits=read_bits)
        answer = data.StructLayout(
            {
                "valid": 1,
                "kind": BlockOperation,
                "where": block_layout(machine),
                "status": 4,
                "erase": 1,
                "entry": self._entry,
            }
        )
        super().__init__(
            {
                "op": In(stream.Signature(operation_layout(machine))),
                "answer": Out(answer),
                "dead": Out(stream.Signature(block_layout(machine))),
                "erases": Out(COUNTER_BITS),
                "collected": Out(COUNTER_BITS),
                "admitted": Out(COUNTER_BITS),
                "max_cycles": Out(cycle_bits),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        g = self._machine.geometry
        block_type, blocks = (
            block_layout(self._machine),
            g.subarrays_per_die * g.blocks_per_subarray,
        )
        m.submodules.table = table = Sram1r1w(width=self._entry.size, depth=blocks, zeroed=True)
        m.submodules.queue = queue = SyncFIFOBuffered(width=block_type.size, depth=self._dead_depth)

        # Clock 0 reads the row, 1 decides, 2 writes it back and answers ---------------------------
        deciding, writing, changed = Signal(), Signal(), Signal()
        job, sweeps = Signal(self.op.payload.shape()), Signal()
        row, row_left = Signal(range(blocks)), Signal(range(blocks + 1))  # of the sweep
        sweep, sought = Signal(), Signal(block_type)
        m.d.comb += [
            self.op.ready.eq(~deciding & ~writing),
            sweep.eq(self.op.ready & ~self.op.valid & (row_left != 0) & (queue.level == 0)),
            sought.eq(Mux(self.op.valid, self.op.payload.where.as_value(), row)),
            table.r_en.eq((self.op.ready & self.op.valid) | sweep),
            table.r_addr.eq(sought.as_value()),
            table.w_en.eq(writing & changed),
            table.w_addr.eq(self.answer.where.as_value()),
            table.w_data.eq(self.answer.entry.as_value()),
        ]
        m.d.sync += [deciding.eq(table.r_en), writing.eq(deciding)]
        with m.If(table.r_en):
            m.d.sync += [job.eq(self.op.payload), job.where.eq(sought), sweeps.eq(sweep)]
        with m.If(sweep):
            m.d.sync += [row.eq(row + 1), row_left.eq(row_left - 1)]

        entry, after = self._entry(table.r_data), Signal(self._entry)
        status, erase, change = Signal(4), Signal(), Signal()
        m.d.comb += after.eq(entry)
        self._decide(m, job, entry, after=after, status=status, erase=erase, change=change)
        decided = deciding & ~sweeps
        m.d.sync += self.answer.valid.eq(decided)
        with m.If(deciding):
            m.d.sync += [
                changed.eq(change & ~sweeps),
                self.answer.kind.eq(job.kind),
                self.answer.where.eq(job.where),
                self.answer.status.eq(status),
                self.answer.erase.eq(erase),
                self.answer.entry.eq(after),
            ]

        dies = Mux(sweeps, self._dead(entry), self._dead(after) & ~self._dead(entry))
        m.d.comb += [
            queue.w_en.eq(deciding & dies),
            queue.w_data.eq(job.where.as_value()),
            self.dead.valid.eq(queue.r_rdy),
            self.dead.payload.eq(queue.r_data),
            queue.r_en.eq(self.dead.ready),
        ]
        with m.If(queue.w_en & ~queue.w_rdy):
            m.d.sync += row_left.eq(blocks)

        collects = decided & (job.kind == BlockOperation.COLLECT) & erase
        erases = collects | (decided & (job.kind == BlockOperation.ERASED))
        admits = decided & (job.kind == BlockOperation.ADMIT) & change
        m.d.sync += [
            self.erases.eq(self.erases + erases),
            self.collected.eq(self.collected + collects),
            self.admitted.eq(self.admitted + admits),
        ]
        with m.If(erases & (after.erase_cycles > self.max_cycles)):
            m.d.sync += self.max_cycles.eq(after.erase_cycles)

        if platform in (None, "formal"):  # pysim, and proofs
            self._claim(m, decided, job, entry, after=after, change=change)
        return m

    def _decide(self, m: Module, job, entry, *, after, status, erase, change) -> None:
        """What ``job`` does to a block that is in state ``entry``."""
        is_weight, is_kv = entry.owner == Owner.WEIGHT, entry.owner == Owner.KV
        any_live, writes_kv = entry.live_pages != 0, job.owner == Owner.KV
        is_writer = writes_kv | (job.owner == Owner.WEIGHT)
        older = entry.erase_cycles + ~entry.erase_cycles.all()
        with m.Switch(job.kind):
            with m.Case(BlockOperation.ADMIT):
                with m.If(~is_writer):
                    m.d.comb += status.eq(Status.ILLEGAL_OWNER)
                with m.Elif(job.page == 0):
                    with m.If((entry.owner != job.owner) & (is_weight | (is_kv & any_live))):
                        m.d.comb += status.eq(Status.ILLEGAL_OWNER)
                    with m.Else():
                        m.d.comb += [
                            change.eq(1),
                            erase.eq(entry.dirty),
                            after.owner.eq(job.owner),
                            after.dirty.eq(1),
                            after.failed.eq(0),
                            after.next_page.eq(1),
                            after.live_pages.eq(writes_kv),
                        ]
                with m.Elif(entry.failed):
                    m.d.comb += status.eq(Status.PROGRAM_FAILED)
                with m.Elif(entry.owner != job.owner):
                    m.d.comb += status.eq(Status.ILLEGAL_OWNER)
                with m.Elif(job.page != entry.next_page):
                    m.d.comb += status.eq(Status.ORDER)
                with m.Else():
                    m.d.comb += [
                        change.eq(1),
                        after.next_page.eq(entry.next_page + 1),
                        after.live_pages.eq(entry.live_pages + writes_kv),
                    ]
            with m.Case(BlockOperation.FAILED):
                m.d.comb += [change.eq(1), after.failed.eq(1), after.dirty.eq(1)]
            with m.Case(BlockOperation.ERASED):
                m.d.comb += [change.eq(1), after.erase_cycles.eq(older), after.reads.eq(0)]
            with m.Case(BlockOperation.COLLECT):
                with m.If(self._dead(entry)):
                    m.d.comb += [change.eq(1), erase.eq(1)]
                    m.d.comb += [after.eq(0), after.erase_cycles.eq(older)]
                with m.Else():
                    m.d.comb += status.eq(Mux(is_kv, Status.ORDER, Status.ILLEGAL_OWNER))
            with m.Case(BlockOperation.TRIM):
                with m.If(~is_kv):
                    m.d.comb += status.eq(Status.ILLEGAL_OWNER)
                with m.Elif((job.page >= entry.next_page) | ~any_live):
                    m.d.comb += status.eq(Status.ORDER)
                with m.Else():
                    m.d.comb += [change.eq(1), after.live_pages.eq(entry.live_pages - 1)]
            with m.Case(BlockOperation.RELEASE):
                with m.If(is_weight | (is_kv & ~any_live)):
                    m.d.comb += [change.eq(1), after.owner.eq(Owner.NONE)]
                with m.Else():
                    m.d.comb += status.eq(Status.ILLEGAL_OWNER)
            with m.Case(BlockOperation.SENSED):
                m.d.comb += [change.eq(1), after.reads.eq(entry.reads + ~entry.reads.all())]

    def _dead(self, entry):
        """Garbage collection may erase the block: nothing in it is wanted or will be written."""
        closed = entry.next_page == self._machine.geometry.pages_per_block
        wanted = (entry.owner != Owner.KV) | (entry.live_pages != 0)
        return ~wanted & entry.dirty & (closed | entry.failed)

    def _claim(self, m: Module, decided, job, entry, *, after, change) -> None:
        """What holds of every decision, for a proof by induction over the rows of the table."""
        kinds = BlockOperation
        may_change = (job.kind == kinds.ADMIT) & (job.owner == Owner.WEIGHT)
        for kind in (kinds.FAILED, kinds.ERASED, kinds.SENSED, kinds.RELEASE):
            may_change |= job.kind == kind
        with m.If(decided & (entry.owner == Owner.WEIGHT) & ~may_change):
            m.d.sync += Assert(
                ~change & (after.as_value() == entry.as_value()), "weights stay untouched"
            )
        with m.If(decided & self._sound(entry)):
            m.d.sync += Assert(self._sound(after), "a possible state")

    def _sound(self, entry):
        """A state that a block can be in."""
        pages = self._machine.geometry.pages_per_block
        erased = (entry.owner == Owner.NONE) & (entry.next_page == 0) & ~entry.failed
        return (
            (entry.live_pages <= entry.next_page)
            & (entry.next_page <= pages)
            & ((entry.owner == Owner.KV) | (entry.live_pages == 0))
            & ((entry.owner == Owner.NONE) | (entry.next_page != 0))
            & (entry.owner <= max(Owner))
            & (entry.dirty | erased)
        )
