"""Dense decoder-only models: what a serving study needs of Qwen3 and Llama 3.1.

Values are those of the models' published ``config.json``.
"""

from dataclasses import dataclass
from pathlib import Path

from hw.errors import InputError
from perfmodel.models.attention import Gqa
from perfmodel.models.config import Config
from perfmodel.models.shape import gated_mlp

_BYTES = 2  # weights and KV are kept in 16 bit


@dataclass(frozen=True, kw_only=True)
class DenseModel:
    """A model without experts, all weights in 16 bit, its output head not tied.

    Attributes:
        inner: Width of the feed-forward layers.
    """

    name: str
    layers: int
    hidden: int
    inner: int
    vocab: int
    attention: Gqa
    max_context: int

    @property
    def gemm_params(self) -> int:
        """Parameters that every token of a step is multiplied with."""
        matrices = self.attention.qkv + self.attention.output + gated_mlp(self.hidden, self.inner)
        return self.layers * sum(matrix.params for matrix in matrices)

    @property
    def head_params(self) -> int:
        """Parameters that only rows which give a token are multiplied with."""
        return self.vocab * self.hidden

    @property
    def read_bytes(self) -> int:
        """Weight bytes that a step reads: all but the embedding, of which it reads single rows."""
        return _BYTES * (self.gemm_params + self.head_params)

    @property
    def stored_bytes(self) -> int:
        """Weight bytes, with embedding and norms."""
        norms = self.layers * (2 * self.hidden + self.attention.norm_params) + self.hidden
        return _BYTES * (self.gemm_params + 2 * self.head_params + norms)

    @property
    def kv_token_bytes(self) -> int:
        """Bytes of KV of one token, over all layers."""
        return self.layers * self.attention.kv_bytes

    @property
    def pair_flops(self) -> int:
        """Operations of attention for one query-key pair, over all layers."""
        return self.layers * self.attention.prefill_flops


def _gqa(hidden: int, query_heads: int, query_norm: bool) -> Gqa:
    return Gqa(
        hidden=hidden, query_heads=query_heads, kv_heads=8, head_dim=128, query_norm=query_norm
    )


def _llama(name: str, layers: int, hidden: int, inner: int, heads: int) -> DenseModel:
    return DenseModel(
        name=name,
        layers=layers,
        hidden=hidden,
        inner=inner,
        vocab=128_256,
        attention=_gqa(hidden, heads, query_norm=False),
        max_context=131_072,
    )


DENSE_MODELS = {
    model.name: model
    for model in (
        DenseModel(
            name="qwen3-32b",
            layers=64,
            hidden=5120,
            inner=25_600,
            vocab=151_936,
            attention=_gqa(5120, 64, query_norm=True),
            max_context=40_960,
        ),
        _llama("llama-3.1-8b", 32, 4096, 14_336, 32),
        _llama("llama-3.1-70b", 80, 8192, 28_672, 64),
        _llama("llama-3.1-405b", 126, 16_384, 53_248, 128),
    )
}
_TYPES = {"qwen3": True, "llama": False}  # whether queries and keys have a norm


def load_dense_model(model: str) -> DenseModel:
    """A model by name, or from a ``config.json`` of type qwen3 or llama by path.

    Raises:
        InputError: neither a known name nor a readable, supported configuration.
    """
    name = model.lower().rsplit("/", 1)[-1]
    if name in DENSE_MODELS:
        return DENSE_MODELS[name]
    path = Path(model)
    if path.suffix != ".json":
        raise InputError(
            f"model {model!r} is unknown: choose {', '.join(DENSE_MODELS)}, or give the path of a "
            "config.json"
        )
    config = Config.read(path)
    kind = config.text("model_type")
    if kind not in _TYPES:
        raise config.error("model_type", f"must be one of {', '.join(_TYPES)}")
    if config.flag("tie_word_embeddings", False):
        raise config.error("tie_word_embeddings", "must be false")
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    return DenseModel(
        name=path.stem,
        layers=config.integer("num_hidden_layers"),
        hidden=hidden,
        inner=config.integer("intermediate_size"),
        vocab=config.integer("vocab_size"),
        attention=Gqa(
            hidden=hidden,
            query_heads=heads,
            kv_heads=config.integer("num_key_value_heads", heads),
            head_dim=config.integer("head_dim", hidden // heads),
            query_norm=_TYPES[kind],
        ),
        max_context=config.integer("max_position_embeddings"),
    )
