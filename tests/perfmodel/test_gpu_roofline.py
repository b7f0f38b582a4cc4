"""The roofline and its constants against hand arithmetic."""

import numpy as np
import pytest

from hw.errors import InputError
from perfmodel.gpu import GPUS, PEAKS, Roofline, gpu_named


def seconds(gpu, roofline, flops, data_bytes, items=0):
    peaks = gpu.peaks
    load = [flops / peaks.bf16_flops_per_s, data_bytes / peaks.memory_bytes_per_s, items]
    return float(roofline.seconds(np.array([load]))[0])


def test_compute_bound_and_memory_bound_gemm():
    gpu = gpu_named("h100-sxm")
    # 8192 x 8192 weights, 4096 rows: 2 * 4096 * 8192**2 operations at 0.811 of 989 TFLOP/s.
    assert seconds(gpu, gpu.gemm, 2 * 4096 * 8192**2, 2 * 8192**2) == pytest.approx(
        4.0e-6 + 549_755_813_888 / (0.811 * 989e12)
    )
    # One row: 134 MB at 0.876 of 3.35 TB/s.
    assert seconds(gpu, gpu.gemm, 2 * 8192**2, 2 * 8192**2) == pytest.approx(
        4.0e-6 + 134_217_728 / (0.876 * 3.35e12)
    )


def test_work_items_add_up():
    gpu = gpu_named("b200")
    few, many = (seconds(gpu, gpu.decode_gqa, 1e9, 1e6, items) for items in (0, 256))
    assert many - few == pytest.approx(256 * 10.0e-9)


def test_corners():
    """The longer of two, both added, and what lies between; a tie is no special case."""
    load = np.array([[4e-6, 4e-6, 0], [2e-6, 8e-6, 0]])
    longer, added, soft = (
        Roofline(compute_efficiency=0.5, sharpness=q).seconds(load) for q in (np.inf, 1, 2)
    )
    assert longer == pytest.approx([8e-6, 8e-6])
    assert added == pytest.approx([12e-6, 12e-6])
    assert soft == pytest.approx([80**0.5 * 1e-6, 80**0.5 * 1e-6])


def test_parts_leave_transfer_to_the_memory():
    roofline = Roofline(compute_efficiency=0.25, start_s=3e-6, item_s=1e-9)
    assert roofline.parts(2e-6, 500) == pytest.approx((3.5e-6, 8e-6))


def test_default_is_the_gpu_of_the_paper_with_stated_efficiencies():
    gpu = gpu_named("h100-pcie")
    assert gpu.peaks.bf16_flops_per_s == 756e12
    kernels = gpu.gemm, gpu.expert, gpu.prefill, gpu.decode_gqa, gpu.decode_mla
    assert [k.compute_efficiency for k in kernels] == [0.60, 0.50, 0.40, 0.40, 0.40]
    assert all(k.start_s == k.item_s == 0 for k in kernels)
    assert gpu.layer_overhead_s == 6e-6


def test_all_reduce():
    reduce = gpu_named("h200").all_reduce
    assert reduce.seconds(1, 1e6) == 0
    # Eight GPUs: 2 * 7/8 of the message over 0.812 of 450 GB/s.
    assert reduce.seconds(8, 1e6) == pytest.approx(5.1e-6 + 1.75e6 / (0.812 * 450e9))
    bridge = gpu_named("h100-pcie").all_reduce
    assert bridge.seconds(2, 1e6) == pytest.approx(18e-6 + 1e6 / (0.851 * 300e9))
    assert bridge.seconds(4, 1e6) == pytest.approx(18e-6 + 1.5e6 / (0.851 * 63e9))


def test_every_efficiency_is_physical():
    assert set(GPUS) == set(PEAKS)
    for gpu in GPUS.values():
        for kernel in (gpu.gemm, gpu.expert, gpu.prefill, gpu.decode_gqa, gpu.decode_mla):
            assert 0 < kernel.compute_efficiency <= 1
            assert 0 < kernel.memory_efficiency <= 1


def test_unknown_gpu():
    with pytest.raises(InputError, match="gpu 'v100' is unknown: choose h100-pcie, h100-sxm"):
        gpu_named("v100")
