"""The format of pagewave: what is written is read back, and what is wrong is named."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw.errors import InputError
from perfmodel.workload import (
    Trace,
    arrive_poisson,
    read_trace,
    replicate,
    synthetic_agentic,
    write_trace,
)

HEAD = {"schema": "pagewave.trace/1", "source": "by hand", "skipped": {}, "block_tokens": None}
ONE = {"session": "a", "start_s": 0.5, "turns": [[0.0, 8, 0, 2], [1.25, 12, 10, 0]]}
BLOCKS = {"blocks": [[0, [5, 6]], [2, [7]]]}


def text(*entries):
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def test_files_by_hand(file):
    trace = read_trace(file(text(HEAD, ONE), packed=True))
    assert (trace.source, trace.session_ids, trace.blocks) == ("by hand", ("a",), None)
    assert trace.start_s.tolist() == [0.5]
    assert trace.gap_s.tolist() == [0.0, 1.25]
    assert trace.input_tokens.tolist() == [8, 12]
    assert trace.prefix_tokens.tolist() == [0, 10]
    assert trace.output_tokens.tolist() == [2, 0]
    trace = read_trace(file(text(HEAD | {"block_tokens": 4, "skipped": {"x": 3}}, ONE | BLOCKS)))
    assert trace.blocks.new_ids.tolist() == [5, 6, 7]
    assert trace.blocks.shared.tolist() == [0, 2]
    assert trace.skipped == {"x": 3}


@pytest.mark.parametrize("seed", range(3))
def test_synthetic_sessions_are_read_back(tmp_path, content, seed):
    trace = arrive_poisson(synthetic_agentic(sessions=50, seed=seed), rate=0.3, seed=seed)
    write_trace(trace, tmp_path / "trace")
    assert content(read_trace(tmp_path / "trace")) == content(trace)


def test_blocks_are_read_back(tmp_path, content, make_trace):
    sessions = [[(0, 8, 0, 1), (0.1, 12, 9, 1)], [(1 / 3, 5, 0, 0)]]
    blocks = [(0, [7, 2**50]), (1, [9, 9]), (0, [7])]
    trace = make_trace(sessions, blocks=blocks, skipped={"runs of sub-agents": 2})
    for case in (trace, replicate(trace, 10)):
        write_trace(case, tmp_path / "trace")
        assert content(read_trace(tmp_path / "trace")) == content(case)


seconds = st.floats(0, 1e9, allow_nan=False)


@given(
    st.lists(st.tuples(seconds, seconds, st.text(max_size=5)), min_size=1, unique_by=lambda r: r[2])
)
def test_times_and_names_survive(tmp_path_factory, rows):
    ones = np.ones(len(rows), np.int64)
    trace = Trace(
        source="drawn",
        session_ids=tuple(name for _, _, name in rows),
        first_turn=np.arange(len(rows) + 1),
        start_s=np.array([start_s for start_s, _, _ in rows]),
        gap_s=np.array([gap_s for _, gap_s, _ in rows]),
        input_tokens=ones,
        prefix_tokens=0 * ones,
        output_tokens=ones,
    )
    path = tmp_path_factory.mktemp("trace") / "trace"
    write_trace(trace, path)
    back = read_trace(path)
    assert back.session_ids == trace.session_ids
    assert back.start_s.tolist() == trace.start_s.tolist()
    assert back.gap_s.tolist() == trace.gap_s.tolist()


def one(**fields):
    return text(HEAD, ONE | fields)


def hashed(**fields):
    return text(HEAD | {"block_tokens": 4}, ONE | BLOCKS | fields)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (text(HEAD | {"schema": "pagewave.trace/2"}, ONE), ":1: schema: Input should be 'pagewave"),
        (text(HEAD | {"block_tokens": 0}, ONE), ":1: block_tokens: Input should be greater than"),
        (text(HEAD), ": the trace holds no request"),
        (text(HEAD, {"session": "a"}), ":2: start_s: Field required"),
        (one(start_s=-1), ":2: start_s: Input should be greater than or equal to 0"),
        (one(turns=[]), ":2: turns: List should have at least 1 item"),
        (one(turns=[[0, 0, 0, 1]]), ":2: turns.0.1: Input should be greater than or equal to 1"),
        (one(turns=[[0, 1.5, 0, 1]]), ":2: turns.0.1: Input should be a valid integer"),
        (one(turns=[[0, 5, 1, 1]]), ":2: turns.0.prefix_tokens is 1: must be at most 0"),
        (one(extra=1), ":2: extra: Extra inputs are not permitted"),
        (one(**BLOCKS), ":2: blocks: must be there exactly if the first line has block_tokens"),
        (text(HEAD, ONE, ONE), ":3: session is 'a': must not be there twice"),
        (text(HEAD) + "{", ":2: line: Invalid JSON"),
        (hashed(blocks=[[0, [5, 6]]]), ":2: blocks has 1 entries: must be 2, one a turn"),
        (hashed(blocks=[[0, [5, 6]], [3, []]]), ":2: blocks.1.shared is 3: must be at most 2"),
        (hashed(blocks=[[0, [5, 6]], [2, [-1]]]), ":2: blocks.1.1.0: Input should be greater"),
        (
            hashed(blocks=[[0, [5]], [0, [1, 2, 3]]]),
            ":2: blocks.0 has 1 blocks: must be those of 8 tokens, 4 each",
        ),
    ],
)
def test_malformed_lines_are_named(file, content, message):
    path = file(content)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)
