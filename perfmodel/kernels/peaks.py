"""Published peaks of the GPUs, against which efficiencies are fractions."""

from dataclasses import dataclass

from hw.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Dense arithmetic, memory, and the links to other GPUs (one way)."""

    bf16_flops_per_s: float
    fp8_flops_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    source: str

    def flops_per_s(self, arithmetic: str) -> float:
        return self.fp8_flops_per_s if arithmetic == "fp8" else self.bf16_flops_per_s


PEAKS = {
    "h100-pcie": Peaks(
        bf16_flops_per_s=756e12,
        fp8_flops_per_s=1513e12,
        memory_bytes_per_s=2.0e12,
        link_bytes_per_s=300e9,
        source="NVIDIA H100 Tensor Core GPU Architecture, tables 1 and 3; NVLink bridge",
    ),
    "h100-sxm": Peaks(
        bf16_flops_per_s=989e12,
        fp8_flops_per_s=1979e12,
        memory_bytes_per_s=3.35e12,
        link_bytes_per_s=450e9,
        source="NVIDIA H100 Tensor Core GPU datasheet",
    ),
    "h200": Peaks(
        bf16_flops_per_s=989e12,
        fp8_flops_per_s=1979e12,
        memory_bytes_per_s=4.8e12,
        link_bytes_per_s=450e9,
        source="NVIDIA H200 Tensor Core GPU datasheet",
    ),
    "b200": Peaks(
        bf16_flops_per_s=2250e12,
        fp8_flops_per_s=4500e12,
        memory_bytes_per_s=7.7e12,
        link_bytes_per_s=900e9,
        source="NVIDIA Blackwell datasheet, B200 in DGX and HGX",
    ),
}


def peaks_of(gpu: str) -> Peaks:
    """The peaks of a GPU.

    Raises:
        InputError: the GPU is not among them.
    """
    try:
        return PEAKS[gpu]
    except KeyError:
        raise InputError(f"gpu {gpu!r} is unknown: choose {', '.join(PEAKS)}") from None
