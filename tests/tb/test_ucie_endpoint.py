"""The endpoint against one end in RTL: traffic through noise, and planted bugs that it finds."""

import pytest

from tb.simulator import BenchFailed, build, run
from tests.tb.endpoint_design import BUGS, design_of

BENCH = "tests.tb.endpoint_bench"


def test_rtl_and_model_understand_each_other(verilator):
    result = run(build(design_of("small"), verilator), BENCH)
    assert len(result.tests) == 11


STORM = "storms/rate=0.1"
RESETS = "resets_lose_what_is_under_way"
TINY = {"ENDPOINT_SHAPE": "tiny"}


def test_tiny_groups_on_icarus(icarus):
    """Which would show unknown values in what the design sends."""
    env = TINY | {"ENDPOINT_AMOUNT": "0.1"}
    run(build(design_of("tiny"), icarus), BENCH, test=STORM, env=env)


FOUND = {
    "a bad group goes up": (STORM, "Ack of .* groups came whole and in order"),
    "a cancelled group is acknowledged": (STORM, "Nak of .* groups came whole and in order"),
    "zero is a sequence number": ("calm", "sequence number 1 where 2 follows"),
    "a Nak is ignored": (STORM, r"the Nak that came at \d+ is not obeyed"),
    "replay begins a row late": (STORM, r"sequence number \d+ where .* a pass begins with"),
    "no timeout": ("the_last_group_is_lost", r"group \d+ is not sent again"),
    "replay of another row": (STORM, r"group \d+ is sent again with another payload"),
    "a credit counts twice": ("calm", "is sent without credit"),
    "credits are told that nobody freed": ("calm", r"told as freed, after \d+, and 0 came"),
    "counts of credits go back": ("calm", r"told as freed, after [1-9]"),
    "an epoch begins with the count of another": (RESETS, r"in epoch \d, which began with"),
    "a reset gives back a credit too many": (RESETS, "is sent without credit"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(icarus, bug):
    """Each within some hundred clocks, and named."""
    test, error = FOUND[bug]
    with pytest.raises(BenchFailed, match=rf"RuleBroken: design, clock \d+: .*({error})"):
        run(build(design_of("tiny", bug), icarus), BENCH, test=test, env=TINY)
