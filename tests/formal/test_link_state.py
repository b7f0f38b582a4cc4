# amaranth: UnusedElaboratable=no
"""Two ends of a link: they agree whenever flits can flow, whatever is asked and however late."""

from itertools import pairwise

import pytest
from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib.wiring import In

from hw.ucie.link_codes import EPOCH_BITS, Phase, StateRequest, StateStatus, peer_layout
from hw.ucie.link_state import LinkState
from tests.formal.harness import Counterexample, Mode, Properties, before, prove
from tests.formal.variants import variant

MODULES = 2
SIZES = {"modules": MODULES, "training_clocks": 2, "timeout": 3, "residency": 1}
WIRE = 2  # clocks that a word is under way: at most those of training


class Ends(Properties):
    """Both ends; everything above is free, the sideband takes any time in each direction.

    Each direction has ``boxes`` mailboxes that take over what the one before holds in any clocks:
    so what an end tells is late by any time and may be overtaken by what it tells next.
    """

    def __init__(self, *, boxes: int, link_state: type = LinkState) -> None:
        self._ends = [link_state(**SIZES) for _ in range(2)]
        self._boxes = boxes
        inputs = {}
        for end in "ab":
            inputs |= {
                f"request_{end}": In(StateRequest),
                f"error_{end}": In(1),
                f"ack_{end}": In(1),
                f"takes_{end}": In(1),
                f"retrain_{end}": In(1),
                f"alive_{end}": In(MODULES),
                f"passes_{end}": In(boxes),
            }
        super().__init__(inputs)

    def describe(self, m: Module) -> None:
        told: list[list] = []  # to each end, the newest first
        for name, end, other in zip("ab", self._ends, reversed(self._ends), strict=True):
            m.submodules[name] = end
            late = other.peer_o
            told.append([late])
            for stage in range(self._boxes):
                box = Signal(peer_layout(MODULES), name=f"box_{name}{stage}")
                with m.If(getattr(self, f"passes_{name}")[stage]):
                    m.d.sync += box.eq(late)
                late = box
                told[-1].append(box)
            m.d.comb += [
                end.peer_i.eq(late),
                end.lp_state_req.eq(getattr(self, f"request_{name}")),
                end.lp_linkerror.eq(getattr(self, f"error_{name}")),
                end.lp_rx_active_sts.eq(getattr(self, f"takes_{name}")),
                end.retrain.eq(getattr(self, f"retrain_{name}")),
                end.alive.eq(getattr(self, f"alive_{name}")),
            ]
            ack = getattr(self, f"ack_{name}")
            m.d.comb += end.lp_stallack.eq(ack)
            self._stall(m, name, end, ack)
            self._agree(m, end, other)
            self._wire(m, name, end, other)
            self._states(m, name, end, other)
        for here, there in (told, reversed(told)):
            # From an attempt to its answer there is one change at most: a step of the proof.
            way = [*(told.attempt for told in there), *(told.seen for told in here)]
            changes = sum(a ^ b for a, b in pairwise(way))
            m.d.comb += Assert(changes <= 1, "one attempt after the other")

    def _stall(self, m: Module, name: str, end: LinkState, ack) -> None:
        """The adapter answers a clock later; both follow the four phases."""
        ack_before = before(m, ack)
        req_before = before(m, end.pl_stallreq)
        req = end.pl_stallreq
        active_before = before(m, end.active)
        m.d.comb += [
            Assume(~(ack & ~ack_before) | req_before),
            Assume(~(~ack & ack_before) | ~req_before),
            Assert(~(req & ~req_before) | ~ack_before, "a stall begins without an answer"),
            Assert(~(~req & req_before) | ack_before, "a stall ends with its answer"),
            Assert(~(end.active & ack), "no flits from the answer on"),
            Assert(~end.active | (end.pl_state_sts == StateStatus.ACTIVE), "flits in ACTIVE only"),
            Assert(
                ~(active_before & ~end.active) | ack | (end.pl_state_sts == StateStatus.LINKERROR),
                "flits end by the handshake or in LINKERROR",
            ),
        ]

    def _agree(self, m: Module, end: LinkState, other: LinkState) -> None:
        same = (end.enabled == other.enabled) & (end.epoch == other.epoch)
        active = end.peer_o.phase == Phase.ACTIVE
        m.d.comb += [
            Assert(~(active & other.receiving) | same, "both have the same modules and epoch"),
            Assert(~active | (end.enabled != 0), "some module is enabled"),
            Cover(
                end.active & other.active & (end.epoch == 2) & (end.enabled == 2), "second epoch"
            ),
        ]

    def _wire(self, m: Module, name: str, end: LinkState, other: LinkState) -> None:
        """What was sent before the other end began to receive does not come after it."""
        under_way = end.active
        for stage in range(WIRE):
            later = Signal(name=f"wire_{name}{stage}")
            m.d.sync += later.eq(under_way)
            m.d.comb += Assert(~(other.restart & later), "nothing old is under way")
            under_way = later

    def _states(self, m: Module, name: str, end: LinkState, other: LinkState) -> None:
        status, was = end.pl_state_sts, before(m, end.pl_state_sts)
        error = before(m, end.lp_linkerror)
        epoch = before(m, end.epoch)
        m.d.comb += [
            Assert(~error | (status == StateStatus.LINKERROR), "LinkError goes before all else"),
            Assert(end.clear == (end.epoch != epoch), "cleared with each new epoch"),
            Assert(~end.clear | end.restart, "cleared before anything comes"),
            Assert(~end.restart | ~end.active, "begins before it sends"),
            Cover((was == StateStatus.RETRAIN) & end.active, "up again"),
        ]
        # A link that was reset or failed does not go on in an epoch that has carried flits.
        used, reset = Signal(name=f"used_{name}"), Signal(name=f"reset_{name}")
        with m.If(end.receiving & (end.active | other.active)):
            m.d.sync += used.eq(1)
        with m.If(used & ((status == StateStatus.RESET) | (status == StateStatus.LINKERROR))):
            m.d.sync += reset.eq(1)
        with m.If(end.clear):
            m.d.sync += [used.eq(0), reset.eq(0)]
        m.d.comb += Assert(~(reset & ~end.clear & end.receiving), "a used epoch does not go on")
        # Who is told of a loss is told before the end goes up again, and is told nothing else.
        told = Signal(name=f"told_{name}")
        with m.If(end.clear):
            m.d.sync += told.eq(0)
        with m.Elif(end.lost):
            m.d.sync += told.eq(1)
        m.d.comb += [
            Assert(~end.restart | (end.clear == told), "cleared exactly what is lost"),
            Assert(~end.receiving | end.restart | ~told, "nothing is lost while flits come"),
        ]


