"""Every trace format: a small file by hand with what it must give, and files that are wrong."""

import json
from itertools import pairwise

import pytest

from hw.errors import InputError
from perfmodel.workload import block_hits, read_trace


def lines(*entries):
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def plain(trace):
    """Sessions as lists of (gap, input, prefix, output)."""
    columns = (trace.gap_s, trace.input_tokens, trace.prefix_tokens, trace.output_tokens)
    turns = list(zip(*(column.tolist() for column in columns), strict=True))
    bounds = trace.first_turn.tolist()
    return [turns[first:end] for first, end in pairwise(bounds)]


MOONCAKE = [
    {"timestamp": 500, "input_length": 9, "output_length": 2, "hash_ids": [7, 8, 9]},
    {"timestamp": 750, "input_length": 8, "output_length": 1, "hash_ids": [7, 8]},
    {"timestamp": 750, "input_length": 9, "output_length": 4, "hash_ids": [7, 3, 9]},
]


@pytest.mark.parametrize("packed", [False, True])
def test_mooncake(file, packed):
    trace = read_trace(file(lines(*MOONCAKE), packed=packed), block_tokens=4)
    assert plain(trace) == [[(0.0, 9, 0, 2)], [(0.0, 8, 0, 1)], [(0.0, 9, 0, 4)]]
    assert trace.start_s.tolist() == [0.0, 0.25, 0.25]
    assert trace.blocks.new_ids.tolist() == [7, 8, 9, 7, 8, 7, 3, 9]
    assert block_hits(trace).tolist() == [0, 8, 4]
    assert read_trace(file(lines(*MOONCAKE)), hashes=False).blocks is None


SESSIONS = [
    {"session_id": "a", "timestamp": 10, "input_length": 6, "output_length": 3, "hash_ids": [1, 2]},
    {"session_id": 5, "timestamp": 20, "input_length": 4, "output_length": 1, "hash_ids": [1]},
    {"session_id": "a", "delay": 30, "input_length": 13, "output_length": 1,
     "hash_ids": [1, 4, 5, 6]},
]  # fmt: skip


def test_mooncake_sessions_with_whole_prompts(file):
    trace = read_trace(file(lines(*SESSIONS)), block_tokens=4, session_input="whole")
    assert trace.session_ids == ("a", "5")
    assert trace.start_s.tolist() == [0.0, 0.01]
    assert plain(trace) == [[(0.0, 6, 0, 3), (0.03, 13, 4, 1)], [(0.0, 4, 0, 1)]]
    assert trace.blocks.shared.tolist() == [0, 1, 0]
    assert trace.blocks.new_ids.tolist() == [1, 2, 4, 5, 6, 1]
    # Without hashes, all that was there counts as repeated.
    trace = read_trace(file(lines(*SESSIONS)), hashes=False, session_input="whole")
    assert plain(trace)[0] == [(0.0, 6, 0, 3), (0.03, 13, 9, 1)]


def test_mooncake_sessions_with_what_is_new(file):
    bare = [{k: v for k, v in entry.items() if k != "hash_ids"} for entry in SESSIONS]
    trace = read_trace(file(lines(*bare)), session_input="new")
    assert plain(trace) == [[(0.0, 6, 0, 3), (0.03, 22, 9, 1)], [(0.0, 4, 0, 1)]]


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:59:59.9999999,374,44\n"


def test_azure(file):
    trace = read_trace(file(AZURE + "2023-11-16 19:00:00.0000001,396,109"))
    assert plain(trace) == [[(0.0, 374, 0, 44)], [(0.0, 396, 0, 109)]]
    assert trace.start_s.tolist() == [0.0, 2e-7]


CSV = (
    "session,source,turn,input_length,output_length,pre_gap_ms\n"
    "a,x,0,100,5,3\n"
    "a,x,1,120,7,40\n"
    "b,y,0,90,1,0\n"
    "a,x,2,110,2,1500\n"
)


