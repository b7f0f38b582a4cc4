"""The table of errors, for the documentation."""

from dataclasses import dataclass

from perfmodel.kernels.fits import Errors, Fit, Fits


@dataclass(frozen=True)
class ErrorSection:
    """A block of a page, filled from the fits alone."""

    fits: Fits
    name: str = "kernels"

    def markdown(self) -> str:
        lines = [
            "| GPU | kernel | start us | item ns | compute | memory | q | fit, median / p90 % "
            "| table, one axis | table, all axes | points |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        lines += [_row(fit) for fit in self.fits.fits]
        return "\n".join(lines)


def error_section(fits: Fits) -> ErrorSection:
    """Parameters and held-out errors of every fit."""
    return ErrorSection(fits)


def _row(fit: Fit) -> str:
    p = fit.parameters
    points = fit.fitted_points + fit.held_out.points
    cells = (
        fit.gpu,
        " ".join((fit.kernel, *fit.labels)),
        f"{1e6 * p.start_s:.1f}",
        f"{1e9 * p.item_s:.0f}" if p.item_s else "",
        f"{p.compute_efficiency:.2f}" if fit.kernel != "collective" else "",
        f"{p.memory_efficiency:.2f}",
        f"{p.sharpness:.1f}" if fit.kernel != "collective" else "",
        _errors(fit.held_out),
        _errors(fit.one_axis),
        _errors(fit.all_axes),
        f"{points:,}",
    )
    return f"| {' | '.join(cells)} |"


def _errors(errors: Errors | None) -> str:
    return f"{errors.median_pct:.1f} / {errors.p90_pct:.1f}" if errors else ""
