"""Reads that the HBM base die has passed on, and their end when link C is reset."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.bits import lowest
from hw.params import Machine
from hw.ucie.open_reads import OpenReads
from hw.ucie.transaction import ADDRESS_UNIT_BYTES, Header
from hw.ucie.write_sender import read_refused_layout


class RelayReads(wiring.Component):
    """Knows which reads wait for pages from the HBF base die.

    Promise: a read is open from the clock after it was ``passed`` on to its last page on
    ``page_end``, or to its ``answer``. While ``abort`` is high, each that is open is offered on
    ``end`` and open no more. One page, one answer and one new read a clock. Back-pressure: only
    ``end`` waits. The tag of a read is its slot, of ``machine.credits.descriptors``.

    Members
    -------
    passed : In: a request leaves over link C
    page_end : In: the last beat of a page comes over link C
    answer : In: a read ends without data
    abort : In: no page and no answer comes any more
    end : Out(stream): slot
    idle : Out: no read is open
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "passed": In(data.StructLayout({"valid": 1, "header": Header})),
                "page_end": In(data.StructLayout({"valid": 1, "slot": 12})),
                "answer": In(read_refused_layout()),
                "abort": In(1),
                "end": Out(stream.Signature(12)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        units = exact_log2(machine.geometry.page_bytes // ADDRESS_UNIT_BYTES)
        m.submodules.reads = reads = OpenReads(slots=machine.credits.descriptors)
        header, ends = self.passed.header, Signal()
        m.d.comb += [
            reads.begin.valid.eq(self.passed.valid),
            reads.begin.slot.eq(header.tag),
            # A piece of a page comes as one page.
            reads.begin.pages.eq((header.length >> units) + (header.length[:units] != 0)),
            reads.page.valid.eq(self.page_end.valid),
            reads.page.slot.eq(self.page_end.slot),
            self.end.payload.eq(lowest(m, reads.open)),
            self.end.valid.eq(self.abort & reads.open.any()),
            ends.eq(self.end.valid & self.end.ready),
            reads.end.valid.eq(self.answer.valid | ends),
            reads.end.slot.eq(self.end.payload),
            self.idle.eq(~reads.open.any()),
        ]
        with m.If(self.answer.valid):
            m.d.comb += reads.end.slot.eq(self.answer.tag)
        return m
