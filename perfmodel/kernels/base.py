"""The constants that serving runs on by default, as a source of kernel times."""

from dataclasses import dataclass

import numpy as np

from hw.errors import InputError
from perfmodel.gpu import STAND_IN, Gpu, Roofline
from perfmodel.kernels.answer import KernelTime
from perfmodel.kernels.queries import Collective, Kernel


@dataclass(frozen=True)
class BaseSource:
    """The constants of one GPU.

    All arithmetic is held against the BF16 peak, and rows are counted as they are, without whole
    tiles.
    """

    gpu: Gpu
    label: str = "base"
    proportional: bool = True

    @property
    def provenance(self) -> str:
        return self.gpu.provenance

    def time(self, kernel: Kernel) -> KernelTime:
        seconds, start_s, busy_s = self._times(kernel)
        return KernelTime(
            seconds=seconds,
            start_s=start_s,
            busy_s=busy_s,
            source=self.label,
            status="assumed" if self.gpu.name in STAND_IN else "fitted",
            provenance=self._provenance(kernel),
            distance_octaves=None,
        )

    def _times(self, kernel: Kernel) -> tuple[float, float, float]:
        """The whole, and its two parts."""
        if isinstance(kernel, Collective):
            reduce = self.gpu.all_reduce
            if kernel.op != "all_reduce" or not 2 <= kernel.gpus <= reduce.most_gpus:
                raise InputError(
                    f"{kernel}: source base has all_reduce on 2 to {reduce.most_gpus} GPUs alone"
                )
            seconds = reduce.seconds(kernel.gpus, kernel.message_bytes)
            return seconds, 0.0, seconds
        roofline, peaks = self._rooflines[kernel.NAME], self.gpu.peaks
        compute_s = kernel.row_flops / peaks.bf16_flops_per_s
        transfer_s = kernel.data_bytes / peaks.memory_bytes_per_s
        load = np.array([[compute_s, transfer_s, kernel.items]])
        return float(roofline.seconds(load)[0]), *roofline.parts(compute_s, kernel.items)

    @property
    def _rooflines(self) -> dict[str, Roofline]:
        gpu = self.gpu
        return {
            "gemm": gpu.gemm,
            "moe": gpu.expert,
            "gqa_decode": gpu.decode_gqa,
            "gqa_prefill": gpu.prefill,
            "mla_decode": gpu.decode_mla,
            "mla_prefill": gpu.prefill,
        }

    def _provenance(self, kernel: Kernel) -> str:
        if isinstance(kernel, Collective):
            return self.gpu.all_reduce.provenance
        return self.gpu.provenance
