"""Bytes by path, counted once where they move."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Whole bytes moved in one or more packages.

    Attributes:
        direct: HBF to GPU over link A.
        relay: HBF through the HBM base die to the GPU; no DRAM access.
        hbm_local: HBM to GPU.
        hbf_write: prefill KV, GPU to HBF.
        hbm_write: decode KV, GPU to HBM.
        writeback: decode KV that left a full HBM for HBF.
    """

    direct: int = 0
    relay: int = 0
    hbm_local: int = 0
    hbf_write: int = 0
    hbm_write: int = 0
    writeback: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            direct=self.direct + other.direct,
            relay=self.relay + other.relay,
            hbm_local=self.hbm_local + other.hbm_local,
            hbf_write=self.hbf_write + other.hbf_write,
            hbm_write=self.hbm_write + other.hbm_write,
            writeback=self.writeback + other.writeback,
        )

    def __mul__(self, times: int) -> "Traffic":
        return Traffic(
            direct=self.direct * times,
            relay=self.relay * times,
            hbm_local=self.hbm_local * times,
            hbf_write=self.hbf_write * times,
            hbm_write=self.hbm_write * times,
            writeback=self.writeback * times,
        )

    @property
    def hbf_read(self) -> int:
        return self.direct + self.relay

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Per path, and per tier; a writeback is read from HBM and written to HBF."""
        return {
            "paths": {
                "direct": self.direct,
                "relay": self.relay,
                "hbm_local": self.hbm_local,
                "hbf_write": self.hbf_write,
                "hbm_write": self.hbm_write,
                "writeback": self.writeback,
            },
            "tiers": {
                "hbf_read": self.hbf_read,
                "hbf_written": self.hbf_write + self.writeback,
                "hbm_read": self.hbm_local + self.writeback,
                "hbm_written": self.hbm_write,
            },
        }
