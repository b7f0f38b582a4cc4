"""Cuts requests into beats."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.beats import LENGTH_BITS, beat_request_layout, request_layout
from hw.hbm.dram.description import HbmStack


class BeatWalk(wiring.Component):
    """Offers the beats of each request in rising order.

    Contract: requests lie within the stack and have a length. A request that is taken in clock c
    offers its first beat in c + 1 and one a clock from then on; the next is taken with the last
    beat of the one before.
    """

    def __init__(self, stack: HbmStack) -> None:
        self._stack = stack
        super().__init__(
            {
                "i": In(stream.Signature(request_layout(stack))),
                "o": Out(stream.Signature(beat_request_layout(stack))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        accesses = self._stack.beat_accesses
        low = (accesses - 1).bit_length()
        number = Signal(self.o.payload.number.shape())
        first = Signal(range(accesses))  # access of this beat; 0 from the second beat on
        left = Signal(LENGTH_BITS)  # accesses from it on
        beat = Signal(LENGTH_BITS)
        tag = Signal.like(self.i.payload.tag)
        active = Signal()
        room = Signal(range(accesses + 1))  # accesses from `first` to the end of the beat
        moves = Signal()
        label = self.o.payload.label
        here = Mux(label.last, left, room)  # accesses of this beat
        m.d.comb += [
            room.eq(accesses - first),
            self.o.valid.eq(active),
            self.o.payload.number.eq(number),
            label.tag.eq(tag),
            label.beat.eq(beat),
            label.last.eq(left <= room),
            label.wanted.eq(Cat((first <= k) & (k - first < here) for k in range(accesses))),
            moves.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(~active | (moves & label.last)),
        ]
        with m.If(moves):
            m.d.sync += [
                number.eq(number + 1),
                first.eq(0),
                left.eq(left - room),
                beat.eq(beat + 1),
            ]
        with m.If(self.i.ready):
            m.d.sync += active.eq(self.i.valid)
        with m.If(self.i.valid & self.i.ready):
            request = self.i.payload
            m.d.sync += [
                number.eq(request.address[low:]),
                first.eq(request.address[:low]),
                left.eq(request.length),
                beat.eq(0),
                tag.eq(request.tag),
            ]
        return m
