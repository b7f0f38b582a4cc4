"""What a source of kernel times is asked, and what it answers."""

from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from perfmodel.kernels.queries import Kernel

Status = Literal["measured", "interpolated", "fitted", "extrapolated", "assumed"]


@dataclass(frozen=True, kw_only=True)
class KernelTime:
    """How long one call takes, and how that is known.

    Attributes:
        seconds: with operands in the GPU's own memory.
        start_s, busy_s: with operands that are delivered from elsewhere, what passes before the
            arithmetic, and the arithmetic, which may overlap delivery. A measured latency does not
            come apart: there all of it is ``busy_s``, with the reads of the GPU it was measured on.
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
    start_s: float
    busy_s: float
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
    """What answers.

    Attributes:
        label: how results name it.
        provenance: what it rests on as a whole.
        proportional: whether ``busy_s`` of calls that differ in sizes alone grows with their
            operations.
    """

    @property
    def label(self) -> str: ...

    @property
    def provenance(self) -> str: ...

    @property
    def proportional(self) -> bool: ...

    def time(self, kernel: Kernel) -> KernelTime:
        """The time of one call.

        Raises:
            InputError: the source has no answer; says why.
        """
