"""The end of the sideband that answers: register requests become accesses of a register port."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.registers.description import WORD_BITS, WORD_BYTES
from hw.registers.register_file import RegisterPort
from hw.ucie.sideband_packet import (
    COUNT_BITS,
    STATUS_BITS,
    CompletionHeader,
    CompletionStatus,
    Opcode,
    PacketPort,
    RequestHeader,
    SidebandPacket,
    check_identity,
)


class SidebandCompleter(wiring.Component):
    """Answers register requests from a register port.

    Promise: each request is answered by one completion, in order, with its tag and byte enables. An
    access of 64 bits is two of the port, the low word first, so it reads a counter at one moment.
    The buffer holds ``credits`` requests, so a requester that obeys its credits never overflows it,
    whatever the port and ``o`` do. The place of a request is free before its completion leaves,
    which gives the credit back (``cr``).

    UNSUPPORTED, with nothing done: an access of configuration space, one that is not aligned or not
    of whole words, poisoned data, another destination, and what the port refuses. ABORT: the port
    took the low word and refused the high one. Both carry the header of the request as data. A
    packet that is no request, or finds no room, is dropped and counted.

    While ``up`` is low, requests and completions are dropped; an access that the port has begun
    ends without an answer. The port may answer from the clock after the request on.

    Latency: 6 clocks from ``i`` to ``o`` with the two clocks of a register file, 3 more for 64
    bits. Throughput: one request at a time. Source: UCIe 3.0 chapter 7; status codes and what
    carries them, UCIe 1.1 table 6-7; which of both answers what is a choice of this design.

    Members
    -------
    up : In: both ends are out of domain reset
    i : packets that have come
    o : stream of packets, without parity
    port : the register port
    overflow : Out: a request finds no room in this clock
    dropped : Out: packets dropped, stays at its last value
    """

    def __init__(self, *, credits: int = 32, identity: int = 0) -> None:
        if credits < 1:
            raise ValueError(f"credits must be at least one, not {credits!r}")
        check_identity(identity)
        self._credits, self._identity = credits, identity
        super().__init__(
            {
                "up": In(1),
                "i": In(PacketPort()),
                "o": Out(stream.Signature(SidebandPacket)),
                "port": Out(RegisterPort()),
                "overflow": Out(1),
                "dropped": Out(COUNT_BITS),
            }
        )

    @property
    def credits(self) -> int:
        return self._credits

    def elaborate(self, platform) -> Module:
        m = Module()
        # One more than the credits: a queue of two is not ready for the second of two in a row.
        # What waits is forgotten while the link is down.
        queue = SyncFIFOBuffered(width=SidebandPacket.as_shape().size, depth=self._credits + 1)
        m.submodules.queue = ResetInserter(~self.up)(queue)
        header, stored = Signal(RequestHeader), Signal(range(self._credits + 1))
        request, take, room = Signal(), Signal(), Signal()
        m.d.comb += [
            header.eq(self.i.packet.header),
            request.eq(self.i.valid & self.up & ((header.opcode & 0b10010) == 0)),
            room.eq(stored != self._credits),
            queue.w_data.eq(self.i.packet),
            queue.w_en.eq(request & room),
            queue.r_en.eq(take),
            self.overflow.eq(request & ~room),
        ]
        m.d.sync += stored.eq(Mux(self.up, stored + queue.w_en - take, 0))
        drop = self.i.valid & self.up & ~queue.w_en
        with m.If(drop & (self.dropped != 2**COUNT_BITS - 1)):
            m.d.sync += self.dropped.eq(self.dropped + 1)

        asked = Signal(SidebandPacket, reset_less=True)
        status, result = Signal(STATUS_BITS, reset_less=True), Signal(64, reset_less=True)
        stale = Signal()  # nobody waits for the answer any more
        first = data.View(RequestHeader, asked.header)
        write, wide = first.opcode[0], first.opcode[3]
        response = self.port.response
        good = Signal()
        m.d.comb += [
            good.eq(
                (first.dstid == self._identity)
                & ~first.opcode[2]
                & ~(write & first.ep)
                & Mux(
                    wide,
                    (first.be == 0xFF) & (first.address[:3] == 0),
                    (first.be[:4] == 0xF) & (first.address[:2] == 0),
                )
            ),
            self.port.request.write.eq(write),
            self.port.request.address.eq(first.address),
            self.port.request.data.eq(asked.data[:WORD_BITS]),
        ]
        with m.FSM():
            with m.State("Idle"):
                m.d.sync += stale.eq(0)
                with m.If(queue.r_rdy & self.up):
                    m.d.comb += take.eq(1)
                    m.d.sync += [asked.eq(queue.r_data), result.eq(0)]
                    m.next = "Low"
            with m.State("Low"):
                m.d.sync += status.eq(CompletionStatus.SUCCESS)
                with m.If(~self.up | stale):
                    m.next = "Idle"
                with m.Elif(good):
                    m.d.comb += self.port.request.valid.eq(1)
                    m.next = "Low-Wait"
                with m.Else():
                    m.d.sync += status.eq(CompletionStatus.UNSUPPORTED)
                    m.next = "Answer"
            with m.State("Low-Wait"):
                with m.If(response.valid):
                    m.d.sync += result[:WORD_BITS].eq(response.data)
                    m.next = "Answer"
                    with m.If(response.error):
                        m.d.sync += status.eq(CompletionStatus.UNSUPPORTED)
                    with m.Elif(wide):
                        m.next = "High"
            with m.State("High"):
                m.d.comb += [
                    self.port.request.valid.eq(1),
                    self.port.request.address.eq(first.address | WORD_BYTES),
                    self.port.request.data.eq(asked.data[WORD_BITS:]),
                ]
                m.next = "High-Wait"
            with m.State("High-Wait"):
                with m.If(response.valid):
                    m.d.sync += result[WORD_BITS:].eq(response.data)
                    m.next = "Answer"
                    with m.If(response.error):
                        m.d.sync += status.eq(CompletionStatus.ABORT)
            with m.State("Answer"):
                m.d.comb += self.o.valid.eq(self.up & ~stale)
                with m.If(stale | ~self.up | self.o.ready):
                    m.next = "Idle"
        with m.If(~self.up):
            m.d.sync += stale.eq(1)

        failed = status != CompletionStatus.SUCCESS
        answer = Signal(CompletionHeader)
        m.d.comb += [
            answer.opcode.eq(Mux(wide, Opcode.COMPLETION_64, Opcode.COMPLETION_32)),
            answer.be.eq(first.be),
            answer.tag.eq(first.tag),
            answer.srcid.eq(self._identity),
            answer.status.eq(status),
            answer.dstid.eq(first.srcid),
            answer.cr.eq(1),
            self.o.payload.header.eq(answer),
            self.o.payload.data.eq(result),
        ]
        with m.If(failed):
            m.d.comb += [
                answer.opcode.eq(Opcode.COMPLETION_64),
                self.o.payload.data.eq(asked.header),
            ]
        with m.Elif(write):
            m.d.comb += [answer.opcode.eq(Opcode.COMPLETION), self.o.payload.data.eq(0)]
        return m
