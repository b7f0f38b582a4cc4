"""Controller of one pseudo-channel: two queues, the timing of the DRAM, refresh and ECC."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.bank_timers import BankTimers
from hw.hbm.dram.column_timers import ColumnTimers
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.drain_policy import DrainPolicy
from hw.hbm.dram.layouts import (
    ACCESS_LANES,
    BURST_BITS,
    BURST_CHECK_BITS,
    DramPort,
    RowCommand,
    column_layout,
    place_layout,
    row_layout,
)
from hw.hbm.dram.read_assembly import ReadAssembly, returned_layout
from hw.hbm.dram.refresh import RefreshPlan
from hw.hbm.dram.request_queue import Outcome, RequestQueue
from hw.hbm.dram.row_timers import RowTimers
from hw.sram.macro import Sram1r1w
from hw.sram.secded import BeatEncoder

COUNTERS = (
    *("read_hits", "read_misses", "read_conflicts"),
    *("write_hits", "write_misses", "write_conflicts"),
    *("activates", "precharges", "idle_refreshes", "forced_refreshes"),
    *("drains", "full_drains", "turnarounds", "read_bursts", "write_bursts"),
    *("starvations", "corrected", "uncorrectable"),
)
COUNTER_BITS = 32


def read_layout(stack: HbmStack, tag_bits: int) -> data.StructLayout:
    """A read of 64 bytes."""
    return data.StructLayout({"place": place_layout(stack), "tag": tag_bits})


def write_layout(stack: HbmStack) -> data.StructLayout:
    """A write of 64 bytes."""
    return data.StructLayout({"place": place_layout(stack), "lanes": data.ArrayLayout(64, 8)})


class PseudoChannel(wiring.Component):
    """Reads and writes accesses of 64 bytes of one pseudo-channel.

    Contract: every read that ``read`` took comes back once in ``returned``, with its tag, in any
    order; that cannot be held up, so room for it is reserved before it is asked for. A write is
    done when ``write`` has taken it: a read that is taken later sees it, one taken before does not.
    For this a read waits at the door while a write of the same 64 bytes waits in its queue, which
    drains it, and a write while such a read waits. No other request waits for anything but an entry
    of its queue, and no taken one for anything outside.

    Commands keep every rule of :class:`hw.hbm.dram.description.DramTiming`. Requests of the
    direction that has the bus prepare rows first; those of the other one may prepare banks that
    nobody of the first wants. A bank is refreshed while nobody wants it, or when ``postponed``
    refreshes are owed.

    Latency: an idle channel answers a read of an open row ``ccd_l`` + ``read_latency`` + 3 clocks
    after it was taken, of a closed bank ``rcd_read`` later. Throughput: one burst every tCCD_S
    while rows hit in more than one bank group. Source: DASH section IV-B names the controller;
    scheduling is first-ready, first-come-first-served (Rixner et al., "Memory Access Scheduling",
    ISCA 2000) with a bound on overtaking, writes drained by watermarks as in Ramulator 2.

    Members
    -------
    read, write : In: streams
    returned, lanes : Out
    dram : Out(DramPort)
    counters : Out: :data:`COUNTERS`; requests by what the row buffer was to them, commands, drains
        and those of them that began with a full queue, changes of direction of the data bus,
        bursts, words corrected and not
    """

    def __init__(self, stack: HbmStack, *, tag_bits: int) -> None:
        self._stack, self._tag_bits = stack, tag_bits
        super().__init__(
            {
                "read": In(stream.Signature(read_layout(stack, tag_bits))),
                "write": In(stream.Signature(write_layout(stack))),
                "returned": Out(returned_layout(tag_bits)),
                "lanes": Out(64).array(ACCESS_LANES),
                "dram": Out(DramPort(stack)),
                "counters": Out(data.StructLayout(dict.fromkeys(COUNTERS, COUNTER_BITS))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        s = self._stack.scheduling
        m.submodules.reads = reads = RequestQueue(
            self._stack, depth=s.reads, tag_bits=self._tag_bits, patience=s.patience_clocks
        )
        m.submodules.writes = writes = RequestQueue(
            self._stack, depth=s.writes, tag_bits=1, patience=s.patience_clocks
        )
        m.submodules.policy = policy = DrainPolicy(self._stack)
        row, column = Signal(row_layout(self._stack)), Signal(column_layout(self._stack))
        self._door(m, reads, writes, row)
        self._commands(m, reads, writes, policy, row, column)
        self._write_data(m, writes, column)
        m.submodules.assembly = assembly = ReadAssembly(self._stack, tag_bits=self._tag_bits)
        m.d.comb += [
            assembly.issue.eq(reads.take),
            assembly.label.entry.eq(reads.column_entry),
            assembly.label.half.eq(reads.column.half),
            assembly.label.tag.eq(reads.column.tag),
            assembly.read_valid.eq(self.dram.read_valid),
            assembly.read_data.eq(self.dram.read_data),
            self.returned.eq(assembly.returned),
            *(out.eq(lane) for out, lane in zip(self.lanes, assembly.lanes, strict=True)),
            self.counters.corrected.eq(assembly.corrected),
            self.counters.uncorrectable.eq(assembly.uncorrectable),
        ]
        return m

    def _door(self, m: Module, reads, writes, row) -> None:
        """Requests enter, each with the state of its bank."""
        o = self._stack.organization
        m.submodules.open_rows = open_rows = Memory(
            shape=range(o.rows), depth=o.bank_count, init=[]
        )
        opens = open_rows.write_port()
        m.d.comb += [
            opens.en.eq(row.valid & (row.command == RowCommand.ACTIVATE)),
            opens.addr.eq(row.bank),
            opens.data.eq(row.row),
        ]
        for port, queue, other in ((self.read, reads, writes), (self.write, writes, reads)):
            lookup = open_rows.read_port(domain="comb")
            place = port.payload.place
            m.d.comb += [
                other.probe.eq(place),
                port.ready.eq(queue.ready & ~other.match),
                queue.insert.eq(port.valid & port.ready),
                queue.place.eq(place),
                lookup.addr.eq(place.bank),
                queue.open_row.eq(lookup.data),
                queue.row.eq(row),
            ]
        m.d.comb += reads.tag.eq(self.read.payload.tag)

    def _commands(self, m: Module, reads, writes, policy, row, column) -> None:
        o = self._stack.organization
        m.submodules.banks = banks = BankTimers(self._stack)
        m.submodules.rows = rows = RowTimers(self._stack)
        m.submodules.columns = columns = ColumnTimers(self._stack)
        m.submodules.refresh = refresh = RefreshPlan(self._stack)

        def of_banks(groups):
            return Cat(line.replicate(o.banks) for line in groups)

        kept = Signal(o.bank_count)  # for a refresh that can wait no longer
        m.d.comb += [
            banks.row.eq(row),
            banks.column.eq(column),
            rows.row.eq(row),
            columns.column.eq(column),
            kept.eq(refresh.forced << refresh.bank),
            refresh.wanted.eq(reads.wanted | writes.wanted),
            policy.reads.eq(reads.level),
            policy.writes.eq(writes.level),
            policy.urgent.eq(self.read.valid & reads.ready & writes.match),
        ]
        for queue, other, allowed, turn in (
            (reads, writes, banks.may_read & of_banks(columns.may_read), ~policy.writing),
            (writes, reads, banks.may_write & of_banks(columns.may_write), policy.writing),
        ):
            place = self.read.payload.place if queue is reads else self.write.payload.place
            free = Signal(o.bank_count, name="free_of_reads" if queue is writes else "free")
            m.d.comb += [
                queue.row_open.eq(banks.open.bit_select(place.bank, 1)),
                free.eq(Mux(turn, ~kept, ~kept & ~other.wanted)),
                queue.may_column.eq(Mux(turn, allowed & ~kept, 0)),
                queue.may_activate.eq(banks.may_activate & of_banks(rows.may_activate) & free),
                queue.may_precharge.eq(Mux(rows.may_command, banks.may_precharge & free, 0)),
                queue.take.eq(queue.column.valid),
            ]

        # Row bus: what a refresh needs, then the direction that has the column bus ----------------
        bank = refresh.bank
        to_refresh, to_close = Signal(), Signal()
        m.d.comb += [
            to_refresh.eq(
                refresh.wants & rows.may_refresh & banks.may_activate.bit_select(bank, 1)
            ),
            to_close.eq(refresh.wants & rows.may_command & banks.may_precharge.bit_select(bank, 1)),
            refresh.done.eq(to_refresh),
            row.valid.eq(1),
            row.bank.eq(bank),
        ]
        first, second = Signal(4), Signal(4)  # one-hot in order: reads, writes of each kind
        m.d.comb += first.eq(
            Cat(
                reads.activate.valid, reads.precharge.valid,
                writes.activate.valid, writes.precharge.valid,
            )
        )  # fmt: skip
        ordered = Signal(4)
        m.d.comb += [
            ordered.eq(Mux(policy.writing, Cat(first[2:], first[:2]), first)),
            second.eq(ordered & (~ordered + 1)),
        ]
        offers = Mux(policy.writing, Cat(second[2:], second[:2]), second)
        with m.If(to_refresh):
            m.d.comb += row.command.eq(RowCommand.REFRESH)
        with m.Elif(to_close):
            m.d.comb += row.command.eq(RowCommand.PRECHARGE)
        with m.Elif(offers[0]):
            m.d.comb += self._row(row, RowCommand.ACTIVATE, reads.activate, reads.activated)
        with m.Elif(offers[1]):
            m.d.comb += self._row(row, RowCommand.PRECHARGE, reads.precharge, reads.precharged)
        with m.Elif(offers[2]):
            m.d.comb += self._row(row, RowCommand.ACTIVATE, writes.activate, writes.activated)
        with m.Elif(offers[3]):
            m.d.comb += self._row(row, RowCommand.PRECHARGE, writes.precharge, writes.precharged)
        with m.Else():
            m.d.comb += row.valid.eq(0)

        # Column bus -------------------------------------------------------------------------------
        offer = Mux(policy.writing, writes.column.place.as_value(), reads.column.place.as_value())
        place = place_layout(self._stack)(offer)
        m.d.comb += [
            column.valid.eq(reads.take | writes.take),
            column.write.eq(policy.writing),
            column.bank.eq(place.bank),
            column.column.eq(place.column),
            column.half.eq(Mux(policy.writing, writes.column.half, reads.column.half)),
            columns.group.eq(place.bank // o.banks),
            column.phase.eq(columns.phase),
            policy.leaves.eq(column.valid & column.half),
        ]
        m.d.sync += [self.dram.row.eq(row), self.dram.column.eq(column)]
        self._count(m, reads, writes, policy, refresh, row, column)

    @staticmethod
    def _row(row, command: int, offer, taken) -> list:
        return [
            row.command.eq(command),
            row.bank.eq(offer.place.bank),
            row.row.eq(offer.place.row),
            taken.eq(1),
        ]

    def _write_data(self, m: Module, writes, column) -> None:
        """Check bits are made at the door; the bursts of a row of SRAM leave with their command."""
        lanes = self.write.payload.lanes
        m.submodules.encoder = encoder = BeatEncoder(lanes=ACCESS_LANES)
        beat = BURST_BITS * 2
        m.submodules.write_data = store = Sram1r1w(
            width=beat + 2 * BURST_CHECK_BITS, depth=writes.depth
        )
        half = Signal()
        m.d.comb += [
            *(encoder.lanes[k].eq(lanes[k]) for k in range(ACCESS_LANES)),
            store.w_en.eq(writes.insert),
            store.w_addr.eq(writes.entry),
            store.w_data.eq(Cat(lanes.as_value(), encoder.check[0])),
            store.r_en.eq(writes.take),
            store.r_addr.eq(writes.column_entry),
        ]
        m.d.sync += half.eq(column.half)
        data_of, check = store.r_data[:beat], store.r_data[beat:]
        m.d.comb += self.dram.write_data.eq(
            Cat(data_of.word_select(half, BURST_BITS), check.word_select(half, BURST_CHECK_BITS))
        )

    def _count(self, m: Module, reads, writes, policy, refresh, row, column) -> None:
        events = {}
        for name, queue in (("read", reads), ("write", writes)):
            first = queue.take & ~queue.column.half
            for kind, which in (("hits", Outcome.HIT), ("misses", Outcome.MISS),
                                ("conflicts", Outcome.CONFLICT)):  # fmt: skip
                events[f"{name}_{kind}"] = first & (queue.column.outcome == which)
            events[f"{name}_bursts"] = queue.take
        was_writing, was_starving = Signal(), Signal()
        last_write, starving = Signal(), reads.starving | writes.starving
        m.d.sync += [was_writing.eq(policy.writing), was_starving.eq(starving)]
        with m.If(column.valid):
            m.d.sync += last_write.eq(column.write)
        refreshes = row.valid & (row.command == RowCommand.REFRESH)
        begins = policy.writing & ~was_writing
        events |= {
            "activates": row.valid & (row.command == RowCommand.ACTIVATE),
            "precharges": row.valid & (row.command == RowCommand.PRECHARGE),
            "idle_refreshes": refreshes & ~refresh.forced,
            "forced_refreshes": refreshes & refresh.forced,
            "drains": begins,
            "full_drains": begins & (writes.level >= self._stack.scheduling.drain_level),
            "turnarounds": column.valid & (column.write != last_write),
            "starvations": starving & ~was_starving,
        }
        for name, event in events.items():
            counter = self.counters[name]
            m.d.sync += counter.eq(counter + event)
