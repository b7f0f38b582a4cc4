"""One HBM stack, described once: what the DRAM is, what it demands, how it is scheduled.

Times are those of the DRAM, in nanoseconds; :mod:`hw.hbm.dram.clocks` turns them into clocks of the
base die. :mod:`hw.hbm.dram.stacks` holds the stacks that exist.
"""

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass, field
from fractions import Fraction

from hw.errors import InputError

ACCESS_BYTES = 64  # the least that is read or written: a word of ECC is spread over all of it
BURST_LENGTH = 8  # bits of a pin
BURSTS = 2  # of an access
FIELDS = ("bank_group", "bank", "stack_id", "column", "row")


def _require(ok: bool, owner: object, name: str, expected: str) -> None:
    if not ok:
        where = f"{type(owner).__name__}.{name}"
        raise InputError(f"{where} is {getattr(owner, name)!r}: {expected}")


def _power_of_two(owner: object, *names: str, least: int = 1) -> None:
    for name in names:
        value = getattr(owner, name)
        ok = isinstance(value, int) and value >= least and value & (value - 1) == 0
        _require(ok, owner, name, f"must be a power of two, at least {least}")


@dataclass(frozen=True, kw_only=True)
class DramOrganization:
    """What a stack consists of; ``banks`` of a bank group, ``bank_groups`` of a stack id.

    Source: JESD238 (HBM3): 32 pseudo-channels of 32 data pins, 4 bank groups of 4 banks, burst
    length 8, so 32 bytes a burst; pages of 1 KiB. A stack id is a rank of dies: two of them at
    eight dies high. 24 GiB (Micron HBM3E, 8 x 24 Gb) are then 24,576 rows a bank.
    """

    pseudo_channels: int = 32
    pins: int = 32
    stack_ids: int = 2
    bank_groups: int = 4
    banks: int = 4
    rows: int = 24_576
    row_bytes: int = 1024

    def __post_init__(self) -> None:
        _power_of_two(self, "pseudo_channels")
        _power_of_two(self, "stack_ids", "banks")
        _power_of_two(self, "bank_groups", least=2)
        _power_of_two(self, "row_bytes", least=2 * ACCESS_BYTES)
        _require(
            self.pins * BURST_LENGTH == 8 * ACCESS_BYTES // BURSTS,
            self,
            "pins",
            f"an access of {ACCESS_BYTES} B is two bursts of eight: must be 32",
        )
        _require(isinstance(self.rows, int) and self.rows >= 2, self, "rows", "must be at least 2")

    @property
    def groups(self) -> int:
        """Bank groups of a pseudo-channel, those of all stack ids."""
        return self.stack_ids * self.bank_groups

    @property
    def bank_count(self) -> int:
        """Banks of a pseudo-channel."""
        return self.groups * self.banks

    @property
    def columns(self) -> int:
        """Accesses of a row."""
        return self.row_bytes // ACCESS_BYTES

    @property
    def channel_bytes(self) -> int:
        return self.bank_count * self.rows * self.row_bytes

    @property
    def stack_bytes(self) -> int:
        return self.pseudo_channels * self.channel_bytes


@dataclass(frozen=True, kw_only=True)
class DramTiming:
    """What commands of one pseudo-channel must keep, in nanoseconds from command to command.

    Attributes:
        pin_gbit_per_s: Rate of a pin; a burst takes 8 bits of it.
        ccd_l_bursts, ccd_r_bursts: tCCD within a bank group, and between stack ids, in bursts;
            tCCD_S is one.
        cl_ns, cwl_ns: From READ or WRITE to the first bit.
        rtw_ns: READ to WRITE.
        wtr_s_ns, wtr_l_ns: From the last bit of a WRITE to READ, in another and in its bank group.
        wr_ns: From the last bit of a WRITE to PRECHARGE.
        rfc_ns: Refresh of one bank.
        rrefd_ns: From a refresh to the next refresh or ACTIVATE, of another bank.
        refi_ns: In which every bank is refreshed once, on average.
        activate_bus_ns: How long ACTIVATE holds the row command bus.
    """

    pin_gbit_per_s: float
    ccd_l_bursts: float = 2.0
    ccd_r_bursts: float = 1.5
    cl_ns: float
    cwl_ns: float
    rcd_read_ns: float
    rcd_write_ns: float
    rp_ns: float
    ras_ns: float
    rc_ns: float
    wr_ns: float
    rtp_ns: float
    rrd_s_ns: float
    rrd_l_ns: float
    faw_ns: float
    wtr_s_ns: float
    wtr_l_ns: float
    rtw_ns: float
    rfc_ns: float
    rrefd_ns: float
    refi_ns: float
    activate_bus_ns: float

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            _require(0 < value < math.inf, self, item.name, "must be greater than zero and finite")
        for name, least in (
            ("ccd_l_bursts", 1.0),
            ("ccd_r_bursts", 1.0),
            ("rc_ns", self.ras_ns),
            ("ras_ns", max(self.rcd_read_ns, self.rcd_write_ns)),
            ("rrd_l_ns", self.rrd_s_ns),
            ("faw_ns", self.rrd_s_ns),
            ("wtr_l_ns", self.wtr_s_ns),
            ("refi_ns", self.rfc_ns),
        ):
            _require(getattr(self, name) >= least, self, name, f"must be at least {least:g}")
        # Data of a write behind those of a read: else the bus would need a rule of its own.
        least = float(self.burst_ns) + self.cl_ns - self.cwl_ns
        _require(self.rtw_ns >= least, self, "rtw_ns", f"must be at least {least:g}")

    @property
    def burst_ns(self) -> Fraction:
        """Time of a burst on the data pins: tCCD_S."""
        return BURST_LENGTH / Fraction(str(self.pin_gbit_per_s))


