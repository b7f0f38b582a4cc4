"""Model shapes against Table II and the tensor sizes of the published checkpoints."""

import json

import pytest

from hw.errors import InputError
from perfmodel.lookahead import decide
from perfmodel.models import MODELS, load_model
from perfmodel.models.config import Config

# DASH paper, table II.
WEIGHTS_GB = {
    "qwen3-235b-a22b": 470.19,
    "mixtral-8x22b": 281.24,
    "grok-1": 318.24,
    "llama4-maverick": 801.42,
    "deepseek-v3": 688.59,
    "deepseek-v2": 471.49,
}
# Checkpoint tensor sizes: (parameters, bytes); `attn` is QKV and output projection together.
COMPONENTS = {
    "qwen3-235b-a22b": {
        "embed": (622329856, 1244659712),
        "lm_head": (622329856, 1244659712),
        "attn": (6702497792, 13404995584),
        "norm": (798208, 1596416),
        "routed_expert": (227096395776, 454192791552),
        "router": (49283072, 98566144),
    },
    "mixtral-8x22b": {
        "embed": (196608000, 393216000),
        "lm_head": (196608000, 393216000),
        "attn": (4932501504, 9865003008),
        "routed_expert": (135291469824, 270582939648),
        "router": (2752512, 5505024),
        "norm": (694272, 1388544),
    },
    "grok-1": {
        "embed": (805306368, 3221225472),
        "attn": (5637144576, 5637144576),
        "routed_expert": (309237645312, 309237645312),
        "scales": (3670016 + 58720256, 7340032 + 117440512),
        "router": (3145728, 12582912),
        "norm": (1579008, 6316032),
    },
    "llama4-maverick": {
        "embed": (1034485760, 2068971520),
        "lm_head": (1034485760, 2068971520),
        "attn": (3019898880, 6039797760),
        "dense_mlp": (6039797760, 12079595520),
        "routed_expert": (386547056640, 773094113280),
        "shared_expert": (3019898880, 6039797760),
        "router": (15728640, 31457280),
        "norm": (496640, 993280),
    },
    "deepseek-v3": {
        "embed": (926679040, 1853358080),
        "lm_head": (926679040, 1853358080),
        "norm": (1044480, 2088960),
        "attn": (11413422080, 11413422080),
        "scales": (41540496, 166161984),
        "dense_mlp": (1189085184, 1189085184),
        "routed_expert": (653908770816, 653908770816),
        "shared_expert": (2554331136, 2554331136),
        "router": (106430464, 212860928),
        "router_bias": (15104, 60416),
        "mtp_dup_embed_head": (1853358080, 3706716160),
        "mtp_attn": (289865728, 392626176),
        "mtp_routed_expert": (11274289152, 11274289152),
        "mtp_shared": (44040192, 44040192),
        "mtp_router": (1835008, 3670016),
    },
    "deepseek-v2": {
        "embed": (524288000, 1048576000),
        "lm_head": (524288000, 1048576000),
        "norm": (742400, 1484800),
        "attn": (8953528320, 17907056640),
        "dense_mlp": (188743680, 377487360),
        "routed_expert": (222717542400, 445435084800),
        "shared_expert": (2783969280, 5567938560),
        "router": (48332800, 96665600),
    },
}
# KV bytes of one token, bytes of one expert, MoE layers, may the early top-k be used.
LAYERS = {
    "qwen3-235b-a22b": (192512, 37748736, 94, True),
    "mixtral-8x22b": (229376, 603979776, 56, True),
    "grok-1": (262144, 603979776, 64, False),
    "llama4-maverick": (196608, 251658240, 24, True),
    "deepseek-v3": (70272, 44040192, 58, False),
    "deepseek-v2": (69120, 47185920, 59, True),
}


