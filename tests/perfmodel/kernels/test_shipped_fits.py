"""The fits that ship: physical, complete, and those of the page; what they promise of errors."""

from pathlib import Path

import numpy as np
import pytest

from hw.errors import InputError
from perfmodel.gpu import GPUS
from perfmodel.kernels.fits import Errors, load_fits, save_fits, shipped_fits
from perfmodel.kernels.queries import KERNELS
from perfmodel.kernels.report import error_section

FITS = shipped_fits().fits
PAGE = Path(__file__).parents[3] / "docs" / "kernels.md"
MEASURED_GPUS = ("h100-sxm", "h200", "b200")


def fits(**wanted):
    return [fit for fit in FITS if all(getattr(fit, k) == v for k, v in wanted.items())]


@pytest.mark.parametrize("gpu", MEASURED_GPUS)
def test_every_kernel_has_its_fit(gpu):
    assert {fit.kernel for fit in fits(gpu=gpu)} == set(KERNELS)
    assert fits(gpu=gpu, kernel="moe", labels=["fp8_block", "balanced"])
    assert fits(gpu=gpu, kernel="gemm", labels=["bf16"])


def test_page_shows_the_errors_of_the_file():
    begin, end = "<!-- measured: kernels -->", "<!-- end of kernels -->"
    block = PAGE.read_text().split(begin)[1].split(end)[0].strip()
    assert block == error_section(shipped_fits()).markdown()


def test_median_and_percentile_are_those_of_the_quantiles():
    """Recomputed from the 21 quantiles of each fit, by interpolation between them."""
    for fit in FITS:
        for errors in filter(None, (fit.held_out, fit.one_axis, fit.all_axes)):
            levels = np.linspace(0, 100, 21)
            assert errors.quantiles_pct == sorted(errors.quantiles_pct)
            assert errors.median_pct == np.interp(50, levels, errors.quantiles_pct)
            assert errors.p90_pct == np.interp(90, levels, errors.quantiles_pct)


def test_tables_keep_their_errors():
    """Median errors: balanced experts up to 2 %; the rest, in the middle of cells, up to 5.5 %."""
    for fit in FITS:
        if fit.kernel == "moe":
            most = 2.0 if "balanced" in fit.labels else 4.0  # power laws are drawn, and scatter
            assert fit.one_axis.median_pct <= most, fit.labels
        elif fit.kernel != "collective":
            assert fit.all_axes.median_pct <= 5.5, (fit.gpu, fit.kernel, fit.labels)


def test_two_fits_of_the_same_tables_agree():
    """The serving model's constants were fitted to these tables in another way."""
    for gpu in MEASURED_GPUS:
        (gemm,) = fits(gpu=gpu, kernel="gemm", labels=["bf16"])
        known = GPUS[gpu].gemm
        assert gemm.parameters.compute_efficiency == pytest.approx(
            known.compute_efficiency, rel=0.05
        )
        assert gemm.parameters.memory_efficiency == pytest.approx(known.memory_efficiency, rel=0.05)
        assert gemm.parameters.start_s == pytest.approx(known.start_s, abs=1.5e-6)


def test_no_measurement_is_in_the_file():
    """Parameters, ranges and errors alone: a few numbers for thousands of points."""
    path = Path(load_fits.__globals__["SHIPPED"])
    assert path.stat().st_size < 120_000
    assert sum(fit.fitted_points + fit.held_out.points for fit in FITS) > 50_000


def test_fits_are_written_as_read(tmp_path):
    save_fits(shipped_fits(), tmp_path / "fits.json")
    assert load_fits(tmp_path / "fits.json") == shipped_fits()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"fits.json: the file: "),
        ('{"schema": "other", "fits": []}', r"fits.json: schema: "),
        ('{"schema": "pagewave.kernel-fits/1", "fits": [{"gpu": 1}]}', r"fits\.0\."),
    ],
)
def test_malformed_files_are_named(text, message, tmp_path):
    (tmp_path / "fits.json").write_text(text)
    with pytest.raises(InputError, match=message):
        load_fits(tmp_path / "fits.json")


def test_errors_are_quantiles_of_absolute_values():
    errors = Errors.of(np.array([-4.0, 1.0, -2.0, 3.0, 0.0]))
    assert (errors.points, errors.median_pct) == (5, 2.0)
    assert (errors.quantiles_pct[0], errors.quantiles_pct[-1]) == (0.0, 4.0)
