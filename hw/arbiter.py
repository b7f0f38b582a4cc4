"""Round-robin choice among request lines."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class RoundRobin(wiring.Component):
    """Chooses one of ``width`` requests, the one after the last taken first.

    Contract: ``grant`` is one-hot (or zero when nothing is requested), combinational. After a clock
    with ``take`` the granted line becomes the last in turn, so a line that keeps requesting is
    granted within ``width`` takes.
    """

    def __init__(self, *, width: int) -> None:
        if width < 1:
            raise ValueError(f"arbiter width must be at least 1, not {width!r}")
        self._width = width
        super().__init__({"request": In(width), "take": In(1), "grant": Out(width)})

    @property
    def width(self) -> int:
        return self._width

    def elaborate(self, platform) -> Module:
        m = Module()
        turn = Signal(self._width)  # lines above the last taken one
        preferred = Signal(self._width)
        candidates = Signal(self._width)
        m.d.comb += [
            preferred.eq(self.request & turn),
            candidates.eq(Mux(preferred.any(), preferred, self.request)),
            self.grant.eq(candidates & (~candidates + 1)),
        ]
        with m.If(self.take & self.request.any()):
            m.d.sync += turn.eq(~(self.grant | (self.grant - 1)))
        return m


def select(one_hot, values):
    """The one of ``values`` whose line of ``one_hot`` is set, as an AND-OR; zero if none is."""
    result = 0
    for k, value in enumerate(values):
        result = result | Mux(one_hot[k], value, 0)
    return result
