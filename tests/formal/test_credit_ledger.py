# amaranth: UnusedElaboratable=no
"""End-to-end credits: conserved through late, lost and repeated messages, and through resets."""

import pytest

from hw.ucie.credit_ledger import CreditGiver, CreditTaker
from tests.formal.credit_link import CreditLink
from tests.formal.harness import Counterexample, prove
from tests.formal.variants import variant


def test_one_place_is_kept_quickly() -> None:
    prove(CreditLink(depths=(1,)), label="of 1")


@pytest.mark.formal
@pytest.mark.parametrize(
    ("depths", "epoch_bits"), [((1,), 2), ((2,), 1), ((2,), 2), ((3,), 1), ((4,), 1), ((2, 1), 1)]
)
def test_credits_are_conserved(depths: tuple[int, ...], epoch_bits: int) -> None:
    link = CreditLink(depths=depths, epoch_bits=epoch_bits)
    prove(link, label=f"of {depths}, epochs of {epoch_bits} bits")


@pytest.mark.formal
def test_assumptions_leave_what_matters() -> None:
    prove(CreditLink(depths=(2,)), mode="cover", depth=14)


@pytest.mark.formal
@pytest.mark.parametrize(("depths", "delay"), [((1,), 1), ((1,), 2), ((1,), 3), ((1, 1), 1)])
def test_all_credits_come_home(depths: tuple[int, ...], delay: int) -> None:
    prove(CreditLink(depths=depths, delay=delay), label=f"of {depths}, delay {delay}")


PENDING = "state.pending + news + refund - self.credit[k]"
GATES = "(state.pending != 0) & self.settled & self.active & ~self.clear"

WRONG_CREDITS = r"from_nowhere|at_rest|refund_is"
BUGS = {
    "return is a level": ("taker", 1, PENDING, "state.pending + news + refund", WRONG_CREDITS),
    "a second update overwrites the first": (
        "taker", 2, PENDING,
        "state.pending + news + refund - (self.credit[k] & (news == 0) & (refund == 0))",
        WRONG_CREDITS,
    ),
    "credit in reset": ("taker", 1, GATES, "(state.pending != 0) & self.settled", "in_reset"),
    "credit before the other end is there": (
        "taker", 1, GATES, "(state.pending != 0) & self.active & ~self.clear",
        "before_the_other_end",
    ),
    "message of another epoch": (
        "taker", 1, " & (self.message.epoch == self.epoch)", "", WRONG_CREDITS + "|settled",
    ),
    "message in the clock of the reset": (
        "taker", 2, "self.valid & ~self.clear &", "self.valid &", WRONG_CREDITS,
    ),
    "a late message is news": ("taker", 1, "heard & (ahead <= depth)", "heard", WRONG_CREDITS),
    "each message refunds": ("taker", 1, "heard & ~self.settled", "heard", WRONG_CREDITS),
    "refunds what is sent after the reset": (
        "taker", 1, "missing.eq(state.before -", "missing.eq(state.sent -", WRONG_CREDITS,
    ),
    "forgets what is sent in the clock of the reset": (
        "taker", 1, "state.before.eq(sent)", "state.before.eq(state.sent)", WRONG_CREDITS,
    ),
    "what was lost still counts as sent": (
        "taker", 1, "state.sent.eq(sent - refund)", "state.sent.eq(sent)", WRONG_CREDITS,
    ),
    "forgets what came in the clock of the reset": (
        "giver", 1, "state.began.eq(received)", "state.began.eq(state.received)", WRONG_CREDITS,
    ),
    "an offer outlives the reset": (
        "giver", 1, "m.d.sync += self.message.valid.eq(0)",
        "m.d.sync += self.message.valid.eq(self.message.valid)", "no_message_in_reset",
    ),
    "an offer changes": (
        "giver", 1, "free = ~self.message.valid | self.message.ready", "free = 1", "an_offer",
    ),
    "a message is begun while the link is down": (
        "giver", 1, "free & self.active", "free", "no_offer_begins",
    ),
}  # fmt: skip


@pytest.mark.formal
@pytest.mark.parametrize(("end", "depth", "old", "new", "violated"), BUGS.values(), ids=BUGS)
def test_planted_bugs_are_found(end: str, depth: int, old: str, new: str, violated: str) -> None:
    block = variant(CreditGiver if end == "giver" else CreditTaker, (old, new))
    with pytest.raises(Counterexample, match=violated):
        prove(CreditLink(depths=(depth,), lemmas=False, **{end: block}), mode="bmc", depth=16)


@pytest.mark.formal
def test_counts_one_bit_short_are_found() -> None:
    """With two bits a count that is a buffer of two behind seems a buffer ahead."""
    giver, taker = (
        variant(block, check_ledger=lambda *sizes: None) for block in (CreditGiver, CreditTaker)
    )
    link = CreditLink(depths=(2,), bits=2, giver=giver, taker=taker, lemmas=False)
    with pytest.raises(Counterexample, match=WRONG_CREDITS):
        prove(link, mode="bmc", depth=16)


HOMELESS = {
    "a counter that cannot hold the whole grant": (
        "taker", 2, '"pending": range(depth + 1)', '"pending": range(depth)',
    ),
    "a lost message is not said again": (
        "giver", 1, "due |= since == self._refresh - 1", "due |= 0",
    ),
    "a refund hides the return that comes with it": (
        "taker", 2, PENDING, "state.pending + (news | refund) - self.credit[k]",
    ),
}  # fmt: skip


@pytest.mark.formal
@pytest.mark.parametrize(("end", "depth", "old", "new"), HOMELESS.values(), ids=HOMELESS)
def test_credits_that_never_come_home_are_found(end: str, depth: int, old: str, new: str) -> None:
    block = variant(CreditGiver if end == "giver" else CreditTaker, (old, new))
    link = CreditLink(depths=(depth,), delay=1, lemmas=False, **{end: block})
    with pytest.raises(Counterexample, match=r"come_home|at_rest"):
        prove(link, mode="bmc", depth=24)


@pytest.mark.formal
def test_returns_of_two_channels_made_one_are_found() -> None:
    giver = variant(
        CreditGiver,
        ("state.freed + self.credit[k]", "state.freed + (self.credit[k] & ~self.credit[:k].any())"),
    )
    with pytest.raises(Counterexample, match="received_is_held_or_freed"):
        prove(CreditLink(depths=(1, 1), giver=giver), mode="bmc", depth=8)
