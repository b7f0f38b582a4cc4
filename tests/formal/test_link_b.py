# amaranth: UnusedElaboratable=no
"""Relayed pages and local beats on link B: whole pages, credits kept, waits that weights bound."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib.wiring import In

from hw.hbm.link_b import PATIENCE, LinkBArbiter
from hw.presets import preset
from hw.sram.regions import GROUPS
from hw.ucie.pacer import FramePacer
from hw.weighted import WEIGHT_BITS
from tests.formal.harness import Counterexample, Properties, before, constant, prove
from tests.formal.variants import variant

MACHINE = preset("formal")
DEPTH = 34  # clocks: eight frames


def arbiter(*edits: tuple[str, str]) -> type:
    """With rates of a half and of one."""
    pacer = variant(FramePacer, RATE_BITS=1, RATE_ONE=2)
    return variant(LinkBArbiter, *edits, FramePacer=pacer, RATE_BITS=1)


class Shares(Properties):
    """Pages and local beats that come as they like, and credits that go back as they like.

    Pages have tag 0 and local beats tag 1. With ``steady`` the link is never lost and has its whole
    rate.
    """

    def __init__(self, *edits: tuple[str, str], steady: bool = False) -> None:
        self._dut, self._steady = arbiter(*edits)(MACHINE), steady
        inputs = {name: In(1) for name in ("asks", "has_beat", "credit", "is_lost")}
        super().__init__({**inputs, "page": In(range(GROUPS + 1)), "rate": In(2)})

    def describe(self, m: Module) -> None:
        m.submodules.dut = dut = self._dut
        relay, local, b = dut.relay, dut.local, dut.b_data
        weights = [constant(m, f"weight{k}", WEIGHT_BITS) for k in range(2)]
        lost = Signal()
        m.d.comb += [
            lost.eq(0 if self._steady else self.is_lost),
            dut.lost.eq(lost),
            dut.rate.eq(2 if self._steady else Mux(self.rate == 3, 2, self.rate)),
            *(dut.weight[k].eq(weight) for k, weight in enumerate(weights)),
        ]

        # Both sides keep what they offer; a page comes in its time --------------------------------
        asked = before(m, relay.request & ~relay.grant)
        size = before(m, relay.beats, init=1)
        waited = before(m, local.valid & ~local.ready & ~lost)
        m.d.comb += [
            relay.request.eq(self.asks | asked),
            relay.beats.eq(Mux(asked, size, Mux(self.page == 0, 1, self.page))),
            Assume(self.page <= GROUPS),
            local.valid.eq((self.has_beat | waited) & ~lost),
            local.header.tag.eq(1),
        ]
        granted = Signal(range(GROUPS + 1))
        m.d.comb += granted.eq(Mux(relay.grant & ~lost, relay.beats, 0))
        soon = before(m, before(m, granted))  # beats of a page that begins in the next clock
        left = Signal(range(GROUPS + 1))
        m.d.sync += left.eq(Mux(soon != 0, soon, Mux(left != 0, left - 1, 0)))
        m.d.comb += relay.valid.eq(left != 0)

        # Beats and credits ------------------------------------------------------------------------
        total = MACHINE.credits.rx_beats
        out = Signal(range(2 * total))
        moved = before(m, local.valid & local.ready)
        m.d.comb += [
            b.credit.eq(self.credit & (out != 0)),
            Assert(out + b.valid <= total, "no beat without a credit"),
            Assert(b.valid == (relay.valid | moved), "a beat for each beat"),
            Assert(~relay.valid | (b.header.tag == 0), "pages do not part"),
            Assert(~moved | (b.header.tag == 1), "local beats come through"),
            Assert((soon == 0) | (left <= 1), "pages are one behind the other"),
            Cover(out == total, "all credits out"),
            Cover(moved & (left == 0) & before(m, left != 0), "a local beat right behind a page"),
        ]
        m.d.sync += out.eq(out + b.valid - b.credit)
        if self._steady:
            self._begins(m, out)
            return

        # Waits, in frames of the other ------------------------------------------------------------
        own = [Mux(weight == 0, 1, weight) for weight in weights]
        passed = Signal(range(PATIENCE + (2 << WEIGHT_BITS)))
        with m.If(~local.valid | local.ready):
            m.d.sync += passed.eq(0)
        with m.Elif(relay.grant):
            m.d.sync += passed.eq(passed + 1)
        begun = (relay.frame == 1) & local.ready  # a local frame, that was chosen two clocks ago
        chosen = begun & before(m, before(m, relay.request))
        turns = Signal(range(2 << WEIGHT_BITS))
        with m.If(relay.grant | ~relay.request):
            m.d.sync += turns.eq(0)
        with m.Elif(chosen):
            m.d.sync += turns.eq(turns + 1)
        beyond = passed - PATIENCE
        m.d.comb += [
            Assert(
                (passed <= PATIENCE) | ((beyond - 1) * own[1] < own[0]), "local waits by weight"
            ),
            Assert((turns == 0) | ((turns - 1) * own[0] < own[1]), "a page waits by weight"),
            Cover(passed == PATIENCE, "a local beat waits"),
            Cover(turns == 1, "a page waits"),
        ]

    def _begins(self, m: Module, out) -> None:
        """No credit is ever lost: when all are back and nothing is under way, a frame begins."""
        relay, local = self._dut.relay, self._dut.local
        still = Signal(range(GROUPS + 1))  # clocks, behind the last beat and the last grant
        active = relay.grant | local.ready | relay.valid | (out != 0)
        m.d.sync += still.eq(Mux(active, 0, Mux(still == GROUPS, GROUPS, still + 1)))
        rests = (relay.frame == GROUPS - 1) & (still == GROUPS)
        alone = before(m, before(m, rests & local.valid & ~relay.request))
        m.d.comb += [
            Assert(~rests | ~relay.request | local.valid | relay.grant, "a page begins"),
            Assert(~alone | local.ready, "a local frame begins"),
            Cover(alone & local.ready, "all credits were back"),
        ]


@pytest.mark.formal
def test_link_b() -> None:
    prove(Shares(), mode="bmc", depth=DEPTH)
    prove(Shares(), mode="cover", depth=DEPTH)


@pytest.mark.formal
def test_no_credit_is_lost() -> None:
    prove(Shares(steady=True), mode="bmc", depth=DEPTH, label="steady")
    prove(Shares(steady=True), mode="cover", depth=DEPTH, label="steady")


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated", "steady"),
    [
        ("Mux(is_local, 2, 0)", "0", "no_beat_without_a_credit", False),
        ("local.ready.eq(window)", "local.ready.eq(is_local)", "local_beats_come_through", False),
        ("(passed == PATIENCE)", "0", "local_waits_by_weight", False),
        ("sides.take.eq(begins)", "sides.take.eq(pacer.tick)", "waits_by_weight", False),
        ("relay.beats, 0) + moves", "1, 0) + moves", "no_beat_without_a_credit", False),
        ("credits.give.eq(b.credit)", "credits.give.eq(b.credit & ~moves)", "begins", True),
    ],
    ids=["beats under way", "a clock early", "no patience", "turn without a frame",
         "a page of one credit", "loses a credit"],
)  # fmt: skip
def test_planted_bugs_are_found(old: str, new: str, violated: str, steady: bool) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Shares((old, new), steady=steady), mode="bmc", depth=DEPTH)
