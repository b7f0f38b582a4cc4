"""`pagewave agents` as a user runs it."""

import json

import pytest

from scripts.main import main

CSV = "session,turn,input_length,output_length,pre_gap_s\n" + "".join(
    f"{session},{turn},{3000 * (turn + 1)},{10 + session},0.5\n"
    for session in range(4)
    for turn in range(3)
)


@pytest.fixture
def sessions(tmp_path):
    path = tmp_path / "sessions.csv"
    path.write_text(CSV)
    return str(path)


def test_every_architecture_and_policy_is_a_cell(sessions, capsys, tmp_path):
    out = tmp_path / "out"
    assert main(["agents", sessions, "--json", "--out", str(out), "--check"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(cell["architecture"], cell["policy"]) for cell in found["cells"]] == [
        (arch, policy)
        for arch in ("hbm-only", "h3", "4+4")
        for policy in ("fcfs", "cache-aware", "cache-aware, 10 %")
    ]
    assert {cell["turns"] for cell in found["cells"]} == {12}
    assert found["cells"][0]["lifetime_years"] is None  # nothing is written to HBF
    assert found["claims"] == []  # this is not the workload of the paper
    assert "| hbm-only | fcfs |" in (out / "agents.md").read_text()


def test_a_sweep_goes_on_where_it_was_stopped(sessions, capsys, tmp_path, monkeypatch):
    arguments = ["agents", sessions, "--json", "--out", str(tmp_path / "out")]
    arguments += ["--architecture", "h3", "--policy", "buffered"]
    for percent in ("0", "10", "20"):
        arguments += ["--headroom", percent]
    whole = [*arguments[:-6], "--headroom", "0"]
    assert main(whole) == 0
    first = json.loads(capsys.readouterr().out)["cells"]
    ran = []
    from perfmodel.agents import study

    original = study.serve_agents
    monkeypatch.setattr(study, "serve_agents", lambda *each: ran.append(1) or original(*each))
    assert main(arguments) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert len(ran) == 2
    assert cells[0] == first[0]
    assert [cell["admitted_fraction"] for cell in cells] == [1.0, 0.9, 0.8]
    # Another setting is another run.
    assert main([*arguments, "--hbf-rate", "1.6"]) == 0
    assert len(ran) == 5


def test_the_table_names_what_was_run(sessions, capsys):
    assert main(["agents", sessions, "--architecture", "h3", "--policy", "fcfs"]) == 0
    text = capsys.readouterr().out
    assert "qwen3-32b" in text and "12 turns of 4 sessions" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a trace or --synthetic"),
        (["--synthetic", "--limit", "3"], "goes with a TRACE"),
        (["--synthetic", "--architecture", "h4"], "architecture 'h4' is unknown"),
        (["--synthetic", "--policy", "lifo"], "policy 'lifo' is unknown"),
        (["--synthetic", "--movement", "free"], "movement 'free' is unknown"),
        (["--synthetic", "--weights", "ssd"], "weights 'ssd' is unknown"),
        (["--synthetic", "--headroom", "120"], "headroom is 1.2"),
        (["--synthetic", "--model", "gpt"], "model 'gpt' is unknown"),
        (["--synthetic", "--model", "llama-3.1-405b"], "use more GPUs"),
        (["--synthetic", "--hbf-rate", "0"], "hbf_bytes_per_s is 0.0"),
        (["--synthetic", "--architecture", "h3", "--architecture", "h3"], "one is there twice"),
        (["--synthetic", "--granule", "-1"], "granule is -1"),
    ],
)
def test_wrong_input_is_one_line(arguments, message, capsys):
    assert main(["agents", *arguments]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error and "\n" not in error
