"""Relay buffer of the HBM base die: two regions between link C and link B."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.params import Machine
from hw.sram.beat import BeatSram1rw
from hw.sram.macro import Sram1r1w
from hw.sram.regions import GROUPS
from hw.ucie.credit import CreditCounter
from hw.ucie.pacer import RATE_BITS, FramePacer
from hw.ucie.transaction import DataPort, MessageClass, Operation, Route, Status


class RelayBuffer(wiring.Component):
    """Stores and forwards relay chunks; touches neither HBM controller nor DRAM.

    Promise: one region receives a chunk while the other forwards the one before, in order, each
    page in a frame of four clocks. The last beat of a page is marked ``page_end``. A chunk closes
    with the last beat of the page that is marked ``chunk_end``, or with a message so marked that
    carries no data; a chunk has at least one page. A region's credit goes back to the HBF die
    only after its last beat has been read, so no byte is overwritten before it left, and while both
    regions are occupied the HBF die holds no credit.

    An ``end`` of a read leaves as a COMPLETION behind all beats that came before it.

    Resets: while link C is ``c_cut`` a chunk that is under way closes with its last whole page; the
    torn page behind it is dropped, and with it a region that holds no whole one. While link B is
    ``b_lost`` no page or end begins to leave: they are dropped, credits or not.

    Latency: the whole chunk, then three clocks. Throughput: one beat a clock each way, forwarding
    paced by ``rate``. Back-pressure: forwarding stops while link B has no credit for a page;
    receiving never stops. Source: DASH section IV-B.

    Members
    -------
    c_data : link C; each credit pulse frees one region
    b_data : link B; each credit pulse is one beat
    c_cut, b_lost : In: resets of the links; with ``c_cut`` no beat comes
    end : In(stream): slot of a read that ends early, and is said to with status LINK_RESET
    occupied : one bit a region: it holds or receives a chunk
    empty : Out: nothing is held or on its way to link B
    page_end : Out: the last beat of a page comes in this clock
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "rate": In(RATE_BITS + 1),
                "c_data": In(DataPort(machine.lanes)),
                "b_data": Out(DataPort(machine.lanes)),
                "c_cut": In(1),
                "b_lost": In(1),
                "end": In(stream.Signature(12)),
                "occupied": Out(2),
                "empty": Out(1),
                "page_end": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        lanes, pages = machine.lanes, machine.relay_chunk_pages
        c, b = self.c_data, self.b_data
        regions = []
        for r in range(2):
            bank_row = BeatSram1rw(
                lanes=lanes, depth=pages * GROUPS, bank_bytes=machine.sram.bank_bytes
            )
            m.submodules[f"region{r}"] = bank_row
            regions.append(bank_row)
        label_type = data.StructLayout({"tag": 12, "page": 12})
        m.submodules.labels = labels = Memory(shape=label_type, depth=2 * pages, init=[])
        m.submodules.counts = counts = Memory(shape=2, depth=2 * pages, init=[])  # beats less one
        label_write, label_read = labels.write_port(), labels.read_port()
        count_write, count_read = counts.write_port(), counts.read_port(domain="comb")
        beat_type = data.StructLayout({"beat": 2, "poison": 1})
        m.submodules.beats = beats = Sram1r1w(width=beat_type.size, depth=2 * pages * GROUPS)

        # Receive: beats of a page follow each other -----------------------------------------------
        fill_region, fill_page, fill_beat = Signal(), Signal(range(pages)), Signal(2)
        beat, ends, closes, tears = Signal(), Signal(), Signal(), Signal()
        emptied = Signal()
        fill_row = Cat(fill_beat, fill_page)
        stored = Signal(beat_type)
        m.d.comb += [
            beat.eq(c.valid & (c.header.message_class == MessageClass.RELAY_DATA)),
            ends.eq(beat & c.header.page_end),
            closes.eq(
                (c.valid & c.header.chunk_end & (ends | ~beat)) | (self.c_cut & (fill_page != 0))
            ),
            tears.eq(self.c_cut & (fill_page == 0) & (fill_beat != 0) & ~emptied),
            label_write.en.eq(ends),
            label_write.addr.eq(Cat(fill_page, fill_region)),
            label_write.data.tag.eq(c.header.tag),
            label_write.data.page.eq(c.header.page),
            count_write.en.eq(ends),
            count_write.addr.eq(Cat(fill_page, fill_region)),
            count_write.data.eq(fill_beat),
            stored.beat.eq(c.header.beat),
            stored.poison.eq(c.header.poison),
            beats.w_en.eq(beat),
            beats.w_addr.eq(Cat(fill_row, fill_region)),
            beats.w_data.eq(stored),
        ]
        with m.If(closes):
            m.d.sync += [fill_page.eq(0), fill_beat.eq(0), fill_region.eq(~fill_region)]
        with m.Elif(tears):
            m.d.sync += fill_beat.eq(0)
        with m.Elif(ends):
            m.d.sync += [fill_page.eq(fill_page + 1), fill_beat.eq(0)]
        with m.Elif(beat):
            m.d.sync += fill_beat.eq(fill_beat + 1)

        # Regions: open from their first beat, full from chunk_end to the last read ----------------
        full = Signal(2)
        chunk_pages = [Signal(range(pages + 1), name=f"pages{r}") for r in range(2)]
        drain_region, drain_page = Signal(), Signal(range(pages))  # chosen next
        region, page = Signal(), Signal(range(pages))  # being read
        for r in range(2):
            with m.If(closes & (fill_region == r)):
                m.d.sync += [full[r].eq(1), chunk_pages[r].eq(fill_page + beat)]
            with m.Elif(emptied & (region == r)):
                m.d.sync += full[r].eq(0)
            filling = (fill_region == r) & (beat | (fill_row != 0))
            m.d.comb += self.occupied[r].eq(full[r] | filling)
        m.d.sync += c.credit.eq(emptied | tears)

        # Forward: frames of four clocks -----------------------------------------------------------
        m.submodules.pacer = pacer = FramePacer()
        m.submodules.credits = credits = CreditCounter(
            initial=machine.credits.rx_beats, max_take=GROUPS
        )
        frame, go, may = Signal(2), Signal(), Signal()
        reading, dropping = Signal(), Signal()
        last_page = Signal()
        m.d.sync += frame.eq(frame + 1)
        m.d.comb += [
            pacer.rate.eq(self.rate),
            pacer.tick.eq(frame == GROUPS - 1),
            may.eq(self.b_lost | (credits.count >= GROUPS)),
            go.eq(pacer.grant & full.bit_select(drain_region, 1) & may),
            pacer.use.eq(go),
            credits.give.eq(b.credit),
            last_page.eq(drain_page == Mux(drain_region, chunk_pages[1], chunk_pages[0]) - 1),
            emptied.eq(reading & (frame == GROUPS - 1) & (region != drain_region)),
        ]
        last_position = Signal(2)  # of the beats of the page that is read
        m.d.comb += count_read.addr.eq(Cat(drain_page, drain_region))
        with m.If(go & ~self.b_lost):
            m.d.comb += credits.take.eq(count_read.data + 1)
        with m.Elif(self.end.valid & self.end.ready & ~self.b_lost):
            m.d.comb += credits.take.eq(1)
        with m.If(frame == GROUPS - 1):
            m.d.sync += reading.eq(go)
        with m.If(go):
            m.d.sync += [
                region.eq(drain_region),
                page.eq(drain_page),
                dropping.eq(self.b_lost),
                last_position.eq(count_read.data),
            ]
            with m.If(last_page):
                m.d.sync += [drain_region.eq(~drain_region), drain_page.eq(0)]
            with m.Else():
                m.d.sync += drain_page.eq(drain_page + 1)

        for r in range(2):
            receives = beat & (fill_region == r)
            reads = reading & (region == r)
            m.d.comb += [
                regions[r].en.eq(receives | reads),
                regions[r].we.eq(receives),
                regions[r].addr.eq(Mux(receives, fill_row, Cat(frame, page))),
                *(regions[r].d[k].eq(c.lanes[k]) for k in range(lanes)),
            ]

        # Link B -----------------------------------------------------------------------------------
        read_valid, read_region, read_end = Signal(), Signal(), Signal()
        was = beat_type(beats.r_data)
        m.d.comb += [
            label_read.addr.eq(Cat(page, region)),
            beats.r_en.eq(reading),
            beats.r_addr.eq(Cat(frame, page, region)),
        ]
        m.d.sync += [
            read_valid.eq(reading & (frame <= last_position) & ~dropping),
            read_end.eq(frame == last_position),
            read_region.eq(region),
            b.valid.eq(read_valid | (self.end.valid & self.end.ready & ~self.b_lost)),
        ]
        m.d.comb += [
            self.page_end.eq(ends),
            self.empty.eq(~self.occupied.any() & ~reading & ~read_valid & ~b.valid),
            self.end.ready.eq(self.empty & may),
        ]
        with m.If(self.end.ready):
            m.d.sync += [
                b.header.eq(0),
                b.header.operation.eq(Operation.READ),
                b.header.message_class.eq(MessageClass.COMPLETION),
                b.header.route.eq(Route.RELAY),
                b.header.tag.eq(self.end.payload),
                b.header.status.eq(Status.LINK_RESET),
            ]
        with m.If(read_valid):
            m.d.sync += [
                b.header.operation.eq(0),
                b.header.status.eq(0),
                b.header.message_class.eq(MessageClass.RELAY_DATA),
                b.header.route.eq(Route.RELAY),
                b.header.tag.eq(label_read.data.tag),
                b.header.page.eq(label_read.data.page),
                b.header.beat.eq(was.beat),
                b.header.page_end.eq(read_end),
                b.header.poison.eq(was.poison),
                *(
                    b.lanes[k].eq(Mux(read_region, regions[1].q[k], regions[0].q[k]))
                    for k in range(lanes)
                ),
            ]
        return m
