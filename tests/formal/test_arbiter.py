# amaranth: UnusedElaboratable=no
"""Round robin: one grant, to a requester, and nobody waits longer than a turn."""

import pytest
from amaranth.hdl import Assert, Cover, Mux, Signal
from amaranth.lib.wiring import In

from hw.arbiter import RoundRobin
from tests.formal.harness import Counterexample, Properties, constant, prove
from tests.formal.variants import variant


class Arbitration(Properties):
    """Any requests, any takes; one line is watched, any of them."""

    def __init__(self, *, width: int, arbiter: type = RoundRobin) -> None:
        self._arbiter = arbiter(width=width)
        super().__init__({"request": In(width), "take": In(1)})

    def describe(self, m) -> None:
        m.submodules.arbiter = arbiter = self._arbiter
        line = constant(m, "line", range(arbiter.width))
        requests = self.request.bit_select(line, 1)
        granted = arbiter.grant.bit_select(line, 1)
        # Takes for others since the line has begun to request without a break.
        passed = Signal(range(arbiter.width + 1))
        other = self.take & self.request.any() & ~granted
        m.d.sync += passed.eq(Mux(requests & ~(granted & self.take), passed + other, 0))
        m.d.comb += [
            arbiter.request.eq(self.request),
            arbiter.take.eq(self.take),
            Assert((arbiter.grant & (arbiter.grant - 1)) == 0, "one grant at most"),
            Assert((arbiter.grant & ~self.request) == 0, "only requesters"),
            Assert(arbiter.grant.any() == self.request.any(), "a grant if anyone requests"),
            Assert(passed < arbiter.width, "granted within a turn"),
            Cover(passed == arbiter.width - 1, "last in turn"),
        ]


@pytest.mark.formal
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 16])
def test_arbiter(width: int) -> None:
    prove(Arbitration(width=width), label=f"of {width}")
    prove(Arbitration(width=width), mode="cover", depth=2 * width + 2, label=f"of {width}")


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        ("preferred.eq(self.request & turn)", "preferred.eq(0)", "granted_within_a_turn"),
        ("candidates & (~candidates + 1)", "candidates", "one_grant_at_most"),
    ],
)
def test_unfair_and_double_grants_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Arbitration(width=4, arbiter=variant(RoundRobin, (old, new))))
