"""The HBM base die: relays reads of the HBF to the GPU and writes HBM data back to the HBF."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.hbm.relay import RelayBuffer, most_early_pages
from hw.hbm.relay_reads import RelayReads
from hw.params import Machine
from hw.sram.ecc_log import EccPort
from hw.ucie.credit import RequestReceiver, RequestSender
from hw.ucie.pacer import RATE_BITS
from hw.ucie.transaction import DataPort, MessageClass, Operation, RequestPort, ResetPort
from hw.ucie.write_sender import (
    WriteSender,
    done_layout,
    fetch_layout,
    write_request_layout,
)


class HbmBaseDie(wiring.Component):
    """Relay router of one HBM stack.

    Promise: requests that come over link B leave over link C in order; data that comes over link C
    leaves over link B as :class:`hw.hbm.relay.RelayBuffer` says. Requests take 3 clocks. Writes of
    HBM data to the HBF stack leave over link C as :class:`hw.ucie.write_sender.WriteSender` says.
    The answer to a read that the HBF base die refused, which comes among the replies to those
    writes, goes on over link B; reads have a credit each, so there is room for all answers.

    Reset of link C: each read that it carried ends over link B with status LINK_RESET, behind the
    whole pages that came, and each write as the sender says. Reset of link B: requests that wait
    are dropped; reads under way over link C go on, so that it stays as it is, and their pages are
    dropped as they come. Either link settles when that is done.

    Members
    -------
    b_request, b_data, b_reply : link B, to the GPU
    c_request, c_data : link C, to the HBF base die
    c_write, c_write_data, c_reply : writes over link C
    writeback, fetch, fetch_lanes, write_done : requests and data of those writes
    link_rate : beats a clock on link B, in 1/65536
    relay_cut_through, relay_early_pages, relay_reserved, relay_occupied : of the relay buffer
    relay_ecc : of the relay buffer, if it has check bits
    b_reset, c_reset : resets of the links
    """

    # See `hw.channel_graph`.
    WAITS: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "b_request": ("c_request",),
            "c_data": ("b_data",),  # a region, until its last beats leave or have their credits
            "c_reply": ("c_write_data",),  # a grant, until its page starts; answers have their room
        }
    )

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        members = {
            "link_rate": In(RATE_BITS + 1),
            "relay_cut_through": In(1),
            "relay_early_pages": In(range(most_early_pages(machine) + 1)),
            "relay_reserved": Out(range(machine.credits.rx_beats + 1)),
            "b_request": In(RequestPort()),
            "b_data": Out(DataPort(machine.lanes)),
            "b_reply": Out(RequestPort()),
            "c_request": Out(RequestPort()),
            "c_data": In(DataPort(machine.lanes)),
            "c_write": Out(RequestPort()),
            "c_write_data": Out(DataPort(machine.lanes)),
            "c_reply": In(RequestPort()),
            "writeback": In(stream.Signature(write_request_layout(machine))),
            "fetch": Out(fetch_layout()),
            "fetch_lanes": In(64).array(machine.lanes),
            "write_done": Out(done_layout()),
            "relay_occupied": Out(2),
            "b_reset": In(ResetPort()),
            "c_reset": In(ResetPort()),
        }
        if machine.sram.relay_ecc:
            members["relay_ecc"] = In(EccPort(machine))
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        depth = self._machine.credits.descriptors
        m.submodules.receiver = receiver = RequestReceiver(credits=depth)
        m.submodules.sender = sender = RequestSender(credits=depth)
        m.submodules.relay = relay = RelayBuffer(self._machine)
        wiring.connect(m, wiring.flipped(self.b_request), receiver.port)
        wiring.connect(m, sender.port, wiring.flipped(self.c_request))
        wiring.connect(m, wiring.flipped(self.c_data), relay.c_data)
        wiring.connect(m, relay.b_data, wiring.flipped(self.b_data))
        m.submodules.writer = writer = WriteSender(self._machine)
        wiring.connect(m, wiring.flipped(self.writeback), writer.i)
        wiring.connect(m, writer.request, wiring.flipped(self.c_write))
        wiring.connect(m, writer.data, wiring.flipped(self.c_write_data))
        wiring.connect(m, wiring.flipped(self.c_reply), writer.reply)
        answered = self._answers(m, writer.read_done)
        m.submodules.reads = reads = RelayReads(self._machine)
        b, c = self.b_reset, self.c_reset
        passes = Signal()
        wiring.connect(m, reads.end, relay.end)
        if self._machine.sram.relay_ecc:
            wiring.connect(m, wiring.flipped(self.relay_ecc), relay.ecc)
        m.d.comb += [
            sender.i.payload.eq(receiver.o.payload),
            sender.i.valid.eq(receiver.o.valid & passes),
            receiver.o.ready.eq(b.lost | (sender.i.ready & passes)),
            passes.eq(~b.lost & ~c.lost),
            reads.passed.valid.eq(sender.i.valid & sender.i.ready),
            reads.passed.header.eq(receiver.o.payload),
            reads.page_end.valid.eq(relay.page_end),
            reads.page_end.slot.eq(self.c_data.header.tag),
            reads.answer.eq(writer.read_done),
            reads.abort.eq(c.quiet),
            relay.c_cut.eq(c.quiet),
            relay.b_lost.eq(b.lost),
            writer.reset.lost.eq(c.lost),
            writer.reset.quiet.eq(c.quiet),
            c.settled.eq(reads.idle & relay.empty & writer.reset.settled),
            b.settled.eq(reads.idle & relay.empty & ~receiver.holds & ~answered),
            writer.rate.eq(self.link_rate),
            self.fetch.eq(writer.fetch),
            self.write_done.eq(writer.done),
            *(lane.eq(own) for lane, own in zip(writer.fetch_lanes, self.fetch_lanes, strict=True)),
            relay.rate.eq(self.link_rate),
            relay.cut_through.eq(self.relay_cut_through),
            relay.early_pages.eq(self.relay_early_pages),
            self.relay_reserved.eq(relay.reserved),
            self.relay_occupied.eq(relay.occupied),
        ]
        return m

    def _answers(self, m: Module, refused) -> Value:
        """Answers to reads wait for a credit of link B; tells whether one does."""
        answer_type = data.StructLayout({"tag": 12, "status": 4})
        credits = self._machine.credits.descriptors
        # One more than the reads: a queue of two is not ready for the second of two in a row.
        m.submodules.answers = answers = SyncFIFOBuffered(width=answer_type.size, depth=credits + 1)
        m.submodules.answer_sender = sender = RequestSender(credits=credits)
        wiring.connect(m, sender.port, wiring.flipped(self.b_reply))
        stored, answer = answer_type(answers.w_data), answer_type(answers.r_data)
        header = sender.i.payload
        m.d.comb += [
            answers.w_en.eq(refused.valid),
            stored.tag.eq(refused.tag),
            stored.status.eq(refused.status),
            sender.i.valid.eq(answers.r_rdy & ~self.b_reset.lost),
            answers.r_en.eq(sender.i.ready | self.b_reset.lost),
            header.operation.eq(Operation.READ),
            header.message_class.eq(MessageClass.READ_DATA),
            header.tag.eq(answer.tag),
            header.status.eq(answer.status),
        ]
        return answers.w_level.any()
