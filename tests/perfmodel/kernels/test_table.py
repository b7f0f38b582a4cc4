"""Interpolation: exact on power laws and on its baseline, and never outside what was measured."""

import itertools

import numpy as np
import pytest

from hw.errors import InputError
from perfmodel.kernels import Collective, Gemm, OutsideMeasured
from perfmodel.kernels.holdout import all_axes_errors, one_axis_errors
from perfmodel.kernels.peaks import peaks_of
from perfmodel.kernels.profile_csv import Measurement, ProfileFile
from perfmodel.kernels.roofline import Roofline, loads
from perfmodel.kernels.table import Grid, Table

KNEE = Roofline(
    start_s=5e-6, item_s=0.0, compute_efficiency=0.7, memory_efficiency=0.8, sharpness=8.0
)


def gemm(m, n, k):
    return Gemm(dtype="bf16", m=m, n=n, k=k)


def knee(calls):
    return KNEE.seconds(loads(list(calls), peaks_of("h200")))


def test_power_laws_are_exact_in_between(gemm_file, power_us):
    table = Table([gemm_file])
    for m, n, k in itertools.product((1, 3, 16), (512, 700, 4096), (256, 999, 4096)):
        found = table.time(gemm(m, n, k))
        assert found.seconds == pytest.approx(1e-6 * power_us(gemm(m, n, k)), rel=1e-9)


def test_distance_is_that_to_the_nearest_size_on_the_worst_axis(gemm_file):
    table = Table([gemm_file])
    assert table.time(gemm(4, 1024, 256)).distance_octaves == 0
    # 5 is a third of an octave from 4; 2048 an octave from either neighbour.
    assert table.time(gemm(5, 1024, 256)).distance_octaves == pytest.approx(np.log2(5 / 4))
    assert table.time(gemm(5, 1024, 2048)).distance_octaves == pytest.approx(1)


def test_a_baseline_with_a_knee_is_followed_between_its_points():
    """Four points on either side of the knee: alone they miss it, on a roofline they do not."""
    sizes = (64, 256, 1024, 4096)
    calls = [gemm(m, 8192, 8192) for m in sizes]
    rows = tuple(
        Measurement(call, 1e6 * float(t) * 1.1) for call, t in zip(calls, knee(calls), strict=True)
    )
    file = ProfileFile(kernel=Gemm, gpu="h200", source="made up", rows=rows)
    call = gemm(150, 8192, 8192)
    truth = 1.1 * float(knee([call])[0])
    assert Table([file], knee).time(call).seconds == pytest.approx(truth, rel=1e-9)
    assert abs(Table([file]).time(call).seconds / truth - 1) > 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (gemm(32, 1024, 1024), "m is 32: measured from 1 to 16"),
        (gemm(1, 100, 1024), "n is 100: measured from 512 to 4096"),
        (Gemm(dtype="fp8", m=1, n=512, k=256), "nothing was measured for dtype=fp8"),
        (
            Collective(op="all_reduce", gpus=2, message_bytes=9),
            "nothing was measured for op=all_reduce gpus=2",
        ),
    ],
)
def test_outside_is_refused(gemm_file, call, message):
    with pytest.raises(OutsideMeasured, match=message) as refusal:
        Table([gemm_file]).time(call)
    assert isinstance(refusal.value, InputError)


def test_wide_gaps_and_missing_corners_are_refused(gemm_file):
    wide = [row for row in gemm_file.rows if row.kernel.m != 4]  # leaves 1 and 16
    with pytest.raises(OutsideMeasured, match="measured at 1 and 16, further apart than a factor"):
        Table([_with(gemm_file, wide)]).time(gemm(3, 1024, 256))
    gone = gemm(4, 1024, 256)
    holed = Table([_with(gemm_file, [row for row in gemm_file.rows if row.kernel != gone])])
    with pytest.raises(OutsideMeasured, match="m=4 n=1024 k=256 was not measured"):
        holed.time(gemm(3, 1024, 256))
    with pytest.raises(OutsideMeasured, match="m=4 n=1024 k=256 was not measured"):
        holed.time(gone)
    assert holed.time(gemm(3, 2048, 256)).seconds > 0


def _with(file, rows):
    return ProfileFile(kernel=file.kernel, gpu=file.gpu, source=file.source, rows=tuple(rows))


def grid_of(rows):
    kernels = [row.kernel for row in rows]
    seconds = 1e-6 * np.array([row.latency_us for row in rows])
    return Grid.of(kernels, seconds, lambda calls: np.ones(len(calls)))


def brute_force_errors(rows, *, every_axis):
    """Errors by asking tables that lack the points: one point, or all that share a size with it."""
    errors = []
    for row in rows:
        here = row.kernel.point
        for axis in range(1 if every_axis else len(here)):

            def kept(other, axis=axis, here=here):
                there = other.kernel.point
                if every_axis:
                    return all(a != b for a, b in zip(here, there, strict=True))
                others = [k for k in range(len(here)) if k != axis]
                return there[axis] != here[axis] and all(there[k] == here[k] for k in others)

            left = [other for other in rows if kept(other)]
            try:
                found = Table([ProfileFile(kernel=Gemm, gpu="x", source="x", rows=tuple(left))])
                errors.append(100 * (1e6 * found.time(row.kernel).seconds / row.latency_us - 1))
            except (OutsideMeasured, IndexError):
                continue
    return sorted(errors)


def test_errors_are_those_of_tables_without_the_points():
    random = np.random.default_rng(4)
    calls = [gemm(m, n, k) for m in (1, 2, 4, 16) for n in (64, 128, 256) for k in (64, 120, 200)]
    calls.remove(gemm(2, 128, 64))  # a hole: its neighbours on the axis close up
    rows = [Measurement(call, float(random.uniform(5, 10))) for call in calls]
    grid = grid_of(rows)
    one = np.concatenate([one_axis_errors(grid, axis) for axis in range(3)])
    assert sorted(one) == pytest.approx(brute_force_errors(rows, every_axis=False))
    every = all_axes_errors(grid)
    assert len(every) > 0
    assert sorted(every) == pytest.approx(brute_force_errors(rows, every_axis=True))


def test_power_laws_have_no_errors(gemm_file):
    grid = grid_of(gemm_file.rows)
    for axis in range(3):
        assert one_axis_errors(grid, axis) == pytest.approx(0, abs=1e-9)
