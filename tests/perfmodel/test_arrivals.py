"""Loads: the Poisson generator and the two trace formats, good and bad."""

import gzip
import json

import numpy as np
import pytest

from hw.errors import InputError
from perfmodel.serving import Request, load_trace, poisson

MOONCAKE = [
    {"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]},
    {"timestamp": 3000, "input_length": 7322, "output_length": 490, "hash_ids": [0, 2]},
    {"timestamp": 4250, "input_length": 10, "output_length": 1, "hash_ids": []},
]
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:59:59.9999999,374,44\r\n"
    "2023-11-16 19:00:00.0000001,396,109"
)


@pytest.fixture
def trace(tmp_path):
    """Writes a trace, gzip if asked, and returns its path."""

    def write(text, *, packed=False):
        path = tmp_path / ("trace.gz" if packed else "trace")
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        return path

    return write


def jsonl(*entries):
    return "".join(json.dumps(entry) + "\n" for entry in entries)


@pytest.mark.parametrize("packed", [False, True])
def test_mooncake(trace, packed):
    path = trace(jsonl(*MOONCAKE), packed=packed)
    expected = [Request(0.0, 6758, 500), Request(0.0, 7322, 490), Request(1.25, 10, 1)]
    assert load_trace(path) == expected
    assert load_trace(path, 2) == expected[:2]


@pytest.mark.parametrize("packed", [False, True])
def test_azure_keeps_its_100_ns(trace, packed):
    assert load_trace(trace(AZURE, packed=packed)) == [
        Request(0.0, 374, 44),
        Request(2e-7, 396, 109),
    ]


def changed(**fields):
    return jsonl(MOONCAKE[0], {**MOONCAKE[1], **fields})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (jsonl(MOONCAKE[0]) + '{"timestamp": 30', ":2: not a JSON object"),
        (jsonl(MOONCAKE[0]) + "[1]\n", ":2: not a JSON object"),
        (changed(input_length=0), ":2: input_length is 0: must be a whole number from 1 to"),
        (changed(output_length=10**30), ":2: output_length is 1000"),
        (changed(output_length=-5), ":2: output_length is -5"),
        (changed(output_length=1.5), ":2: output_length is 1.5"),
        (changed(output_length=True), ":2: output_length is True"),
        (changed(timestamp="now"), ":2: timestamp is 'now': must be a time in milliseconds"),
        (changed(timestamp=float("nan")), ":2: timestamp is nan"),
        (changed(timestamp=2999), ":2: timestamp is 2999: must not be before the one above"),
        (jsonl(MOONCAKE[0], {"timestamp": 3000}), ":2: input_length is missing"),
        (AZURE + "\r\n2023-11-16 19:00:01.0,12", ":4: 2 fields in"),
        (AZURE + "\r\n2023-11-16 19:00:01.0,12,", ":4: GeneratedTokens is ''"),
        (AZURE + "\r\n2023-11-16 19:00:01.0,0,5", ":4: ContextTokens is '0'"),
        (AZURE + "\r\n2023-11-16 19:00:01.0,1e3,5", ":4: ContextTokens is '1e3'"),
        (AZURE + "\r\n16.11.2023,12,5", ":4: TIMESTAMP is '16.11.2023': must be YYYY-MM-DD"),
        (AZURE + "\r\n2023-11-16 19:00:00.-1,12,5", ":4: TIMESTAMP is"),
        (AZURE + "\r\n2023-11-16 18:00:00,12,5", ":4: timestamp is 2023-11-16 18:00:00: must not"),
        ("time,in,out\n1,2,3\n", ":1: unknown trace format: must be Mooncake JSON lines"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", ": the trace holds no request"),
        ("\n \n", ": the trace is empty"),
    ],
)
def test_malformed_lines_are_named(trace, text, message):
    path = trace(text)
    with pytest.raises(InputError) as caught:
        load_trace(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def test_unreadable_files(trace, tmp_path):
    whole = trace(jsonl(*MOONCAKE), packed=True)
    whole.write_bytes(whole.read_bytes()[:40])
    with pytest.raises(InputError, match="gzip data is truncated or damaged"):
        load_trace(whole)
    with pytest.raises(InputError, match="cannot read the trace: No such file"):
        load_trace(tmp_path / "none")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8 text"):
        load_trace(binary)
    with pytest.raises(InputError, match="limit is 0: must be at least 1"):
        load_trace(trace(AZURE), 0)


def test_only_single_requests_with_output_are_served(trace):
    sessions = "session,turn,input_length,output_length,pre_gap_s\na,0,5,1,0\na,1,9,1,0\n"
    with pytest.raises(InputError, match="has sessions of several turns: must be single requests"):
        load_trace(trace(sessions))
    assert load_trace(trace(sessions), 1) == [Request(0.0, 5, 1)]
    silent = {"id": "a", "block_size": 8, "requests": [[0, 5, 0, 1, 1, 1, 0, []]]}
    with pytest.raises(InputError, match="has requests without output"):
        load_trace(trace(jsonl(silent)))


def test_hashes_of_any_block_size_are_no_matter_when_served(trace):
    assert load_trace(trace(jsonl(MOONCAKE[0]))) == [Request(0.0, 6758, 500)]


def test_poisson_gaps_are_exponential():
    load = poisson(requests=20_000, rate=4.0, input_len=7, output_len=3, seed=1)
    gaps = np.diff([0.0] + [request.arrival_s for request in load])
    assert gaps.mean() == pytest.approx(0.25, rel=0.02)
    assert gaps.std() == pytest.approx(0.25, rel=0.03)  # an exponential's equals its mean
    assert np.mean(gaps > 0.25) == pytest.approx(np.exp(-1), abs=0.01)
    assert {(r.input_len, r.output_len) for r in load} == {(7, 3)}


@pytest.mark.parametrize(
    ("name", "value"), [("rate", 0.0), ("requests", -1), ("input_len", 0), ("output_len", 0)]
)
def test_poisson_numbers_are_checked(name, value):
    numbers = {"requests": 5, "rate": 1.0, "input_len": 8, "output_len": 8, name: value}
    with pytest.raises(InputError, match="must be greater than zero"):
        poisson(**numbers, seed=0)