@pytest.mark.formal
def test_ends_agree() -> None:
    prove(Ends(boxes=1))
    prove(Ends(boxes=2), mode="bmc", depth=30, label="two mailboxes")


@pytest.mark.formal
def test_ends_reach_all() -> None:
    prove(Ends(boxes=1), mode="cover", depth=40)


def each_adds_one(own, other, clear):
    """Goes on from its own epoch, as if both always did so together."""
    return Mux(clear, (own + 1)[:EPOCH_BITS], own)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("mode", "edits", "names"),
    [
        ("prove", [("with m.If(met & asks_active", "with m.If(asks_active")], {}),
        ("prove", [("self.peer_o.alive & self.peer_i.alive", "self.peer_o.alive")], {}),
        ("prove", [], {"agreed_epoch": each_adds_one}),
        ("prove", [("((peer == Phase.READY) | (peer == Phase.ACTIVE))", "(peer == peer)")], {}),
        ("bmc", [("(phase == Phase.ACTIVE) & ~self.lp_stallack", "phase == Phase.ACTIVE")], {}),
        (
            "bmc",
            [
                (
                    "with m.If(self.pl_stallreq & self.lp_stallack):\n            m.d.sync",
                    "with m.If(self.pl_stallreq & (phase != Phase.ACTIVE)):\n            m.d.sync",
                )
            ],
            {},
        ),
    ],
    ids=[
        "stale answer",
        "own modules",
        "own epoch",
        "sends too early",
        "after the answer",
        "phases",
    ],
)
def test_planted_bugs_are_found(mode: Mode, edits: list, names: dict) -> None:
    with pytest.raises(Counterexample):
        block = variant(LinkState, *edits, **names)
        prove(Ends(boxes=1, link_state=block), mode=mode, depth=24)
