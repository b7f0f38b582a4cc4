# amaranth: UnusedElaboratable=no
"""Weighted choice: one grant, to a requester, and a wait that the weights bound."""

import pytest
from amaranth.hdl import Assert, Cover, Mux, Signal
from amaranth.lib.wiring import In

from hw.weighted import WEIGHT_BITS, WeightedPair
from tests.formal.harness import Counterexample, Properties, constant, prove
from tests.formal.variants import variant


class Weighing(Properties):
    """Any requests and takes, any weights that stay as they are; line 0 or 1 is watched."""

    def __init__(self, arbiter: type = WeightedPair) -> None:
        self._arbiter = arbiter()
        super().__init__({"request": In(2), "take": In(1)})

    def describe(self, m) -> None:
        m.submodules.arbiter = arbiter = self._arbiter
        line = constant(m, "line", 1)
        weights = [constant(m, f"weight{k}", WEIGHT_BITS) for k in range(2)]
        own, other = (Mux(w == 0, 1, w) for w in (Mux(line, *weights[::-1]), Mux(line, *weights)))
        requests = self.request.bit_select(line, 1)
        granted = arbiter.grant.bit_select(line, 1)
        waited = Signal(range(1 << WEIGHT_BITS + 1))  # takes for the other meanwhile
        passed = self.take & requests & ~granted
        m.d.sync += waited.eq(Mux(requests & ~(granted & self.take), waited + passed, 0))
        m.d.comb += [
            arbiter.request.eq(self.request),
            arbiter.take.eq(self.take),
            *(arbiter.weight[k].eq(weight) for k, weight in enumerate(weights)),
            Assert((arbiter.grant & (arbiter.grant - 1)) == 0, "one grant at most"),
            Assert((arbiter.grant & ~self.request) == 0, "only requesters"),
            Assert(arbiter.grant.any() == self.request.any(), "a grant if anyone requests"),
            # waited <= ceil(other / own), without a division
            Assert((waited == 0) | ((waited - 1) * own < other), "waits by weight"),
            Cover((waited == 15) & (own == 1), "the longest wait"),
        ]


@pytest.mark.formal
def test_weighted_pair() -> None:
    prove(Weighing())
    prove(Weighing(), mode="cover", depth=20)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        ("balance + weights[0]", "balance", "waits_by_weight"),
        ("Mux(weight == 0, 1, weight)", "weight", "waits_by_weight"),
        ("Mux(first, 0b01, 0b10)", "0b11", "one_grant_at_most"),
        ("balance - weights[1]", "balance - 1", "waits_by_weight"),
    ],
)
def test_planted_bugs_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Weighing(variant(WeightedPair, (old, new))))
