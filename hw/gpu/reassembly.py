"""Reassembly of one path of one stack pair: beats in, addressed beats and completions out."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.gpu.completions import whole_layout
from hw.hbf.layouts import MAX_PAGES
from hw.hbf.page_walk import log2
from hw.params import Machine
from hw.sram.regions import GROUPS
from hw.ucie.beat_queue import BeatQueue
from hw.ucie.transaction import ADDRESS_UNIT_BYTES, BeatStream, DataPort


class Reassembly(wiring.Component):
    """Gives received beats their address and tells when a transaction is whole.

    Promise: every beat leaves on ``o`` once, in order of arrival, its header carrying the address
    of the beat and the tag of the read; after the last beat of the last page of a transaction
    ``completed`` pulses with its slot, one clock after that beat was taken. Back-pressure: ``o``
    may stall; then credits stop and so does the link. Latency 2 clocks.

    Members
    -------
    port : In(DataPort), a credit is one beat
    begin : In: a transaction of this path starts (slot, first page, pages, tag)
    o : Out(BeatStream)
    page_done : Out: the last beat of a page was taken
    completed : Out: a transaction is whole; ``poison`` if any of its beats was
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        slots = machine.credits.descriptors
        begin = data.StructLayout(
            {
                "valid": 1,
                "slot": range(slots),
                "first": range(machine.geometry.stack_pages),
                "pages": range(MAX_PAGES + 1),
                "tag": 12,
            }
        )
        super().__init__(
            {
                "port": In(DataPort(machine.lanes)),
                "begin": In(begin),
                "o": Out(BeatStream(machine.lanes)),
                "page_done": Out(1),
                "completed": Out(whole_layout(machine)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        slots = machine.credits.descriptors
        beat_units = log2(machine.link.beat_bytes // ADDRESS_UNIT_BYTES)
        m.submodules.queue = queue = BeatQueue(
            lanes=machine.lanes,
            depth=machine.credits.rx_beats,
            bank_bytes=machine.sram.bank_bytes,
        )
        wiring.connect(m, wiring.flipped(self.port), queue.port)

        table_type = data.StructLayout(
            {
                "first": range(machine.geometry.stack_pages),
                "pages": range(MAX_PAGES + 1),
                "tag": 12,
            }
        )
        m.submodules.table = table = Memory(shape=table_type, depth=slots, init=[])
        m.submodules.counts = counts = Memory(shape=range(MAX_PAGES + 1), depth=slots, init=[])
        table_write, table_read = table.write_port(), table.read_port(domain="comb")
        count_write, count_read = counts.write_port(), counts.read_port(domain="comb")

        # Address: combinational, in front of the consumer -----------------------------------------
        beat = queue.o
        entry = table_read.data
        m.d.comb += [
            table_write.en.eq(self.begin.valid),
            table_write.addr.eq(self.begin.slot),
            table_write.data.first.eq(self.begin.first),
            table_write.data.pages.eq(self.begin.pages),
            table_write.data.tag.eq(self.begin.tag),
            table_read.addr.eq(beat.header.tag),
            self.o.valid.eq(beat.valid),
            beat.ready.eq(self.o.ready),
            self.o.header.eq(beat.header),
            self.o.header.tag.eq(entry.tag),
            self.o.header.address.eq(
                (((entry.first + beat.header.page) << log2(GROUPS)) | beat.header.beat)
                << beat_units
            ),
            *(self.o.lanes[k].eq(beat.lanes[k]) for k in range(machine.lanes)),
        ]

        # Count pages per transaction: the beats of a page come together ---------------------------
        taken = Signal()
        m.d.comb += [
            taken.eq(beat.valid & beat.ready),
            self.page_done.eq(taken & beat.header.page_end),
        ]

        counted = Signal(range(MAX_PAGES + 1))
        whole = Signal()
        m.d.comb += [
            count_read.addr.eq(beat.header.tag),
            counted.eq(count_read.data + 1),
            whole.eq(self.page_done & (counted == entry.pages)),
            count_write.en.eq(self.page_done),
            count_write.addr.eq(beat.header.tag),
            count_write.data.eq(Mux(whole, 0, counted)),
        ]
        poisoned = Signal(slots)  # by transaction slot
        poison_now = Signal()
        m.d.comb += poison_now.eq(
            poisoned.bit_select(beat.header.tag[: log2(slots)], 1) | beat.header.poison
        )
        for k in range(slots):
            with m.If(taken & (beat.header.tag == k)):
                m.d.sync += poisoned[k].eq(Mux(whole, 0, poison_now))
        m.d.sync += [
            self.completed.valid.eq(whole),
            self.completed.slot.eq(beat.header.tag),
            self.completed.poison.eq(poison_now),
        ]
        return m
