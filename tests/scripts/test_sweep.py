"""``pagewave sweep`` and the options that it shares with ``pagewave serve``."""

import json

import pytest

from scripts.main import main

MODEL = ["--model", "qwen3-235b-a22b", "--timing", "link-limited"]
SMALL = [
    *MODEL, "--requests", "12", "--warmup", "2", "--seeds", "2", "--load", "0.6",
    "--input-len", "300", "--output-len", "10", "--max-batch", "4", "--budget", "512",
]  # fmt: skip
SERVE = ["serve", *MODEL, "--topology", "dash", "--requests", "20", "--input-len", "500",
         "--output-len", "20"]  # fmt: skip


def test_sweep_prints_what_it_writes(capsys, tmp_path):
    arguments = ["--topology", "dash", "--topology", "relay-only", "--seed", "7", "--json"]
    assert main(["sweep", *SMALL, *arguments, "--out", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    values = json.loads(captured.out)
    assert values == json.loads((tmp_path / "out" / "study.json").read_text())
    labels = values["labels"]
    assert (labels["seeds"], labels["measured"], labels["warmup"]) == ([7, 8], 12, 2)
    assert (labels["max_batch"], labels["token_budget"], labels["chunk"]) == (4, 512, 512)
    assert {row["load"] for row in values["runs"]} == {0.6}
    assert len(values["runs"]) == 4
    assert "study.json" in captured.err


def test_sweep_prints_tables(capsys, tmp_path):
    arguments = ["--policy", "serial", "--routing", "iid", "--out", str(tmp_path)]
    assert main(["sweep", *SMALL, *arguments]) == 0
    text = capsys.readouterr().out
    for words in ("Saturation", "direct-only", "P90 TPOT", "±", "By how much dash", "iid routing"):
        assert words in text


def test_sweep_tells_what_kernels_rest_on(capsys, tmp_path):
    arguments = ["--kernels", "fitted", "--gpu", "h200", "--topology", "dash"]
    assert main(["sweep", *SMALL, *arguments, "--out", str(tmp_path)]) == 0
    assert "gqa_decode: fitted, 90 % of errors below" in capsys.readouterr().out
    labels = json.loads((tmp_path / "study.json").read_text())["labels"]
    assert labels["gpu_kernels"] == "fitted"
    assert [row["kernel"] for row in labels["kernels"]] == [
        "gemm", "gqa_decode", "gqa_prefill", "moe",
    ]  # fmt: skip
    assert "- moe: fitted" in (tmp_path / "study.md").read_text()


def test_serve_takes_a_load_in_place_of_a_rate(capsys, tmp_path):
    rates = {}
    for name, policy in (("0.5", "mixed"), ("1.0", "mixed"), ("1.00", "serial")):
        arguments = ["--load", name, "--policy", policy, "--out", str(tmp_path), "--json"]
        assert main([*SERVE, *arguments]) == 0
        words = json.loads(capsys.readouterr().out)["load"]
        assert words.startswith("20 requests, Poisson, ")
        assert words.endswith(f" a second, load {float(name):g}")
        rates[name] = float(words.split(", ")[2].split()[0])
    assert rates["1.0"] == pytest.approx(2 * rates["0.5"], rel=1e-4)
    assert rates["1.0"] == rates["1.00"]  # load 1 is that of mixed, whatever the policy


def test_serve_takes_policy_limits_and_warmup(capsys, tmp_path):
    found = {}
    for policy in ("mixed", "serial"):
        arguments = ["--policy", policy, "--rate", "20", "--chunk", "64", "--budget", "1024"]
        arguments += ["--warmup", "5", "--routing", "iid", "--out", str(tmp_path), "--json"]
        assert main([*SERVE, *arguments]) == 0
        found[policy] = json.loads(capsys.readouterr().out)
    for policy, values in found.items():
        names = ("policy", "chunk", "token_budget", "warmup", "routing", "completed")
        assert [values[name] for name in names] == [policy, 64, 1024, 5, "iid", 15]
    assert found["serial"]["iterations"] > found["mixed"]["iterations"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", *SMALL, "--policy", "fifo"], "policy 'fifo' is unknown: choose mixed, serial"),
        (["sweep", *SMALL, "--seeds", "0"], "seeds is 0: must be 1 to 1000"),
        (["sweep", *SMALL, "--seed", "-1"], "seed is -1: must not be negative"),
        (["sweep", *SMALL, "--load", "-1"], "load is -1.0: must be a fraction above 0"),
        (["sweep", *SMALL, "--load", "0.6"], "load is 0.6, 0.6: one is there twice"),
        (["sweep", *SMALL, "--chunk", "0"], "chunk is 0: must be at least 1"),
        (["sweep", *SMALL, "--budget", "4"], "max-batch is 4: must be 1 to 3"),
        (["sweep", *SMALL, "--kernels", "guess"], "source 'guess' is unknown: choose base, fitted"),
        (["sweep", *SMALL, "--outside", "roofline"], "outside is 'roofline': goes with a profile"),
        ([*SERVE, "--rate", "1", "--kernels", "guess"], "source 'guess' is unknown"),
        (["sweep", *SMALL, "--routing", "zipf"], "routing is 'zipf': must be balanced, iid"),
        (["sweep", *SMALL, "--topology", "ring"], "topology 'ring' is unknown"),
        (["sweep", *SMALL, "--requests", "0"], "requests is 0: must be at least 1"),
        ([*SERVE, "--rate", "1", "--load", "1"], "--rate and --load: give one of them"),
        ([*SERVE, "--load", "0"], "load is 0.0: must be a fraction above 0"),
        ([*SERVE, "--load", "1", "--trace", "t"], "--requests and --trace: give a trace or"),
        ([*SERVE, "--rate", "1", "--warmup", "20"], "warmup is 20: must be 0 to 19"),
        ([*SERVE, "--rate", "1", "--policy", "fifo"], "policy 'fifo' is unknown"),
        ([*SERVE], "--rate is missing: give --trace FILE, or all of --requests, --rate"),
    ],
)
def test_bad_input_ends_with_one_line_and_nothing_written(capsys, arguments, message, tmp_path):
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
