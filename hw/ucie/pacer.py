"""Fractional pacing: how often a frame of the link may carry a page."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.params import RATE_BITS

RATE_ONE = 1 << RATE_BITS


class FramePacer(wiring.Component):
    """Grants a share ``rate / 65536`` of the frames, evenly spread.

    Contract: over any stretch of frames the used grants exceed ``rate / 65536`` of them by at most
    one; while ``use`` follows every grant they fall short by at most one. A frame is one clock with
    ``tick``; ``grant`` is combinational in that clock, and ``use`` comes only with it. An unused
    grant is kept, but only one. ``rate`` of 65536 grants every frame.

    With frames of four clocks and one page of four beats a frame, 51200 (25/32) lets 25 beats of
    32 pass: 1.6 of 2.048 TB/s.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "rate": In(RATE_BITS + 1),
                "tick": In(1),
                "use": In(1),
                "grant": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        saved = Signal(range(RATE_ONE + 1))
        total = Signal(range(2 * RATE_ONE + 1))
        m.d.comb += [
            total.eq(saved + self.rate),
            self.grant.eq(self.tick & (total >= RATE_ONE)),
        ]
        with m.If(self.tick):
            left = Mux(self.use, total - RATE_ONE, total)
            m.d.sync += saved.eq(Mux(left > RATE_ONE, RATE_ONE, left))
        return m
