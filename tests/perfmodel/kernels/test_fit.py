"""Fits recover the parameters that made the data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.errors import InputError
from perfmodel.kernels import Collective, Gemm, GqaDecode, Moe
from perfmodel.kernels.fit import fit_roofline, relative_errors
from perfmodel.kernels.peaks import peaks_of
from perfmodel.kernels.profile_csv import Measurement, ProfileFile
from perfmodel.kernels.refit import refit
from perfmodel.kernels.roofline import Roofline, loads

H200 = peaks_of("h200")
DECODES = [
    GqaDecode(kv_dtype="bf16", q_heads=q, kv_heads=h, head_dim=128, batch=b, kv_len=length)
    for q in (16, 128)  # few queries to a KV head wait for memory, many for arithmetic
    for h in (1, 4, 8)
    for b in (1, 8, 64, 256)
    for length in (16, 256, 4096, 65536)
]


def gemms(sizes=(512, 2048, 8192)):
    return [
        Gemm(dtype="bf16", m=m, n=n, k=k)
        for m in (1, 8, 64, 512, 4096)
        for n in sizes
        for k in sizes
    ]


def test_roofline_by_hand():
    roofline = Roofline(
        start_s=5e-6, item_s=2e-9, compute_efficiency=0.5, memory_efficiency=0.8, sharpness=1.0
    )
    call = DECODES[0]
    bytes_s = call.data_bytes / (0.8 * 4.8e12)
    flops_s = call.flops / (0.5 * 989e12)
    expected = 5e-6 + 2e-9 + bytes_s + flops_s  # one item; sharpness 1 adds
    assert roofline.seconds(loads([call], H200))[0] == pytest.approx(expected)


def test_a_sharp_corner_takes_the_longer():
    loaded = np.array([[3e-6, 1e-6, 0.0], [1e-6, 3e-6, 0.0]])
    roofline = Roofline(
        start_s=0.0, item_s=0.0, compute_efficiency=1.0, memory_efficiency=1.0, sharpness=16.0
    )
    assert roofline.seconds(loaded) == pytest.approx(3e-6, rel=1e-6)


@settings(max_examples=15)
@given(
    st.floats(2e-6, 30e-6),
    st.floats(2e-9, 50e-9),
    st.floats(0.3, 0.95),
    st.floats(0.3, 0.95),
    st.floats(1.0, 6.0),
)
def test_parameters_are_recovered(start, item, compute, memory, sharpness):
    made = Roofline(
        start_s=start, item_s=item, compute_efficiency=compute, memory_efficiency=memory,
        sharpness=sharpness,
    )  # fmt: skip
    calls = loads(DECODES, H200)
    seconds = made.seconds(calls)
    found = fit_roofline(calls, seconds)
    assert np.abs(relative_errors(found, calls, seconds)).mean() < 0.5
    assert found.start_s == pytest.approx(start, rel=0.02)
    assert found.memory_efficiency == pytest.approx(memory, rel=0.05)


def test_outliers_do_not_pull():
    made = Roofline(
        start_s=5e-6, item_s=0.0, compute_efficiency=0.7, memory_efficiency=0.8, sharpness=4.0
    )
    calls = loads(gemms(), H200)
    seconds = made.seconds(calls)
    seconds[::10] *= 3
    found = fit_roofline(calls, seconds)
    assert np.median(np.abs(relative_errors(found, calls, made.seconds(calls)))) < 2


def test_what_no_call_depends_on_stays_neutral():
    calls = loads([Collective(op="all_reduce", gpus=8, message_bytes=1 << k) for k in range(30)],
                  H200)  # fmt: skip
    found = fit_roofline(calls, 7e-6 + calls[:, 1] / 0.75)
    assert found.compute_efficiency == 1.0
    assert found.memory_efficiency == pytest.approx(0.75, rel=1e-3)
    made = Roofline(
        start_s=5e-6, item_s=0.0, compute_efficiency=0.7, memory_efficiency=0.8, sharpness=4.0
    )
    assert fit_roofline(loads(gemms(), H200), made.seconds(loads(gemms(), H200))).item_s == 0.0


def file_of(kernel, calls, roofline, gpu="h200"):
    seconds = roofline.seconds(loads(calls, H200))
    rows = tuple(Measurement(c, 1e6 * float(s)) for c, s in zip(calls, seconds, strict=True))
    return ProfileFile(kernel=kernel, gpu=gpu, source="made up", rows=rows)


MADE = Roofline(
    start_s=5e-6, item_s=0.0, compute_efficiency=0.7, memory_efficiency=0.8, sharpness=4.0
)


def test_refit_leaves_shapes_out_and_tells_its_range():
    sizes = (512, 2048, 4096, 8192)
    said = []
    fits = refit([file_of(Gemm, gemms(sizes), MADE)], said.append)
    (fit,) = fits.fits
    # Weights of 16 MB and more: 2048 x 4096 and larger, 2 * 3 + 2 + ... shapes of 16 with 5 rows.
    large = [(n, k) for n in sizes for k in sizes if 2 * n * k >= 16e6]
    assert fit.fitted_points + fit.held_out.points == 5 * len(large)
    assert fit.held_out.points == 5 * (len(large) // 2)
    assert fit.ranges["m"] == (1, 4096)
    assert fit.ranges["weight_bytes"][0] >= 16e6
    assert fit.held_out.median_pct < 0.2  # the data are a roofline
    assert fit.one_axis is not None and fit.one_axis.points > 0
    assert said == [
        f"h200 gemm bf16: median {fit.held_out.median_pct:.1f} %, p90 {fit.held_out.p90_pct:.1f} %"
    ]
    assert fits.find("h200", Gemm, ("bf16",)) is fit
    assert fits.find("h200", Gemm, ("fp8",)) is None


def test_refit_parts_calls_by_their_words():
    def moe(distribution, tokens):
        return Moe(dtype="bf16", distribution=distribution, hidden=4096, inner=1536, top_k=8,
                   experts=128, tp=1, ep=1, tokens=tokens)  # fmt: skip

    calls = [moe(d, 1 << k) for d in ("balanced", "power_law_1.2") for k in range(26)]
    calls += [moe("power_law_1.01", 1)]
    said = []
    fits = refit([file_of(Moe, calls, MADE)], said.append)
    assert [fit.labels for fit in fits.fits] == [["bf16", "balanced"], ["bf16", "power_law_1.2"]]
    assert any("power_law_1.01: fewer than 12 measurements, left out" in line for line in said)


def test_refit_refuses_what_it_cannot_fit():
    with pytest.raises(InputError, match="gpu 'abacus' is unknown: choose h100-pcie"):
        refit([file_of(Gemm, gemms(), MADE, gpu="abacus")], print)
    with pytest.raises(InputError, match="too few measurements to fit anything"):
        refit([file_of(Gemm, gemms()[:3], MADE)], print)
