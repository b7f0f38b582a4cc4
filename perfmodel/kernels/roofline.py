"""A roofline with a floor, a cost for each work item, and a soft corner.

    t = t0 + items * item + ((flops / (ec * peak))^q + (bytes / (em * rate))^q)^(1/q)

``q`` says how well arithmetic and transfer overlap: 1 adds them, and a large one takes the longer.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.kernels.peaks import Peaks
from perfmodel.kernels.queries import Kernel

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """Parameters of one kernel on one GPU."""

    start_s: float
    item_s: float
    compute_efficiency: float
    memory_efficiency: float
    sharpness: float

    def seconds(self, loads: Floats) -> Floats:
        """Times of calls, from their ``loads``."""
        compute = loads[:, 0] / self.compute_efficiency
        transfer = loads[:, 1] / self.memory_efficiency
        longer = np.maximum(compute, transfer)
        ratio = np.minimum(compute, transfer) / longer  # keeps the powers in range
        corner = longer * (1 + ratio**self.sharpness) ** (1 / self.sharpness)
        total: Floats = self.start_s + self.item_s * loads[:, 2] + corner
        return total


def loads(kernels: list[Kernel], peaks: Peaks) -> Floats:
    """For each call: seconds of arithmetic and of transfer at the peaks, and work items."""
    return np.array(
        [
            (
                kernel.flops / peaks.flops_per_s(kernel.arithmetic),
                kernel.data_bytes
                / (
                    peaks.link_bytes_per_s
                    if kernel.NAME == "collective"
                    else peaks.memory_bytes_per_s
                ),
                kernel.items,
            )
            for kernel in kernels
        ]
    )
