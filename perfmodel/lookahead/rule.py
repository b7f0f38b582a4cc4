"""Which routers may choose early.

What is known before the output projection has ended are the logits up to one positive factor of
the token: the reciprocal RMS of the router's input. A choice may be made from them where no such
factor can change it. Each condition below is necessary as well; docs/lookahead.md derives them.
"""

from dataclasses import dataclass

from perfmodel.models.router import Router


@dataclass(frozen=True)
class Decision:
    """Whether experts are chosen early, and why, or each reason why not."""

    early: bool
    reasons: tuple[str, ...]

    @property
    def reason(self) -> str:
        return "; ".join(self.reasons)


_ALLOWED = {
    "softmax": "softmax over all experts keeps the order of the logits under any positive factor",
    "sigmoid": "each score grows with its logit, so their order is that of the logits",
    "logit": "the logits are ranked as they are, and a positive factor keeps their order",
}


def decide(router: Router) -> Decision:
    """Early choice, or conventional choice after the normalisation."""
    against = []
    if router.normalised_attention:
        against.append(
            "the attention output is normalised before the residual addition: its factor is a "
            "second one, known only after the output projection, and weighs the two terms"
        )
    if router.additive_bias:
        against.append("a constant of each expert is added to the scores, so their scale matters")
    if router.groups > 1 and router.group_score == "top-2 sum" and router.score != "logit":
        against.append(
            f"groups are ranked by a sum of two {router.score} scores, whose order depends on the "
            "scale of the logits"
        )
    if against:
        return Decision(early=False, reasons=tuple(against))
    reasons = [_ALLOWED[router.score]]
    if router.groups > 1:
        kind = "best score" if router.group_score == "max" else "sum of its best two logits"
        reasons.append(f"so is the {kind} of each group")
    return Decision(early=True, reasons=tuple(reasons))
