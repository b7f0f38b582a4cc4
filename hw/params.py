"""The machine, described once: RTL, benches, calibration and performance model read this tree.

Every number by which machines differ is a field here or is derived here. Build-time
fields (geometry, widths, SRAM) shape the RTL. Run-time fields (tR, TSV and link rate, sensing,
cache read) become registers of the RTL, so that a sweep needs no rebuild.

Sources: the DASH paper (arXiv 2608.14333) sections IV and VI-A for geometry, links, SRAM and array
timing; the UCIe 3.0 specification for the 256 B flit; Micron's HBM3E product brief for 9.2 Gb/s
pins. What the paper leaves open (TSV rate, sensing mode, cache read) is a field with a default.
:mod:`hw.presets` holds the machines that exist.
"""

import dataclasses
import enum
import hashlib
import json
import math
from dataclasses import dataclass, field
from fractions import Fraction

from hw.errors import InputError

KIB, MIB, GIB = 2**10, 2**20, 2**30

RATE_BITS = 16  # rate registers hold beats a clock in units of 1/65536
LEAST_RATE = 64  # of a rate register: below, rounding would show
# Widths of the NAND timing registers, in clocks; each is a field of NandTiming.
NAND_TIME_BITS = {
    "t_read": 20,
    "t_latch": 14,
    "t_program": 24,
    "t_erase": 24,
    "t_suspend": 20,
    "t_wb": 14,
    "t_rr": 14,
    "t_adl": 14,
    "t_ccs": 14,
    "t_plane_busy": 14,
}
ERASE_CYCLE_BITS, BLOCK_READ_BITS = 20, 22  # saturating counters of an erase block
TRANSACTION_PAGES = 4096  # the longest transaction: its page number has 12 bits


def ns(time_us: float) -> float:
    """Microseconds in nanoseconds, to a femtosecond.

    4.03 us is not 4030.0000000000005 ns, which takes a clock more.
    """
    return round(time_us * 1e3, 6)


def _require(ok: bool, where: str, value: object, expected: str) -> None:
    if not ok:
        raise InputError(f"{where} is {value!r}: {expected}")