def test_session_csv(file):
    trace = read_trace(file(CSV))
    # The last prompt of `a` is shorter than the context before it: rewritten.
    assert plain(trace) == [
        [(0.003, 100, 0, 5), (0.04, 120, 105, 7), (1.5, 110, 0, 2)],
        [(0.0, 90, 0, 1)],
    ]
    other = "output_length,input_length,turn,session_id,pre_gap_s\n5,100,0,a,0.5\n"
    assert plain(read_trace(file(other))) == [[(0.5, 100, 0, 5)]]


AGENT = {
    "id": "one",
    "block_size": 4,
    "requests": [
        [0.0, 10, 3, 2.0, 0.0, None, 0, [[1, 2]]],
        {"sub": True, "t": 3.0, "n": 4},
        [9.0, 17, 0, None, 6.5, 0.2, 2, [[5, 2]]],
        [12.0, 9, 1, None, None, None, 1, [[9, 1]]],
    ],
}
AGENT_AS_PUBLISHED = {
    "id": "one",
    "block_size": 4,
    "requests": [
        {"t": 0.0, "in": 10, "out": 3, "api_time": 2.0, "think_time": 0.0, "hash_ids": [1, 2]},
        {"t": 3.0, "type": "subagent", "requests": []},
        {"t": 9.0, "in": 17, "out": 0, "think_time": 6.5, "hash_ids": [1, 2, 5, 6]},
        {"t": 12.0, "in": 9, "out": 1, "hash_ids": [1, 9]},
    ],
}


@pytest.mark.parametrize("agent", [AGENT, AGENT_AS_PUBLISHED])
def test_kv_cache_tester(file, agent):
    second = {"id": "two", "block_size": 4, "requests": agent["requests"][:1]}
    trace = read_trace(file(lines(agent, second)))
    assert trace.session_ids == ("one", "two")
    # The last gap is not recorded: 12 less 9, the answer in between took no time known.
    assert plain(trace) == [
        [(0.0, 10, 0, 3), (6.5, 17, 8, 0), (3.0, 9, 4, 1)],
        [(0.0, 10, 0, 3)],
    ]
    assert trace.blocks.block_tokens == 4
    assert trace.blocks.shared.tolist() == [0, 2, 1, 0]
    # Hashes belong to their conversation.
    assert trace.blocks.new_ids.tolist() == [1, 2, 5, 6, 9, 11, 12]
    assert block_hits(trace).tolist() == [0, 8, 4, 0]
    assert trace.skipped == {"runs of sub-agents": 1}


def test_kv_cache_tester_with_hashes_of_all(file):
    shared = AGENT | {"hash_id_scope": "global"}
    trace = read_trace(file(lines(shared, shared | {"id": "two"})))
    assert block_hits(trace).tolist() == [0, 8, 4, 8, 16, 8]


def test_kv_cache_tester_waits_less_what_the_answer_took(file):
    requests = [[0.0, 4, 1, 2.0, 0, None, 0, [[1, 1]]], [5.0, 4, 1, 9.0, None, None, 1, []]]
    requests.append([6.0, 4, 1, None, None, None, 1, []])
    trace = read_trace(file(lines({"id": "one", "block_size": 4, "requests": requests})))
    assert trace.gap_s.tolist() == [0.0, 3.0, 0.0]


def chat(*messages):
    return {"conversations": [{"from": who, "value": text} for who, text in messages]}


SHAREGPT = [
    {"id": "x"} | chat(("human", "12345678"), ("gpt", "123456789"), ("human", "1"), ("gpt", "12")),
    chat(("gpt", "1234"), ("system", "1234"), ("human", "12"), ("gpt", "")),
    chat(("gpt", "1234"), ("human", "12"), ("gpt", ""), ("user", "123"), ("assistant", "1234")),
]


