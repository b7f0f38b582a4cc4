"""From configuration to shape, one function per model family.

Key names and defaults are those of the Hugging Face model classes. Router kinds follow the
reference implementations of the models.
"""

from collections.abc import Callable

from perfmodel.models.attention import Attention, Gqa, Mla
from perfmodel.models.config import Config
from perfmodel.models.linear import BF16, FP8_BLOCK, INT8_COLUMN, Precision
from perfmodel.models.router import Router
from perfmodel.models.shape import ModelShape


def _sixteen_bit(config: Config, where: Config | None = None) -> Precision:
    """BF16, after making sure that the checkpoint is neither wider nor quantised."""
    owner = where or config
    key = "dtype" if owner.has("dtype") else "torch_dtype"
    if owner.text(key, "bfloat16") not in ("bfloat16", "float16"):
        raise owner.error(key, "must be bfloat16 or float16")
    if config.has("quantization_config"):
        raise config.error("quantization_config", "is only known for DeepSeek-V3 (fp8)")
    return BF16


def _gqa(config: Config, *, query_norm: bool = False) -> Gqa:
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    kv_heads = config.integer("num_key_value_heads", heads)
    if heads % kv_heads:
        raise config.error("num_key_value_heads", f"must divide the {heads} attention heads")
    if config.flag("attention_bias", False):
        raise config.error("attention_bias", "must be false: biases are not counted")
    return Gqa(
        hidden=hidden,
        query_heads=heads,
        kv_heads=kv_heads,
        head_dim=config.integer("head_dim", hidden // heads),
        query_norm=query_norm,
    )


def _shape(
    config: Config,
    *,
    name: str,
    family: str,
    attention: Attention,
    moe_layers: tuple[int, ...],
    routed_experts: int,
    expert_inner: int,
    precision: Precision,
    router: Router,
    dense_inner: int = 0,
    shared_experts: int = 0,
    shared_inner: int = 0,
    norm_vectors: int = 2,
    mtp_layers: int = 0,
) -> ModelShape:
    top_k = config.integer("num_experts_per_tok")
    if top_k > routed_experts:
        raise config.error("num_experts_per_tok", f"must not exceed {routed_experts} experts")
    return ModelShape(
        name=name,
        family=family,
        hidden=config.integer("hidden_size"),
        vocab=config.integer("vocab_size"),
        layers=config.integer("num_hidden_layers"),
        moe_layers=moe_layers,
        attention=attention,
        dense_inner=dense_inner,
        routed_experts=routed_experts,
        experts_per_token=top_k,
        expert_inner=expert_inner,
        shared_experts=shared_experts,
        shared_inner=shared_inner,
        norm_vectors=norm_vectors,
        max_context=config.integer("max_position_embeddings"),
        tied_embedding=config.flag("tie_word_embeddings", False),
        mtp_layers=mtp_layers,
        precision=precision,
        router=router,
    )


def _qwen3_moe(config: Config, name: str) -> ModelShape:
    layers = config.integer("num_hidden_layers")
    step = config.integer("decoder_sparse_step", 1)
    dense = config.layers("mlp_only_layers", layers) or ()
    return _shape(
        config,
        name=name,
        family="qwen3_moe",
        attention=_gqa(config, query_norm=True),
        moe_layers=tuple(n for n in range(layers) if n not in dense and (n + 1) % step == 0),
        routed_experts=config.integer("num_experts"),
        expert_inner=config.integer("moe_intermediate_size"),
        dense_inner=config.integer("intermediate_size"),
        precision=_sixteen_bit(config),
        router=Router(score="softmax", source="huggingface/transformers, modeling_qwen3_moe.py"),
    )


def _mixtral(config: Config, name: str) -> ModelShape:
    return _shape(
        config,
        name=name,
        family="mixtral",
        attention=_gqa(config),
        moe_layers=tuple(range(config.integer("num_hidden_layers"))),
        routed_experts=config.integer("num_local_experts"),
        expert_inner=config.integer("intermediate_size"),
        precision=_sixteen_bit(config),
        router=Router(score="softmax", source="huggingface/transformers, modeling_mixtral.py"),
    )


def _grok_1(config: Config, name: str) -> ModelShape:
    """Grok-1 as xAI published it: INT8 matrices, FP32 embedding, router and norms."""
    return _shape(
        config,
        name=name,
        family="grok-1",
        attention=_gqa(config),
        moe_layers=tuple(range(config.integer("num_hidden_layers"))),
        routed_experts=config.integer("num_experts"),
        expert_inner=config.integer("intermediate_size"),
        norm_vectors=4,
        precision=INT8_COLUMN,
        router=Router(
            score="softmax",
            normalised_attention=True,
            source="xai-org/grok-1, model.py: DecoderLayer and Router",
        ),
    )


def _llama4(config: Config, name: str) -> ModelShape:
    """The text part of Llama 4; a vision tower is neither stored nor run.

    Layers with chunked attention are counted with full attention, as the DASH paper does.
    """
    text = config.section("text_config") if config.has("text_config") else config
    layers = text.integer("num_hidden_layers")
    moe = text.layers("moe_layers", layers)
    if moe is None:
        step = text.integer("interleave_moe_layer_step")
        moe = tuple(range(step - 1, layers, step))
    return _shape(
        text,
        name=name,
        family="llama4_text",
        attention=_gqa(text),
        moe_layers=moe,
        routed_experts=text.integer("num_local_experts"),
        expert_inner=text.integer("intermediate_size"),
        shared_experts=1,
        shared_inner=text.integer("intermediate_size"),
        dense_inner=text.integer("intermediate_size_mlp"),
        precision=_sixteen_bit(config, text),
        router=Router(
            score="logit", source="huggingface/transformers, modeling_llama4.py: Llama4Router"
        ),
    )


def _deepseek(config: Config, name: str, *, version: int) -> ModelShape:
    layers = config.integer("num_hidden_layers")
    first = config.integer("first_k_dense_replace", least=0)
    step = config.integer("moe_layer_freq", 1)
    inner, shared = config.integer("moe_intermediate_size"), config.integer("n_shared_experts")
    experts = config.integer("n_routed_experts")
    return _shape(
        config,
        name=name,
        family=f"deepseek_v{version}",
        attention=Mla(
            hidden=config.integer("hidden_size"),
            query_heads=config.integer("num_attention_heads"),
            query_rank=config.integer("q_lora_rank", 0, least=0),
            kv_rank=config.integer("kv_lora_rank"),
            nope_dim=config.integer("qk_nope_head_dim"),
            rope_dim=config.integer("qk_rope_head_dim"),
            value_dim=config.integer("v_head_dim"),
        ),
        moe_layers=tuple(n for n in range(layers) if n >= first and n % step == 0),
        routed_experts=experts,
        expert_inner=inner,
        shared_experts=shared,
        shared_inner=shared * inner,
        dense_inner=config.integer("intermediate_size"),
        mtp_layers=config.integer("num_nextn_predict_layers", 0, least=0) if version == 3 else 0,
        precision=_deepseek_precision(config),
        router=_deepseek_router(config, experts, version),
    )


def _deepseek_router(config: Config, experts: int, version: int) -> Router:
    """Choice by groups where the configuration asks for it; version 3 adds a bias to each score."""
    method = config.text("topk_method", "greedy" if version == 2 else "noaux_tc")
    known = ("greedy", "group_limited_greedy") if version == 2 else ("noaux_tc",)
    if method not in known:
        raise config.error("topk_method", f"must be {' or '.join(known)}")
    score = config.text("scoring_func", "softmax" if version == 2 else "sigmoid")
    if score not in ("softmax", "sigmoid"):
        raise config.error("scoring_func", "must be softmax or sigmoid")
    groups = kept = 1
    if method != "greedy":
        if version == 2:
            groups, kept = config.integer("n_group"), config.integer("topk_group")
        else:
            groups, kept = config.integer("n_group", 8), config.integer("topk_group", 4)
        if experts % groups:
            raise config.error("n_group", f"must divide the {experts} experts")
        if kept > groups:
            raise config.error("topk_group", f"must not exceed the {groups} groups")
    return Router(
        score="softmax" if score == "softmax" else "sigmoid",
        additive_bias=version == 3,
        groups=groups,
        kept_groups=kept,
        group_score="max" if version == 2 else "top-2 sum",
        source=(
            "deepseek-ai/DeepSeek-V2, modeling_deepseek.py: MoEGate"
            if version == 2
            else "deepseek-ai/DeepSeek-V3, inference/model.py: Gate"
        ),
    )


def _deepseek_precision(config: Config) -> Precision:
    if not config.has("quantization_config"):
        return _sixteen_bit(config)
    quantization = config.section("quantization_config")
    if quantization.text("quant_method") != "fp8":
        raise quantization.error("quant_method", "must be fp8")
    return FP8_BLOCK


FAMILIES: dict[str, Callable[[Config, str], ModelShape]] = {
    "qwen3_moe": _qwen3_moe,
    "mixtral": _mixtral,
    "grok-1": _grok_1,
    "llama4": _llama4,
    "llama4_text": _llama4,
    "deepseek_v2": lambda config, name: _deepseek(config, name, version=2),
    "deepseek_v3": lambda config, name: _deepseek(config, name, version=3),
}


def parse(config: Config, name: str) -> ModelShape:
    """The shape that a configuration describes.

    Raises:
        InputError: ``model_type`` is unknown, or a key is missing or unusable.
    """
    model_type = config.text("model_type")
    if model_type not in FAMILIES:
        raise config.error("model_type", f"must be one of {', '.join(FAMILIES)}")
    return FAMILIES[model_type](config, name)
