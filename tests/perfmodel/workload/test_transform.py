"""Larger workloads against the study's own numbers and closed forms, and arrivals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw.errors import InputError
from perfmodel.workload import (
    Trace,
    arrive_at_once,
    arrive_poisson,
    block_hits,
    extend,
    poisson_times_s,
    replicate,
)

TWO = [[(9.0, 10, 0, 3), (1.5, 20, 13, 1)], [(7.0, 5, 0, 4)]]


def test_replicas_by_hand(make_trace, content):
    trace = make_trace(TWO, start_s=[2.0, 1.0])
    replicas = replicate(trace, 7)
    assert replicas.session_ids == ("s0+0", "s1+0", "s0+1", "s1+1", "s0+2")
    assert replicas.first_turn.tolist() == [0, 2, 3, 5, 6, 7]
    assert replicas.start_s.tolist() == [2.0, 1.0, 2.0, 1.0, 2.0]
    assert replicas.input_tokens.tolist() == [10, 20, 5, 10, 20, 5, 10]
    assert replicas.prefix_tokens.tolist() == [0, 13, 0, 0, 13, 0, 0]
    assert replicas.output_tokens.tolist() == [3, 1, 4, 3, 1, 4, 3]
    assert replicas.gap_s.tolist() == [9.0, 1.5, 7.0, 9.0, 1.5, 7.0, 9.0]
    assert content(replicate(trace, 3)) == content(trace)
    assert replicate(trace, 1).session_ids == ("s0",)
    assert replicate(replicate(trace, 5), 9).sessions == 6  # with names of their own


@pytest.mark.parametrize(("turns", "sessions"), [(25_000, 771), (100_000, 3_080)])
def test_replicas_are_as_many_as_in_the_study(make_trace, turns, sessions):
    """If, of the 767 sessions, the first 4 have 120 turns and the first 12 have 480."""
    lengths = [30] * 4 + [45] * 8 + [32] * 515 + [33] * 240
    assert (len(lengths), sum(lengths)) == (767, 24_880)
    lines = [[(0, 1 + at, at and 1 + at, 1) for at in range(length)] for length in lengths]
    replicas = replicate(make_trace(lines), turns)
    assert (replicas.turns, replicas.sessions) == (turns, sessions)


def test_replicas_share_no_blocks_with_each_other(make_trace):
    sessions = [[(0, 8, 0, 1), (0, 12, 9, 1)], [(0, 8, 0, 1)]]
    trace = make_trace(sessions, blocks=[(0, [7, 50]), (1, [9, 9]), (0, [7, 50])])
    replicas = replicate(trace, 8)
    hits = block_hits(trace)
    assert hits.tolist() == [0, 4, 8]
    assert block_hits(replicas).tolist() == [0, 4, 8, 0, 4, 8, 0, 4]
    assert replicas.blocks.distinct == 3 * trace.blocks.distinct


def test_longer_sessions_by_hand(make_trace):
    longer = extend(make_trace(TWO), 3)
    assert longer.first_turn.tolist() == [0, 6, 9]
    # The first session leaves 21 tokens each time, the second 9.
    assert longer.input_tokens.tolist() == [10, 20, 31, 41, 52, 62, 5, 14, 23]
    assert longer.prefix_tokens.tolist() == [0, 13, 21, 34, 42, 55, 0, 9, 18]
    assert longer.output_tokens.tolist() == [3, 1, 3, 1, 3, 1, 4, 4, 4]
    assert longer.gap_s.tolist() == [9.0, 1.5, 9.0, 1.5, 9.0, 1.5, 7.0, 7.0, 7.0]


turn = st.tuples(st.just(1.0), st.integers(1, 500), st.just(0), st.integers(0, 50))


@given(st.lists(st.lists(turn, min_size=1, max_size=5), min_size=1, max_size=5), st.integers(1, 6))
def test_mean_of_longer_sessions(sessions, copies):
    """m + f (copies - 1) / 2, with f the context that a session leaves, weighted with its turns."""
    flat = [turn for session in sessions for turn in session]
    trace = Trace(
        source="drawn",
        session_ids=tuple(f"{at}" for at in range(len(sessions))),
        first_turn=np.cumsum([0] + [len(session) for session in sessions]),
        start_s=np.zeros(len(sessions)),
        gap_s=np.ones(len(flat)),
        input_tokens=np.array([turn[1] for turn in flat]),
        prefix_tokens=np.zeros(len(flat), np.int64),
        output_tokens=np.array([turn[3] for turn in flat]),
    )
    mean = sum(turn[1] for turn in flat) / len(flat)
    left = sum(len(session) * (session[-1][1] + session[-1][3]) for session in sessions)
    longer = extend(trace, copies)
    assert longer.turns == copies * len(flat)
    assert longer.input_tokens.mean() == pytest.approx(mean + left / len(flat) * (copies - 1) / 2)
    assert longer.output_tokens.sum() == copies * trace.output_tokens.sum()


def test_longer_sessions_have_no_hashes(make_trace):
    trace = make_trace([[(0, 4, 0, 1)]], blocks=[(0, [1])])
    assert extend(trace, 1).blocks is not None
    assert extend(trace.without_blocks(), 2).input_tokens.tolist() == [4, 9]
    with pytest.raises(InputError, match="copies is 2: block hashes of longer prompts are unknown"):
        extend(trace, 2)


@pytest.mark.parametrize("number", [0, -1, 10**10])
def test_sizes_are_checked(make_trace, number):
    trace = make_trace(TWO)
    with pytest.raises(InputError, match=f"turns is {number}: must be 1 to"):
        replicate(trace, number)
    with pytest.raises(InputError, match=f"copies is {number}: must be 1 to"):
        extend(trace, number)


def test_poisson_sessions(make_trace):
    trace = make_trace(TWO * 5_000)
    random = arrive_poisson(trace, rate=4.0, seed=1)
    gaps_s = np.diff(random.start_s, prepend=0.0)
    assert gaps_s.mean() == pytest.approx(0.25, rel=0.03)
    assert gaps_s.std() == pytest.approx(0.25, rel=0.05)  # an exponential's equals its mean
    assert random.gap_s.tolist() == trace.gap_s.tolist()
    assert arrive_at_once(random).start_s.tolist() == trace.start_s.tolist()
    assert (
        poisson_times_s(3, rate=1.0, seed=2).tolist()
        == poisson_times_s(3, rate=1.0, seed=2).tolist()
    )


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"rate": 0.0, "seed": 0}, "rate is 0.0: must be greater than zero"),
        ({"rate": float("nan"), "seed": 0}, "rate is nan"),
        ({"rate": 1.0, "seed": -1}, "seed is -1: must not be negative"),
    ],
)
def test_poisson_numbers_are_checked(numbers, message):
    with pytest.raises(InputError, match=message):
        poisson_times_s(3, **numbers)
