# amaranth: UnusedElaboratable=no
"""The HBM controller of one stack: requests of any length over all pseudo-channels."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.address import HbmAddressMap
from hw.hbm.dram.beat_walk import BeatWalk
from hw.hbm.dram.beats import (
    LaneStream,
    done_layout,
    request_layout,
)
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import ACCESS_LANES, DramPort
from hw.hbm.dram.pseudo_channel import COUNTER_BITS, COUNTERS, PseudoChannel
from hw.hbm.dram.read_order import ReadOrder, slot_bits
from hw.shared import shared


class HbmController(wiring.Component):
    """Reads and writes a stack in beats.

    Contract: reads bring their beats in ``beats``, all in the order of the requests, each labelled;
    writes take theirs from ``write_data`` in the order of the requests. A request that is empty or
    reaches beyond the stack is refused in ``done`` and has no beats. ``done`` of a write comes when
    all of it lies in the pseudo-channels: a read that is asked for after it sees it. A read that
    was asked for before ``done`` may see old or new bytes, access by access.

    An access is read only when its beat has a slot (:class:`hw.hbm.dram.read_order.ReadOrder`), so
    that nothing that comes from the DRAM is ever held up. A consumer of ``beats`` that stalls stops
    reads but no writes; writers that stall, or do not take ``done``, stop no reads.

    Latency: that of a pseudo-channel and 8 clocks. Throughput: a beat a clock each way, above the
    peak of the DRAM; one request a clock. Source: DASH section IV-B.

    Members
    -------
    request, write_data : In
    beats, done : Out
    dram : Out(DramPort), one a pseudo-channel
    counters : Out, those of each pseudo-channel
    """

    def __init__(self, stack: HbmStack) -> None:
        self._stack = stack
        channels = stack.organization.pseudo_channels
        super().__init__(
            {
                "request": In(stream.Signature(request_layout(stack))),
                "write_data": In(LaneStream(stack, labelled=False)),
                "beats": Out(LaneStream(stack, labelled=True)),
                "done": Out(stream.Signature(done_layout())),
                "dram": Out(DramPort(stack)).array(channels),
                "counters": Out(data.StructLayout(dict.fromkeys(COUNTERS, COUNTER_BITS))).array(
                    channels
                ),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        channels = []
        for p in range(self._stack.organization.pseudo_channels):
            channel = PseudoChannel(self._stack, tag_bits=slot_bits(self._stack))
            m.submodules[f"channel{p}"] = shared("pseudo_channel", channel)
            wiring.connect(m, channel.dram, wiring.flipped(self.dram[p]))
            m.d.comb += self.counters[p].eq(channel.counters)
            channels.append(channel)
        m.submodules.read_walk = read_walk = BeatWalk(self._stack)
        m.submodules.write_walk = write_walk = BeatWalk(self._stack)
        refused = self._door(m, read_walk, write_walk)
        self._reads(m, read_walk, channels)
        self._writes(m, write_walk, channels, refused)
        return m

    def _door(self, m: Module, read_walk, write_walk) -> SyncFIFOBuffered:
        """Reads and writes part; what cannot be answers at once."""
        depth = self._stack.scheduling.requests
        layout = request_layout(self._stack)
        request = self.request.payload
        m.submodules.refused = refused = SyncFIFOBuffered(width=done_layout().size, depth=depth)
        answer = done_layout()(refused.w_data)
        bad, taken = Signal(), Signal()
        m.d.comb += [
            bad.eq(
                (request.length == 0) | (request.address + request.length > self._stack.accesses)
            ),
            taken.eq(self.request.valid & self.request.ready),
            refused.w_en.eq(taken & bad),
            answer.tag.eq(request.tag),
            answer.write.eq(request.write),
            answer.refused.eq(1),
        ]
        rooms = []
        for name, walk, wanted in (
            ("reads", read_walk, ~request.write),
            ("writes", write_walk, request.write),
        ):
            queue = SyncFIFOBuffered(width=layout.size, depth=depth)
            m.submodules[f"{name}_queue"] = queue
            m.d.comb += [
                queue.w_data.eq(request),
                queue.w_en.eq(taken & ~bad & wanted),
                walk.i.valid.eq(queue.r_rdy),
                walk.i.payload.eq(queue.r_data),
                queue.r_en.eq(walk.i.ready),
            ]
            rooms.append(queue.w_rdy)
        m.d.comb += self.request.ready.eq(
            Mux(bad, refused.w_rdy, Mux(request.write, rooms[1], rooms[0]))
        )
        return refused

    def _parts(self, number) -> tuple:
        """Half of the pseudo-channels that a beat lies in, and its address in each of them."""
        low = (self._stack.halves - 1).bit_length()
        return number[:low] if low else 0, number[low:]

    def _reads(self, m: Module, walk, channels) -> None:
        """Each half spreads one beat at a time; the next may follow with its last access."""
        stack = self._stack
        m.submodules.order = order = ReadOrder(stack)
        wiring.connect(m, order.o, wiring.flipped(self.beats))
        half, local = self._parts(walk.o.payload.number)
        gives, free = Signal(), Signal(stack.halves)
        m.d.comb += [
            walk.o.ready.eq((free & order.room).bit_select(half, 1)),
            gives.eq(walk.o.valid & walk.o.ready),
            order.give.eq(gives),
            order.half.eq(half),
            order.label.eq(walk.o.payload.label),
        ]
        for h in range(stack.halves):
            pending = Signal(stack.beat_accesses, name=f"read_pending{h}")
            address = Signal.like(local, name=f"read_address{h}")
            slot = Signal(slot_bits(stack), name=f"read_slot{h}")
            still = Signal(stack.beat_accesses, name=f"read_still{h}")
            bank, row, column = HbmAddressMap(stack).fields(address)
            for i in range(stack.beat_accesses):
                p = h * stack.beat_accesses + i
                read = channels[p].read
                m.d.comb += [
                    read.valid.eq(pending[i]),
                    read.payload.place.bank.eq(bank),
                    read.payload.place.row.eq(row),
                    read.payload.place.column.eq(column),
                    read.payload.tag.eq(slot),
                    still[i].eq(pending[i] & ~read.ready),
                    order.returned[p].eq(channels[p].returned),
                    *(order.lanes[p][k].eq(channels[p].lanes[k]) for k in range(ACCESS_LANES)),
                ]
            m.d.comb += free[h].eq(still == 0)
            m.d.sync += pending.eq(still)
            with m.If(gives & (half == h)):
                m.d.sync += [
                    pending.eq(walk.o.payload.label.wanted),
                    address.eq(local),
                    slot.eq(order.slot[h]),
                ]

    def _writes(self, m: Module, walk, channels, refused) -> None:
        stack = self._stack
        half, local = self._parts(walk.o.payload.number)
        label = walk.o.payload.label
        loads, free, busy = Signal(), Signal(stack.halves), Signal(stack.halves)
        closing, waits = Signal(), Signal(stack.halves)  # a write whose last beat is under way
        closing_tag = Signal.like(label.tag)
        ends = Signal()
        may = Signal()
        m.d.comb += [
            may.eq(free.bit_select(half, 1) & (~label.last | ~closing | ends)),
            walk.o.ready.eq(may & self.write_data.valid),
            self.write_data.ready.eq(may & walk.o.valid),
            loads.eq(walk.o.valid & walk.o.ready),
        ]
        for h in range(stack.halves):
            pending = Signal(stack.beat_accesses, name=f"write_pending{h}")
            address = Signal.like(local, name=f"write_address{h}")
            still = Signal(stack.beat_accesses, name=f"write_still{h}")
            bank, row, column = HbmAddressMap(stack).fields(address)
            lanes = [
                Signal(64, name=f"write_lane{h}_{k}", reset_less=True)
                for k in range(len(self.write_data.lanes))
            ]
            for i in range(stack.beat_accesses):
                write = channels[h * stack.beat_accesses + i].write
                m.d.comb += [
                    write.valid.eq(pending[i]),
                    write.payload.place.bank.eq(bank),
                    write.payload.place.row.eq(row),
                    write.payload.place.column.eq(column),
                    *(
                        write.payload.lanes[k].eq(lanes[i * ACCESS_LANES + k])
                        for k in range(ACCESS_LANES)
                    ),
                    still[i].eq(pending[i] & ~write.ready),
                ]
            m.d.comb += [free[h].eq(still == 0), busy[h].eq(still != 0)]
            m.d.sync += pending.eq(still)
            with m.If(loads & (half == h)):
                m.d.sync += [
                    pending.eq(label.wanted),
                    address.eq(local),
                    *(lane.eq(new) for lane, new in zip(lanes, self.write_data.lanes, strict=True)),
                ]

        # Done: when no half holds a beat of it any more -------------------------------------------
        depth = stack.scheduling.requests
        m.submodules.written = written = SyncFIFOBuffered(width=len(label.tag), depth=depth)
        m.d.comb += [
            ends.eq(closing & (waits == 0) & written.w_rdy),
            written.w_en.eq(ends),
            written.w_data.eq(closing_tag),
        ]
        m.d.sync += waits.eq(waits & busy)
        with m.If(ends):
            m.d.sync += closing.eq(0)
        with m.If(loads & label.last):
            m.d.sync += [
                closing.eq(1),
                closing_tag.eq(label.tag),
                waits.eq(busy | (1 << half)),
            ]
        answer = done_layout()(refused.r_data)
        m.d.comb += self.done.valid.eq(refused.r_rdy | written.r_rdy)
        with m.If(refused.r_rdy):
            m.d.comb += [self.done.payload.eq(answer), refused.r_en.eq(self.done.ready)]
        with m.Else():
            m.d.comb += [
                self.done.payload.tag.eq(written.r_data),
                self.done.payload.write.eq(1),
                written.r_en.eq(self.done.ready),
            ]
        return None
