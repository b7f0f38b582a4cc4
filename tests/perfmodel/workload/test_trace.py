"""The arrays of a trace: what they must be, and what follows from them."""

import numpy as np
import pytest

from hw.errors import InputError
from perfmodel.workload.trace import append_only_prefix

TWO = [[(9.0, 10, 0, 3), (1.5, 20, 13, 1), (0.5, 25, 21, 0)], [(7.0, 5, 0, 4)]]


def test_what_follows_from_lengths(make_trace):
    trace = make_trace(TWO, start_s=[2.0, 1.0])
    assert (trace.sessions, trace.turns) == (2, 4)
    assert trace.turns_of_session.tolist() == [3, 1]
    assert trace.session_of_turn.tolist() == [0, 0, 0, 1]
    assert trace.is_first.tolist() == [True, False, False, True]
    assert trace.context_tokens.tolist() == [13, 21, 25, 9]
    assert trace.final_tokens.tolist() == [25, 9]
    assert trace.nominal_s.tolist() == [2.0, 3.5, 4.0, 1.0]


def test_context_grows_in_decode(make_trace):
    trace = make_trace([[(0, 7, 0, output)] for output in range(6)])
    expected = []
    for output in range(6):
        cached, read = 7, 0
        for _ in range(output - 1):  # prefill gave the first
            cached += 1
            read += cached
        expected.append(read)
    assert trace.decode_read_tokens.tolist() == expected


def test_prefix_of_what_only_grows():
    inputs, outputs = np.array([10, 13, 16, 20, 9]), np.array([3, 4, 1, 5, 1])
    first = np.array([True, False, False, False, True])
    # Equal to the context before, shorter than it, longer, and a new session.
    assert append_only_prefix(inputs, outputs, first).tolist() == [0, 13, 0, 17, 0]


def test_arrays_cannot_be_written_to(make_trace):
    trace = make_trace(TWO)
    with pytest.raises(ValueError, match="read-only"):
        trace.input_tokens[0] = 1


@pytest.mark.parametrize(
    ("sessions", "message"),
    [
        ([[(0, 0, 0, 1)]], r"input_tokens\[0\] is 0: must be 1 to"),
        ([[(0, 1, 0, -1)]], r"output_tokens\[0\] is -1: must be 0 to"),
        ([[(0, 1, 0, 1), (-1, 2, 0, 1)]], r"gap_s\[1\] is -1.0: must be 0 to"),
        ([[(float("nan"), 1, 0, 1)]], r"gap_s\[0\] is nan"),
        ([[(0, 5, 1, 1)]], r"prefix_tokens\[0\] is 1: must be 0 to 0"),
        ([[(0, 5, 0, 2), (0, 9, 8, 1)]], r"prefix_tokens\[1\] is 8: must be 0 to 7"),
        ([[(0, 5, 0, 2), (0, 3, 4, 1)]], r"prefix_tokens\[1\] is 4: must be 0 to 3"),
        ([[(0, 5, 0, 2)], [(0, 9, 7, 1)]], r"prefix_tokens\[1\] is 7: must be 0 to 0"),
    ],
)
def test_turns_are_checked(make_trace, sessions, message):
    with pytest.raises(InputError, match=message):
        make_trace(sessions)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"session_ids": ()}, "the trace has no session"),
        ({"session_ids": ("a", "a")}, "session_ids: every session must have a name of its own"),
        ({"first_turn": np.array([0, 3, 3])}, "first_turn: must have 3 entries from 0 to 4"),
        ({"first_turn": np.array([0, 4, 4])}, "every session must have a turn"),
        ({"start_s": [0.0, 0.0, 0.0]}, "start_s has 3 entries: must be 2"),
        ({"output_tokens": np.ones(3, np.int64)}, "output_tokens has 3 entries: must be 4"),
    ],
)
def test_arrays_belong_together(make_trace, fields, message):
    with pytest.raises(InputError, match=message):
        make_trace(TWO, **fields)


@pytest.mark.parametrize(
    ("blocks", "size", "message"),
    [
        ([(0, [1, 2]), (2, [3])], 0, "block_tokens is 0"),
        ([(0, [1, 2]), (3, [])], 4, r"shared\[1\] is 3: must be 0 to 2"),
        ([(1, [2]), (2, [3])], 4, r"shared\[0\] is 1: must be 0 to 0"),
        ([(0, [1]), (1, [3])], 4, r"blocks\[0\] are 1: must be those of 8 tokens, 4 each"),
        ([(0, [1, 2]), (2, [3, 4])], 4, r"blocks\[1\] are 4: must be those of 10 tokens"),
        ([(0, [1, -2]), (2, [3])], 4, r"new_ids\[1\] is -2"),
        ([(0, [1, 2]), (2, [3]), (2, [3])], 4, "first_new: must have 3 entries"),
    ],
)
def test_blocks_are_checked(make_trace, blocks, size, message):
    turns = [[(0, 8, 0, 1), (0, 10, 8, 1)]]
    make_trace(turns, blocks=[(0, [1, 2]), (2, [3])])  # the last one partial
    make_trace(turns, blocks=[(0, [1, 2]), (2, [])])  # or left out
    with pytest.raises(InputError, match=message):
        make_trace(turns, blocks=blocks, block_tokens=size)
