"""`pagewave trace` as a user runs it."""

import json

import pytest

from perfmodel.workload import read_trace
from scripts.main import main

LINES = [
    {"timestamp": 1000, "input_length": 600, "output_length": 4, "hash_ids": [1, 2]},
    {"timestamp": 3500, "input_length": 1000, "output_length": 6, "hash_ids": [1, 3]},
]
CSV = "session,turn,input_length,output_length,pre_gap_s\na,0,100,10,0\na,1,130,2,0.5\nb,0,50,6,0\n"


@pytest.fixture
def mooncake(tmp_path):
    path = tmp_path / "mooncake.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return str(path)


@pytest.fixture
def sessions(tmp_path):
    path = tmp_path / "sessions.csv"
    path.write_text(CSV)
    return str(path)


def values_of(arguments, capsys):
    assert main(["trace", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_statistics_of_single_requests(mooncake, capsys):
    values = values_of([mooncake], capsys)
    assert (values["sessions"], values["turns"], values["duration_s"]) == (2, 2, 2.5)
    assert values["input_tokens"] == {"mean": 800.0, "p50": 800.0, "p99": 996.0, "max": 1000.0}
    assert values["output_tokens"]["mean"] == 5.0
    assert (values["blocks"], values["distinct_blocks"], values["block_tokens"]) == (4, 3, 512)
    assert values["block_hit_share"] == 512 / 1600
    assert values["gap_s"] is None
    assert values_of([mooncake, "--no-blocks"], capsys)["blocks"] is None


def test_statistics_of_sessions(sessions, capsys):
    values = values_of([sessions], capsys)
    assert (values["sessions"], values["turns"], values["duration_s"]) == (2, 3, 0.5)
    assert values["prefix_share"] == 110 / 280
    assert values["turns_of_session"]["mean"] == 1.5
    assert values["final_tokens"]["mean"] == (132 + 56) / 2
    assert values["gap_s"]["p99"] == 0.5
    assert values["block_hit_share"] is None


def test_replicas_copies_and_arrivals(sessions, capsys):
    arguments = [sessions, "--turns", "5", "--copies", "2", "--rate", "0.5", "--seed", "4"]
    values = values_of(arguments, capsys)
    assert (values["sessions"], values["turns"]) == (3, 10)
    # a twice (100, 130, 232, 262), b twice (50, 106), a twice.
    assert values["input_tokens"]["mean"] == (2 * 724 + 156) / 10
    assert values["duration_s"] > 1


def test_what_is_written_is_what_is_printed(tmp_path, capsys):
    out = tmp_path / "made" / "trace.jsonl"
    arguments = ["trace", "--synthetic", "--sessions", "60", "--seed", "2", "--out", str(out)]
    assert main([*arguments, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"wrote {out}\n"
    values = json.loads(printed.out)
    assert values["source"] == "synthetic agentic sessions, seed 2"
    assert read_trace(out).turns == values["turns"]
    assert values_of([str(out)], capsys) == values
    before = out.read_bytes()
    assert main(arguments) == 0
    assert out.read_bytes() == before


def test_tables(mooncake, sessions, capsys):
    assert main(["trace", mooncake]) == 0
    printed = capsys.readouterr().out
    for words in ("blocks of 512 tokens", "limitless cache", "32.00", "input, tokens", "996.00"):
        assert words in printed
    assert "gap before a turn" not in printed
    assert main(["trace", sessions]) == 0
    printed = capsys.readouterr().out
    assert "gap before a turn" in printed and "39.29" in printed
    assert "blocks" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "FILE and --synthetic: give a trace or --synthetic, and not both"),
        (["FILE", "--synthetic"], "FILE and --synthetic: give"),
        (["FILE", "--sessions", "3"], "--sessions is 3: goes with --synthetic"),
        (["--synthetic", "--limit", "3"], "--limit is 3: goes with a FILE"),
        (["--synthetic", "--block-tokens", "3"], "--block-tokens is 3: goes with a FILE"),
        (["--synthetic", "--no-blocks"], "--no-blocks: goes with a FILE"),
        (["--synthetic", "--sessions", "0"], "sessions is 0: must be 1 to"),
        (["--synthetic", "--seed", "-1"], "seed is -1: must not be negative"),
        (["FILE", "--limit", "0"], "limit is 0: must be at least 1"),
        (["FILE", "--turns", "0"], "turns is 0: must be 1 to"),
        (["FILE", "--copies", "2"], "copies is 2: block hashes of longer prompts are unknown"),
        (["FILE", "--rate", "0"], "rate is 0.0: must be greater than zero"),
        (["FILE", "--block-tokens", "64"], "hash_ids has 2 blocks: 600 tokens need 10"),
        (["FILE", "--session-input", "old"], "Invalid value for '--session-input'"),
        (["FILE", "--out", "x.jsonl.gz"], "out is 'x.jsonl.gz': is written as plain text"),
        (["FILE", "--out", "/dev/null/x"], "out is '/dev/null/x': cannot be written"),
        (["none.jsonl"], "none.jsonl: cannot read the trace: No such file or directory"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(mooncake, arguments, message, capsys):
    assert main(["trace", *(mooncake if word == "FILE" else word for word in arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1
