"""The shape of a model: everything that decides which bytes move and how much is computed."""

from dataclasses import dataclass

from perfmodel.models.attention import Attention
from perfmodel.models.linear import Linear, Precision
from perfmodel.models.router import Router


@dataclass(frozen=True)
class Component:
    """Parameters and stored bytes of one part of a checkpoint."""

    name: str
    params: int
    bytes: int


def gated_mlp(hidden: int, inner: int) -> tuple[Linear, ...]:
    """Gate, up and down projection."""
    up = Linear(inputs=hidden, outputs=inner)
    return up, up, Linear(inputs=inner, outputs=hidden, row_parallel=True)


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A decoder-only mixture-of-experts model.

    All byte counts are those of the stored checkpoint; ``*_bytes`` of a layer include the scale
    factors of quantised weights, because they travel together.
    """

    name: str
    family: str
    hidden: int
    vocab: int
    layers: int
    moe_layers: tuple[int, ...]
    attention: Attention
    dense_inner: int
    routed_experts: int
    experts_per_token: int
    expert_inner: int
    shared_experts: int
    shared_inner: int  # of all shared experts together
    norm_vectors: int  # vectors of `hidden` numbers in a layer, besides those of attention
    max_context: int
    tied_embedding: bool
    mtp_layers: int  # multi-token prediction layers: stored, never read while decoding
    precision: Precision
    router: Router

    # One layer ----------------------------------------------------------------------------------

    @property
    def expert(self) -> tuple[Linear, ...]:
        return gated_mlp(self.hidden, self.expert_inner)

    @property
    def shared_expert(self) -> tuple[Linear, ...]:
        return gated_mlp(self.hidden, self.shared_inner) if self.shared_experts else ()

    @property
    def dense_mlp(self) -> tuple[Linear, ...]:
        return gated_mlp(self.hidden, self.dense_inner) if self.dense_layers else ()

    @property
    def dense_layers(self) -> int:
        return self.layers - len(self.moe_layers)

    def stored_bytes(self, matrices: tuple[Linear, ...]) -> int:
        """Bytes of matrices with their scales."""
        return self.precision.weight_bytes(matrices) + self.precision.scale_bytes(matrices)

    @property
    def expert_bytes(self) -> int:
        """Bytes of one routed expert's weights, without scales."""
        return self.precision.weight_bytes(self.expert)

    @property
    def router_layer_bytes(self) -> int:
        """Router of one MoE layer, with its selection bias where it has one."""
        bias = self.routed_experts * self.precision.router_bias_bytes
        return self.hidden * self.routed_experts * self.precision.router_bytes + (
            bias if self.router.additive_bias else 0
        )

    @property
    def norm_layer_bytes(self) -> int:
        return self._norm_layer_params * self.precision.norm_bytes

    @property
    def _norm_layer_params(self) -> int:
        return self.norm_vectors * self.hidden + self.attention.norm_params

    @property
    def kv_token_bytes(self) -> int:
        """Bytes of KV that one token leaves behind, over all layers."""
        return self.layers * self.attention.kv_bytes

    @property
    def head_bytes(self) -> int:
        """Bytes of the output projection to the vocabulary (the embedding, where tied)."""
        return self.vocab * self.hidden * self.precision.embed_bytes

    # The checkpoint -----------------------------------------------------------------------------

    @property
    def components(self) -> tuple[Component, ...]:
        """The whole checkpoint by component; scales and norms of all parts are lumped."""
        p, mtp, moe = self.precision, self.mtp_layers, len(self.moe_layers)
        matrices = self.layers * (self.attention.qkv + self.attention.output)
        matrices += self.dense_layers * self.dense_mlp
        scaled = p.scale_params(matrices) + (moe + mtp) * (
            self.routed_experts * p.scale_params(self.expert) + p.scale_params(self.shared_expert)
        )
        scaled += mtp * p.scale_params(self.attention.qkv + self.attention.output)
        # An MTP layer brings a layer's norms and three vectors of its own (two inputs, one head).
        norms = self.layers * self._norm_layer_params + self.hidden
        norms += mtp * (self._norm_layer_params + 3 * self.hidden)
        bias = (moe + mtp) * self.routed_experts if self.router.additive_bias else 0

        def weights(name: str, count: int, matrices: tuple[Linear, ...]) -> Component:
            params = sum(m.params for m in matrices)
            return Component(name, count * params, count * p.weight_bytes(matrices))

        def plain(name: str, params: int, width: int) -> Component:
            return Component(name, params, params * width)

        vocabulary = self.vocab * self.hidden
        router = self.hidden * self.routed_experts
        parts = [
            plain("embed", vocabulary, p.embed_bytes),
            plain("lm_head", 0 if self.tied_embedding else vocabulary, p.embed_bytes),
            weights("attn_qkv", self.layers, self.attention.qkv),
            weights("attn_output", self.layers, self.attention.output),
            weights("dense_mlp", self.dense_layers, self.dense_mlp),
            weights("routed_expert", moe * self.routed_experts, self.expert),
            weights("shared_expert", moe, self.shared_expert),
            plain("router", moe * router, p.router_bytes),
            plain("router_bias", bias, p.router_bias_bytes),
            plain("norm", norms, p.norm_bytes),
            plain("scales", scaled, p.scale_rule.scale_bytes),
        ]
        if mtp:
            parts += self._mtp_components(router, vocabulary)
        return tuple(part for part in parts if part.params)

    def _mtp_components(self, router: int, vocabulary: int) -> list[Component]:
        """The multi-token prediction layers, with their own copy of embedding and head."""
        p, mtp = self.precision, self.mtp_layers
        attention = self.attention.qkv + self.attention.output
        attention_params = sum(m.params for m in attention)
        # Joins the hidden state and the next embedding; kept at embedding precision.
        joint = 2 * self.hidden * self.hidden
        expert, shared = self.expert, self.shared_expert
        counts = {
            "mtp_dup_embed_head": (2 * vocabulary, 2 * vocabulary * p.embed_bytes),
            "mtp_attn": (
                attention_params + joint,
                p.weight_bytes(attention) + joint * p.embed_bytes,
            ),
            "mtp_routed_expert": (
                self.routed_experts * sum(m.params for m in expert),
                self.routed_experts * p.weight_bytes(expert),
            ),
            "mtp_shared": (sum(m.params for m in shared), p.weight_bytes(shared)),
            "mtp_router": (router, router * p.router_bytes),
        }
        return [Component(name, mtp * n, mtp * size) for name, (n, size) in counts.items()]

    def component(self, name: str) -> Component:
        """The component of that name, empty where the model has none."""
        found = [part for part in self.components if part.name == name]
        return found[0] if found else Component(name, 0, 0)

    @property
    def total_bytes(self) -> int:
        return sum(part.bytes for part in self.components)
