"""Messages and beats of the transaction layer into groups of flits."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.framing import FILLED, SLOT_BITS, GroupLayout
from hw.ucie.slot_shift import slots_up
from hw.ucie.transaction import BeatStream, Header

# A stream of 25 beats in 32 clocks pauses for 7 clocks at most, however it is spread.
FLUSH_CLOCKS = 7


class GroupPacker(wiring.Component):
    """Fills the slots of groups, as ``hw.ucie.framing`` lays them out.

    Promise: messages leave in order, beats leave in order, each once. While beats flow, every group
    is full: it leaves as soon as its data region is filled, and messages ride in those groups.
    Beats flow until ``flush`` clocks without one have passed. Then the end of the last beat leaves
    in a group that is not full, and a message leaves at once. So groups that are not full, of which
    each costs a row of the replay buffer, are only used where there is room. Only clocks in which
    ``o`` could take a group count.

    Latency: 1 clock from a beat or a message to the group with its first slot; the end of a beat
    and a message, while beats flow, wait for the next group, ``flush`` clocks at most. Throughput:
    a group a clock, one message each, and ``data_slots / beat_slots`` beats. Back-pressure: ``o``
    is a register and may stall for any time; ``ready`` of both inputs follows ``o.ready`` in the
    same clock, and that of ``message`` also follows both ``valid``. Source: the layout is this
    design's own; of streaming payload UCIe 3.0 fixes only where its bytes are.

    Members
    -------
    message : In: header-only messages, highest bit zero
    beat : In(BeatStream): the same for the header
    clear : In: forgets all that was taken and has not left, the group on ``o`` included; nothing is
        taken in this clock
    o : Out: the slots of a group, slot 0 lowest
    """

    def __init__(self, *, lanes: int, slots: int, flush: int = FLUSH_CLOCKS) -> None:
        self._layout = GroupLayout(lanes=lanes, slots=slots)
        if flush < 0:
            raise ValueError(f"flush must be a number of clocks, not {flush!r}")
        self._flush = flush
        super().__init__(
            {
                "message": In(stream.Signature(Header)),
                "beat": In(BeatStream(lanes)),
                "clear": In(1),
                "o": Out(stream.Signature(SLOT_BITS * slots)),
            }
        )

    @property
    def layout(self) -> GroupLayout:
        return self._layout

    @property
    def flush(self) -> int:
        return self._flush

    def elaborate(self, platform) -> Module:
        m = Module()
        region, beat_slots = self._layout.data_slots, self._layout.beat_slots

        # What leaves ------------------------------------------------------------------------------
        kept = Signal(range(beat_slots))  # slots of `rest`
        pause = Signal(range(self._flush + 1), init=self._flush)  # clocks since the last beat
        free, take, full, leave = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            free.eq((~self.o.valid | self.o.ready) & ~self.clear),
            full.eq(kept >= region),
            self.beat.ready.eq(free & ~full),
            take.eq(self.beat.valid & ~full),
            # A beat is no shorter than the region, so whenever one comes a group is full.
            leave.eq(
                take | full | ((pause == self._flush) & ((kept != 0) | self.message.valid)),
            ),
            self.message.ready.eq(free & leave),
        ]
        with m.If(free):
            m.d.sync += self.o.valid.eq(leave)
            with m.If(take):
                m.d.sync += pause.eq(0)
            with m.Elif(pause != self._flush):
                m.d.sync += pause.eq(pause + 1)
            with m.If(take):
                m.d.sync += kept.eq(kept + (beat_slots - region))
            with m.Elif(leave):
                m.d.sync += kept.eq(Mux(full, kept - region, 0))
        with m.If(self.clear):
            m.d.sync += [self.o.valid.eq(0), kept.eq(0), pause.eq(self._flush)]

        # Slots ------------------------------------------------------------------------------------
        beat, message = Signal(SLOT_BITS * beat_slots), Signal(SLOT_BITS)
        rest = Signal(SLOT_BITS * (beat_slots - 1), reset_less=True)  # zero behind `kept`
        data = Signal(SLOT_BITS * (region + beat_slots - 1))
        moved = slots_up(m, "beat", beat, kept, slot_bits=SLOT_BITS, most=region - 1)
        m.d.comb += [
            beat.eq(Cat(_slot(self.beat.header), *self.beat.lanes)),
            message.eq(Mux(self.message.valid, _slot(self.message.payload), 0)),
            # A message or a rest leaves without a beat, a beat often without a rest.
            data.eq(Mux(kept != 0, rest, 0) | Mux(take, moved, 0)),
        ]
        with m.If(free & leave):
            m.d.sync += rest.eq(data[SLOT_BITS * region :])
        payload = Signal(SLOT_BITS * self._layout.slots, reset_less=True)
        m.d.comb += self.o.payload.eq(payload)
        with m.If(free & leave):
            m.d.sync += payload.eq(Cat(message, data[: SLOT_BITS * region]))
        return m


def _slot(header):
    """A header as a slot that is not empty."""
    return Cat(header.as_value()[:FILLED], Const(1, 1))
