"""Three sources of kernel times behind one question, ``time(kernel)``.

- ``BaseSource``: the constants that the serving model runs on (``perfmodel.gpu``); for the H100
  PCIe card they are assumptions.
- ``FittedSource``: rooflines fitted to measurements, with the errors that they had.
- ``TableSource``: measurements, interpolated; outside them an error, or a roofline on request.

Every answer says what it rests on and how far from a measurement it is.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from hw.errors import InputError
from perfmodel.gpu import Gpu, gpu_named
from perfmodel.gpu import Kernel as GpuKernel
from perfmodel.kernels.fits import Errors, Fit, Fits, shipped_fits
from perfmodel.kernels.peaks import PEAKS, Peaks, peaks_of
from perfmodel.kernels.profile_csv import read_profile
from perfmodel.kernels.queries import Collective, Kernel
from perfmodel.kernels.roofline import Floats, loads
from perfmodel.kernels.table import OutsideMeasured, Table, no_baseline

Status = Literal["measured", "interpolated", "fitted", "extrapolated", "assumed"]
Outside = Literal["error", "roofline"]
SOURCES = ("base", "fitted")
# No public measurements exist of the card on the left: it is taken to be as efficient as the other.
STAND_IN = {"h100-pcie": "h100-sxm"}


@dataclass(frozen=True, kw_only=True)
class KernelTime:
    """How long one call takes, and how that is known.

    Attributes:
        source: ``base``, ``fitted`` or ``table``.
        status: ``measured``: a measured point itself; ``interpolated`` between measured ones;
            ``fitted`` by a roofline, inside the sizes that it was fitted to; ``extrapolated`` by
            a roofline outside them, or because a table does not reach there; ``assumed``: no
            measurement of this GPU is behind it.
        distance_octaves: for a table, how many factors of two to the nearest measured size on
            the axis that is furthest from one; for a roofline, how many the call lies outside
            the fitted sizes; None where nothing was measured.
        median_error_pct, p90_error_pct: of points left out, for calls of this kind; None where
            they are not known: beyond all measurements, or at one.
    """

    seconds: float
    source: str
    status: Status
    provenance: str
    distance_octaves: float | None
    median_error_pct: float | None = None
    p90_error_pct: float | None = None

    def as_dict(self) -> dict[str, object]:
        """JSON-ready values."""
        return asdict(self)


class KernelSource(Protocol):
    """What answers."""

    def time(self, kernel: Kernel) -> KernelTime:
        """The time of one call.

        Raises:
            InputError: the source has no answer; says why.
        """


@dataclass(frozen=True)
class BaseSource:
    """The constants of the serving model, with operands in the GPU's own memory.

    All arithmetic is held against the BF16 peak, as there.
    """

    gpu: Gpu

    def time(self, kernel: Kernel) -> KernelTime:
        return KernelTime(
            seconds=self._seconds(kernel),
            source="base",
            status="assumed" if self.gpu.name in STAND_IN else "fitted",
            provenance=self._provenance(kernel),
            distance_octaves=None,
        )

    def _seconds(self, kernel: Kernel) -> float:
        if isinstance(kernel, Collective):
            reduce = self.gpu.all_reduce
            if kernel.op != "all_reduce" or not 2 <= kernel.gpus <= reduce.most_gpus:
                raise InputError(
                    f"{kernel}: source base has all_reduce on 2 to {reduce.most_gpus} GPUs alone"
                )
            return reduce.seconds(kernel.gpus, kernel.message_bytes)
        return self.gpu.seconds(
            self._kernels[kernel.NAME], kernel.flops, kernel.data_bytes, kernel.items
        )

    @property
    def _kernels(self) -> dict[str, GpuKernel]:
        gpu = self.gpu
        return {
            "gemm": gpu.gemm,
            "moe": gpu.expert,
            "gqa_decode": gpu.decode_gqa,
            "gqa_prefill": gpu.prefill,
            "mla_decode": gpu.decode_mla,
            "mla_prefill": gpu.prefill,
        }

    def _provenance(self, kernel: Kernel) -> str:
        if isinstance(kernel, Collective):
            return self.gpu.all_reduce.provenance
        return self.gpu.provenance


@dataclass(frozen=True)
class FittedSource:
    """Rooflines of one GPU."""

    gpu: str
    fits: Fits

    @cached_property
    def peaks(self) -> Peaks:
        return peaks_of(self.gpu)

    def fit(self, kernel: Kernel) -> Fit | None:
        """The fit for a call, that of the stand-in where the GPU itself has none."""
        own = self.fits.find(self.gpu, type(kernel), kernel.labels)
        if own or self.gpu not in STAND_IN:
            return own
        return self.fits.find(STAND_IN[self.gpu], type(kernel), kernel.labels)

    def time(self, kernel: Kernel) -> KernelTime:
        fit = self.fit(kernel)
        if fit is None:
            words = " ".join((kernel.NAME, *kernel.labels))
            raise InputError(f"{kernel}: no roofline is fitted to {words} on gpu {self.gpu!r}")
        seconds = float(fit.parameters.roofline().seconds(loads([kernel], self.peaks))[0])
        if fit.gpu != self.gpu:
            return KernelTime(
                seconds=seconds,
                source="fitted",
                status="assumed",
                provenance=f"assumed: as efficient at its peaks as {fit.gpu}: {fit.source}",
                distance_octaves=None,
            )
        outside = fit.octaves_outside(kernel)
        return KernelTime(
            seconds=seconds,
            source="fitted",
            status="extrapolated" if outside else "fitted",
            provenance=f"roofline fitted to {fit.source}",
            distance_octaves=outside,
            **({} if outside else _held_out(fit.held_out)),
        )

    def baseline(self, kernels: list[Kernel]) -> Floats:
        """Seconds of calls, for a table to be interpolated on; ones where there is no fit."""
        fit = self.fit(kernels[0])
        if fit is None:
            return np.ones(len(kernels))
        return fit.parameters.roofline().seconds(loads(kernels, self.peaks))


class TableSource:
    """A profile, and what to do outside it.

    Args:
        path: CSV or folder.
        outside: ``error`` refuses a call that is not between measured ones; ``roofline`` answers
            it from ``fits``, marked as extrapolated.
        only: the one kernel that will be asked for; None for all.

    Raises:
        InputError: the profile is malformed, or ``outside`` asks for a roofline of a GPU that has
            none.
    """

    def __init__(
        self,
        path: str | Path,
        fits: Fits,
        outside: Outside = "error",
        only: type[Kernel] | None = None,
    ) -> None:
        files = read_profile(path, only)
        gpu = files[0].gpu
        self.fitted = FittedSource(gpu, fits) if gpu in PEAKS else None
        if outside == "roofline" and self.fitted is None:
            raise InputError(
                f"{path}: gpu is {gpu!r}: outside the profile only {', '.join(PEAKS)} have a "
                "roofline"
            )
        self.outside = outside
        fitted = self.fitted
        self.table = Table(
            files, no_baseline if fitted is None else lambda calls: fitted.baseline(list(calls))
        )

    def time(self, kernel: Kernel) -> KernelTime:
        try:
            found = self.table.time(kernel)
        except OutsideMeasured as error:
            if self.outside == "error" or self.fitted is None:
                raise
            return self._beyond(kernel, str(error))
        fit = self.fitted.fit(kernel) if self.fitted else None
        errors = (fit.all_axes or fit.one_axis) if fit else None
        exact = found.distance_octaves == 0
        return KernelTime(
            seconds=found.seconds,
            source="table",
            status="measured" if exact else "interpolated",
            provenance=self.table.sources[kernel.NAME],
            distance_octaves=found.distance_octaves,
            **({} if exact or errors is None else _held_out(errors)),
        )

    def _beyond(self, kernel: Kernel, why: str) -> KernelTime:
        assert self.fitted is not None
        answer = self.fitted.time(kernel)
        return KernelTime(
            **asdict(answer)
            | {
                "status": "assumed" if answer.status == "assumed" else "extrapolated",
                "provenance": f"{answer.provenance}; the table does not reach: {why}",
            }
        )


def _held_out(errors: Errors) -> dict[str, float]:
    return {"median_error_pct": errors.median_pct, "p90_error_pct": errors.p90_pct}


def kernel_source(
    source: str,
    *,
    gpu: str | None = None,
    fits: Fits | None = None,
    outside: str = "error",
    only: type[Kernel] | None = None,
) -> KernelSource:
    """A source by its name, ``base`` or ``fitted``, or by the path of a profile.

    ``only`` spares reading the measurements of kernels that will not be asked for.

    Raises:
        InputError: no such source or GPU, a malformed profile, or a GPU that is not the profile's.
    """
    if outside not in ("error", "roofline"):
        raise InputError(f"outside is {outside!r}: must be error or roofline")
    if source in SOURCES:
        if gpu is None:
            raise InputError(f"gpu is missing: source {source} needs one of {', '.join(PEAKS)}")
        if outside != "error":
            raise InputError(f"outside is {outside!r}: goes with a profile, not with {source}")
        if source == "base":
            return BaseSource(gpu_named(gpu))
        peaks_of(gpu)
        return FittedSource(gpu, fits or shipped_fits())
    if not Path(source).exists():
        raise InputError(
            f"source {source!r} is unknown: choose {', '.join(SOURCES)}, or give the path of a "
            "profile"
        )
    beyond: Outside = "roofline" if outside == "roofline" else "error"
    table = TableSource(source, fits or shipped_fits(), beyond, only)
    if gpu is not None and gpu != table.table.gpu:
        raise InputError(f"gpu is {gpu!r}: {source} was measured on {table.table.gpu!r}")
    return table
