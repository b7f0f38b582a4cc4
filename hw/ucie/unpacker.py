"""Messages and beats of the transaction layer out of groups of flits."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.framing import (
    FILLED,
    LANES_PER_SLOT,
    SLOT_BITS,
    BeatPort,
    GroupLayout,
    GroupPort,
    MessagePort,
)
from hw.ucie.slot_shift import slots_up


class GroupUnpacker(wiring.Component):
    """Takes the messages and beats out of groups, as ``hw.ucie.framing`` lays them out.

    Promise: every message and every beat that was packed comes out once and in order, its highest
    bit zero again, as long as the groups come once and in order.

    Latency: 1 clock from a group to its message, and from the group with the end of a beat to the
    beat. Throughput: a group a clock, with one message and the end of one beat at most.
    Back-pressure: none; whoever sends has the room granted, by credits. Source: as
    :class:`hw.ucie.packer.GroupPacker`.

    Members
    -------
    i : In(GroupPort)
    clear : In: forgets the beat under way and ignores the group of this clock; the next one begins
        anew
    message : Out(MessagePort)
    beat : Out(BeatPort)
    """

    def __init__(self, *, lanes: int, slots: int) -> None:
        self._layout = GroupLayout(lanes=lanes, slots=slots)
        super().__init__(
            {
                "i": In(GroupPort(slots)),
                "clear": In(1),
                "message": Out(MessagePort()),
                "beat": Out(BeatPort(lanes)),
            }
        )

    @property
    def layout(self) -> GroupLayout:
        return self._layout

    def elaborate(self, platform) -> Module:
        m = Module()
        region, beat_slots = self._layout.data_slots, self._layout.beat_slots
        take = Signal()
        slot, group = self.i.payload[:SLOT_BITS], self.i.payload[SLOT_BITS:]
        m.d.comb += take.eq(self.i.valid & ~self.clear)

        # The message ------------------------------------------------------------------------------
        message = Signal(SLOT_BITS - 1, reset_less=True)
        m.d.sync += [self.message.valid.eq(take & slot[FILLED]), message.eq(slot[:FILLED])]
        m.d.comb += self.message.header.eq(message)

        # The beat under way -----------------------------------------------------------------------
        kept = Signal(range(beat_slots))  # slots of `begun`
        begun = Signal(SLOT_BITS * (beat_slots - 1), reset_less=True)  # zero behind `kept`
        known = Signal(range(beat_slots + region))
        data = Signal(SLOT_BITS * (region + beat_slots))  # one slot too many: nothing begins there
        moved = slots_up(m, "group", group, kept, slot_bits=SLOT_BITS, most=beat_slots - 1)
        carries, ends, begins = Signal(), Signal(), Signal()
        m.d.comb += [
            data.eq(Mux(kept != 0, begun, 0) | moved),
            carries.eq(data[FILLED]),  # the header of the beat under way, or of one that begins
            known.eq(kept + region),
            ends.eq(carries & (known >= beat_slots)),
            # The slot behind the beat that ends; it is empty too where the region ends with it.
            begins.eq(data[SLOT_BITS * beat_slots + FILLED]),
        ]
        m.d.sync += self.beat.valid.eq(take & ends)
        with m.If(take):
            with m.If(~carries | (ends & ~begins)):
                m.d.sync += kept.eq(0)
            with m.Else():
                m.d.sync += kept.eq(Mux(ends, known - beat_slots, known))
            m.d.sync += begun.eq(Mux(ends, data[SLOT_BITS * beat_slots :], data))
        with m.If(self.clear):
            m.d.sync += kept.eq(0)

        beat = Signal(SLOT_BITS * beat_slots, reset_less=True)
        with m.If(take & ends):
            m.d.sync += beat.eq(data)
        m.d.comb += self.beat.header.eq(beat[:FILLED])
        lanes, width = beat[SLOT_BITS:], SLOT_BITS // LANES_PER_SLOT
        m.d.comb += [lane.eq(lanes.word_select(k, width)) for k, lane in enumerate(self.beat.lanes)]
        return m
