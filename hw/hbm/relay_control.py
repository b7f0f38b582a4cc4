"""Control of the relay buffer: all but the data."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.relay_chunks import RelayChunks
from hw.hbm.relay_layouts import (
    message_layout,
    read_layout,
    span_layout,
    stored_layout,
    write_layout,
)
from hw.hbm.relay_reader import RelayReader
from hw.hbm.relay_receive import RelayReceiver
from hw.sram.regions import GROUPS
from hw.ucie.credit import CreditCounter
from hw.ucie.pacer import RATE_BITS, FramePacer


class RelayControl(wiring.Component):
    """Joins receiver, chunks and reader, and paces what leaves over link B.

    Promise: no slot is written before the last beat of the page in it was read, whatever comes as
    long as it obeys the credits of link C; of these each chunk gives one. A page is taken, at most
    one in each frame of four clocks, when the pacer grants one and link B has credit for four beats
    or has them reserved; of the credits ``reserved`` nobody else may take any. Its first beat is
    read in the next clock at the earliest. Beats of a write are in their bank ``fill_clocks``
    later, and pages are known to be whole after that; a read of the bank group that is written in
    this clock waits.

    Members
    -------
    rate, cut_through, early_pages : see :class:`hw.hbm.relay_chunks.RelayChunks`
    i : In: what comes over link C; its place is ``write``, and ``ends`` and ``span`` tell of pages
    cut, lost : In: resets of link C and link B
    next, next_span : slot of the page that leaves next, and in the same clock where its beats lie
    read : Out: a beat is read in this clock
    b_credit : In: credits of link B
    end, may_end : an end takes a credit; with ``may_end`` it may, or is to be dropped
    c_credit : Out: one clock after a region was given back
    occupied : Out(2): holds a part of a chunk
    reserved : Out: credits of link B that are set apart
    """

    def __init__(self, *, pages: int, credits: int, fill_clocks: int = 0) -> None:
        if fill_clocks < 0:
            raise ValueError(f"fill_clocks must not be negative, not {fill_clocks!r}")
        self._pages, self._credits, self._fill_clocks = pages, credits, fill_clocks
        super().__init__(
            {
                "rate": In(RATE_BITS + 1),
                "cut_through": In(1),
                "early_pages": In(range(credits // GROUPS + 1)),
                "i": In(message_layout()),
                "cut": In(1),
                "lost": In(1),
                "write": Out(write_layout(pages)),
                "ends": Out(1),
                "span": Out(span_layout()),
                "next": Out(data.StructLayout({"page": range(pages), "region": 1})),
                "next_span": In(span_layout()),
                "read": Out(read_layout(pages)),
                "b_credit": In(1),
                "end": In(1),
                "may_end": Out(1),
                "c_credit": Out(1),
                "occupied": Out(2),
                "reserved": Out(range(credits + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        pages = self._pages
        m.submodules.receiver = receiver = RelayReceiver(pages=pages)
        m.submodules.chunks = chunks = RelayChunks(pages=pages, credits=self._credits)
        m.submodules.reader = reader = RelayReader(pages=pages)
        m.d.comb += [
            receiver.i.eq(self.i),
            receiver.cut.eq(self.cut),
            receiver.busy.eq(reader.emptied | chunks.grant | chunks.spent),
            self.write.eq(receiver.write),
            self.ends.eq(receiver.ends),
            self.span.eq(receiver.span),
            self.next.page.eq(chunks.page.page),
            self.next.region.eq(chunks.page.region),
            chunks.rate.eq(self.rate),
            chunks.cut_through.eq(self.cut_through),
            chunks.early_pages.eq(self.early_pages),
            chunks.reading.eq(reader.regions),
            chunks.emptied.eq(reader.emptied),
            reader.page.eq(chunks.page),
            reader.span.eq(self.next_span),
            reader.lost.eq(self.lost),
            self.read.eq(reader.read),
        ]
        self._fill(m, receiver, chunks, reader)
        self._take(m, chunks, reader)

        held = Signal(2)  # by a chunk that has closed
        frees = Signal(2)
        for r in range(2):
            m.d.comb += [
                frees[r].eq(
                    (reader.emptied & (reader.region == r))
                    | ((chunks.grant | chunks.spent) & (chunks.region == r))
                ),
                self.occupied[r].eq(
                    held[r]
                    | receiver.filling[r]
                    | reader.regions[r]
                    | (chunks.tail & (chunks.region == r))
                ),
            ]
            with m.If(receiver.closes & (receiver.region == r)):
                m.d.sync += held[r].eq(1)
            with m.Elif(frees[r]):
                m.d.sync += held[r].eq(0)
        m.d.sync += self.c_credit.eq(frees.any() | receiver.tears)
        return m

    def _fill(self, m: Module, receiver, chunks, reader) -> None:
        """What is written goes its way into the banks, and pages and closes with it."""
        write, stored = receiver.write, Signal(stored_layout())
        m.d.comb += [
            stored.page.eq(receiver.ends),
            stored.close.eq(receiver.closes),
            stored.region.eq(receiver.region),
        ]
        for stage in range(self._fill_clocks):
            later = Signal.like(write, name=f"write{stage}")
            after = Signal(stored_layout(), name=f"stored{stage}")
            m.d.sync += [later.eq(write), after.eq(stored)]
            write, stored = later, after
        place = reader.place
        m.d.comb += [
            chunks.stored.eq(stored),
            reader.blocked.eq(
                write.valid
                & (write.place.region == place.region)
                & (write.place.group == place.group)
            ),
        ]

    def _take(self, m: Module, chunks, reader) -> None:
        """Pacer and credits of link B."""
        m.submodules.pacer = pacer = FramePacer()
        m.submodules.credits = credits = CreditCounter(initial=self._credits, max_take=GROUPS)
        frame, take, free = Signal(range(GROUPS)), Signal(), Signal.like(self.reserved)
        m.d.sync += frame.eq(frame + 1)
        m.d.comb += [
            free.eq(credits.count - self.reserved),
            self.may_end.eq(self.lost | (free >= GROUPS)),
            pacer.rate.eq(chunks.pace),
            pacer.tick.eq(frame == GROUPS - 1),
            take.eq(pacer.grant & chunks.waits & reader.ready & (chunks.tail | self.may_end)),
            pacer.use.eq(take),
            chunks.take.eq(take),
            chunks.free.eq(free),
            reader.take.eq(take),
            credits.give.eq(self.b_credit),
        ]
        with m.If(take & ~self.lost):
            m.d.comb += credits.take.eq(self.next_span.last + 1)
        with m.Elif(self.end & ~self.lost):
            m.d.comb += credits.take.eq(1)
        m.d.sync += self.reserved.eq(
            self.reserved
            + Mux(chunks.grant, chunks.reserve, 0)
            - Mux(take & chunks.tail, GROUPS, 0)
        )
