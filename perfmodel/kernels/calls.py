"""The kernel calls that serving a model on some GPUs is made of.

Projections are sharded by columns, those that follow attention or an activation by rows. The three
projections of grouped-query attention are one GEMM, as engines fuse them; those of latent
attention are one each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

from perfmodel.kernels.queries import (
    Collective,
    Gemm,
    GqaDecode,
    GqaPrefill,
    MlaDecode,
    MlaPrefill,
    Moe,
)
from perfmodel.models import ModelShape
from perfmodel.models.attention import Gqa
from perfmodel.models.linear import Linear

Widths = tuple[tuple[int, int], ...]  # n and k of GEMMs
_ACTIVATION_BYTES = 2
_KV_DTYPE = "bf16"  # the KV cache of every model


@dataclass(frozen=True)
class ModelCalls:
    """Calls on one of ``gpus`` GPUs."""

    model: ModelShape
    gpus: int = 1

    # GEMMs --------------------------------------------------------------------------------------

    @cached_property
    def qkv(self) -> Widths:
        matrices = self.model.attention.qkv
        if isinstance(self.model.attention, Gqa):
            fused = sum(matrix.outputs for matrix in matrices)
            matrices = (Linear(inputs=self.model.hidden, outputs=fused),)
        return tuple(map(self._width, matrices))

    @cached_property
    def output(self) -> Widths:
        return tuple(map(self._width, self.model.attention.output))

    @cached_property
    def dense_mlp(self) -> Widths:
        """Gate and up fused, and down."""
        if not self.model.dense_layers:
            return ()
        gate, up, down = self.model.dense_mlp
        fused = Linear(inputs=gate.inputs, outputs=gate.outputs + up.outputs)
        return self._width(fused), self._width(down)

    @cached_property
    def head(self) -> Widths:
        return ((self._shard(self.model.vocab), self.model.hidden),)

    def early_term(self, attention_width: int) -> Widths:
        """Attention output times the combined weight of lookahead."""
        return ((self.model.routed_experts, self._shard(attention_width)),)

    def gemms(self, widths: Widths, rows: int) -> Iterator[Gemm]:
        for n, k in widths:
            yield Gemm(dtype=self.model.precision.arithmetic, m=rows, n=n, k=k)

    def _width(self, matrix: Linear) -> tuple[int, int]:
        if matrix.row_parallel:
            return matrix.outputs, self._shard(matrix.inputs)
        return self._shard(matrix.outputs), matrix.inputs

    def _shard(self, size: int) -> int:
        return -(-size // self.gpus)

    # Everything else ----------------------------------------------------------------------------

    def experts(self, rows: int) -> Moe:
        """Routed experts of one layer, rows balanced over them."""
        model = self.model
        return Moe(
            dtype=model.precision.arithmetic,
            distribution="balanced",
            hidden=model.hidden,
            inner=model.expert_inner,
            top_k=model.experts_per_token,
            experts=model.routed_experts,
            tp=self.gpus,
            ep=1,
            tokens=rows,
        )

    def decode(self, rows: int, context: int) -> GqaDecode | MlaDecode:
        """One token of each of ``rows`` sequences behind ``context`` tokens."""
        attention = self.model.attention
        if isinstance(attention, Gqa):
            q_heads, kv_heads = self._heads(attention)
            return GqaDecode(
                kv_dtype=_KV_DTYPE,
                q_heads=q_heads,
                kv_heads=kv_heads,
                head_dim=attention.head_dim,
                batch=rows,
                kv_len=context,
            )
        heads = self._shard(attention.query_heads)
        return MlaDecode(kv_dtype=_KV_DTYPE, heads=heads, batch=rows, kv_len=context)

    def prefill(self, batch: int, length: int) -> GqaPrefill | MlaPrefill:
        """``batch`` prompts of ``length`` tokens."""
        attention = self.model.attention
        if isinstance(attention, Gqa):
            q_heads, kv_heads = self._heads(attention)
            return GqaPrefill(
                kv_dtype=_KV_DTYPE,
                q_heads=q_heads,
                kv_heads=kv_heads,
                head_dim=attention.head_dim,
                batch=batch,
                length=length,
            )
        heads = self._shard(attention.query_heads)
        return MlaPrefill(kv_dtype=_KV_DTYPE, heads=heads, batch=batch, length=length)

    def _heads(self, attention: Gqa) -> tuple[int, int]:
        return self._shard(attention.query_heads), self._shard(attention.kv_heads)

    def all_reduce(
        self, rows: int, width: int, element_bytes: int = _ACTIVATION_BYTES
    ) -> Collective:
        """The sum over GPUs of ``rows`` x ``width`` numbers."""
        return Collective(
            op="all_reduce", gpus=self.gpus, message_bytes=rows * width * element_bytes
        )


def equal_prompts(rows: int, pairs: int) -> tuple[int, int]:
    """Prompts of one length with about as many tokens and exactly the pairs of chunks of prompts.

    Measured prefill begins at an empty context. A pass of ``rows`` prompt tokens with ``pairs``
    query-key pairs is asked as so many prompts without context: ``2 * pairs / rows`` tokens each if
    that gives a whole prompt, else one with as many pairs.

    Returns:
        Prompts, and tokens of each.
    """
    batch = max(1, round(rows * rows / (2 * pairs)))
    return batch, max(1, round(sqrt(2 * pairs / batch)))
