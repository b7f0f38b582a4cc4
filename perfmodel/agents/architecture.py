"""Devices of the serving study: stacks, how their service times combine, and the host.

From the paper ("Characterizing High Bandwidth Flash for LLM Serving", sections 4.1 and 5.1): 24 GB
an HBM stack and 375 GB an HBF stack; H3 with eight of each, shared sites with eight in all; times
of HBM and HBF added for H3 and combined by their maximum for shared sites; the host. Bandwidths of
the stacks are not in its text:

- HBM 1.0 TB/s a stack: B200 has 8 TB/s over eight stacks (NVIDIA);
- HBF 1.0 TB/s a stack: assumed. 1.6 TB/s is the target of the vendor and of the DASH paper;
- HBF writes 20 GB/s a stack: assumed; a page wave of 8 MiB in 100 us, as in DASH, is 84 GB/s.
"""

import enum
from dataclasses import dataclass, field, fields

from hw.errors import InputError

GB = 10**9


class Composition(enum.StrEnum):
    """How the service times of HBM and HBF for one kernel combine."""

    SUM = "sum"  # HBF is behind HBM: its data come through
    MAX = "max"  # each has its own site or link

    def seconds(self, hbm_s: float, hbf_s: float) -> float:
        return hbm_s + hbf_s if self is Composition.SUM else max(hbm_s, hbf_s)


class Movement(enum.StrEnum):
    """When cache movement takes place."""

    SERIAL = "serial"  # before the forward pass
    OVERLAPPED = "overlapped"  # beside it: a step takes the longer


@dataclass(frozen=True, kw_only=True)
class Host:
    """Host memory, shared by all GPUs, and the link of each GPU to it."""

    dram_channels: int = 16
    dram_channel_bytes: int = 64 * GB
    dram_channel_bytes_per_s: float = 57.6e9  # DDR5-7200
    ssds: int = 32
    ssd_bytes: int = 1000 * GB
    ssd_bytes_per_s: float = 8e9
    pcie_bytes_per_s: float = 63e9  # of a GPU and direction: 5.0 x16 after line coding

    def __post_init__(self) -> None:
        for each in fields(self):
            least_allowed = each.name in ("dram_channels", "ssds")
            _positive(each.name, getattr(self, each.name), zero=least_allowed)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One GPU with its stacks, and the host behind it.

    Attributes:
        composition: Of the times of HBM and HBF.
        first_access_s: tR, exposed once a layer and kernel kind that reads HBF; 0: hidden.
        movement: When cache movement takes place.
        nvlink_bytes_per_s: Of collectives, one endpoint, one way.
        host: None: what does not fit on the device is discarded.
    """

    name: str
    hbm_stacks: int
    hbf_stacks: int
    composition: Composition
    hbm_stack_bytes: int = 24 * GB
    hbf_stack_bytes: int = 375 * GB
    hbm_bytes_per_s: float = 1.0e12
    hbf_bytes_per_s: float = 1.0e12
    hbf_write_bytes_per_s: float = 20e9
    first_access_s: float = 0.0
    movement: Movement = Movement.SERIAL
    nvlink_bytes_per_s: float = 900e9
    host: Host | None = field(default_factory=Host)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, int | float):
                zero = each.name in ("hbf_stacks", "first_access_s")
                _positive(each.name, value, zero=zero)

    @property
    def hbm_bytes(self) -> int:
        return self.hbm_stacks * self.hbm_stack_bytes

    @property
    def hbf_bytes(self) -> int:
        return self.hbf_stacks * self.hbf_stack_bytes


def hbm_only() -> Architecture:
    """Eight HBM stacks."""
    return Architecture(name="hbm-only", hbm_stacks=8, hbf_stacks=0, composition=Composition.SUM)


def h3() -> Architecture:
    """Eight HBM stacks with an HBF stack behind each."""
    return Architecture(name="h3", hbm_stacks=8, hbf_stacks=8, composition=Composition.SUM)


def shared(hbm_stacks: int, hbf_stacks: int) -> Architecture:
    """HBM and HBF stacks that share the sites around the GPU."""
    return Architecture(
        name=f"{hbm_stacks}+{hbf_stacks}",
        hbm_stacks=hbm_stacks,
        hbf_stacks=hbf_stacks,
        composition=Composition.MAX,
    )


def architecture_named(name: str) -> Architecture:
    """``hbm-only``, ``h3``, or ``X+Y`` for shared sites of X HBM and Y HBF stacks.

    Raises:
        InputError: it is none of these.
    """
    if name == "hbm-only":
        return hbm_only()
    if name == "h3":
        return h3()
    left, plus, right = name.partition("+")
    if plus and left.isdecimal() and right.isdecimal() and len(name) <= 7:
        return shared(int(left), int(right))
    raise InputError(f"architecture {name!r} is unknown: choose hbm-only, h3, or X+Y stacks (4+4)")


def _positive(name: str, value: float, *, zero: bool) -> None:
    if not (value >= 0 if zero else value > 0) or not value < 1e18:
        least = "zero or more" if zero else "greater than zero"
        raise InputError(f"{name} is {value}: must be {least}, below 1e18")
