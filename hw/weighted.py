"""Weighted choice between two requesters that share a link."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

WEIGHT_BITS = 4


class WeightedPair(wiring.Component):
    """Chooses one of two requests, so that both get their share of what is contended.

    Contract: ``grant`` is one-hot (or zero when nothing is requested), combinational; it counts in
    a clock with ``take``. A request that is alone is granted and changes nothing. Over any stretch
    of takes in which both request, line ``k`` gets ``weight[k]`` of every ``weight[0] + weight[1]``
    of them, to within one turn: a line that keeps requesting waits for at most
    ``ceil(weight of the other / its own)`` takes of the other. A weight of zero counts as one, so
    neither starves. Weights may change at any time; the bound holds once they have been still for a
    turn.

    The balance of the takes decides: line 0 pays the weight of line 1 for each contended take,
    line 1 is credited the weight of line 0, and line 0 is chosen while the balance is not negative.

    Members
    -------
    request, grant : In(2), Out(2)
    take : In
    weight : In, one a line
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "request": In(2),
                "take": In(1),
                "weight": In(WEIGHT_BITS).array(2),
                "grant": Out(2),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        weights = [Mux(weight == 0, 1, weight) for weight in self.weight]
        balance = Signal(range(-(1 << WEIGHT_BITS), 1 << WEIGHT_BITS))
        both = self.request.all()
        first = Signal()
        m.d.comb += [
            first.eq(balance >= 0),
            self.grant.eq(Mux(both, Mux(first, 0b01, 0b10), self.request)),
        ]
        with m.If(both & self.take):
            m.d.sync += balance.eq(Mux(first, balance - weights[1], balance + weights[0]))
        return m