@pytest.mark.parametrize("name", MODELS)
def test_total_is_that_of_table_2(name):
    assert load_model(name).total_bytes / 1e9 == pytest.approx(WEIGHTS_GB[name], rel=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_components_are_those_of_the_checkpoint(name):
    found = {part.name: (part.params, part.bytes) for part in load_model(name).components}
    parts = zip(found.pop("attn_qkv"), found.pop("attn_output"), strict=True)
    assert found | {"attn": tuple(map(sum, parts))} == COMPONENTS[name]


@pytest.mark.parametrize("name", MODELS)
def test_layers(name):
    model = load_model(name)
    found = model.kv_token_bytes, model.expert_bytes, len(model.moe_layers)
    assert (*found, decide(model.router).early) == LAYERS[name]


@pytest.mark.parametrize("name", MODELS)
def test_layer_bytes_add_up_to_the_checkpoint(name):
    """What passes read layer by layer, and what they never read, is the whole checkpoint."""
    model = load_model(name)
    moe = len(model.moe_layers)
    attention = model.attention.qkv + model.attention.output
    read = model.layers * (model.stored_bytes(attention) + model.norm_layer_bytes)
    read += model.dense_layers * model.stored_bytes(model.dense_mlp)
    read += moe * model.routed_experts * model.stored_bytes(model.expert)
    read += moe * (model.stored_bytes(model.shared_expert) + model.router_layer_bytes)
    read += model.head_bytes * (1 if model.tied_embedding else 2)
    read += model.hidden * model.precision.norm_bytes  # the last norm
    mtp = sum(part.bytes for part in model.components if part.name.startswith("mtp"))
    if model.mtp_layers:  # its norms, bias and scales are lumped with those of the layers
        mtp += model.norm_layer_bytes + 3 * model.hidden * model.precision.norm_bytes
        mtp += model.routed_experts * model.precision.router_bias_bytes
        scaled = attention + model.shared_expert
        mtp += model.precision.scale_bytes(scaled)
        mtp += model.routed_experts * model.precision.scale_bytes(model.expert)
    assert read + mtp == model.total_bytes


@pytest.mark.parametrize("name", MODELS)
def test_catalogue_holds_the_keys_that_are_read_and_no_others(name, monkeypatch):
    read = set()

    class Watched(dict):
        def get(self, key, default=None):
            read.add(key)
            return super().get(key, default)

    plain = Config.__init__

    def watch(self, source, values, prefix=""):
        plain(self, source, Watched(values) if not prefix else values, prefix)

    monkeypatch.setattr(Config, "__init__", watch)
    load_model(name)
    assert set(json.loads(_catalogue_text(name))) <= read


def test_interleaved_and_leading_dense_layers():
    assert load_model("llama4-maverick").moe_layers == tuple(range(1, 48, 2))
    assert load_model("deepseek-v3").moe_layers == tuple(range(3, 61))


def test_names_of_the_hub_are_accepted():
    for alias, name in (
        ("Qwen3-235B-A22B", "qwen3-235b-a22b"),
        ("Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"),
        ("mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"),
        ("Llama-4-Maverick-17B-128E-Instruct", "llama4-maverick"),
        ("DeepSeek-V3", "deepseek-v3"),
    ):
        assert load_model(alias) == load_model(name)


@pytest.fixture
def config(tmp_path):
    """Writes a configuration, by default Mixtral's shape in small, and returns its path."""

    def write(**changes):
        values = {
            "model_type": "mixtral",
            "hidden_size": 64,
            "vocab_size": 100,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 128,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "max_position_embeddings": 512,
        } | changes
        path = tmp_path / "small" / "config.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({k: v for k, v in values.items() if v != "absent"}))
        return str(path)

    return write


def test_a_config_by_path(config):
    model = load_model(config())
    assert model.name == "small"
    attention = 2 * (64 * 64 + 2 * 64 * 32 + 64 * 64)
    experts = 2 * 4 * 3 * 64 * 128
    vocabulary = 2 * 100 * 64
    norms = (2 * 2 + 1) * 64
    assert model.total_bytes == 2 * (attention + experts + vocabulary + 2 * 64 * 4 + norms)


def test_llama4_inside_a_multimodal_config(tmp_path):
    folder = tmp_path / "maverick"
    folder.mkdir()
    catalogue = json.loads(_catalogue_text("llama4-maverick"))
    outer = {"model_type": "llama4", "text_config": catalogue}
    (folder / "config.json").write_text(json.dumps(outer))
    assert load_model(str(folder)).total_bytes == 801423697920


def _catalogue_text(name):
    from importlib import resources

    return (resources.files("perfmodel.models.catalog") / f"{name}.json").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "model_type is 'gpt2': must be one of qwen3_moe, mixtral"),
        ({"model_type": "absent"}, "model_type is missing"),
        ({"hidden_size": "absent"}, "hidden_size is missing"),
        ({"hidden_size": None}, "hidden_size is null"),
        ({"vocab_size": "many"}, "vocab_size is 'many': must be a whole number"),
        ({"vocab_size": True}, "vocab_size is True: must be a whole number"),
        ({"num_experts_per_tok": 5}, "num_experts_per_tok is 5: must not exceed 4"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3: must divide the 4"),
        ({"torch_dtype": "float32"}, "torch_dtype is 'float32': must be bfloat16"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is {'bits': 4}"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no': must be true or false"),
    ],
)
def test_bad_configs_name_file_key_and_value(config, change, message):
    path = config(**change)
    with pytest.raises(InputError) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", "not a JSON file"),
        ("a.json", "[1]", "holds a list: must be a JSON object"),
        ("a.json", None, "cannot read the model configuration"),
        ("gpt-5", None, "is unknown: choose qwen3-235b-a22b"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=message):
        load_model(str(path))
