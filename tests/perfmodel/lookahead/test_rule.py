"""The rule against brute force: does a positive factor change what a router takes?"""

import itertools

import numpy as np
import pytest

from hw.errors import InputError
from perfmodel.lookahead import LAYERS, decide, routed_layer
from perfmodel.lookahead.choice import choose
from perfmodel.models import Router
from perfmodel.models.config import Config
from perfmodel.models.families import parse

EXPERTS, TOP_K = 12, 3
# Scores, groups, group scores and biases in all combinations.
ROUTERS = [
    Router(
        score=score,
        groups=groups,
        kept_groups=2 if groups > 1 else 1,
        group_score=group_score,
        additive_bias=bias,
        source="made up",
    )
    for score, groups, group_score, bias in itertools.product(
        ("softmax", "sigmoid", "logit"), (1, 4), ("max", "top-2 sum"), (False, True)
    )
]


def by_definition(router, logits, bias):
    """The experts of one token, by plain loops over Python floats."""
    if router.score == "softmax":
        whole = sum(np.exp(float(x)) for x in logits)
        scored = [np.exp(float(x)) / whole for x in logits]
    elif router.score == "sigmoid":
        scored = [1 / (1 + np.exp(-float(x))) for x in logits]
    else:
        scored = [float(x) for x in logits]
    scored = [s + b for s, b in zip(scored, bias, strict=True)]
    size = len(scored) // router.groups

    def group_rank(group):
        members = sorted(scored[group * size : (group + 1) * size], reverse=True)
        return members[0] if router.group_score == "max" else members[0] + members[1]

    groups = range(router.groups)
    kept = sorted(groups, key=group_rank, reverse=True)[: router.kept_groups]
    allowed = [e for e in range(len(scored)) if router.groups == 1 or e // size in kept]
    return set(sorted(allowed, key=lambda e: scored[e], reverse=True)[:TOP_K])


def biases(router, random):
    return random.normal(0, 0.3, EXPERTS) if router.additive_bias else np.zeros(EXPERTS)


@pytest.mark.parametrize("router", ROUTERS, ids=lambda r: f"{r.score}-{r.groups}-{r.group_score}")
def test_choice_is_that_of_the_definition(router):
    random = np.random.default_rng(1)
    logits, bias = random.normal(0, 1, (200, EXPERTS)), biases(router, random)
    chosen = choose(router, logits, TOP_K, bias if router.additive_bias else None)
    for mask, row in zip(chosen, logits, strict=True):
        assert set(np.flatnonzero(mask)) == by_definition(router, row, bias)


@pytest.mark.parametrize("router", ROUTERS, ids=lambda r: f"{r.score}-{r.groups}-{r.group_score}")
def test_early_is_allowed_exactly_where_no_factor_changes_the_choice(router):
    random = np.random.default_rng(2)
    logits, bias = random.normal(0, 1, (300, EXPERTS)), biases(router, random)
    changed = sum(
        by_definition(router, row, bias) != by_definition(router, factor * row, bias)
        for row in logits
        for factor in (0.2, 0.5, 2.0, 5.0)
    )
    assert (changed == 0) == decide(router).early


def test_a_normalised_attention_output_forbids_it():
    """Two experts, one term for each: the factor of the attention term decides between them."""
    early, attention = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    router = Router(score="softmax", normalised_attention=True, source="made up")
    small = choose(router, early + 0.9 * attention, 1)
    large = choose(router, early + 1.1 * attention, 1)
    assert (small != large).any()
    assert not decide(router).early
    assert "normalised before the residual addition" in decide(router).reason


def test_groups_by_a_sum_of_sigmoids_change_places_with_the_factor():
    router = Router(score="sigmoid", groups=2, group_score="top-2 sum", source="made up")
    logits = np.array([[3.0, 1.0, 1.9, 1.9]])
    assert choose(router, logits, 2).tolist() == [[False, False, True, True]]
    assert choose(router, 0.1 * logits, 2).tolist() == [[True, True, False, False]]


# What the configurations and reference implementations of the models say: score, bias, groups.
MODELS = {
    "qwen3-235b-a22b": (True, "softmax", False, 1),
    "mixtral-8x22b": (True, "softmax", False, 1),
    "grok-1": (False, "softmax", False, 1),
    "llama4-maverick": (True, "logit", False, 1),
    "deepseek-v3": (False, "sigmoid", True, 8),
    "deepseek-v2": (True, "softmax", False, 8),
    "glm-5": (False, "sigmoid", True, 1),
    "glm-5.2": (False, "sigmoid", True, 1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_models(name):
    router = routed_layer(name).router
    found = decide(router).early, router.score, router.additive_bias, router.groups
    assert found == MODELS[name]
    assert decide(router).reason and router.source


def test_every_reason_against_is_told():
    reasons = decide(routed_layer("deepseek-v3").router).reasons
    assert len(reasons) == 2
    assert "constant of each expert" in reasons[0]
    assert "sum of two sigmoid scores" in reasons[1]


def test_layers_have_the_shapes_of_their_models():
    layer = routed_layer("Qwen/Qwen3-235B-A22B")
    assert (layer.hidden, layer.attention_width, layer.experts) == (4096, 64 * 128, 128)
    assert (layer.top_k, layer.layers, layer.router_bytes) == (8, 94, 2 * 4096 * 128)
    latent = routed_layer("deepseek-v2")
    assert (latent.attention_width, latent.layers) == (128 * 128, 59)
    # A row-parallel INT8 matrix with a BF16 scale for each column and each of eight shards.
    assert routed_layer("grok-1").output_bytes == 6144 * 6144 + 2 * 8 * 6144


def test_unknown_model_names_those_that_can_be_asked_for():
    with pytest.raises(InputError, match=r"model 'gpt' is unknown: choose .*deepseek-v2, glm-5,"):
        routed_layer("gpt")


DEEPSEEK = {
    "model_type": "deepseek_v2",
    "hidden_size": 64,
    "vocab_size": 100,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 512,
}


def parsed(**changes):
    return parse(Config("config.json", DEEPSEEK | changes), "small").router


def test_groups_come_from_the_configuration():
    assert parsed().groups == 1  # greedy, the default of version 2
    limited = parsed(topk_method="group_limited_greedy", n_group=8, topk_group=3)
    assert (limited.groups, limited.kept_groups, limited.group_score) == (8, 3, "max")
    third = parsed(model_type="deepseek_v3")
    assert (third.groups, third.kept_groups, third.group_score) == (8, 4, "top-2 sum")
    assert third.additive_bias and third.score == "sigmoid"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topk_method": "noaux_tc"}, "topk_method is 'noaux_tc': must be greedy or group_limited"),
        ({"scoring_func": "relu"}, "scoring_func is 'relu': must be softmax or sigmoid"),
        ({"topk_method": "group_limited_greedy"}, "n_group is missing"),
        ({"model_type": "deepseek_v3", "n_group": 3}, "n_group is 3: must divide the 16 experts"),
        ({"model_type": "deepseek_v3", "topk_group": 9}, "topk_group is 9: must not exceed the 8"),
    ],
)
def test_unusable_router_keys(changes, message):
    with pytest.raises(InputError, match=message):
        parsed(**changes)
