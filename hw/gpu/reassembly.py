"""Reassembly of received beats into whole transactions, at the GPU side of one path."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.gpu.completions import end_layout
from hw.hbf.bits import lowest
from hw.hbf.layouts import MAX_PAGES
from hw.hbf.page_walk import log2
from hw.params import Machine
from hw.sram.regions import GROUPS
from hw.ucie.beat_queue import BeatQueue
from hw.ucie.open_reads import OpenReads
from hw.ucie.transaction import (
    ADDRESS_UNIT_BYTES,
    BeatStream,
    DataPort,
    MessageClass,
    ResetPort,
    Status,
)
from hw.ucie.write_sender import read_refused_layout

BY_DATA, BY_WORD = range(2)  # ends of reads: with their last page, or told


class Reassembly(wiring.Component):
    """Gives received beats their address and tells when a transaction is over.

    Promise: every beat of data leaves on ``o`` once, in order of arrival, its header carrying the
    address of the beat and the tag of the read. Each read that begins ends once, one clock after
    what ends it: the last beat of its last page was taken; a COMPLETION came among the beats, all
    before it having been taken; or ``answer`` says so. Back-pressure: ``o`` may stall; then credits
    stop and so does the link. Latency 2 clocks.

    Reset of the link: the beats that came leave as always, then each read that is still open ends
    with status LINK_RESET.

    Members
    -------
    port : In(DataPort), a credit is one beat
    begin : In: a transaction of this path starts (slot, first page, pages, tag)
    answer : In: the read of slot ``tag`` ends without data, or without more of them
    o : Out(BeatStream)
    received : Out: pages whose last beat was taken, and those that will not come any more
    end : Out, one of ``BY_DATA`` and one of ``BY_WORD``: a read is over; ``poison`` if any of its
        beats was
    reset : In(ResetPort)
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
                "answer": In(read_refused_layout()),
                "o": Out(BeatStream(machine.lanes)),
                "received": Out(range(MAX_PAGES + 2)),
                "end": Out(end_layout(machine)).array(2),
                "reset": In(ResetPort()),
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

        table_type = data.StructLayout({"first": range(machine.geometry.stack_pages), "tag": 12})
        m.submodules.table = table = Memory(shape=table_type, depth=slots, init=[])
        table_write, table_read = table.write_port(), table.read_port(domain="comb")

        # Address: combinational, in front of the consumer -----------------------------------------
        beat, entry = queue.o, table_read.data
        slot, told = beat.header.tag[: log2(slots)], Signal()  # told: not data, but their end
        m.d.comb += [
            told.eq(beat.valid & (beat.header.message_class == MessageClass.COMPLETION)),
            table_write.en.eq(self.begin.valid),
            table_write.addr.eq(self.begin.slot),
            table_write.data.first.eq(self.begin.first),
            table_write.data.tag.eq(self.begin.tag),
            table_read.addr.eq(slot),
            self.o.valid.eq(beat.valid & ~told),
            beat.ready.eq(Mux(told, ~self.answer.valid, self.o.ready)),
            self.o.header.eq(beat.header),
            self.o.header.tag.eq(entry.tag),
            self.o.header.address.eq(
                (((entry.first + beat.header.page) << log2(GROUPS)) | beat.header.beat)
                << beat_units
            ),
            *(self.o.lanes[k].eq(beat.lanes[k]) for k in range(machine.lanes)),
        ]

        # Count pages per transaction: the beats of a page come together ---------------------------
        m.submodules.reads = reads = OpenReads(slots=slots)
        taken, ends = Signal(), self.end[BY_DATA]
        m.d.comb += [
            taken.eq(self.o.valid & self.o.ready),
            reads.begin.valid.eq(self.begin.valid),
            reads.begin.slot.eq(self.begin.slot),
            reads.begin.pages.eq(self.begin.pages),
            reads.page.valid.eq(taken & beat.header.page_end),
            reads.page.slot.eq(slot),
        ]
        poisoned = Signal(slots)  # by transaction slot
        poison_now = Signal()
        m.d.comb += poison_now.eq(poisoned.bit_select(slot, 1) | beat.header.poison)
        for k in range(slots):
            with m.If(self.begin.valid & (self.begin.slot == k)):
                m.d.sync += poisoned[k].eq(0)
            with m.Elif(taken & (slot == k)):
                m.d.sync += poisoned[k].eq(poison_now)
        m.d.sync += [
            ends.valid.eq(reads.whole),
            ends.slot.eq(slot),
            ends.poison.eq(poison_now),
        ]

        # Ends that are told: an answer, a COMPLETION among the beats, a reset of the link -------
        word, of = self.end[BY_WORD], reads.end
        status = Signal(4)
        m.d.comb += [
            status.eq(Status.LINK_RESET),
            of.slot.eq(lowest(m, reads.open)),
            of.valid.eq(self.reset.quiet & ~beat.valid & reads.open.any()),
            self.reset.settled.eq(~beat.valid & ~reads.open.any()),
        ]
        with m.If(self.answer.valid):
            m.d.comb += [
                of.valid.eq(1),
                of.slot.eq(self.answer.tag),
                status.eq(self.answer.status),
            ]
        with m.Elif(told):
            m.d.comb += [of.valid.eq(1), of.slot.eq(slot), status.eq(beat.header.status)]
        m.d.sync += [
            word.valid.eq(of.valid),
            word.slot.eq(of.slot),
            word.poison.eq(poisoned.bit_select(of.slot, 1)),
            word.status.eq(status),
        ]
        m.d.comb += self.received.eq(reads.page.valid + Mux(of.valid, reads.missing, 0))
        return m
