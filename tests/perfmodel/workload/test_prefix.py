"""Hits of a limitless prefix cache, against caches that hold every prefix token by token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw.errors import InputError
from perfmodel.workload import Blocks, Trace, block_hits, session_hits
from perfmodel.workload.trace import append_only_prefix

SYSTEM = tuple(f"system {at}" for at in range(11))  # begins prompts of many sessions


@st.composite
def conversations(draw, rewrite=True):
    """Sessions of (prompt, answer), tuples of tokens; ends differ everywhere, so that all sharing
    is by prefixes that were drawn. With ``rewrite``, prompts may keep less than the context."""
    fresh = iter(range(10**6))

    def words(least):
        return tuple(next(fresh) for _ in range(draw(st.integers(least, 9))))

    sessions = []
    for _ in range(draw(st.integers(1, 4))):
        prompt, turns = SYSTEM[: draw(st.integers(0, 11))] + words(1), []
        for _ in range(draw(st.integers(1, 4))):
            answer = words(0)
            turns.append((prompt, answer))
            context = prompt + answer
            keep = draw(st.integers(0, len(context))) if rewrite else len(context)
            prompt = context[:keep] + words(1)
        sessions.append(turns)
    return sessions


def common(one, other):
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


def trace_of(sessions, data, size=4):
    """The trace: hashes of every prefix that ends a block, stored with as much sharing as drawn."""
    partial = data.draw(st.booleans())
    numbers, shared, own, prefixes = {}, [], [], []
    for turns in sessions:
        before, context = [], ()
        for prompt, answer in turns:
            ends = list(range(size, len(prompt) + 1, size))
            if partial and len(prompt) % size:
                ends.append(len(prompt))
            ids = [numbers.setdefault(prompt[:end], len(numbers)) for end in ends]
            take = data.draw(st.integers(0, common(before, ids)))
            shared.append(take)
            own.append(ids[take:])
            prefixes.append(common(context, prompt))
            before, context = ids, prompt + answer
    flat = [turn for turns in sessions for turn in turns]
    return Trace(
        source="drawn",
        session_ids=tuple(f"{at}" for at in range(len(sessions))),
        first_turn=np.cumsum([0] + [len(turns) for turns in sessions]),
        start_s=np.zeros(len(sessions)),
        gap_s=np.zeros(len(flat)),
        input_tokens=np.array([len(prompt) for prompt, _ in flat]),
        prefix_tokens=np.array(prefixes),
        output_tokens=np.array([len(answer) for _, answer in flat]),
        blocks=Blocks(
            block_tokens=size,
            shared=np.array(shared),
            first_new=np.cumsum([0] + [len(ids) for ids in own]),
            new_ids=np.array([i for ids in own for i in ids], np.int64),
        ),
    ), partial


def drawn_order(sessions, data):
    """A random merge of the sessions' turns."""
    starts = np.cumsum([0] + [len(turns) for turns in sessions])
    waiting = [list(range(*starts[at : at + 2])) for at in range(len(sessions))]
    order = []
    while left := [queue for queue in waiting if queue]:
        order.append(left[data.draw(st.integers(0, len(left) - 1))].pop(0))
    return np.array(order)


@given(conversations(), st.data())
def test_block_hits_are_those_of_a_cache_of_all_prefixes(sessions, data):
    trace, partial = trace_of(sessions, data)
    order = drawn_order(sessions, data)
    prompts = [prompt for turns in sessions for prompt, _ in turns]
    cached, expected = set(), [0] * len(prompts)
    for turn in order:
        prompt = prompts[turn]
        ends = [
            end for end in range(1, len(prompt) + 1)
            if end % 4 == 0 or (partial and end == len(prompt))
        ]  # fmt: skip
        for end in ends:
            if prompt[:end] not in cached:
                break
            expected[turn] = end
        cached |= {prompt[:end] for end in ends}
    assert block_hits(trace, order).tolist() == expected


@given(conversations(), st.data())
def test_every_block_is_missed_once_in_any_order(sessions, data):
    trace, partial = trace_of(sessions, data)
    hits = block_hits(trace, drawn_order(sessions, data))
    assert trace.blocks.counts.sum() - (-(-hits // 4)).sum() == trace.blocks.distinct
    assert partial or not (hits % 4).any()


@given(conversations(rewrite=False))
def test_session_hits_are_those_of_a_cache_of_prompts_and_answers(sessions):
    turns = [turn for session in sessions for turn in session]
    lengths = np.array([[len(text) for text in turn] for turn in turns])
    first = np.array([not at for session in sessions for at in range(len(session))])
    expected = []
    for session in sessions:
        cached = {()}
        for prompt, answer in session:
            expected.append(max(end for end in range(len(prompt) + 1) if prompt[:end] in cached))
            context = prompt + answer
            cached |= {context[:end] for end in range(len(context) + 1)}
    assert append_only_prefix(lengths[:, 0], lengths[:, 1], first).tolist() == expected


def test_hits_by_hand(make_trace):
    # Blocks of 4: both sessions begin with block 1; the second turn of the first goes on with its
    # own blocks and a partial one.
    sessions = [[(0, 9, 0, 3), (1, 14, 12, 2)], [(0, 8, 0, 1), (5, 12, 9, 1)]]
    trace = make_trace(sessions, blocks=[(0, [1, 2, 3]), (2, [4, 5]), (0, [1, 6]), (0, [1, 6, 2])])
    assert session_hits(trace).tolist() == [0, 12, 0, 9]
    # Sent in the order 0, 2, 1, 3.
    assert block_hits(trace).tolist() == [0, 8, 4, 12]
    assert block_hits(trace, np.array([2, 3, 0, 1])).tolist() == [8, 8, 0, 8]
    assert trace.blocks.counts.tolist() == [3, 4, 2, 3]
    assert trace.blocks.distinct == 6


def test_a_partial_block_hits_no_more_than_its_prompt(make_trace):
    trace = make_trace([[(0, 6, 0, 1)], [(0, 6, 0, 1)]], blocks=[(0, [1, 2]), (0, [1, 2])])
    assert block_hits(trace).tolist() == [0, 6]


def test_unusable_orders(make_trace):
    trace = make_trace([[(0, 4, 0, 1), (0, 8, 5, 1)]], blocks=[(0, [1]), (1, [2])])
    with pytest.raises(InputError, match="order: turn 1 comes before the turn it follows"):
        block_hits(trace, np.array([1, 0]))
    with pytest.raises(InputError, match="order: must hold each of the 2 turns once"):
        block_hits(trace, np.array([0, 0]))
    with pytest.raises(InputError, match="the trace has no block hashes"):
        block_hits(trace.without_blocks())
