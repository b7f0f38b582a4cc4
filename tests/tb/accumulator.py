"""A small component to try the simulators on."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Accumulator(wiring.Component):
    """Adds ``x`` to ``total`` in each clock with ``en``; ``history`` holds the last eight ``x``.

    Members
    -------
    x, en : the summand and whether it counts
    total : sum so far; latency one clock
    history : youngest summand in the low byte; too wide for waves
    many : eight summands or more
    """

    def __init__(self, *, width: int) -> None:
        self._width = width
        super().__init__(
            {"x": In(8), "en": In(1), "total": Out(width), "history": Out(64), "many": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = Signal(16)
        with m.If(self.en):
            m.d.sync += [
                count.eq(count + 1),
                self.total.eq(self.total + self.x),
                self.history.eq(Cat(self.x, self.history)),
            ]
        m.d.comb += self.many.eq(count >= 8)
        return m
