"""Weight matrices and the precision they are stored in."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Linear:
    """One weight matrix, ``inputs`` x ``outputs``, without bias."""

    inputs: int
    outputs: int
    row_parallel: bool = False  # sharded over its inputs in the published checkpoint

    @property
    def params(self) -> int:
        return self.inputs * self.outputs


class ScaleRule(Protocol):
    """How many scale factors a quantised matrix carries, and their width."""

    @property
    def scale_bytes(self) -> int: ...

    def scales(self, matrix: Linear) -> int: ...


@dataclass(frozen=True)
class NoScales:
    """Not quantised."""

    scale_bytes: int = 0

    def scales(self, matrix: Linear) -> int:
        return 0


@dataclass(frozen=True)
class BlockScales:
    """One FP32 factor for each square block (DeepSeek-V3: 128 x 128)."""

    block: int = 128
    scale_bytes: int = 4

    def scales(self, matrix: Linear) -> int:
        return -(-matrix.inputs // self.block) * -(-matrix.outputs // self.block)


@dataclass(frozen=True)
class ColumnScales:
    """One BF16 factor for each output column and input shard (Grok-1: eight shards)."""

    shards: int = 8
    scale_bytes: int = 2

    def scales(self, matrix: Linear) -> int:
        return matrix.outputs * (self.shards if matrix.row_parallel else 1)


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Stored bytes of one parameter, by component."""

    label: str
    matrix_bytes: int
    embed_bytes: int
    router_bytes: int
    norm_bytes: int
    router_bias_bytes: int
    scale_rule: ScaleRule
    arithmetic: str = "bf16"  # of GEMMs and experts, as ``perfmodel.kernels`` names it

    def weight_bytes(self, matrices: tuple[Linear, ...]) -> int:
        """Bytes of the matrices themselves, without their scales."""
        return self.matrix_bytes * sum(m.params for m in matrices)

    def scale_bytes(self, matrices: tuple[Linear, ...]) -> int:
        return self.scale_rule.scale_bytes * self.scale_params(matrices)

    def scale_params(self, matrices: tuple[Linear, ...]) -> int:
        return sum(self.scale_rule.scales(m) for m in matrices)


BF16 = Precision(
    label="BF16",
    matrix_bytes=2,
    embed_bytes=2,
    router_bytes=2,
    norm_bytes=2,
    router_bias_bytes=4,
    scale_rule=NoScales(),
)
FP8_BLOCK = Precision(
    label="FP8-mixed",
    matrix_bytes=1,
    embed_bytes=2,
    router_bytes=2,
    norm_bytes=2,
    router_bias_bytes=4,
    scale_rule=BlockScales(),
    arithmetic="fp8_block",
)
INT8_COLUMN = Precision(
    label="INT8-mixed",
    matrix_bytes=1,
    embed_bytes=4,
    router_bytes=4,
    norm_bytes=4,
    router_bias_bytes=4,
    scale_rule=ColumnScales(),
)
