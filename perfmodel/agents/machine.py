"""A model on some GPUs of an architecture: capacities in tokens and times of steps.

Kernels follow rooflines fitted to measurements of B200 (``perfmodel.gpu``): start-up, efficiency of
arithmetic and of memory, and for decode attention a cost of each sequence and KV head. The memory
behind them is that of the architecture. GEMMs take the longer of arithmetic and weight reads,
decode attention its KV reads, prefill attention its arithmetic ("Characterizing High Bandwidth
Flash for LLM Serving", section 3.2). Under tensor parallelism KV heads are sharded and every layer
has two all-reduces.
"""

import enum
from dataclasses import dataclass
from functools import cached_property

from hw.errors import InputError
from perfmodel.agents.architecture import Architecture, Composition
from perfmodel.gpu import Gpu, gpu_named
from perfmodel.models.dense import DenseModel

_GEMMS = 4  # a layer: QKV, output, gate and up, down
_ACTIVATION_BYTES = 2


class WeightTier(enum.StrEnum):
    """Where the weights are."""

    HBM = "hbm"
    HBF = "hbf"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One replica.

    Args:
        gpus: GPUs of tensor parallelism, which share all KV heads evenly.
        host_share: Part of the host that is this replica's.

    Raises:
        InputError: the model does not fit, or its KV heads do not divide over the GPUs.
    """

    model: DenseModel
    architecture: Architecture
    gpus: int = 1
    weights: WeightTier = WeightTier.HBM
    host_share: float = 1.0
    gpu_name: str = "b200"

    def __post_init__(self) -> None:
        heads = self.model.attention.kv_heads
        if self.gpus < 1 or heads % self.gpus:
            raise InputError(f"gpus is {self.gpus}: must divide the {heads} KV heads")
        if self.gpus > self.gpu.all_reduce.most_gpus:
            raise InputError(f"gpus is {self.gpus}: at most {self.gpu.all_reduce.most_gpus}")
        arch, size = self.architecture, self.model.stored_bytes
        for tier, room in (("HBM", arch.hbm_bytes), ("HBF", arch.hbf_bytes)):
            if self.weights == tier.lower() and size >= self.gpus * room:
                raise InputError(
                    f"{self.model.name} has {size / 1e9:.1f} GB of weights: {tier} of {self.gpus} "
                    f"GPUs of {arch.name} has {self.gpus * room / 1e9:.1f} GB; use more GPUs"
                )
        if self.capacity_tokens[0] < 1:
            raise InputError(f"{arch.name}: HBM has no room for one token of KV")

    @cached_property
    def gpu(self) -> Gpu:
        return gpu_named(self.gpu_name)

    # Capacity -----------------------------------------------------------------------------------

    @property
    def kv_bytes(self) -> tuple[int, int, int, int]:
        """Bytes for KV in each tier."""
        arch, host = self.architecture, self.architecture.host
        hbm, hbf = self.gpus * arch.hbm_bytes, self.gpus * arch.hbf_bytes
        size = self.model.stored_bytes
        if self.weights == WeightTier.HBM:
            hbm -= size
        else:
            hbf -= size
        if host is None:
            return hbm, hbf, 0, 0
        dram, ssd = host.dram_channels * host.dram_channel_bytes, host.ssds * host.ssd_bytes
        return hbm, hbf, int(self.host_share * dram), int(self.host_share * ssd)

    @cached_property
    def capacity_tokens(self) -> tuple[int, int, int, int]:
        """Tokens of KV that fit into each tier."""
        size = self.model.kv_token_bytes
        hbm, hbf, dram, ssd = self.kv_bytes
        return hbm // size, hbf // size, dram // size, ssd // size

    # Rates --------------------------------------------------------------------------------------

    @cached_property
    def _hbm_bytes_per_s(self) -> float:
        return self.gpus * self.architecture.hbm_stacks * self.architecture.hbm_bytes_per_s

    @cached_property
    def _hbf_bytes_per_s(self) -> float:
        return self.gpus * self.architecture.hbf_stacks * self.architecture.hbf_bytes_per_s

    @cached_property
    def _flops_per_s(self) -> float:
        return self.gpus * self.gpu.peaks.bf16_flops_per_s

    # Steps --------------------------------------------------------------------------------------

    def gemm_s(self, rows: int, outputs: int) -> float:
        """GEMMs of a step of ``rows`` tokens, ``outputs`` of which give a token."""
        per_row, per_output, read_s, start_s = self._gemm
        return start_s + max(rows * per_row + outputs * per_output, read_s)

    @cached_property
    def _gemm(self) -> tuple[float, float, float, float]:
        model, gemm = self.model, self.gpu.gemm
        rate = self._flops_per_s * gemm.compute_efficiency
        in_hbm = self.weights == WeightTier.HBM
        read_s = model.read_bytes / gemm.memory_efficiency
        read_s /= self._hbm_bytes_per_s if in_hbm else self._hbf_bytes_per_s
        start_s = (_GEMMS * model.layers + 1) * gemm.start_s
        start_s += model.layers * self.gpu.layer_overhead_s
        if not in_hbm:
            start_s += model.layers * self.architecture.first_access_s
        return 2 * model.gemm_params / rate, 2 * model.head_params / rate, read_s, start_s

    def collectives_s(self, rows: int) -> float:
        """Two all-reduces a layer."""
        if self.gpus == 1:
            return 0.0
        fixed, per_row = self._collectives
        return fixed + rows * per_row

    @cached_property
    def _collectives(self) -> tuple[float, float]:
        reduce, layers = self.gpu.all_reduce, self.model.layers
        rate = reduce.efficiency * self.architecture.nvlink_bytes_per_s
        message = self.model.hidden * _ACTIVATION_BYTES
        traffic = 2 * (self.gpus - 1) / self.gpus * message
        return 2 * layers * reduce.alpha_s, 2 * layers * traffic / rate

    @cached_property
    def prefill_start_s(self) -> float:
        """Start-up of prefill attention in a step that has prompts."""
        return self.model.layers * self.gpu.prefill.start_s

    @cached_property
    def pair_s(self) -> float:
        """Prefill attention of one query-key pair."""
        return self.model.pair_flops / (self._flops_per_s * self.gpu.prefill.compute_efficiency)

    def decode_start_s(self, rows: int, reads_hbf: bool) -> float:
        """Start-up of decode attention, and its cost of each sequence."""
        if not rows:
            return 0.0
        fixed, per_row, first_access_s = self._decode
        return fixed + rows * per_row + (first_access_s if reads_hbf else 0.0)

    @cached_property
    def _decode(self) -> tuple[float, float, float]:
        model, decode = self.model, self.gpu.decode_gqa
        items = model.attention.kv_heads // self.gpus
        return (
            model.layers * decode.start_s,
            model.layers * items * decode.item_s,
            model.layers * self.architecture.first_access_s,
        )

    @cached_property
    def hbm_token_s(self) -> float:
        """Decode attention reads one token of KV in HBM."""
        rate = self._hbm_bytes_per_s * self.gpu.decode_gqa.memory_efficiency
        return self.model.kv_token_bytes / rate

    @cached_property
    def hbf_token_s(self) -> float:
        """Decode attention reads one token of KV in HBF; 0 without HBF."""
        rate = self._hbf_bytes_per_s * self.gpu.decode_gqa.memory_efficiency
        return self.model.kv_token_bytes / rate if rate else 0.0

    def decode_read_s(self, steps: int, rows: int, hbm_tokens: int, hbf_tokens: int) -> float:
        """KV reads of ``steps`` decode steps, each of which first adds ``rows`` tokens in HBM."""
        a, b = self.hbm_token_s, self.hbf_token_s * hbf_tokens
        grown = steps * hbm_tokens + rows * (steps * (steps + 1) // 2)
        if not hbf_tokens or self.architecture.composition is Composition.SUM:
            return a * grown + steps * b
        # HBM grows, HBF does not: the first ``even`` steps wait for HBF.
        even = steps if not rows else int((b / a - hbm_tokens) // rows)
        if not rows and a * hbm_tokens > b:
            even = 0
        even = min(max(even, 0), steps)
        before = even * hbm_tokens + rows * (even * (even + 1) // 2)
        return even * b + a * (grown - before)

    # Movement -----------------------------------------------------------------------------------

    def movement_s(self, moved: "Moved") -> float:
        """Movements of a step: those over different links and devices run beside each other."""
        arch, host, size = self.architecture, self.architecture.host, self.model.kv_token_bytes
        times = [0.0]
        if moved.to_hbf:
            times.append(moved.to_hbf / (self.gpus * arch.hbf_stacks * arch.hbf_write_bytes_per_s))
        if host is not None:
            pcie = self.gpus * host.pcie_bytes_per_s
            times += [moved.from_host / pcie, moved.to_host / pcie]
            if moved.dram:
                dram = host.dram_channels * host.dram_channel_bytes_per_s
                times.append(moved.dram / (self.host_share * dram))
            if moved.ssd:
                times.append(moved.ssd / (self.host_share * host.ssds * host.ssd_bytes_per_s))
        return size * max(times)


@dataclass(frozen=True)
class Moved:
    """Tokens that a step moves: into HBF, over PCIe each way, and in or out of DRAM and SSD."""

    to_hbf: int
    from_host: int
    to_host: int
    dram: int
    ssd: int
