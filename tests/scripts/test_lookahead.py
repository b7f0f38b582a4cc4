"""`pagewave lookahead` as a user runs it."""

import json

import pytest

from scripts.main import main

SMALL = {
    "hidden_size": 64,
    "vocab_size": 100,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 96,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 512,
}


@pytest.fixture
def small(tmp_path):
    """Path of a small model's configuration, with the keys of its family."""

    def write(**family):
        path = tmp_path / "small.json"
        path.write_text(json.dumps(SMALL | family))
        return str(path)

    return write


def test_json_has_decision_cost_and_agreement(capsys, small):
    model = small(model_type="mixtral", num_local_experts=8)
    assert main(["lookahead", model, "--tokens", "20", "--seed", "4", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["early"] is True
    assert values["cost"]["combined_bytes"] == 4 * 128 * 8
    seen = values["agreement"]
    assert (seen["tokens"], seen["seed"], seen["equal"]) == (20, 4, 20)
    assert seen["rounding"]["near_ties"] == 0


def test_table_tells_why_not_and_what_would_go_wrong(capsys, small):
    assert main(["lookahead", small(model_type="grok-1", num_experts=8), "--tokens", "50"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "small: conventional choice of experts",
        "normalised before the residual addition",
        "were the rule ignored",
        "time won",
    ):
        assert words in printed
    assert "near-ties" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["abacus"], "model 'abacus' is unknown"),
        (["mixtral-8x22b", "--tokens", "0"], "tokens is 0: must be 1 to 65536"),
        (["mixtral-8x22b", "--topology", "ring"], "topology 'ring' is unknown"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(arguments, message, capsys):
    assert main(["lookahead", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1
