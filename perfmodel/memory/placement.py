"""Which bytes live where (DASH paper, V-A), and what room that leaves for KV.

HBF holds experts, shared experts, dense MLPs and the multi-token prediction layer. Attention
projections are in both memories. Embedding, output head, router and norms are in HBM. Prefill KV
goes to HBF, decode KV to HBM until its budget is used up, then to HBF in full page waves.
"""

from dataclasses import dataclass

from hw.errors import InputError
from hw.params import Machine, Topology
from perfmodel.models import ModelShape

_HBM_ONLY = ("embed", "lm_head", "router", "router_bias", "norm")


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Resident bytes and free room of one package, one of ``gpus`` that share the model."""

    gpus: int
    hbf_weight_bytes: int
    hbm_weight_bytes: int
    hbf_bytes: int
    hbm_bytes: int
    wave_bytes: int
    kv_token_bytes: int
    decode_kv_budget_bytes: int

    @property
    def hbf_kv_bytes(self) -> int:
        """Room for KV in HBF."""
        return self.hbf_bytes - self.hbf_weight_bytes

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens whose KV fits in HBF, their only place."""
        return self.hbf_kv_bytes // self.kv_token_bytes

    @property
    def kv_tokens(self) -> int:
        """Tokens of KV that fit, prompt and decode together.

        One page wave stays free, because decode KV moves to HBF in whole waves.
        """
        room = self.hbf_kv_bytes + self.decode_kv_budget_bytes - self.wave_bytes
        return room // self.kv_token_bytes

    def check(self, model: str, topology: str) -> None:
        """Refuse a model that does not fit.

        Raises:
            InputError: weights exceed HBF, or resident weights leave HBM no page wave for KV.
        """
        if self.hbf_kv_bytes < 0:
            raise InputError(
                f"model {model!r} needs {self.hbf_weight_bytes / 1e9:.1f} GB of HBF for its "
                f"weights on each of {self.gpus} GPU(s): topology {topology!r} has "
                f"{self.hbf_bytes / 1e9:.1f} GB; use more stack pairs or a larger --tp"
            )
        if self.decode_kv_budget_bytes < self.wave_bytes:
            raise InputError(
                f"model {model!r} leaves {self.decode_kv_budget_bytes / 1e9:.3f} GB of HBM for "
                f"decode KV in topology {topology!r}: needs at least one page wave, "
                f"{self.wave_bytes} B"
            )


def place(
    model: ModelShape,
    topology: Topology,
    machine: Machine,
    *,
    gpus: int = 1,
    replicated_bytes: int = 0,
    decode_kv_budget_bytes: int | None = None,
) -> Placement:
    """Place a model, sharded over ``gpus`` equal packages.

    ``decode_kv_budget_bytes`` overrides the room left in HBM (the paper works with 24.46 GB).
    Routers and norms are small and stand in every package. ``replicated_bytes`` are other weights
    of one package that stand in both of its memories, as attention projections do.
    """
    sizes = {part.name: part.bytes for part in model.components}
    hbm_only = sum(sizes.get(name, 0) for name in _HBM_ONLY)
    replicated = sum(sizes.get(name, 0) for name in ("router", "router_bias", "norm"))
    attention = model.layers * model.stored_bytes(model.attention.qkv + model.attention.output)
    hbm = replicated + -(-(hbm_only - replicated + attention) // gpus)
    hbm += replicated_bytes
    hbm_capacity = topology.pairs * machine.hbm.stack_bytes
    if decode_kv_budget_bytes is None:
        decode_kv_budget_bytes = hbm_capacity - hbm
    shards = model.attention.kv_shards(gpus)
    return Placement(
        gpus=gpus,
        hbf_weight_bytes=-(-(model.total_bytes - hbm_only) // gpus) + replicated_bytes,
        hbm_weight_bytes=hbm,
        hbf_bytes=topology.pairs * machine.geometry.stack_bytes,
        hbm_bytes=hbm_capacity,
        wave_bytes=topology.pairs * machine.geometry.wave_bytes,
        kv_token_bytes=model.layers * -(-model.attention.kv_bytes // shards),
        decode_kv_budget_bytes=decode_kv_budget_bytes,
    )
