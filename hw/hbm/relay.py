"""Relay buffer of the HBM base die: two regions between link C and link B."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbm.relay_control import RelayControl
from hw.hbm.relay_layouts import span_layout
from hw.hbm.relay_regions import RelayRegions
from hw.params import Machine
from hw.sram.ecc_log import EccPort
from hw.sram.regions import GROUPS
from hw.ucie.pacer import RATE_BITS
from hw.ucie.transaction import DataPort, MessageClass, Operation, Route, Status


class RelayBuffer(wiring.Component):
    """Stores and forwards relay chunks; touches neither HBM controller nor DRAM.

    Promise: one region receives a chunk while the other forwards the one before, in order. The last
    beat of a page is marked ``page_end``. A chunk closes with the last beat of the page that is
    marked ``chunk_end``, or with a message so marked that carries no data; a chunk has at least one
    page. Each chunk gives one credit back to the HBF die: when the last beat of its region has been
    read, or with ``early_pages`` while at most so many pages are left, whose credits of link B are
    then ``reserved``, and only if no writer can catch the reader. So no byte is overwritten before
    it left, whatever the round trip is. A chunk leaves when it has closed, or with ``cut_through``
    page by page, each as soon as it is whole. Both switches may change at any time, and ``rate``
    counts anew when no region is given back early.

    An ``end`` of a read leaves as a COMPLETION behind all beats that came before it. With
    ``machine.sram.relay_ecc`` beats are stored with check bits
    (:class:`hw.hbm.relay_regions.RelayRegions`): one that cannot be corrected leaves with poison in
    its header.

    Resets: while link C is ``c_cut`` a chunk that is under way closes with its last whole page; the
    torn page behind it is dropped, and with it a region that holds no whole one. While link B is
    ``b_lost`` no page or end begins to leave: they are dropped, credits or not.

    Latency: of the whole chunk, or page, then four clocks, three more with check bits, and up to
    three to the next frame. Throughput: one beat a clock each way, forwarding paced by ``rate``, a
    page in each frame of four clocks at most. The beats of a page follow each other, but for a
    clock wherever a beat is written into the bank group of the region that would be read, which
    takes a switch. Back-pressure: forwarding stops while link B has no credit for a page; receiving
    never stops. Source: DASH section IV-B.

    Members
    -------
    rate : beats a clock on link B, in 1/65536
    cut_through, early_pages : the switches; ``early_pages`` of 0 gives no region back early
    c_data : link C; each credit pulse frees one region
    b_data : link B; each credit pulse is one beat
    c_cut, b_lost : In: resets of the links; with ``c_cut`` no beat comes
    end : In(stream): slot of a read that ends early, and is said to with status LINK_RESET
    occupied : one bit a region: it holds or receives a chunk
    empty : Out: nothing is held or on its way to link B
    page_end : Out: the last beat of a page comes in this clock
    reserved : Out: credits of link B that are set apart for pages of a region given back
    ecc : In: error log and error injection of the regions, if they have check bits
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        members = {
            "rate": In(RATE_BITS + 1),
            "cut_through": In(1),
            "early_pages": In(range(most_early_pages(machine) + 1)),
            "c_data": In(DataPort(machine.lanes)),
            "b_data": Out(DataPort(machine.lanes)),
            "c_cut": In(1),
            "b_lost": In(1),
            "end": In(stream.Signature(12)),
            "occupied": Out(2),
            "empty": Out(1),
            "page_end": Out(1),
            "reserved": Out(range(machine.credits.rx_beats + 1)),
        }
        if machine.sram.relay_ecc:
            members["ecc"] = In(EccPort(machine))
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        c = self.c_data
        m.submodules.regions = regions = RelayRegions(machine)
        m.submodules.control = control = RelayControl(
            pages=machine.relay_chunk_pages,
            credits=machine.credits.rx_beats,
            fill_clocks=regions.fill_clocks,
        )
        if machine.sram.relay_ecc:
            wiring.connect(m, wiring.flipped(self.ecc), regions.ecc)
        m.d.comb += [
            control.rate.eq(self.rate),
            control.cut_through.eq(self.cut_through),
            control.early_pages.eq(self.early_pages),
            control.cut.eq(self.c_cut),
            control.lost.eq(self.b_lost),
            control.i.valid.eq(c.valid),
            control.i.beat.eq(c.header.message_class == MessageClass.RELAY_DATA),
            control.i.page_end.eq(c.header.page_end),
            control.i.chunk_end.eq(c.header.chunk_end),
            control.b_credit.eq(self.b_data.credit),
            c.credit.eq(control.c_credit),
            self.occupied.eq(control.occupied),
            self.reserved.eq(control.reserved),
            self.page_end.eq(control.ends),
            regions.write.eq(control.write),
            regions.beat.beat.eq(c.header.beat),
            regions.beat.poison.eq(c.header.poison),
            *(to.eq(of) for to, of in zip(regions.w_lanes, c.lanes, strict=True)),
            regions.read.valid.eq(control.read.valid),
            regions.read.place.eq(control.read.place),
        ]
        self._link_b(m, control, regions, self._labels(m, control))
        return m

    def _labels(self, m: Module, control: RelayControl):
        """What is known of the pages in their slots; the label comes one clock after a read."""
        depth = 2 * self._machine.relay_chunk_pages
        label_type = data.StructLayout({"tag": 12, "page": 12})
        m.submodules.labels = labels = Memory(shape=label_type, depth=depth, init=[])
        m.submodules.spans = spans = Memory(shape=span_layout(), depth=depth, init=[])
        label_write, label_read = labels.write_port(), labels.read_port()
        span_write, span_read = spans.write_port(), spans.read_port(domain="comb")
        to, of, header = control.write.place, control.read.place, self.c_data.header
        for write in (label_write, span_write):
            m.d.comb += [write.en.eq(control.ends), write.addr.eq(Cat(to.page, to.region))]
        m.d.comb += [
            label_write.data.tag.eq(header.tag),
            label_write.data.page.eq(header.page),
            span_write.data.eq(control.span),
            span_read.addr.eq(control.next),
            control.next_span.eq(span_read.data),
            label_read.addr.eq(Cat(of.page, of.region)),
        ]
        return label_read.data

    def _link_b(self, m: Module, control: RelayControl, regions: RelayRegions, label) -> None:
        """A beat leaves as it comes from the regions; ends leave when there is none."""
        b, read = self.b_data, control.read
        leaves = data.StructLayout({"valid": 1, "page_end": 1})
        now, under_way = Signal(leaves), Signal()
        m.d.comb += [now.valid.eq(read.valid & ~read.dropped), now.page_end.eq(read.page_end)]
        on_way = []
        for stage in range(regions.read_clocks):
            before, now = now, Signal(leaves, name=f"leaves{stage}")
            m.d.sync += now.eq(before)
            on_way.append(now.valid)
            if stage:  # the label comes one clock after the read
                earlier, label = label, Signal.like(label, name=f"label{stage}")
                m.d.sync += label.eq(earlier)
        end, ended, slot = self.end, Signal(), Signal(12)
        m.d.comb += [
            under_way.eq(Cat(on_way).any() | ended),
            self.empty.eq(~self.occupied.any() & ~under_way),
            end.ready.eq(self.empty & control.may_end),
            control.end.eq(end.valid & end.ready),
        ]
        m.d.sync += [ended.eq(control.end & ~self.b_lost), slot.eq(end.payload)]
        m.d.comb += [
            b.valid.eq(now.valid | ended),
            b.header.route.eq(Route.RELAY),
            *(to.eq(of) for to, of in zip(b.lanes, regions.lanes, strict=True)),
        ]
        with m.If(ended):
            m.d.comb += [
                b.header.operation.eq(Operation.READ),
                b.header.message_class.eq(MessageClass.COMPLETION),
                b.header.tag.eq(slot),
                b.header.status.eq(Status.LINK_RESET),
            ]
        with m.Else():
            m.d.comb += [
                b.header.message_class.eq(MessageClass.RELAY_DATA),
                b.header.tag.eq(label.tag),
                b.header.page.eq(label.page),
                b.header.beat.eq(regions.o.beat),
                b.header.page_end.eq(now.page_end),
                b.header.poison.eq(regions.o.poison),
            ]


def most_early_pages(machine: Machine) -> int:
    """Pages for which link B may have credits at once."""
    return machine.credits.rx_beats // GROUPS


def safe_early_pages(machine: Machine) -> int:
    """Pages that may be left of a full chunk when its region is given back, none if 0.

    Of the bound of :class:`hw.hbm.relay_chunks.RelayChunks` and the credits of link B.
    """
    slots = machine.relay_chunk_pages * machine.link_beats_per_clock
    return max(0, min(most_early_pages(machine), int(slots / (2 * GROUPS)) - 2))