@dataclass(frozen=True, kw_only=True)
class DramScheduling:
    """Choices of the controller; none of them is a rule of the DRAM.

    Attributes:
        reads, writes: Entries of the queues of a pseudo-channel.
        drain_from, drain_to: Level of the write queue, as a share of it, at which writes begin and
            end to go before reads.
        patience_clocks: How long the oldest request of a queue may be overtaken.
        idle_clocks: How long no read must wait before writes go below ``drain_from``.
        postponed: Refreshes of one bank each that may be owed before one is forced.
        beats: Beats of reads that may be under way for one half of the pseudo-channels (those that
            share a beat).
        requests: Requests that may wait to be spread.
    """

    reads: int = 32
    writes: int = 32
    drain_from: float = 0.8
    drain_to: float = 0.2
    patience_clocks: int = 1000
    idle_clocks: int = 16
    postponed: int = 8
    beats: int = 128
    requests: int = 32

    def __post_init__(self) -> None:
        _power_of_two(self, "reads", "writes", "beats", "requests", least=2)
        _require(0 < self.drain_from <= 1, self, "drain_from", "must be above 0 and at most 1")
        _require(0 <= self.drain_to < self.drain_from, self, "drain_to", "must be below drain_from")
        for name in ("patience_clocks", "idle_clocks", "postponed"):
            value = getattr(self, name)
            _require(isinstance(value, int) and value >= 1, self, name, "must be at least 1")

    @property
    def drain_level(self) -> int:
        """Waiting writes at which they go first."""
        return math.ceil(self.drain_from * self.writes)

    @property
    def drained_level(self) -> int:
        """Waiting writes at which reads go first again."""
        return math.floor(self.drain_to * self.writes)


@dataclass(frozen=True, kw_only=True)
class HbmStack:
    """One HBM stack and its controller.

    Attributes:
        order: Fields of an address within a pseudo-channel, the lowest bits first; ``row`` is the
            highest. See :mod:`hw.hbm.dram.address`.
        hashes_banks: Whether bank and bank group are mixed with low bits of the row.
        beat_bytes: Width of the ports towards the die: consecutive accesses of a beat lie in
            consecutive pseudo-channels.
    """

    name: str
    clock_hz: float = 2e9
    organization: DramOrganization = field(default_factory=DramOrganization)
    timing: DramTiming
    scheduling: DramScheduling = field(default_factory=DramScheduling)
    order: tuple[str, ...] = ("bank_group", "column", "bank", "stack_id", "row")
    hashes_banks: bool = True
    beat_bytes: int = 1024

    def __post_init__(self) -> None:
        _require(0 < self.clock_hz < math.inf, self, "clock_hz", "must be above zero and finite")
        _require(
            sorted(self.order) == sorted(FIELDS) and self.order[-1] == "row",
            self,
            "order",
            f"must name {', '.join(FIELDS)} once each, row last",
        )
        _power_of_two(self, "beat_bytes", least=ACCESS_BYTES)
        _require(
            self.beat_accesses <= self.organization.pseudo_channels,
            self,
            "beat_bytes",
            "its accesses need a pseudo-channel each: at most "
            f"{ACCESS_BYTES * self.organization.pseudo_channels}",
        )
        low_bits = self.organization.bank_groups * self.organization.banks
        _require(
            not self.hashes_banks or self.organization.rows >= low_bits,
            self,
            "hashes_banks",
            f"needs at least {low_bits} rows",
        )
        clock_ns = 1e9 / self.clock_hz
        _require(
            float(self.timing.burst_ns) >= clock_ns,
            self,
            "clock_hz",
            f"a burst of {float(self.timing.burst_ns):.4g} ns must last a clock at least",
        )
        every_ns = self.timing.refi_ns / self.organization.bank_count
        _require(
            every_ns >= 4 * clock_ns + self.timing.rrefd_ns,
            self,
            "timing",
            f"a refresh every {every_ns:.4g} ns leaves no time for anything else",
        )

    @property
    def beat_accesses(self) -> int:
        """Accesses of a beat, a pseudo-channel each."""
        return self.beat_bytes // ACCESS_BYTES

    @property
    def halves(self) -> int:
        """Sets of pseudo-channels that a beat may lie in."""
        return self.organization.pseudo_channels // self.beat_accesses

    @property
    def accesses(self) -> int:
        """Accesses that the stack holds: addresses end there."""
        return self.organization.stack_bytes // ACCESS_BYTES

    @property
    def channel_peak_bytes_per_s(self) -> float:
        return float(ACCESS_BYTES / BURSTS / self.timing.burst_ns * 10**9)

    @property
    def peak_bytes_per_s(self) -> float:
        return self.organization.pseudo_channels * self.channel_peak_bytes_per_s

    @property
    def fingerprint(self) -> str:
        """Hash over every field."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
