"""What the serving model knows of one GPU: a roofline for each kernel, and its links to others.

Weights and KV do not come from the GPU's own memory in serving: their time is the delivery of the
memory model, and a stage takes the longer of arithmetic and delivery.
"""

from dataclasses import dataclass

from perfmodel.gpu.peaks import Peaks, peaks_of
from perfmodel.gpu.roofline import Roofline


@dataclass(frozen=True, kw_only=True)
class AllReduce:
    """Ring all-reduce: ``alpha + 2 (n - 1) / n * bytes / (efficiency * link)``."""

    alpha_s: float
    efficiency: float
    link_bytes_per_s: tuple[tuple[int, float], ...]  # (up to this many GPUs, one-way rate)
    provenance: str

    def seconds(self, gpus: int, message_bytes: float) -> float:
        """Time of one all-reduce; zero on a single GPU."""
        if gpus == 1:
            return 0.0
        rate = next(rate for limit, rate in self.link_bytes_per_s if gpus <= limit)
        return self.alpha_s + 2 * (gpus - 1) / gpus * message_bytes / (self.efficiency * rate)

    @property
    def most_gpus(self) -> int:
        return self.link_bytes_per_s[-1][0]


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """The constants of one GPU, and where they come from.

    Attributes:
        gemm, expert, prefill, decode_gqa, decode_mla: all arithmetic against the BF16 peak.
        layer_overhead_s: norms, rotary embedding, routing: serial in every layer.
    """

    name: str
    gemm: Roofline
    expert: Roofline
    prefill: Roofline
    decode_gqa: Roofline
    decode_mla: Roofline
    all_reduce: AllReduce
    layer_overhead_s: float
    provenance: str

    @property
    def peaks(self) -> Peaks:
        return peaks_of(self.name)
