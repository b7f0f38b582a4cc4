"""From profiles to fits: what is fitted, what is left out to measure errors, and the tables'."""

from collections.abc import Callable, Sequence

import numpy as np

from hw.errors import InputError
from perfmodel.kernels.fit import fit_roofline, relative_errors
from perfmodel.kernels.fits import Errors, Fit, Fits, Parameters
from perfmodel.kernels.holdout import all_axes_errors, one_axis_errors
from perfmodel.kernels.peaks import Peaks, peaks_of
from perfmodel.kernels.profile_csv import Measurement, ProfileFile
from perfmodel.kernels.queries import Kernel
from perfmodel.kernels.roofline import Floats, Roofline, loads
from perfmodel.kernels.table import Grid

_MOST_FITTED = 2000  # measurements to one fit: more change its digits and not its errors
_LEAST_SHAPES = 4  # from here on half of the shapes is left out
_LEAST_FITTED = 12
Rows = Sequence[Measurement]


def refit(files: Sequence[ProfileFile], progress: Callable[[str], None]) -> Fits:
    """Fit every kind of call in the files of one or several GPUs.

    Raises:
        InputError: the peaks of a GPU are not known.
    """
    fits = []
    for file in files:
        peaks = peaks_of(file.gpu)
        kinds: dict[tuple[str, ...], list[Measurement]] = {}
        for row in file.rows:
            kinds.setdefault(row.kernel.labels, []).append(row)
        for labels, rows in sorted(kinds.items()):
            name = " ".join((file.gpu, file.kernel.NAME, *labels))
            fit = _fit(file, labels, rows, peaks)
            if fit is None:
                progress(f"{name}: fewer than {_LEAST_FITTED} measurements, left out")
                continue
            fits.append(fit)
            progress(
                f"{name}: median {fit.held_out.median_pct:.1f} %, p90 {fit.held_out.p90_pct:.1f} %"
            )
    if not fits:
        raise InputError("the profiles hold too few measurements to fit anything")
    return Fits(schema="pagewave.kernel-fits/1", fits=fits)


def _fit(
    file: ProfileFile, labels: tuple[str, ...], rows: list[Measurement], peaks: Peaks
) -> Fit | None:
    usable = [row for row in rows if row.kernel.fit_to_bandwidth]
    fitted, left_out = _split(usable)
    if len(fitted) < _LEAST_FITTED:
        return None
    fitted = _thin(fitted)
    roofline = fit_roofline(*_data(fitted, peaks))
    one, every = _table_errors(rows, roofline, peaks)
    numbers = [row.kernel.numbers for row in fitted]
    return Fit(
        gpu=file.gpu,
        kernel=file.kernel.NAME,
        labels=list(labels),
        source=file.source,
        parameters=Parameters(
            start_s=_digits(roofline.start_s),
            item_s=_digits(roofline.item_s),
            compute_efficiency=_digits(roofline.compute_efficiency),
            memory_efficiency=_digits(roofline.memory_efficiency),
            sharpness=_digits(roofline.sharpness),
        ),
        fitted_points=len(fitted),
        ranges={
            name: (min(n[name] for n in numbers), max(n[name] for n in numbers))
            for name in numbers[0]
        },
        held_out=Errors.of(relative_errors(roofline, *_data(left_out, peaks))),
        one_axis=Errors.of(one) if len(one) else None,
        all_axes=Errors.of(every) if len(every) else None,
    )


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def _split(rows: list[Measurement]) -> tuple[list[Measurement], list[Measurement]]:
    """Every other shape is left out: whole shapes, whatever the rows or tokens.

    A shape is all but the first axis, which is batch, rows, tokens or message size.
    """

    def shape(kernel: Kernel) -> tuple[object, ...]:
        return (*kernel.group, *kernel.point[1:])

    shapes = sorted({shape(row.kernel) for row in rows}, key=str)
    order = np.random.default_rng(0).permutation(len(shapes))
    out = {shapes[k] for k in order[: len(shapes) // 2]} if len(shapes) >= _LEAST_SHAPES else None
    if out is None:  # every other measurement instead
        return rows[::2], rows[1::2]
    fitted = [row for row in rows if shape(row.kernel) not in out]
    return fitted, [row for row in rows if shape(row.kernel) in out]


def _thin(rows: list[Measurement]) -> list[Measurement]:
    if len(rows) <= _MOST_FITTED:
        return rows
    chosen = np.random.default_rng(0).choice(len(rows), _MOST_FITTED, replace=False)
    return [rows[k] for k in np.sort(chosen)]


def _data(rows: Rows, peaks: Peaks) -> tuple[Floats, Floats]:
    kernels = [row.kernel for row in rows]
    return loads(kernels, peaks), 1e-6 * np.array([row.latency_us for row in rows])


def _table_errors(
    rows: list[Measurement], roofline: Roofline, peaks: Peaks
) -> tuple[Floats, Floats]:
    """Errors of the tables of one kind: along one axis, and in the middle of cells."""
    groups: dict[tuple[str | int, ...], list[Measurement]] = {}
    for row in rows:
        groups.setdefault(row.kernel.group, []).append(row)
    one, every = [np.empty(0)], [np.empty(0)]
    for members in groups.values():
        kernels = [row.kernel for row in members]
        _, seconds = _data(members, peaks)
        grid = Grid.of(kernels, seconds, lambda calls: roofline.seconds(loads(list(calls), peaks)))
        one += [one_axis_errors(grid, axis) for axis in range(len(grid.axes))]
        if len(grid.axes) > 1:
            every.append(all_axes_errors(grid))
    return np.concatenate(one), np.concatenate(every)
