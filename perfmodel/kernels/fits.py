"""The file of fits: rooflines of every kernel and GPU, and the errors of both ways of asking.

It holds parameters and errors, and no measurement. Errors are kept as the 21 five-percent
quantiles of their absolute values, of points that were left out.
"""

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hw.errors import InputError
from perfmodel.files import write_atomically
from perfmodel.kernels.queries import Kernel
from perfmodel.kernels.roofline import Floats, Roofline

SHIPPED = Path(__file__).parent / "fits.json"
QUANTILES = np.linspace(0, 1, 21)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Efficiency = Annotated[float, Field(gt=0, le=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Errors(_Part):
    """Absolute relative errors of left-out points, in percent."""

    points: Annotated[int, Field(ge=1)]
    quantiles_pct: Annotated[list[NotNegative], Field(min_length=21, max_length=21)]

    @classmethod
    def of(cls, errors_pct: Floats) -> "Errors":
        quantiles = np.quantile(np.abs(errors_pct), QUANTILES)
        return cls(points=len(errors_pct), quantiles_pct=[round(q, 3) for q in quantiles.tolist()])

    @property
    def median_pct(self) -> float:
        return self.quantiles_pct[10]

    @property
    def p90_pct(self) -> float:
        return self.quantiles_pct[18]


class Parameters(_Part):
    """As ``Roofline``."""

    start_s: Positive
    item_s: NotNegative
    compute_efficiency: Efficiency
    memory_efficiency: Efficiency
    sharpness: Annotated[float, Field(ge=1)]

    def roofline(self) -> Roofline:
        return Roofline(**self.model_dump())


class Fit(_Part):
    """The roofline of one kind of call on one GPU.

    Attributes:
        labels: words of the calls, in the order of ``Kernel.LABELS``.
        source: of the measurements.
        fitted_points: measurements that the parameters were fitted to.
        ranges: least and largest of each size among them.
        held_out: errors at shapes that none of them has.
        one_axis, all_axes: errors of the table itself, interpolated on this roofline; see
            ``holdout``. None where the table has too few points.
    """

    gpu: str
    kernel: str
    labels: list[str]
    source: str
    parameters: Parameters
    fitted_points: Annotated[int, Field(ge=1)]
    ranges: dict[str, tuple[float, float]]
    held_out: Errors
    one_axis: Errors | None
    all_axes: Errors | None

    def octaves_outside(self, kernel: Kernel) -> float:
        """How far the sizes of a call lie outside the fitted ones, in factors of two; 0 inside."""
        outside = 0.0
        for name, size in kernel.numbers.items():
            low, high = self.ranges[name]
            outside = max(outside, float(np.log2(low / size)), float(np.log2(size / high)))
        return outside


class Fits(_Part):
    """All fits of a file."""

    schema_: Literal["pagewave.kernel-fits/1"] = Field(alias="schema")
    fits: list[Fit]

    def find(self, gpu: str, kernel: type[Kernel], labels: tuple[str, ...]) -> Fit | None:
        """The fit for calls with these words."""
        wanted = (gpu, kernel.NAME, list(labels))
        return next((f for f in self.fits if (f.gpu, f.kernel, f.labels) == wanted), None)


def load_fits(path: str | Path = SHIPPED) -> Fits:
    """The fits of a file, by default those that come with pagewave.

    Raises:
        InputError: it cannot be read or is malformed; names file and key.
    """
    path = Path(path)
    try:
        return Fits.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot read the fits: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text: must be fits of kernels") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(f"{path}: {where}: {first['msg']}") from None


@cache
def shipped_fits() -> Fits:
    """The fits that come with pagewave."""
    return load_fits()


def save_fits(fits: Fits, path: Path) -> None:
    """Write fits, one a line.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    lines = ",\n".join(json.dumps(fit.model_dump(mode="json")) for fit in fits.fits)
    write_atomically(path, f'{{"schema": "{fits.schema_}", "fits": [\n{lines}\n]}}\n')
