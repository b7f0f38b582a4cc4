# amaranth: UnusedElaboratable=no
"""A link comes up in time: from any state, once nothing is asked of it and nothing fails."""

import pytest
from amaranth.hdl import Array, Assert, Assume, Cover, Module, Mux, Signal, Value
from amaranth.lib.wiring import In

from hw.ucie.link_codes import Phase, StateRequest, StateStatus, peer_layout
from hw.ucie.link_state import LinkState
from tests.formal.harness import Counterexample, Properties, before, prove
from tests.formal.variants import variant

MODULES, TRAINING = 2, 2
DISTURBED = 20  # clocks after reset in which anything happens; an undisturbed link is up by then


def residency(delay: int) -> int:
    """The least that will do: the sideband there and back."""
    return 2 * delay


def bound(delay: int) -> int:
    """Clocks to ACTIVE, at worst out of LINKERROR.

    The steps: one end falls, the other follows; after the residency both are in LINKRESET, in
    RESET, know that they have met, are in TRAIN, after the training in TRAINED, in READY, in
    ACTIVE. Each takes the sideband one way and a clock, and as much again where both must be told.
    """
    return residency(delay) + TRAINING + 10 * (delay + 1)


class Up(Properties):
    """Both ends; everything above is free, until from some clock on all of it is calm.

    Calm are requests as :class:`hw.ucie.ucie_end.UcieEnd` makes them, all modules alive, no error,
    and answers of the handshakes a clock later. The sideband takes up to ``delay`` clocks each way,
    now more and now less; nothing is overtaken.
    """

    def __init__(self, *, delay: int, stays: int | None = None, ends: type = LinkState) -> None:
        self._delay, self._clocks = delay, bound(delay)
        sizes = {
            "modules": MODULES,
            "training_clocks": TRAINING,
            "timeout": 6 * (delay + 1),
            "residency": stays or residency(delay),
        }
        self._ends = [ends(**sizes) for _ in range(2)]
        inputs = {"calm": In(1)}
        for end in "ab":
            inputs |= {
                f"request_{end}": In(StateRequest),
                f"error_{end}": In(1),
                f"ack_{end}": In(1),
                f"takes_{end}": In(1),
                f"retrain_{end}": In(1),
                f"alive_{end}": In(MODULES),
                f"late_{end}": In(range(max(delay, 2))),
            }
        super().__init__(inputs)

    def describe(self, m: Module) -> None:
        calm = Signal()
        m.d.comb += calm.eq(self.calm)
        still = Signal(range(self._clocks + 1))  # clocks of calm
        with m.If(~calm):
            m.d.sync += still.eq(0)
        with m.Elif(still != self._clocks):
            m.d.sync += still.eq(still + 1)
        for name, end, other in zip("ab", self._ends, reversed(self._ends), strict=True):
            m.submodules[name] = end
            self._sideband(m, name, end, other)
            self._above(m, name, end, calm)
        active = [end.peer_o.phase == Phase.ACTIVE for end in self._ends]
        m.d.comb += [
            Assert((still != self._clocks) | (active[0] & active[1]), "up in time"),
            Cover(still == self._clocks, "calm for long enough"),
        ]

    def _sideband(self, m: Module, name: str, end: LinkState, other: LinkState) -> None:
        stages = []
        told = other.peer_o
        for stage in range(self._delay):
            later = Signal(peer_layout(MODULES), name=f"told_{name}{stage}")
            m.d.sync += later.eq(told)
            told = later
            stages.append(later)
        late = getattr(self, f"late_{name}")
        m.d.comb += [
            Assume(late < self._delay),
            Assume(late <= before(m, late) + 1),
            end.peer_i.eq(Array(Value.cast(stage) for stage in stages)[late]),
        ]

    def _above(self, m: Module, name: str, end: LinkState, calm: Signal) -> None:
        status, nop_given = end.pl_state_sts, Signal(name=f"nop_given_{name}")
        wanted = Signal(StateRequest, name=f"wanted_{name}")
        m.d.sync += nop_given.eq(calm & (status == StateStatus.RESET))
        m.d.comb += wanted.eq(StateRequest.ACTIVE)
        with m.If((status == StateStatus.RESET) & ~nop_given):
            m.d.comb += wanted.eq(StateRequest.NOP)
        with m.Elif(status == StateStatus.LINKERROR):
            m.d.comb += wanted.eq(StateRequest.LINKRESET)
        ack, takes = (getattr(self, f"{n}_{name}") for n in ("ack", "takes"))
        asked = before(m, end.pl_stallreq)
        m.d.comb += [
            end.lp_state_req.as_value().eq(Mux(calm, wanted, getattr(self, f"request_{name}"))),
            end.lp_linkerror.eq(getattr(self, f"error_{name}") & ~calm),
            end.retrain.eq(getattr(self, f"retrain_{name}") & ~calm),
            end.alive.eq(getattr(self, f"alive_{name}") | calm.replicate(MODULES)),
            end.lp_stallack.eq(ack),
            end.lp_rx_active_sts.eq(takes),
            Assume(~(ack & ~before(m, ack)) | asked),
            Assume(~(~ack & before(m, ack)) | ~asked),
            Assume(~calm | (ack == asked)),
            Assume(~calm | (takes == before(m, end.pl_rx_active_req))),
        ]


@pytest.mark.formal
@pytest.mark.parametrize("delay", [1, 2])
def test_a_link_comes_up_in_time(delay: int) -> None:
    depth = bound(delay) + DISTURBED
    prove(Up(delay=delay), mode="bmc", depth=depth, label=f"sideband of {delay}")
    prove(Up(delay=delay), mode="cover", depth=depth, label=f"sideband of {delay}")


@pytest.mark.formal
@pytest.mark.parametrize(
    "edit",
    [
        # READY of the other end, which was faster, does not count.
        ("trained.eq((peer == Phase.TRAINED) | (peer == Phase.READY))",
         "trained.eq(peer == Phase.TRAINED)"),
        ("((peer == phase) | (peer == Phase.TRAIN))", "(peer == phase)"),
        ("((peer == Phase.LINKRESET) | (peer == Phase.RESET))", "(peer == Phase.LINKRESET)"),
    ],
    ids=["trained", "train", "reset"],
)  # fmt: skip
def test_links_that_stay_down_are_found(edit: tuple[str, str]) -> None:
    with pytest.raises(Counterexample, match="up_in_time"):
        prove(Up(delay=1, ends=variant(LinkState, edit)), mode="bmc", depth=bound(1) + DISTURBED)


@pytest.mark.formal
@pytest.mark.parametrize("delay", [1, 2])
def test_an_error_that_ends_before_the_other_end_heard_of_it_echoes(delay: int) -> None:
    with pytest.raises(Counterexample, match="up_in_time"):
        short = Up(delay=delay, stays=residency(delay) - 1)
        prove(short, mode="bmc", depth=bound(delay) + DISTURBED)
