"""One die's lane of the shared TSVs."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import page_layout
from hw.params import NAND_TIME_BITS, Machine
from hw.ucie.pacer import RATE_BITS, RATE_ONE


class TsvLane(wiring.Component):
    """Moves the wanted beats of pages at the lane rate, in either direction.

    Contract: a beat is complete every ``65536 / rate`` clocks on average; what is left over of a
    clock counts for the next beat as long as the lane has work, so a page has no rounding of its
    own. A finished beat waits until ``take``; the next one is already under way, and the lane
    stalls only if that is complete too. ``page`` and ``beat`` name the waiting beat; ``last`` is
    the last one of its page. After it, ``t_ccs`` clocks pass before the next page moves, and
    ``write_clocks`` more after a write, whose beats reach the die so much later; with ``t_ccs``
    zero only a read waits for that, since another write is as late.
    """

    def __init__(self, machine: Machine, *, write_clocks: int) -> None:
        self._write_clocks = write_clocks
        self._page = page_layout(machine)
        super().__init__(
            {
                "i": In(stream.Signature(self._page)),
                "rate": In(RATE_BITS + 1),
                "t_ccs": In(NAND_TIME_BITS["t_ccs"]),
                "valid": Out(1),
                "page": Out(self._page),
                "beat": Out(2),
                "last": Out(1),
                "take": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        moved = Signal(range(2 * RATE_ONE + 1))  # of the beat under way, in 1/65536
        beat, following = Signal(2), Signal(2)
        begun = Signal()  # a beat of the page has been completed
        gap, waits = Signal(NAND_TIME_BITS["t_ccs"] + 1), Signal()
        moves, full, room = Signal(), Signal(), Signal()
        page = self.i.payload
        turns = Signal()  # a read follows a write
        wrote = self.page.write
        m.d.comb += [
            turns.eq(wrote & ~page.write),
            waits.eq(((gap != 0) | self.last) & ((self.t_ccs != 0) | turns)),
            moves.eq(self.i.valid & ~waits),
            beat.eq(Mux(begun, following, page.first_beat)),
            full.eq(moves & (moved + self.rate >= RATE_ONE)),
            room.eq(~self.valid | self.take),
            self.i.ready.eq(full & room & (beat == page.last_beat)),
            self.last.eq(self.valid & (self.beat == self.page.last_beat)),
        ]
        with m.If(~moves):
            m.d.sync += moved.eq(0)
        with m.Elif(~full):
            m.d.sync += moved.eq(moved + self.rate)
        with m.Elif(room):
            m.d.sync += [
                moved.eq(moved + self.rate - RATE_ONE),
                following.eq(beat + 1),
                begun.eq(~self.i.ready),
            ]
        with m.If(full & room):
            m.d.sync += [self.valid.eq(1), self.page.eq(page), self.beat.eq(beat)]
        with m.Elif(self.take):
            m.d.sync += self.valid.eq(0)
        with m.If(self.take & self.last):
            m.d.sync += gap.eq(self.t_ccs + Mux(wrote, self._write_clocks, 0))
        with m.Elif(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        return m
