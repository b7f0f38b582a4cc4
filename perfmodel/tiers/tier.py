"""The four memories in which KV may be, fastest first."""

import enum


class Tier(enum.IntEnum):
    """A memory; lower numbers are closer to the GPU."""

    HBM = 0
    HBF = 1
    DRAM = 2
    SSD = 3

    @property
    def on_device(self) -> bool:
        """Whether attention can read it in place."""
        return self <= Tier.HBF


NOWHERE = 4  # source of tokens that are computed, destination of tokens that are discarded
