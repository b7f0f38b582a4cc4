"""A roofline with a floor, a cost for each work item, and a soft corner.

    t = t0 + items * item + ((flops / (ec * peak))^q + (bytes / (em * rate))^q)^(1/q)

``q`` says how well arithmetic and transfer overlap: 1 adds them, and a large one takes the longer.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """Parameters of one kernel on one GPU; efficiencies are fractions of its peaks."""

    compute_efficiency: float
    memory_efficiency: float = 1.0
    start_s: float = 0.0
    item_s: float = 0.0  # for each independent work item: an expert, or a sequence and KV head
    sharpness: float = math.inf

    def seconds(self, loads: Floats) -> Floats:
        """Times of calls; ``loads`` has a row for each: seconds of arithmetic and of transfer at
        the peaks, and work items.
        """
        compute = loads[:, 0] / self.compute_efficiency
        transfer = loads[:, 1] / self.memory_efficiency
        longer = np.maximum(compute, transfer)
        ratio = np.minimum(compute, transfer) / longer  # keeps the powers in range
        corner = longer * (1 + ratio**self.sharpness) ** (1 / self.sharpness)
        total: Floats = self.start_s + self.item_s * loads[:, 2] + corner
        return total

    def parts(self, compute_s: float, items: float) -> tuple[float, float]:
        """A call whose operands come from elsewhere: what passes before, and the arithmetic.

        ``compute_s`` are seconds of arithmetic at the peak.
        """
        return self.start_s + self.item_s * items, compute_s / self.compute_efficiency
