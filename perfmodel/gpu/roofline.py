"""GPU kernel time: ``t = t0 + items * per_item + max(flops / (ec * peak), bytes / (em * bw))``.

Weights and KV do not come from the GPU's own memory here: their time is the delivery of the
memory model, and a stage takes the longer of the two. Kernel times are then asked with no bytes.
"""

from dataclasses import dataclass

SOURCE = "roofline"


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Fitted cost of one kernel class; efficiencies are fractions of the GPU's peaks."""

    compute_efficiency: float
    memory_efficiency: float = 1.0
    start_s: float = 0.0
    item_s: float = 0.0  # for each independent work item: an expert, or a sequence and KV head


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
    """One GPU: its peaks, the fits of its kernels, and where they come from."""

    name: str
    peak_flops_per_s: float  # dense BF16; all arithmetic is counted at this rate
    memory_bytes_per_s: float
    gemm: Kernel
    expert: Kernel
    prefill: Kernel
    decode_gqa: Kernel
    decode_mla: Kernel
    all_reduce: AllReduce
    layer_overhead_s: float
    provenance: str

    def compute_s(self, kernel: Kernel, flops: float) -> float:
        """Arithmetic alone, without start-up."""
        return flops / (kernel.compute_efficiency * self.peak_flops_per_s)

    def seconds(self, kernel: Kernel, flops: float, data_bytes: float, items: float = 0) -> float:
        """The whole roofline, with operands in the GPU's own memory."""
        transfer_s = data_bytes / (kernel.memory_efficiency * self.memory_bytes_per_s)
        return (
            kernel.start_s + kernel.item_s * items + max(self.compute_s(kernel, flops), transfer_s)
        )
