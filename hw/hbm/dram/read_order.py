"""Room for the beats of reads, filled in any order by the pseudo-channels and emptied in order."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.beats import LaneStream, label_layout
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import ACCESS_LANES
from hw.hbm.dram.read_assembly import returned_layout
from hw.sram.macro import Sram1r1w


def slot_bits(stack: HbmStack) -> int:
    """Bits of the number of a slot: the tag of a read within a pseudo-channel."""
    return (stack.scheduling.beats - 1).bit_length()


class ReadOrder(wiring.Component):
    """Gives each beat of a read a slot before its accesses are asked for, and hands beats out in
    the order in which slots were given.

    Contract: ``beats`` slots for each half of the pseudo-channels. ``give`` may come while ``room``
    of its half is high; ``slot`` of a half is what a beat gets. Every wanted access of the beat
    must come back once, in ``returned`` of its pseudo-channel with the slot as its tag: there is
    room for it, and it is never held up. A beat whose accesses are all there leaves two clocks
    later if those before it have left. Throughput: one beat a clock.

    Members
    -------
    give, half, label : In
    room, slot : Out, one a half
    returned, lanes : In, one a pseudo-channel
    o : Out(LaneStream); lanes of accesses that are not wanted are 0
    """

    def __init__(self, stack: HbmStack) -> None:
        self._stack = stack
        channels = stack.organization.pseudo_channels
        super().__init__(
            {
                "give": In(1),
                "half": In(range(max(2, stack.halves))),
                "label": In(label_layout(stack)),
                "room": Out(stack.halves),
                "slot": Out(slot_bits(stack)).array(stack.halves),
                "returned": In(returned_layout(slot_bits(stack))).array(channels),
                "lanes": In(64).array(channels, ACCESS_LANES),
                "o": Out(LaneStream(stack, labelled=True)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        stack = self._stack
        slots, halves, accesses = stack.scheduling.beats, stack.halves, stack.beat_accesses
        entry = data.StructLayout({"half": self.half.shape(), "label": label_layout(stack)})
        m.submodules.order = order = SyncFIFOBuffered(width=entry.size, depth=slots * halves)
        entering, head = entry(order.w_data), entry(order.r_data)
        m.d.comb += [
            entering.half.eq(self.half),
            entering.label.eq(self.label),
            order.w_en.eq(self.give),
        ]
        complete = Signal(halves)
        leaves = Signal()
        m.d.comb += [
            leaves.eq(
                order.r_rdy & complete.bit_select(head.half, 1) & (~self.o.valid | self.o.ready)
            ),
            order.r_en.eq(leaves),
        ]
        stores = []
        for h in range(halves):
            oldest = Signal(range(slots), name=f"oldest{h}")
            count = Signal(range(slots + 1), name=f"count{h}")
            gives, frees = self.give & (self.half == h), leaves & (head.half == h)
            m.d.sync += count.eq(count + gives - frees)
            with m.If(gives):
                m.d.sync += self.slot[h].eq(self.slot[h] + 1)
            with m.If(frees):
                m.d.sync += oldest.eq(oldest + 1)
            m.d.comb += self.room[h].eq(count != slots)
            here = []
            for i in range(accesses):
                p = h * accesses + i
                back = self.returned[p]
                arrived = Signal(slots, name=f"arrived{p}")
                came = Mux(back.valid, 1 << back.tag, 0)
                gone = Mux(frees, 1 << oldest, 0)
                m.d.sync += arrived.eq((arrived | came) & ~gone)
                store = Sram1r1w(width=64 * ACCESS_LANES + 1, depth=slots)
                m.submodules[f"store{p}"] = store
                m.d.comb += [
                    store.w_en.eq(back.valid),
                    store.w_addr.eq(back.tag),
                    store.w_data.eq(Cat(*self.lanes[p], back.poison)),
                    store.r_en.eq(frees),
                    store.r_addr.eq(oldest),
                ]
                here.append(arrived.bit_select(oldest, 1) | ~head.label.wanted[i])
                stores.append(store)
            m.d.comb += complete[h].eq(Cat(here).all())

        half = Signal.like(self.half)
        label = Signal(label_layout(stack))
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += self.o.valid.eq(leaves)
        with m.If(leaves):
            m.d.sync += [half.eq(head.half), label.eq(head.label)]
        poison = 0
        for i in range(accesses):
            data_of = Signal(64 * ACCESS_LANES + 1, name=f"access{i}")
            for h in range(halves):
                with m.If((half == h) & label.wanted[i]):
                    m.d.comb += data_of.eq(stores[h * accesses + i].r_data)
            poison = poison | data_of[-1]
            for k in range(ACCESS_LANES):
                m.d.comb += self.o.lanes[i * ACCESS_LANES + k].eq(data_of.word_select(k, 64))
        m.d.comb += self.o.label.eq(label)
        m.d.comb += self.o.label.poison.eq(poison)
        return m
