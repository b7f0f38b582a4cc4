"""Every answer says what it rests on, and none comes silently from outside measurements."""

import dataclasses

import pytest

from hw.errors import InputError
from perfmodel.gpu import GPUS
from perfmodel.kernels import (
    Collective,
    Gemm,
    GqaDecode,
    MlaDecode,
    MlaPrefill,
    Moe,
    OutsideMeasured,
    kernel_source,
)  # fmt: skip
from perfmodel.kernels.fits import Errors, Fit, Fits, Parameters
from perfmodel.kernels.profile_csv import write_profile_file

GEMM = Gemm(dtype="bf16", m=64, n=8192, k=8192)
ERRORS = Errors(points=5, quantiles_pct=[float(q) for q in range(21)])


def fit(gpu, **changes):
    values = {
        "gpu": gpu,
        "kernel": "gemm",
        "labels": ["bf16"],
        "source": f"measured on {gpu}",
        "parameters": Parameters(
            start_s=4e-6, item_s=0, compute_efficiency=0.8, memory_efficiency=0.8, sharpness=1
        ),
        "fitted_points": 10,
        "ranges": {"m": (1, 1024), "n": (512, 8192), "k": (512, 8192), "weight_bytes": (1, 1e9)},
        "held_out": ERRORS,
        "one_axis": None,
        "all_axes": None,
    }
    return Fit(**values | changes)


FITS = Fits(schema="pagewave.kernel-fits/1", fits=[fit("h200"), fit("h100-sxm")])


def test_base_is_the_serving_model_s_own():
    answer = kernel_source("base", gpu="h100-pcie").time(GEMM)
    # 8.6 GFLOP at 0.6 of 756 TFLOP/s against 134 MB and 2 MB at 2 TB/s.
    assert answer.seconds == pytest.approx((2 * 8192**2 + 2 * 2 * 64 * 8192) / 2e12)
    assert (answer.source, answer.status) == ("base", "assumed")
    assert answer.provenance == GPUS["h100-pcie"].provenance
    assert answer.distance_octaves is answer.median_error_pct is None
    assert kernel_source("base", gpu="h200").time(GEMM).status == "fitted"


def test_base_has_every_kernel():
    gpu = GPUS["h100-sxm"]
    source = kernel_source("base", gpu="h100-sxm")
    heads = {"kv_dtype": "bf16", "heads": 16, "batch": 2}
    moe = Moe(dtype="bf16", distribution="balanced", hidden=4096, inner=1536, top_k=8,
              experts=128, tp=1, ep=1, tokens=4)  # fmt: skip
    decode = GqaDecode(kv_dtype="bf16", q_heads=8, kv_heads=2, head_dim=128, batch=3, kv_len=4096)
    for call, kernel in (
        (moe, gpu.expert),
        (decode, gpu.decode_gqa),
        (MlaDecode(**heads, kv_len=100), gpu.decode_mla),
        (MlaPrefill(**heads, length=100), gpu.prefill),
    ):
        expected = gpu.seconds(kernel, call.flops, call.data_bytes, call.items)
        assert source.time(call).seconds == expected
    reduce = Collective(op="all_reduce", gpus=4, message_bytes=1 << 20)
    assert source.time(reduce).seconds == gpu.all_reduce.seconds(4, 1 << 20)
    with pytest.raises(InputError, match="source base has all_reduce on 2 to 8 GPUs alone"):
        source.time(Collective(op="alltoall", gpus=4, message_bytes=1))


def test_fitted_inside_and_outside_its_range():
    source = kernel_source("fitted", gpu="h200", fits=FITS)
    inside = source.time(GEMM)
    flops_s = 2 * 64 * 8192**2 / (0.8 * 989e12)
    bytes_s = (2 * 8192**2 + 4 * 64 * 8192) / (0.8 * 4.8e12)
    assert inside.seconds == pytest.approx(4e-6 + flops_s + bytes_s)  # sharpness 1 adds
    assert (inside.source, inside.status, inside.distance_octaves) == ("fitted", "fitted", 0)
    assert (inside.median_error_pct, inside.p90_error_pct) == (10, 18)
    outside = source.time(Gemm(dtype="bf16", m=4096, n=8192, k=256))
    assert (outside.status, outside.distance_octaves) == ("extrapolated", 2)  # m by 2, k by 1
    assert outside.median_error_pct is None


