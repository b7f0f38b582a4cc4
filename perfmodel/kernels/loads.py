"""Loads of calls: what a roofline is asked with."""

import numpy as np

from perfmodel.gpu import Floats, Peaks
from perfmodel.kernels.queries import Kernel


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
