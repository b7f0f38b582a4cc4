"""A small component to try the simulators on."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Accumulator(wiring.Component):
    """Adds what arrives on ``i`` to ``total``; ``history`` holds the last eight summands.

    Members
    -------
    i : stream of summands, always ready
    total : sum so far; latency one clock
    history : youngest summand in the low byte; too wide for waves
    many : eight summands or more
    """

    def __init__(self, *, width: int) -> None:
        self._width = width
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "total": Out(width),
                "history": Out(64),
                "many": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = Signal(16)
        with m.If(self.i.valid):
            m.d.sync += [
                count.eq(count + 1),
                self.total.eq(self.total + self.i.payload),
                self.history.eq(Cat(self.i.payload, self.history)),
            ]
        m.d.comb += [self.i.ready.eq(1), self.many.eq(count >= 8)]
        return m
