"""Rates and latencies of one stack pair: assumed ideal, or measured on the RTL."""

from dataclasses import dataclass
from pathlib import Path

from hw.errors import InputError
from hw.params import TRANSACTION_PAGES, Machine
from perfmodel.memory.record import Fit, TimingRecord, load_record

SHIPPED_RECORD = Path(__file__).parent / "records" / "paper.json"


@dataclass(frozen=True, kw_only=True)
class PathTiming:
    """One route of one stack pair."""

    first_byte_s: float
    bytes_per_s: float
    request_gap_s: float


@dataclass(frozen=True, kw_only=True)
class MemoryTiming:
    """What one stack pair delivers; a package multiplies the rates by its pairs.

    Attributes:
        direct: HBF to GPU over link A.
        relay: HBF through the HBM base die to the GPU, over links C and B.
        dual_bytes_per_s: both routes of one HBF stack together.
        gpu_hbm_link_bytes_per_s: link B, which relayed and HBM-local data share.
        hbm_local_bytes_per_s: reads of the HBM stack itself.
        measured_request_bytes: request sizes of the measurement, for one pair; None for timing
            that was not measured.
        longest_request_bytes: of one transaction to one pair; None where it does not matter.
    """

    label: str
    provenance: str
    direct: PathTiming
    relay: PathTiming
    dual_bytes_per_s: float
    gpu_hbm_link_bytes_per_s: float
    hbm_local_bytes_per_s: float
    measured_request_bytes: tuple[float, float] | None = None
    longest_request_bytes: int | None = None

    def extrapolation(self, request_bytes: float) -> str | None:
        """How far a read of one pair lies outside the measured sizes; None if inside.

        A read longer than the longest transaction goes out as several of them.
        """
        if self.measured_request_bytes is None:
            return None
        if self.longest_request_bytes is not None:
            request_bytes = min(request_bytes, self.longest_request_bytes)
        low, high = self.measured_request_bytes
        if low <= request_bytes <= high:
            return None
        factor = low / request_bytes if request_bytes < low else request_bytes / high
        side = "below" if request_bytes < low else "above"
        return f"requests of {request_bytes:.0f} B lie {factor:.2f}x {side} the measured range"


def link_limited(machine: Machine) -> MemoryTiming:
    """Every link at its usable rate and memory always ready: an upper bound."""
    rate = machine.link.usable_bytes_per_s
    path = PathTiming(
        first_byte_s=machine.nand.t_read_ns * 1e-9, bytes_per_s=rate, request_gap_s=0.0
    )
    return MemoryTiming(
        label="link-limited",
        provenance="every link at its usable rate, memory always ready (assumed, an upper bound)",
        direct=path,
        relay=path,
        dual_bytes_per_s=2 * rate,
        gpu_hbm_link_bytes_per_s=rate,
        hbm_local_bytes_per_s=rate,
    )


def from_record(record: TimingRecord, machine: Machine, label: str = "rtl") -> MemoryTiming:
    """Timing that calibration measured on the RTL of this machine.

    HBM-local reads are described and not measured: the lower of link rate and DRAM pin rate.

    Raises:
        InputError: the record is for another machine or lacks a route.
    """
    if record.machine_fingerprint != machine.fingerprint:
        raise InputError(
            f"timing record {label}: was measured on preset {record.preset!r}: serving needs one "
            f"of {machine.name!r}"
        )
    for route in ("direct", "relay", "dual"):
        if route not in record.fitted:
            raise InputError(
                f"timing record {label}: fitted.{route} is missing: run `pagewave calibrate` again"
            )
    simulator, valid = record.simulator, record.valid.request_bytes
    return MemoryTiming(
        label=label,
        provenance=f"measured on RTL {record.rtl_fingerprint} with {simulator.name} "
        f"{simulator.version}; HBM-local rate described, not measured",
        direct=_path(record.fitted["direct"]),
        relay=_path(record.fitted["relay"]),
        dual_bytes_per_s=record.fitted["dual"].steady_bytes_per_s,
        gpu_hbm_link_bytes_per_s=machine.link.usable_bytes_per_s,
        hbm_local_bytes_per_s=min(machine.link.usable_bytes_per_s, machine.hbm.peak_bytes_per_s),
        measured_request_bytes=valid,
        longest_request_bytes=TRANSACTION_PAGES * machine.geometry.page_bytes,
    )


def _path(fit: Fit) -> PathTiming:
    return PathTiming(
        first_byte_s=fit.first_byte_ns * 1e-9,
        bytes_per_s=fit.steady_bytes_per_s,
        request_gap_s=fit.request_gap_ns * 1e-9,
    )


def load_timing(choice: str, machine: Machine) -> MemoryTiming:
    """Timing by its command-line value: ``link-limited``, ``rtl`` (the shipped record) or a file.

    Raises:
        InputError: no such record, or one that is unusable or stale.
    """
    if choice == "link-limited":
        return link_limited(machine)
    if choice == "rtl":
        if not SHIPPED_RECORD.exists():
            raise InputError(
                f"timing 'rtl': there is no record at {SHIPPED_RECORD}; "
                f"run `pagewave calibrate --preset {machine.name} --out {SHIPPED_RECORD}`"
            )
        return from_record(load_record(SHIPPED_RECORD), machine)
    if not Path(choice).is_file():
        raise InputError(
            f"timing {choice!r}: must be link-limited, rtl, or the file of a timing record"
        )
    return from_record(load_record(choice), machine, label=choice)
