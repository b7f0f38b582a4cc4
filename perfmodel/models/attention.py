"""The two attention kinds: grouped queries (GQA) and multi-head latent attention (MLA).

Both answer the same questions: which matrices a layer holds, how many bytes of KV one token
leaves behind, and how many floating-point operations attention itself takes.
"""

from dataclasses import dataclass

from perfmodel.models.linear import Linear

KV_ELEMENT_BYTES = 2  # the KV cache is kept in BF16 for every model


@dataclass(frozen=True, kw_only=True)
class Gqa:
    """Grouped-query attention; ``query_norm`` adds a norm vector to each of Q and K (Qwen3)."""

    hidden: int
    query_heads: int
    kv_heads: int
    head_dim: int
    query_norm: bool = False
    kind: str = "GQA"

    @property
    def qkv(self) -> tuple[Linear, ...]:
        kv = Linear(inputs=self.hidden, outputs=self.kv_heads * self.head_dim)
        query = Linear(inputs=self.hidden, outputs=self.query_heads * self.head_dim)
        return query, kv, kv

    @property
    def output(self) -> tuple[Linear, ...]:
        inputs = self.query_heads * self.head_dim
        return (Linear(inputs=inputs, outputs=self.hidden, row_parallel=True),)

    @property
    def norm_params(self) -> int:
        return 2 * self.head_dim if self.query_norm else 0

    @property
    def kv_bytes(self) -> int:
        """Bytes of KV of one token in one layer."""
        return 2 * self.kv_heads * self.head_dim * KV_ELEMENT_BYTES

    def kv_shards(self, gpus: int) -> int:
        """Over how many GPUs the KV of a token divides; further GPUs hold copies."""
        return min(gpus, self.kv_heads)

    @property
    def decode_flops(self) -> int:
        """Operations for one new token against one token of context, in one layer."""
        return 4 * self.query_heads * self.head_dim

    @property
    def prefill_flops(self) -> int:
        """Operations for one query-key pair of prefill, in one layer."""
        return self.decode_flops

    @property
    def reread_flops(self) -> int:
        """Operations to use one token of earlier context again in a later prefill chunk."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Mla:
    """Multi-head latent attention (DeepSeek-V2, section 2.1).

    Prefill expands the latent into keys and values; decode folds that expansion into the query
    and the output ("absorbed"), so that it reads only the latent.
    """

    hidden: int
    query_heads: int
    query_rank: int  # 0: queries are projected directly
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    kind: str = "MLA"

    @property
    def qkv(self) -> tuple[Linear, ...]:
        query_out = self.query_heads * (self.nope_dim + self.rope_dim)
        if self.query_rank:
            query: tuple[Linear, ...] = (
                Linear(inputs=self.hidden, outputs=self.query_rank),
                Linear(inputs=self.query_rank, outputs=query_out),
            )
        else:
            query = (Linear(inputs=self.hidden, outputs=query_out),)
        latent = Linear(inputs=self.hidden, outputs=self.kv_rank + self.rope_dim)
        return *query, latent, self._expansion

    @property
    def _expansion(self) -> Linear:
        outputs = self.query_heads * (self.nope_dim + self.value_dim)
        return Linear(inputs=self.kv_rank, outputs=outputs)

    @property
    def output(self) -> tuple[Linear, ...]:
        inputs = self.query_heads * self.value_dim
        return (Linear(inputs=inputs, outputs=self.hidden, row_parallel=True),)

    @property
    def norm_params(self) -> int:
        return self.query_rank + self.kv_rank

    @property
    def kv_bytes(self) -> int:
        return (self.kv_rank + self.rope_dim) * KV_ELEMENT_BYTES

    def kv_shards(self, gpus: int) -> int:
        """The latent serves all heads: every GPU keeps all of it."""
        return 1

    @property
    def decode_flops(self) -> int:
        return 2 * self.query_heads * (2 * self.kv_rank + self.rope_dim)

    @property
    def prefill_flops(self) -> int:
        return 2 * self.query_heads * (self.nope_dim + self.rope_dim + self.value_dim)

    @property
    def reread_flops(self) -> int:
        return 2 * self._expansion.params


Attention = Gqa | Mla
