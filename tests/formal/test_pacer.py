# amaranth: UnusedElaboratable=no
"""The pacer keeps its rate over every stretch of frames."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Mux, Signal, signed
from amaranth.lib.wiring import In

from hw.ucie.pacer import FramePacer
from tests.formal.harness import Counterexample, Properties, constant, prove
from tests.formal.variants import variant


def small(bits: int, *edits: tuple[str, str]) -> type:
    """The pacer with rates in 1/2**bits: it compares and adds, whatever number is one."""
    return variant(FramePacer, *edits, RATE_BITS=bits, RATE_ONE=1 << bits)


class Rate(Properties):
    """Frames and uses come as they like; the rate is any, set while idle.

    ``excess`` is how far uses are above the rate over the stretch of frames for which that is the
    most, ``shortfall`` how far below while every grant has been used. (Both grow like the length of
    a queue: what came less what was allowed, never below zero.)
    """

    def __init__(self, *, bits: int, pacer: type) -> None:
        self._bits, self._pacer = bits, pacer()
        super().__init__({"tick": In(1), "use": In(1)})

    def describe(self, m) -> None:
        m.submodules.pacer = pacer = self._pacer
        one = 1 << self._bits
        rate, greedy = constant(m, "rate", self._bits + 1), constant(m, "greedy", 1)
        use = Signal()
        excess, shortfall = Signal(range(4 * one)), Signal(range(4 * one))
        more, less = Signal(signed(self._bits + 4)), Signal(signed(self._bits + 4))
        spent = Mux(use, one, 0)
        m.d.comb += [
            Assume(rate <= one),
            use.eq(pacer.grant & (self.use | greedy)),
            pacer.rate.eq(rate),
            pacer.tick.eq(self.tick),
            pacer.use.eq(use),
            more.eq(excess + spent - rate),
            less.eq(shortfall + rate - spent),
            Assert(~pacer.grant | self.tick, "grants only in frames"),
            Assert(excess <= one, "at most one use above the rate"),
            Assert(~greedy | (shortfall < one), "less than one use below the rate"),
            Cover(excess == one, "one above"),
            Cover(greedy & (shortfall == one - 1), "almost one below"),
        ]
        with m.If(self.tick):
            m.d.sync += [
                excess.eq(Mux(more < 0, 0, more)),
                shortfall.eq(Mux(less < 0, 0, less)),
            ]


@pytest.mark.formal
@pytest.mark.parametrize("bits", [2, 4])
def test_pacer(bits: int) -> None:
    prove(Rate(bits=bits, pacer=small(bits)), label=f"of {bits} bits")
    prove(
        Rate(bits=bits, pacer=small(bits)), mode="cover", depth=2 << bits, label=f"of {bits} bits"
    )


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        # Saves two grants instead of one.
        ("Mux(left > RATE_ONE, RATE_ONE, left)", "Mux(left > 3*RATE_ONE//2, 3*RATE_ONE//2, left)",
         "above"),
        # Forgets what is left over of a frame.
        ("total - RATE_ONE", "0", "below"),
    ],
)  # fmt: skip
def test_wrong_rates_are_found(old: str, new: str, violated: str) -> None:
    bits = 3
    broken = small(bits, (old, new), ("saved = Signal(range(RATE_ONE + 1))", "saved = Signal(8)"))
    with pytest.raises(Counterexample, match=violated):
        prove(Rate(bits=bits, pacer=broken))