def test_a_card_that_was_never_measured_is_assumed():
    answer = kernel_source("fitted", gpu="h100-pcie", fits=FITS).time(GEMM)
    bytes_s = (2 * 8192**2 + 4 * 64 * 8192) / (0.8 * 2.0e12)
    assert answer.seconds == pytest.approx(4e-6 + 2 * 64 * 8192**2 / (0.8 * 756e12) + bytes_s)
    assert answer.status == "assumed"
    assert "as efficient at its peaks as h100-sxm: measured on h100-sxm" in answer.provenance
    assert answer.distance_octaves is answer.median_error_pct is None


def test_own_measurements_of_that_card_take_the_place_of_the_assumption():
    fits = Fits(schema="pagewave.kernel-fits/1", fits=[fit("h100-sxm"), fit("h100-pcie")])
    answer = kernel_source("fitted", gpu="h100-pcie", fits=fits).time(GEMM)
    assert answer.status == "fitted"
    assert answer.provenance == "roofline fitted to measured on h100-pcie"


def test_no_fit():
    with pytest.raises(InputError, match="no roofline is fitted to gemm fp8 on gpu 'h200'"):
        kernel_source("fitted", gpu="h200", fits=FITS).time(Gemm(dtype="fp8", m=1, n=1, k=1))


@pytest.fixture
def h200_folder(gemm_file, tmp_path):
    write_profile_file(tmp_path / "h200" / "gemm.csv", dataclasses.replace(gemm_file, gpu="h200"))
    return str(tmp_path / "h200")


def test_table_measured_and_interpolated(h200_folder, power_us):
    source = kernel_source(h200_folder, fits=FITS)
    point = Gemm(dtype="bf16", m=4, n=1024, k=1024)
    at = source.time(point)
    assert at.seconds == pytest.approx(1e-6 * power_us(point), rel=1e-5)
    assert (at.source, at.status, at.distance_octaves) == ("table", "measured", 0)
    assert at.provenance == "made up"
    between = source.time(Gemm(dtype="bf16", m=5, n=1024, k=1024))
    assert between.status == "interpolated" and 0 < between.distance_octaves < 1


def test_table_tells_the_errors_of_its_kind(h200_folder):
    call = Gemm(dtype="bf16", m=5, n=1024, k=1024)
    for changes, expected in (
        ({"one_axis": ERRORS}, (10, 18)),
        ({"one_axis": ERRORS, "all_axes": Errors(points=1, quantiles_pct=[3.0] * 21)}, (3, 3)),
        ({}, (None, None)),
    ):
        fits = Fits(schema="pagewave.kernel-fits/1", fits=[fit("h200", **changes)])
        answer = kernel_source(h200_folder, fits=fits).time(call)
        assert (answer.median_error_pct, answer.p90_error_pct) == expected


def test_outside_a_table_is_refused_or_marked(h200_folder):
    far = Gemm(dtype="bf16", m=512, n=1024, k=1024)
    with pytest.raises(OutsideMeasured, match="m is 512: measured from 1 to 16"):
        kernel_source(h200_folder, fits=FITS).time(far)
    marked = kernel_source(h200_folder, fits=FITS, outside="roofline").time(far)
    fitted = kernel_source("fitted", gpu="h200", fits=FITS).time(far)
    assert marked.seconds == fitted.seconds
    assert fitted.status == "fitted" and marked.status == "extrapolated"
    assert "the table does not reach: gemm dtype=bf16 m=512" in marked.provenance


def test_a_profile_of_an_unknown_gpu_works_without_rooflines(profile_folder, power_us):
    source = kernel_source(str(profile_folder), fits=FITS)
    call = Gemm(dtype="bf16", m=3, n=700, k=300)
    assert source.time(call).seconds == pytest.approx(1e-6 * power_us(call), rel=1e-5)
    assert source.time(call).median_error_pct is None
    with pytest.raises(InputError, match="gpu is 'abacus': outside the profile only h100-pcie"):
        kernel_source(str(profile_folder), fits=FITS, outside="roofline")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("guess", {}, "source 'guess' is unknown: choose base, fitted, or give the path"),
        ("base", {}, "gpu is missing: source base needs one of h100-pcie"),
        ("fitted", {"gpu": "v100"}, "gpu 'v100' is unknown"),
        ("base", {"gpu": "v100"}, "gpu 'v100' is unknown"),
        ("base", {"gpu": "h200", "outside": "roofline"}, "goes with a profile, not with base"),
        ("base", {"gpu": "h200", "outside": "guess"}, "outside is 'guess': must be error or roof"),
    ],
)
def test_refused(source, options, message):
    with pytest.raises(InputError, match=message):
        kernel_source(source, fits=FITS, **options)


def test_a_profile_of_another_gpu_is_refused(h200_folder):
    with pytest.raises(InputError, match=r"gpu is 'b200': .* was measured on 'h200'"):
        kernel_source(h200_folder, gpu="b200", fits=FITS)