def test_sharegpt(file):
    trace = read_trace(file(json.dumps(SHAREGPT, indent=1)), chars_per_token=4)
    assert trace.session_ids == ("x", "2")
    assert plain(trace) == [
        [(0.0, 2, 0, 3), (0.0, 6, 5, 1)],
        [(0.0, 3, 0, 1)],  # what was not answered and what came before stay in the prompt
    ]
    assert trace.skipped == {"conversations without an answer": 1}
    assert plain(read_trace(file(json.dumps(SHAREGPT)), chars_per_token=2.5))[0] == [
        (0.0, 4, 0, 4),
        (0.0, 9, 8, 1),
    ]


def test_sharegpt_ids_that_are_there_twice(file):
    talk = chat(("human", "1"), ("gpt", "1"))
    entries = [{"id": name} | talk for name in ("x", "x/2", "x", "x")]
    trace = read_trace(file(json.dumps(entries)), chars_per_token=1)
    assert trace.session_ids == ("x", "x/2", "x/2/2", "x/3")


def test_limit_counts_turns_and_looks_no_further(file):
    trace = read_trace(file(CSV + "broken"), limit=3)
    assert plain(trace) == [[(0.003, 100, 0, 5), (0.04, 120, 105, 7)], [(0.0, 90, 0, 1)]]
    assert read_trace(file(lines(*MOONCAKE) + "{"), limit=2, block_tokens=4).turns == 2


def agent(**fields):
    return lines(AGENT | fields)


def request(**fields):
    return agent(requests=[AGENT_AS_PUBLISHED["requests"][0] | fields])


def hashed(**fields):
    return lines(MOONCAKE[0], MOONCAKE[1] | fields)


def turn(**fields):
    return lines(SESSIONS[0], SESSIONS[2] | fields)


