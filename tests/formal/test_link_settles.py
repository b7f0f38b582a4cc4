# amaranth: UnusedElaboratable=no
"""A link that was reset comes up only when both dies have settled."""

import pytest
from amaranth.hdl import Assert, Cover, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.ucie.flit import latency_optimised
from hw.ucie.link_codes import StateStatus, peer_layout
from hw.ucie.link_end import Channel, LinkEnd
from hw.ucie.link_shape import LinkShape
from hw.ucie.modules import Deskewer, Striper
from hw.ucie.ucie_end import UcieEnd
from tests.formal.harness import Counterexample, Properties, prove
from tests.formal.variants import variant

DELAY = 1  # of the sideband, each way
TIMEOUT, TRAINING, QUIET, EMPTYING = 6 * (DELAY + 1), 2, 2, 1
SHAPE = LinkShape(
    flit_format=latency_optimised(24), flits=2, lanes=2, modules=1, module_lanes=6,
    training_clocks=TRAINING, timeout_clocks=TIMEOUT,
)  # fmt: skip
CHANNEL = Channel(name="request", depth=1)
FOLLOWS = DELAY + TIMEOUT + 2  # until the other end is down, too
CLOCKS = 40  # up, lost and up again


def bare(component: type) -> type:
    """A component of the same ports that does nothing."""

    class Bare(wiring.Component):
        def __init__(self, **sizes) -> None:
            super().__init__(dict(component(**sizes).signature.members))

        def elaborate(self, platform) -> Module:
            m = Module()
            self.drive(m)
            return m

        def drive(self, m: Module) -> None:
            pass

    return Bare


class Data(bare(LinkEnd)):
    """In place of all that carries data: a wrong flit asks for RETRAIN at once."""

    def drive(self, m: Module) -> None:
        m.d.comb += self.retrain.eq(self.corrupt[0].any())


class Empty(bare(Striper)):
    """Nothing is ever left in it."""

    def drive(self, m: Module) -> None:
        m.d.comb += self.idle.eq(1)


def end(*edits: tuple[str, str]) -> type:
    """The end of a link without its data; ``edits`` plant a bug."""
    parts = {"LinkEnd": Data, "Striper": Empty, "Deskewer": bare(Deskewer)}
    return variant(UcieEnd, *edits, **parts, QUIET_CLOCKS=QUIET, EMPTYING_CLOCKS=EMPTYING)


class Settles(Properties):
    """Two ends with what they ask of their link states; resets, errors and dies are free."""

    def __init__(self, ends: type | None = None) -> None:
        sizes = {"shape": SHAPE, "sends": (CHANNEL,), "receives": (CHANNEL,)}
        self._ends = [(ends or end())(**sizes) for _ in range(2)]
        free = ("reset", "error", "wrong", "alive", "settled")
        super().__init__({f"{name}_{e}": In(1) for e in "ab" for name in free})

    def describe(self, m: Module) -> None:
        for name, here, other in zip("ab", self._ends, reversed(self._ends), strict=True):
            m.submodules[name] = here
            reset, error, wrong, alive, settled = (
                getattr(self, f"{of}_{name}")
                for of in ("reset", "error", "wrong", "alive", "settled")
            )
            told = other.peer_o
            for stage in range(DELAY):
                later = Signal(peer_layout(SHAPE.modules), name=f"told_{name}{stage}")
                m.d.sync += later.eq(told)
                told = later
            m.d.comb += [
                here.peer_i.eq(told),
                here.reset.eq(reset),
                here.error.eq(error),
                here.corrupt[0].eq(wrong.replicate(len(here.corrupt[0]))),
                here.alive.eq(alive),
                here.die.settled.eq(settled),
            ]
            self._waits(m, name, here, other)
        up = [e.state == StateStatus.ACTIVE for e in self._ends]
        back = [Signal(name=f"back_{e}") for e in "ab"]
        for once, e in zip(back, self._ends, strict=True):
            with m.If(e.clear):
                m.d.sync += once.eq(1)
        m.d.comb += Cover(back[0] & back[1] & up[0] & up[1], "up again")

    def _waits(self, m: Module, name: str, here: UcieEnd, other: UcieEnd) -> None:
        die = here.die
        said, waits = Signal(name=f"said_{name}"), Signal(range(FOLLOWS + 1), name=f"waits_{name}")
        with m.If(~die.lost):
            m.d.sync += [said.eq(0), waits.eq(0)]
        with m.Else():
            m.d.sync += said.eq(said | (die.quiet & die.settled))
            with m.If(waits != FOLLOWS):
                m.d.sync += waits.eq(waits + 1)
        both = (other.state == StateStatus.ACTIVE) | (here.state == StateStatus.ACTIVE)
        m.d.comb += [
            Assert(~here.clear | said, "comes up only when its die has settled"),
            Assert(~((waits == FOLLOWS) & ~said & both), "nor does the other end"),
            Cover((waits == FOLLOWS) & ~said, "a die takes long"),
        ]


@pytest.mark.formal
def test_a_link_waits_for_both_dies() -> None:
    prove(Settles(), mode="bmc", depth=CLOCKS)
    prove(Settles(), mode="cover", depth=CLOCKS + 5)


@pytest.mark.formal
@pytest.mark.parametrize(
    "new", ["1", "~(self.die.lost | loses) | self.die.quiet"], ids=["no gate", "quiet is enough"]
)
def test_ends_that_do_not_wait_are_found(new: str) -> None:
    gate = "~(self.die.lost | loses) | (self.die.quiet & self.die.settled)"
    with pytest.raises(Counterexample, match="settled"):
        prove(Settles(end((f"ready.eq({gate})", f"ready.eq({new})"))), mode="bmc", depth=CLOCKS)
