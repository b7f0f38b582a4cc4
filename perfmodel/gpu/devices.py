"""The GPUs by name.

``h100-pcie`` is the GPU of the DASH paper. No public kernel measurements of it exist, so its
efficiencies are stated assumptions. The others carry fits to the measured tables of
ai-dynamo/aiconfigurator (commit 095f58a, Apache-2.0): GEMM, prefill and grouped-query decode from
vLLM 0.24, latent attention and experts (Qwen3-235B, BF16, balanced) from TensorRT-LLM, all-reduce
from vLLM's kernel in a CUDA graph on eight GPUs.
"""

from hw.errors import InputError
from perfmodel.gpu.gpu import AllReduce, Gpu
from perfmodel.gpu.roofline import Roofline

_FITTED = "fits to aiconfigurator 095f58a tables (vLLM 0.24, TensorRT-LLM)"
_NVLINK = "NVLink; fit to vLLM's all-reduce on eight GPUs, aiconfigurator 095f58a"
_SMALL_KERNELS_S = 6e-6  # assumed

GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu(
            name="h100-pcie",
            gemm=Roofline(compute_efficiency=0.60),
            expert=Roofline(compute_efficiency=0.50),
            prefill=Roofline(compute_efficiency=0.40),
            decode_gqa=Roofline(compute_efficiency=0.40),
            decode_mla=Roofline(compute_efficiency=0.40),
            all_reduce=AllReduce(
                alpha_s=18.0e-6,
                efficiency=0.851,
                link_bytes_per_s=((2, 300e9), (8, 63e9)),
                provenance="assumed: two GPUs on an NVLink bridge (300 GB/s one way), more on "
                "PCIe 5.0 x16 (63 GB/s); latency and efficiency of NCCL on H100 SXM",
            ),
            layer_overhead_s=_SMALL_KERNELS_S,
            provenance="assumed: 0.60 GEMM, 0.50 experts, 0.40 attention of 756 TFLOP/s",
        ),
        Gpu(
            name="h100-sxm",
            gemm=Roofline(compute_efficiency=0.811, memory_efficiency=0.876, start_s=4.0e-6),
            expert=Roofline(
                compute_efficiency=0.351, memory_efficiency=0.908, start_s=29.4e-6, item_s=231e-9
            ),
            prefill=Roofline(compute_efficiency=0.655, start_s=12.9e-6),
            decode_gqa=Roofline(
                compute_efficiency=0.213, memory_efficiency=0.933, start_s=11.5e-6, item_s=23.6e-9
            ),
            decode_mla=Roofline(
                compute_efficiency=0.589, memory_efficiency=0.915, start_s=13.4e-6, item_s=30.4e-9
            ),
            all_reduce=AllReduce(
                alpha_s=5.4e-6, efficiency=0.757, link_bytes_per_s=((8, 450e9),), provenance=_NVLINK
            ),
            layer_overhead_s=_SMALL_KERNELS_S,
            provenance=_FITTED,
        ),
        Gpu(
            name="h200",
            gemm=Roofline(compute_efficiency=0.802, memory_efficiency=0.837, start_s=4.4e-6),
            expert=Roofline(
                compute_efficiency=0.357, memory_efficiency=0.953, start_s=30.0e-6, item_s=325e-9
            ),
            prefill=Roofline(compute_efficiency=0.645, start_s=12.8e-6),
            decode_gqa=Roofline(
                compute_efficiency=0.319, memory_efficiency=0.899, start_s=11.4e-6, item_s=24.4e-9
            ),
            decode_mla=Roofline(
                compute_efficiency=0.620, memory_efficiency=0.908, start_s=13.6e-6, item_s=34.2e-9
            ),
            all_reduce=AllReduce(
                alpha_s=5.1e-6, efficiency=0.812, link_bytes_per_s=((8, 450e9),), provenance=_NVLINK
            ),
            layer_overhead_s=_SMALL_KERNELS_S,
            provenance=_FITTED,
        ),
        Gpu(
            name="b200",
            gemm=Roofline(compute_efficiency=0.707, memory_efficiency=0.815, start_s=4.1e-6),
            expert=Roofline(
                compute_efficiency=0.247, memory_efficiency=0.885, start_s=27.7e-6, item_s=275e-9
            ),
            prefill=Roofline(compute_efficiency=0.55, start_s=11.6e-6),
            decode_gqa=Roofline(
                compute_efficiency=0.523, memory_efficiency=0.949, start_s=8.9e-6, item_s=10.0e-9
            ),
            # Over all sizes the compute term is not determined; this is the fit over 32 MB of KV
            # and more.
            decode_mla=Roofline(
                compute_efficiency=0.598, memory_efficiency=0.727, start_s=10.6e-6, item_s=24.3e-9
            ),
            all_reduce=AllReduce(
                alpha_s=8.1e-6, efficiency=0.608, link_bytes_per_s=((8, 900e9),), provenance=_NVLINK
            ),
            layer_overhead_s=_SMALL_KERNELS_S,
            provenance=_FITTED,
        ),
    )
}
DEFAULT_GPU = "h100-pcie"
# No public measurements exist of the card on the left: it is taken to be as efficient as the other.
STAND_IN = {"h100-pcie": "h100-sxm"}


def gpu_named(name: str) -> Gpu:
    """The GPU of that name.

    Raises:
        InputError: there is no such GPU.
    """
    try:
        return GPUS[name.lower()]
    except KeyError:
        raise InputError(f"gpu {name!r} is unknown: choose {', '.join(GPUS)}") from None
