"""The synthetic workload against the published statistics of the study's traces.

Sample: 767 sessions, 24,880 turns, as in the study; every seed by itself.
"""

import math

import numpy as np
import pytest

from hw.errors import InputError
from perfmodel.workload import AgenticStatistics, extend, replicate, synthetic_agentic

SEEDS = range(8)


def longer_mean(trace, copies):
    """Mean input after joining copies, by walking the sessions turn by turn."""
    total = 0
    for first, end in zip(trace.first_turn, trace.first_turn[1:], strict=False):
        before = 0
        for _ in range(copies):
            for turn in range(first, end):
                total += before + int(trace.input_tokens[turn])
            before += int(trace.input_tokens[end - 1] + trace.output_tokens[end - 1])
    return total / (copies * trace.turns)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_means_within_one_percent(seed):
    trace = synthetic_agentic(seed=seed)
    assert (trace.sessions, trace.turns) == (767, 24_880)
    assert trace.input_tokens.mean() == pytest.approx(22_558, rel=0.01)
    assert longer_mean(trace, 5) == pytest.approx(89_125, rel=0.01)
    assert extend(trace, 5).input_tokens.mean() == pytest.approx(longer_mean(trace, 5))


@pytest.mark.parametrize("seed", SEEDS)
def test_both_means_hold_for_100k_turns(seed):
    trace = replicate(synthetic_agentic(seed=seed), 100_000)
    assert 3_060 <= trace.sessions <= 3_110  # how many depends on which sessions come first
    assert trace.input_tokens.mean() == pytest.approx(22_558, rel=0.01)
    longer = extend(trace, 5)
    assert (longer.turns, longer.sessions) == (500_000, trace.sessions)
    assert longer.input_tokens.mean() == pytest.approx(89_125, rel=0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_other_published_statistics(seed):
    trace = synthetic_agentic(seed=seed)
    outputs, gaps_s = trace.output_tokens, trace.gap_s[~trace.is_first]
    assert outputs.mean() == pytest.approx(211.2, rel=0.01)
    assert np.median(outputs) == pytest.approx(102, abs=1)
    assert outputs.min() >= 1 and outputs.max() <= 11_400
    assert gaps_s.mean() == pytest.approx(2.08, rel=0.05)
    assert np.median(gaps_s) == pytest.approx(0.71, rel=0.02)
    assert np.percentile(gaps_s, 95) == pytest.approx(3.7, rel=0.02)
    first = trace.input_tokens[trace.is_first]
    assert 8_500 <= first.mean() <= 10_000
    turns = trace.turns_of_session
    assert (turns.min(), turns.max()) == (5, 50)
    assert np.mean(turns == 50) == pytest.approx(0.30, abs=0.02)


def test_contexts_only_grow():
    trace = synthetic_agentic(seed=3)
    assert not trace.start_s.any() and not trace.gap_s[trace.is_first].any()
    following = ~trace.is_first
    left = np.concatenate(([0], trace.context_tokens[:-1]))
    assert (trace.prefix_tokens[following] == left[following]).all()
    assert (trace.input_tokens >= left)[following].all()


def test_seeds_decide(content):
    assert content(synthetic_agentic(seed=5)) == content(synthetic_agentic(seed=5))
    one, other = synthetic_agentic(seed=5), synthetic_agentic(seed=6)
    assert one.input_tokens.tolist() != other.input_tokens.tolist()


def test_other_statistics_are_met_too():
    wanted = AgenticStatistics(
        mean_turns=12.0, fewest_turns=2, most_turns=30, mean_input_tokens=9_000,
        mean_final_tokens=14_000, first_input_tokens=4_000, mean_output_tokens=150,
        median_output_tokens=90,
    )  # fmt: skip
    trace = synthetic_agentic(sessions=400, seed=1, statistics=wanted)
    assert (trace.sessions, trace.turns) == (400, 4_800)
    assert trace.input_tokens.mean() == pytest.approx(9_000, rel=1e-3)
    final = (trace.final_tokens * trace.turns_of_session).sum() / trace.turns
    assert final == pytest.approx(14_000, rel=1e-3)


def test_gaps_have_their_mean_in_closed_form():
    known = AgenticStatistics()
    others_s = known.median_gap_s * math.exp(known.gap_sigma**2 / 2)
    mean_s = known.pause_share * known.mean_pause_s + (1 - known.pause_share) * others_s
    assert mean_s == pytest.approx(known.mean_gap_s)


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        ({"mean_turns": 0}, "mean_turns is 0: must be greater than zero"),
        ({"mean_turns": 50}, "mean_turns is 50: must be below most_turns, 50"),
        ({"median_output_tokens": 300}, "median_output_tokens is 300: must be below mean_output"),
        ({"p95_gap_s": 0.5}, "median_gap_s is 0.71: must be below p95_gap_s, 0.5"),
        ({"mean_gap_s": 1.0}, r"mean_gap_s is 1.0: must be above 1\.\d+, what gaps that are no"),
        ({"pause_share": 0.06}, "pause_share is 0.06: must be below 0.05"),
        ({"turns_sigma": float("nan")}, "turns_sigma is nan"),
    ],
)
def test_statistics_are_checked(statistics, message):
    with pytest.raises(InputError, match=message):
        AgenticStatistics(**statistics)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sessions": 0, "seed": 0}, "sessions is 0: must be 1 to"),
        ({"seed": -1}, "seed is -1: must not be negative"),
        (
            {"seed": 0, "statistics": AgenticStatistics(mean_final_tokens=20_000)},
            "mean_input_tokens 22558 and mean_final_tokens 20000: cannot both be met",
        ),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(InputError, match=message):
        synthetic_agentic(**arguments)