HEAD = CSV.splitlines()[0] + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (hashed(hash_ids=[7]), ":2: hash_ids has 1 blocks: 8 tokens need 2 blocks of 4; is that"),
        (hashed(hash_ids=[7, -1]), ":2: hash_ids is [7, -1]: must be a list of whole numbers"),
        (hashed(hash_ids=[7, True]), ":2: hash_ids is [7, True]"),
        (lines(MOONCAKE[0]) + '{"timestamp":501,"input_length":1,"output_length":1}',
         ":2: hash_ids is missing"),
        (hashed(session_id="a"), ":2: session_id is 'a': must be a text or whole number in all"),
        (lines(SESSIONS[0], MOONCAKE[0]), ":2: session_id is missing"),
        (lines(SESSIONS[0] | {"session_id": 1.5}), ":1: session_id is 1.5"),
        (turn(delay=-1), ":2: delay is -1: must be a time in milliseconds"),
        (lines(SESSIONS[0], SESSIONS[0]), ":2: delay is missing"),
        (HEAD.replace("input_length", "length"), ":1: column input_length is missing"),
        (HEAD.replace("_ms", ""), ":1: column pre_gap_s or pre_gap_ms is missing"),
        (HEAD + "a,x,1,1,1,1", ":2: turn is '1': must be 0, the next one of session 'a'"),
        (HEAD + "a,x,0,0,1,1", ":2: input_length is '0': must be a whole number from 1 to"),
        (HEAD + "a,x,0,1,-1,1", ":2: output_length is '-1'"),
        (HEAD + "a,x,0,1,1,nan", ":2: pre_gap_ms is 'nan': must be a time"),
        (HEAD + "a,x,0,1,1,soon", ":2: pre_gap_ms is 'soon'"),
        (HEAD + "a,x,0,1,1", ":2: 5 fields: must be 6"),
        (HEAD + '"a"x,x,0,1,1,1', ":2: not CSV"),
        (HEAD + "a" * 200_000, ":2: not CSV (field larger than field limit"),
        (HEAD, ": the trace holds no request"),
        (agent(id=None), ":1: id is None: must be a text that no other conversation has"),
        (lines(AGENT, AGENT), ":2: id is 'one': must be a text that no other"),
        (agent(block_size=0), ":1: block_size is 0"),
        (lines(AGENT, AGENT | {"id": "two", "block_size": 8}), ":2: block_size is 8: must be 4"),
        (agent(requests={}), ":1: requests is {}: must be a list"),
        (agent(requests=[[1, 2]]), ":1: requests[0]: must be an object, or a list of 8 fields"),
        (agent(requests=[[0, 8, 1, 1, 1, 1, 1, [[1, 1]]]]), ":1: requests[0]: shared is 1: must"),
        (agent(requests=[[0, 8, 1, 1, 1, 1, 0, [[1]]]]), ":1: requests[0]: runs is [[1]]: must"),
        (agent(requests=[[0, 8, 1, 1, 1, 1, 0, [[1, 3]]]]), ":1: requests[0]: 3 blocks: 8 tokens"),
        (request(t=1e13), ":1: requests[0]: t is 10000000000000.0: must be a time in seconds"),
        (request(t=-1), ":1: requests[0]: t is -1: must be a time in seconds"),
        (request(out=-1), ":1: requests[0]: out is -1: must be a whole number from 0"),
        (request(api_time="x"), ":1: requests[0]: api_time is 'x'"),
        (request(hash_ids=None), ":1: requests[0]: hash_ids is None"),
        (agent(requests=AGENT["requests"][2:] + AGENT["requests"][:1]), ":1: requests[0]: shared"),
        (agent(requests=[[5, 4, 1, 1, 1, 1, 0, [[1, 1]]], [4, 4, 1, 1, 1, 1, 1, []]]),
         ":1: requests[1]: t is 4: must be at least 5.0"),
        (agent(requests=[]), ": the trace holds no request"),
        ("[1", ":1: not JSON"),
        ("[\n1,\n", ":3: not JSON"),
        ("[1]", ": [0].conversations: must be a list of messages"),
        (json.dumps([{"conversations": [1]}]), ": [0].conversations[0]: must be an object"),
        (json.dumps([chat(("robot", "x"))]), ": [0].conversations[0].from is 'robot': must be one"),
        (json.dumps([chat(([], "x"))]), ": [0].conversations[0].from is []: must be one"),
        (json.dumps([chat(("human", 5))]), ": [0].conversations[0].value: must be a text"),
        (json.dumps([chat(("human", "x"))]), ": the trace holds no request"),
        ("a,b\n1,2\n", ":1: unknown trace format: must be Mooncake JSON lines"),
        ("x" * 200_000, ":1: unknown trace format"),
        ("{", ":1: not a JSON object"),
        ("\n\n{", ":3: not a JSON object"),
        ("[" * 100_000, ":1: not JSON"),
    ],
)  # fmt: skip
def test_malformed_files_are_named(file, text, message):
    path, options = file(text), {}
    if text.startswith("{") and '"requests"' not in text:
        options = {"block_tokens": 4, "session_input": "whole"}
    elif text.startswith("["):
        options = {"chars_per_token": 4}
    with pytest.raises(InputError) as caught:
        read_trace(path, **options)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (lines(*SESSIONS), {"block_tokens": 4}, ":1: session_id is 'a': say with session-input"),
        (json.dumps(SHAREGPT), {}, "text without token counts: say how many characters"),
        (json.dumps(SHAREGPT), {"chars_per_token": 0.0}, "chars-per-token is 0.0: must be 0.1 to"),
        (CSV, {"limit": 0}, "limit is 0: must be at least 1"),
        (CSV, {"block_tokens": 0}, "block-tokens is 0: must be at least 1"),
        (lines(*MOONCAKE), {}, "9 tokens need 1 blocks of 512"),
        (lines(*MOONCAKE), {"chars_per_token": 4}, "chars-per-token is 4: is for ShareGPT, and "),
        (CSV, {"block_tokens": 4}, "block-tokens is 4: is for Mooncake, and"),
        (lines(AGENT), {"session_input": "new"}, "session-input is new: is for Mooncake"),
    ],
)
def test_nothing_is_guessed(file, text, options, message):
    with pytest.raises(InputError) as caught:
        read_trace(file(text), **options)
    assert message in str(caught.value)
