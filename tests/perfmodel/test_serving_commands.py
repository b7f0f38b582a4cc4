"""`pagewave serve` and `pagewave generate` as a user runs them."""

import json

import pytest

from scripts.main import main

SYSTEM = ["--model", "qwen3-235b-a22b", "--topology", "dash", "--timing", "link-limited"]
BATCH = ["--batch", "4", "--input-len", "1024", "--output-len", "128"]
LOAD = ["--requests", "20", "--rate", "2", "--input-len", "500", "--output-len", "20"]


def test_generate_prints_one_json_object(capsys):
    assert main(["generate", *SYSTEM, *BATCH, "--json"]) == 0
    captured = capsys.readouterr()
    values = json.loads(captured.out)
    assert values["model"] == "qwen3-235b-a22b"
    assert values["tpot_s"] == pytest.approx(20.95e-3, rel=1e-3)
    assert captured.err == ""


def test_generate_prints_a_table(capsys):
    assert main(["generate", *SYSTEM, *BATCH, "--gpu", "h200", "--tp", "2"]) == 0
    text = capsys.readouterr().out
    for words in ("time per output token", "HBF to GPU, Relay", "2 x h200", "tokens/s"):
        assert words in text


def test_generate_charges_lookahead_on_request(capsys):
    found = {}
    for mode in ("free", "charged", "off"):
        assert main(["generate", *SYSTEM, *BATCH, "--lookahead", mode, "--json"]) == 0
        values = json.loads(capsys.readouterr().out)
        assert values["lookahead"] == mode
        found[mode] = values["tpot_s"]
    assert found["free"] < found["charged"] < found["off"]


def test_serve_writes_its_folder_and_prints_the_same_json(capsys, tmp_path):
    arguments = ["serve", *SYSTEM, *LOAD, "--seed", "3", "--out", str(tmp_path / "out"), "--json"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    values = json.loads(captured.out)
    assert values == json.loads((tmp_path / "out" / "result.json").read_text())
    assert (values["completed"], values["seed"]) == (20, 3)
    assert values["load"] == "20 requests, Poisson, 2 a second"
    assert "result.json" in captured.err


def test_serve_reads_a_trace_and_prints_tables(capsys, tmp_path):
    trace = tmp_path / "t.jsonl"
    entry = {"timestamp": 0, "input_length": 50_000, "output_length": 5}
    trace.write_text("\n".join(json.dumps(entry | {"input_length": n}) for n in (50_000, 90, 80)))
    out = str(tmp_path / "out")
    assert main(["serve", *SYSTEM, "--trace", str(trace), "--limit", "2", "--out", out]) == 0
    text = capsys.readouterr().out
    for words in ("first 2 requests of t.jsonl", "exceeds the context", "first token"):
        assert words in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", *SYSTEM, *BATCH, "--gpu", "abacus"], "gpu 'abacus' is unknown"),
        (["generate", *SYSTEM, *BATCH, "--lookahead", "on"], "lookahead is 'on': must be free, "),
        (["generate", *SYSTEM[:3], "ring", *SYSTEM[4:], *BATCH], "topology 'ring' is unknown"),
        (["serve", *SYSTEM, "--out", "x"], "--requests is missing: give --trace FILE, or all of"),
        (["serve", *SYSTEM, *LOAD[:-2], "--out", "x"], "--output-len is missing"),
        (["serve", *SYSTEM, *LOAD, "--trace", "t", "--out", "x"], "--requests and --trace: give"),
        (["serve", *SYSTEM, *LOAD, "--limit", "3", "--out", "x"], "--limit is 3: only a --trace"),
        (["serve", *SYSTEM, "--trace", "none.jsonl", "--out", "x"], "none.jsonl: cannot read"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(capsys, arguments, message, tmp_path):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