def _positive(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        where = f"{type(owner).__name__}.{name}"
        _require(0 < value < math.inf, where, value, "must be greater than zero and finite")


def _power_of_two(owner: object, *names: str, least: int = 2) -> None:
    for name in names:
        value = getattr(owner, name)
        ok = isinstance(value, int) and value >= least and value & (value - 1) == 0
        where = f"{type(owner).__name__}.{name}"
        _require(ok, where, value, f"must be a power of two, at least {least}")


class Sensing(enum.Enum):
    """How the subarrays of a stack start to sense: each by itself, or a whole wave at a time."""

    INDEPENDENT = "independent"
    LOCKSTEP = "lockstep"


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """NAND organisation of one HBF stack."""

    dies: int = 16
    planes: int = 32
    subarrays: int = 4
    page_bytes: int = 4 * KIB
    pages_per_block: int = 256
    blocks_per_subarray: int = 256

    def __post_init__(self) -> None:
        _power_of_two(self, "dies", "planes", "page_bytes", "pages_per_block")
        _power_of_two(self, "subarrays", "blocks_per_subarray", least=1)

    @property
    def subarrays_per_die(self) -> int:
        return self.planes * self.subarrays

    @property
    def wave_pages(self) -> int:
        """Pages of one page wave: one page from every subarray of the stack."""
        return self.dies * self.subarrays_per_die

    @property
    def wave_bytes(self) -> int:
        return self.wave_pages * self.page_bytes

    @property
    def rows(self) -> int:
        """Pages stacked in one subarray."""
        return self.pages_per_block * self.blocks_per_subarray

    @property
    def stack_pages(self) -> int:
        return self.wave_pages * self.rows

    @property
    def stack_bytes(self) -> int:
        return self.stack_pages * self.page_bytes


@dataclass(frozen=True, kw_only=True)
class NandTiming:
    """Timing of the NAND dies; all of it is in run-time registers of the RTL.

    tR and tPROG are the paper's (those of Samsung's Z-NAND), tBERS goes with them. The others are
    zero on an ideal die with TSVs; ONFI parts need 20 ns to 4 us. The suspend time is an
    assumption: a tenth of tPROG, about the share that MQSim takes (100 of 750 us).
    """

    t_read_ns: float = 3_000.0
    t_latch_ns: float = 0.0  # tRCBSY: data register to cache register
    t_program_ns: float = 100_000.0
    t_erase_ns: float = 1_000_000.0
    t_suspend_ns: float = 10_000.0
    t_wb_ns: float = 0.0  # tWB: PROGRAM or ERASE to the first STATUS
    t_rr_ns: float = 0.0  # tRR: page in the cache register to its first beat
    t_adl_ns: float = 0.0  # tADL: LOAD to the first beat of data
    t_ccs_ns: float = 0.0  # tCCS: between beats of different subarrays of a die
    t_plane_busy_ns: float = 0.0  # tPLxBSY: between commands to one plane
    sensing: Sensing = Sensing.INDEPENDENT
    cache_read: bool = True

    def __post_init__(self) -> None:
        _positive(self, "t_read_ns", "t_program_ns", "t_erase_ns")
        for name in ("latch", "suspend", "wb", "rr", "adl", "ccs", "plane_busy"):
            value = getattr(self, f"t_{name}_ns")
            where = f"NandTiming.t_{name}_ns"
            _require(0 <= value < math.inf, where, value, "must be zero or more and finite")


@dataclass(frozen=True, kw_only=True)
class Tsv:
    """Shared through-silicon vias of one stack, one equal lane per die (rate not in the paper)."""

    bytes_per_s: float = 3.2e12

    def __post_init__(self) -> None:
        _positive(self, "bytes_per_s")


@dataclass(frozen=True, kw_only=True)
class Link:
    """One die-to-die link: modules of UCIe-A lanes behind one adapter, per direction."""

    modules: int = 4
    lanes: int = 64
    gt_per_s: float = 64.0
    usable_bytes_per_s: float = 1.6e12
    beat_bytes: int = 1024
    flit_bytes: int = 256
    one_way_cycles: int = 6  # PHY and adapter 4, channel 2 (UCIe 3.0 table 1-4: 2 ns FDI to bump)
    module_width_mm: float = 0.389
    energy_pj_per_bit: tuple[float, float] = (0.5, 0.6)  # at 0.5 V and 0.7 V

    def __post_init__(self) -> None:
        _positive(self, "gt_per_s", "usable_bytes_per_s", "lanes")
        _power_of_two(self, "modules", least=1)
        _power_of_two(self, "beat_bytes", least=64)  # a beat has an address, in units of 64 bytes
        _require(
            self.flit_bytes % 4 == 0 and 16 <= self.flit_bytes <= 256,
            "Link.flit_bytes",
            self.flit_bytes,
            "must be a multiple of 4, 16 to 256",
        )
        _require(
            2 <= self.one_way_cycles <= 64,
            "Link.one_way_cycles",
            self.one_way_cycles,
            "must be 2 to 64 clock cycles",
        )
        _require(
            self.usable_bytes_per_s <= self.raw_bytes_per_s,
            "Link.usable_bytes_per_s",
            self.usable_bytes_per_s,
            f"must not exceed the raw rate of the lanes, {self.raw_bytes_per_s:.4g} B/s",
        )

    @property
    def raw_bytes_per_s(self) -> float:
        return self.modules * self.lanes * self.gt_per_s * 1e9 / 8

    @property
    def headroom(self) -> float:
        """Fraction of the raw rate that is kept for the link itself."""
        return 1 - self.usable_bytes_per_s / self.raw_bytes_per_s

    @property
    def edge_mm(self) -> float:
        """Die edge of one endpoint."""
        return self.modules * self.module_width_mm

    @property
    def power_w(self) -> tuple[float, float]:
        """Power of one fully used direction at the two operating points."""
        low, high = self.energy_pj_per_bit
        bits_per_s = 8 * self.usable_bytes_per_s
        return bits_per_s * low * 1e-12, bits_per_s * high * 1e-12


@dataclass(frozen=True, kw_only=True)
class Sram:
    """Transfer buffers of the two base dies (per stack, usable bytes; check bits come on top).

    The HBF regions always have check bits, the relay regions only with ``relay_ecc``.
    """

    hbf_regions: int = 2
    hbf_region_bytes: int = 8 * MIB
    relay_regions: int = 2
    relay_region_bytes: int = 4 * MIB
    bank_groups: int = 4
    bank_bytes: int = 64
    ecc_data_bits: int = 64
    ecc_check_bits: int = 8
    relay_ecc: bool = False

    def __post_init__(self) -> None:
        for name, value in (("hbf", self.hbf_regions), ("relay", self.relay_regions)):
            _require(value == 2, f"Sram.{name}_regions", value, "the double buffer has 2 regions")
        _require(
            self.bank_groups == 4,
            "Sram.bank_groups",
            self.bank_groups,
            "the time slots fill, Direct, fill, Relay need exactly 4 groups",
        )
        _power_of_two(self, "hbf_region_bytes", "relay_region_bytes")
        _power_of_two(self, "bank_bytes", least=8)
        _positive(self, "ecc_data_bits", "ecc_check_bits")

    def physical_bytes(self, usable_bytes: int) -> int:
        """Bytes of macro needed for ``usable_bytes`` of data with its check bits."""
        return usable_bytes * (self.ecc_data_bits + self.ecc_check_bits) // self.ecc_data_bits

    @property
    def hbf_usable_bytes(self) -> int:
        return self.hbf_regions * self.hbf_region_bytes

    @property
    def relay_usable_bytes(self) -> int:
        return self.relay_regions * self.relay_region_bytes

    @property
    def relay_bank_bytes(self) -> int:
        """Of macro, with check bits if there are any."""
        usable = self.relay_usable_bytes
        return self.physical_bytes(usable) if self.relay_ecc else usable


@dataclass(frozen=True, kw_only=True)
class Credits:
    """Depth of the credited receive buffers."""

    rx_beats: int = 64
    descriptors: int = 32  # reads of one link, and replies to it
    writes: int = 8  # writes of one stack

    def __post_init__(self) -> None:
        _power_of_two(self, "rx_beats", least=4)
        _power_of_two(self, "descriptors", "writes", least=2)


@dataclass(frozen=True, kw_only=True)
class Hbm:
    """One HBM stack (HBM3E, 24 GB, 9.2 Gb/s pins)."""

    stack_bytes: int = 24 * 10**9
    data_bits: int = 1024
    pin_gbit_per_s: float = 9.2
    pseudo_channels: int = 32

    def __post_init__(self) -> None:
        _positive(self, "stack_bytes", "data_bits", "pin_gbit_per_s", "pseudo_channels")

    @property
    def peak_bytes_per_s(self) -> float:
        return self.data_bits * self.pin_gbit_per_s * 1e9 / 8


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Which links a package has, and how many HBM/HBF stack pairs."""

    name: str
    pairs: int
    direct: bool  # link A: HBF to GPU
    relay: bool  # link C: HBF to HBM
    flits: bool = False  # links carry flits of UCIe, not beats that are only delayed
    sideband: bool = False  # registers are reached over the sideband of UCIe, not by ports
    sideband_timeout_us: float = 8_000.0  # until an access of a register counts as lost

    def __post_init__(self) -> None:
        _require(1 <= self.pairs <= 8, "Topology.pairs", self.pairs, "must be 1 to 8 stack pairs")
        _require(self.direct or self.relay, "Topology.direct", False, "needs direct or relay")
        _require(
            0 < self.sideband_timeout_us <= 1e6,
            "Topology.sideband_timeout_us",
            self.sideband_timeout_us,
            "must be greater than zero, a second at most",
        )


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One HBM/HBF stack pair and its links; a :class:`Topology` says how many stand together."""

    name: str
    clock_hz: float = 2e9
    geometry: Geometry = field(default_factory=Geometry)
    nand: NandTiming = field(default_factory=NandTiming)
    tsv: Tsv = field(default_factory=Tsv)
    link: Link = field(default_factory=Link)
    sram: Sram = field(default_factory=Sram)
    credits: Credits = field(default_factory=Credits)
    hbm: Hbm = field(default_factory=Hbm)

    def __post_init__(self) -> None:
        _positive(self, "clock_hz")
        beat, page = self.link.beat_bytes, self.geometry.page_bytes
        _require(
            self.link.raw_bytes_per_s / (beat * self.clock_hz) > 1 - 1e-9,
            "Link.beat_bytes",
            beat,
            f"one beat a clock must not exceed the raw link rate: {beat} B x {self.clock_hz:.4g} "
            f"Hz is more than {self.link.raw_bytes_per_s:.4g} B/s",
        )
        _require(
            self.link.usable_bytes_per_s <= beat * self.clock_hz,
            "Link.usable_bytes_per_s",
            self.link.usable_bytes_per_s,
            f"must not exceed one beat a clock, {beat * self.clock_hz:.4g} B/s",
        )
        _require(
            page == beat * self.sram.bank_groups,
            "Geometry.page_bytes",
            page,
            f"a page is one beat in each of {self.sram.bank_groups} bank groups: "
            f"{beat * self.sram.bank_groups} B",
        )
        _require(
            beat % self.sram.bank_bytes == 0,
            "Sram.bank_bytes",
            self.sram.bank_bytes,
            f"must divide the beat of {beat} B",
        )
        _require(
            self.sram.hbf_region_bytes == self.geometry.wave_bytes,
            "Sram.hbf_region_bytes",
            self.sram.hbf_region_bytes,
            f"a region holds one page wave: {self.geometry.wave_bytes} B",
        )
        _require(
            2 * page <= self.sram.relay_region_bytes <= self.geometry.wave_bytes,
            "Sram.relay_region_bytes",
            self.sram.relay_region_bytes,
            f"must be at least two pages ({2 * page} B) and at most a wave",
        )
        for where, rate, beats in (
            ("Link.usable_bytes_per_s", self.link.usable_bytes_per_s, self.link_beats_per_clock),
            ("Tsv.bytes_per_s", self.tsv.bytes_per_s, self.tsv_beats_per_clock_per_die),
        ):
            least = rate * LEAST_RATE / (float(beats) * 2**RATE_BITS)
            _require(
                beats * 2**RATE_BITS >= LEAST_RATE,
                where,
                rate,
                f"is too slow for its rate register: at least {least:.4g} B/s",
            )
        _require(
            self.tsv.bytes_per_s <= self.max_tsv_bytes_per_s,
            "Tsv.bytes_per_s",
            self.tsv.bytes_per_s,
            f"the SRAM takes two beats a clock: at most {self.max_tsv_bytes_per_s:.4g} B/s",
        )
        for name, cycles in self.nand_cycles.items():
            below = 2 ** NAND_TIME_BITS[name]
            _require(
                cycles < below,
                f"NandTiming.{name}_ns",
                getattr(self.nand, f"{name}_ns"),
                f"must be under {below / self.clock_hz * 1e6:.4g} us",
            )

    # Run-time registers ---------------------------------------------------------------------------

    @property
    def nand_cycles(self) -> dict[str, int]:
        """Array and command times in clocks, rounded up, by register."""
        per_ns = Fraction(self.clock_hz) / 10**9
        return {
            name: -int(-Fraction(getattr(self.nand, f"{name}_ns")) * per_ns // 1)
            for name in NAND_TIME_BITS
        }

    @property
    def t_read_cycles(self) -> int:
        """tR in clocks, rounded up."""
        return self.nand_cycles["t_read"]

    @property
    def link_beats_per_clock(self) -> Fraction:
        """Mean data beats a clock that the link pacer lets through (25/32 in ``paper``)."""
        return Fraction(self.link.usable_bytes_per_s) / Fraction(
            self.link.beat_bytes * self.clock_hz
        )

    @property
    def tsv_beats_per_clock_per_die(self) -> Fraction:
        """Mean beats a clock on one die's TSV lane (100 B of 1024 B in ``paper``)."""
        per_die = Fraction(self.tsv.bytes_per_s) / self.geometry.dies
        return per_die / Fraction(self.link.beat_bytes * self.clock_hz)

    @property
    def max_tsv_bytes_per_s(self) -> float:
        return 2 * self.link.beat_bytes * self.clock_hz

    # Derived build-time widths --------------------------------------------------------------------

    @property
    def page_beats(self) -> int:
        return self.geometry.page_bytes // self.link.beat_bytes

    @property
    def lanes(self) -> int:
        """64-bit lanes of one beat."""
        return self.link.beat_bytes // 8

    @property
    def relay_chunk_pages(self) -> int:
        return self.sram.relay_region_bytes // self.geometry.page_bytes

    # Bounds ---------------------------------------------------------------------------------------

    def steady_bound_bytes_per_s(self, paths: int) -> float:
        """Closed-form steady read rate of one stack over ``paths`` paths, in bytes per second.

        The slowest of sensing, TSV fill and link drain, overlapped as far as sensing mode and
        cache read allow.
        """
        g, wave = self.geometry, self.geometry.wave_bytes
        t_read_s = self.nand.t_read_ns * 1e-9
        t_fill_s = wave / self.tsv.bytes_per_s
        t_drain_s = wave / (paths * self.link.usable_bytes_per_s)
        t_page_s = g.page_bytes * g.dies / self.tsv.bytes_per_s
        if self.nand.cache_read:
            period_s = max(t_read_s, t_fill_s, t_drain_s)
        elif self.nand.sensing is Sensing.INDEPENDENT:
            period_s = max(t_read_s + t_page_s, t_fill_s, t_drain_s)
        else:
            period_s = max(t_read_s + t_fill_s, t_drain_s)
        return wave / period_s

    # Identity -------------------------------------------------------------------------------------

    def as_dict(self) -> dict:
        """The whole tree as JSON-ready values."""
        tree = dataclasses.asdict(self)
        tree["nand"]["sensing"] = self.nand.sensing.value
        return tree

    @property
    def fingerprint(self) -> str:
        """Hash over every field: a timing record belongs to exactly one fingerprint."""
        text = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def with_registers(
        self,
        *,
        t_read_us: float | None = None,
        tsv_tbps: float | None = None,
        link_tbps: float | None = None,
        sensing: Sensing | None = None,
        cache_read: bool | None = None,
    ) -> "Machine":
        """The same silicon with other run-time registers; ``None`` leaves a register alone."""
        nand, tsv, link = self.nand, self.tsv, self.link
        if t_read_us is not None:
            nand = dataclasses.replace(nand, t_read_ns=ns(t_read_us))
        if sensing is not None:
            nand = dataclasses.replace(nand, sensing=sensing)
        if cache_read is not None:
            nand = dataclasses.replace(nand, cache_read=cache_read)
        if tsv_tbps is not None:
            tsv = dataclasses.replace(tsv, bytes_per_s=tsv_tbps * 1e12)
        if link_tbps is not None:
            link = dataclasses.replace(link, usable_bytes_per_s=link_tbps * 1e12)
        return dataclasses.replace(self, nand=nand, tsv=tsv, link=link)
