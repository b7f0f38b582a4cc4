"""Timing checker of one DRAM pseudo-channel: every rule, in nanoseconds, on what the bus shows.

It is plain Python over the times of :class:`hw.hbm.dram.description.DramTiming` and knows nothing
of how a controller counts clocks: it keeps when each command was sent, as exact integers, and looks
at the differences.
"""

import enum
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

from hw.hbm.dram.description import HbmStack


class DramRule(enum.Enum):
    """What a command can break."""

    COLUMN_OF_CLOSED = "READ or WRITE of a bank without an open row"
    ACTIVATE_OF_OPEN = "ACTIVATE of a bank with an open row"
    PRECHARGE_OF_CLOSED = "PRECHARGE of a bank without an open row"
    REFRESH_OF_OPEN = "refresh of a bank with an open row"
    NO_SUCH_ROW = "row beyond the last"
    RCD_READ = "ACTIVATE to READ"
    RCD_WRITE = "ACTIVATE to WRITE"
    RAS = "ACTIVATE to PRECHARGE"
    RC = "ACTIVATE to ACTIVATE or refresh of a bank"
    RP = "PRECHARGE to ACTIVATE or refresh"
    RTP = "READ to PRECHARGE"
    WR = "last bit of a WRITE to PRECHARGE"
    RRD_S = "ACTIVATE to ACTIVATE or refresh of another bank group"
    RRD_L = "ACTIVATE to ACTIVATE within a bank group"
    FAW = "five ACTIVATEs"
    CCD_S = "column command to column command"
    CCD_L = "column command to column command within a bank group"
    CCD_R = "column command to column command of another stack id"
    WTR_S = "last bit of a WRITE to READ"
    WTR_L = "last bit of a WRITE to READ within a bank group"
    RTW = "READ to WRITE"
    DATA_BUS = "bursts on the data pins"
    RFC = "refresh to the next command of the bank"
    RREFD = "refresh to ACTIVATE or refresh of another bank"
    REFRESH_LATE = "refresh to refresh of a bank, at most"
    ROW_BUS = "ACTIVATE to the next row command"


@dataclass(frozen=True)
class Violation:
    """A broken rule: what was kept instead, and when."""

    rule: DramRule
    time_ns: float
    bank: int
    kept_ns: float | None

    def __str__(self) -> str:
        kept = "" if self.kept_ns is None else f", {self.kept_ns:.4f} ns kept"
        return (
            f"{self.rule.name} at {self.time_ns:.3f} ns, bank {self.bank}: {self.rule.value}{kept}"
        )


@dataclass
class _Bank:
    row: int | None = None
    activated: int | None = None
    precharged: int | None = None
    refreshed: int | None = None
    read: int | None = None
    written: int | None = None


@dataclass
class DramChecker:
    """Takes commands in order of time and collects :attr:`violations`.

    Args:
        stack: Its organization and its times.
        phases: Units of a clock in which a column command tells its phase.
    """

    stack: HbmStack
    phases: int
    violations: list[Violation] = field(default_factory=list)
    commands: int = 0

    def __post_init__(self) -> None:
        t = self.stack.timing
        clock = 10**9 / Fraction(str(self.stack.clock_hz))
        names = [name for name in vars(t) if name.endswith("_ns")]
        exact = {name.removesuffix("_ns"): Fraction(str(getattr(t, name))) for name in names}
        exact["burst"] = t.burst_ns
        exact["ccd_l"] = t.burst_ns * Fraction(str(t.ccd_l_bursts))
        exact["ccd_r"] = t.burst_ns * Fraction(str(t.ccd_r_bursts))
        o = self.stack.organization
        slack = self.stack.scheduling.postponed + 1
        exact["refresh_limit"] = exact["refi"] * Fraction(o.bank_count + slack, o.bank_count)
        phase = clock / self.phases
        self._scale = lcm(phase.denominator, *(value.denominator for value in exact.values()))
        self._t = {name: int(value * self._scale) for name, value in exact.items()}
        self._clock, self._phase = int(clock * self._scale), int(phase * self._scale)
        self._banks = [_Bank() for _ in range(o.bank_count)]
        self._activates: list[tuple[int, int]] = []  # the last four: time and bank
        # The last column commands: anywhere, of a bank group or a stack id; and whether WRITE.
        self._last_column: dict[tuple[str, int | None, bool], int] = {}
        self._bus_free: int | None = None
        self._data: list[tuple[int, int]] = []
        self._refresh: tuple[int, int] | None = None

    # Observation ----------------------------------------------------------------------------------

    def activate(self, clock: int, bank: int, row: int) -> None:
        now, at = clock * self._clock, self._banks[bank]
        self._row_bus(now, bank)
        if at.row is not None:
            self._broken(DramRule.ACTIVATE_OF_OPEN, now, bank)
        if not 0 <= row < self.stack.organization.rows:
            self._broken(DramRule.NO_SUCH_ROW, now, bank)
        self._opens(now, bank)
        self._apart(DramRule.RREFD, now, bank, self._other_refresh(bank), "rrefd")
        for then, _ in self._activates[-1:]:
            self._apart(DramRule.RRD_S, now, bank, then, "rrd_s")
        for then, other in self._activates:
            if self._group(other) == self._group(bank):
                self._apart(DramRule.RRD_L, now, bank, then, "rrd_l")
        if len(self._activates) == 4:
            self._apart(DramRule.FAW, now, bank, self._activates[0][0], "faw")
        self._activates = [*self._activates[-3:], (now, bank)]
        at.row, at.activated = row, now
        self._bus_free = now + self._t["activate_bus"]

    def precharge(self, clock: int, bank: int) -> None:
        now, at = clock * self._clock, self._banks[bank]
        self._row_bus(now, bank)
        if at.row is None:
            self._broken(DramRule.PRECHARGE_OF_CLOSED, now, bank)
        self._apart(DramRule.RAS, now, bank, at.activated, "ras")
        self._apart(DramRule.RTP, now, bank, at.read, "rtp")
        self._apart(DramRule.WR, now, bank, at.written, "cwl", "burst", "wr")
        at.row, at.precharged = None, now

    def refresh(self, clock: int, bank: int) -> None:
        now, at = clock * self._clock, self._banks[bank]
        self._row_bus(now, bank)
        if at.row is not None:
            self._broken(DramRule.REFRESH_OF_OPEN, now, bank)
        self._opens(now, bank)
        self._apart(DramRule.RREFD, now, bank, self._other_refresh(bank), "rrefd")
        for then, _ in self._activates[-1:]:
            self._apart(DramRule.RRD_S, now, bank, then, "rrd_s")
        self._in_time(now, bank)
        at.refreshed = now
        self._refresh = now, bank

    def column(self, clock: int, phase: int, bank: int, *, write: bool) -> None:
        now = clock * self._clock + phase * self._phase
        at = self._banks[bank]
        if at.row is None:
            self._broken(DramRule.COLUMN_OF_CLOSED, now, bank)
        if write:
            self._apart(DramRule.RCD_WRITE, now, bank, at.activated, "rcd_write")
        else:
            self._apart(DramRule.RCD_READ, now, bank, at.activated, "rcd_read")
        group, stack_id = self._group(bank), self._stack_id(bank)
        last = self._last_column
        for kind in (False, True):
            self._apart(DramRule.CCD_S, now, bank, last.get(("any", None, kind)), "burst")
            self._apart(DramRule.CCD_L, now, bank, last.get(("group", group, kind)), "ccd_l")
            for other in range(self.stack.organization.stack_ids):
                if other != stack_id:
                    then = last.get(("stack", other, kind))
                    self._apart(DramRule.CCD_R, now, bank, then, "ccd_r")
        if write:
            self._apart(DramRule.RTW, now, bank, last.get(("any", None, False)), "rtw")
        else:
            behind = ("cwl", "burst")
            self._apart(DramRule.WTR_S, now, bank, last.get(("any", None, True)), *behind, "wtr_s")
            then = last.get(("group", group, True))
            self._apart(DramRule.WTR_L, now, bank, then, *behind, "wtr_l")
        begin = now + self._t["cwl" if write else "cl"]
        end = begin + self._t["burst"]
        if any(begin < other_end and other < end for other, other_end in self._data):
            self._broken(DramRule.DATA_BUS, now, bank)
        self._data = [*self._data[-7:], (begin, end)]
        for key in (("any", None, write), ("group", group, write), ("stack", stack_id, write)):
            last[key] = now
        if write:
            at.written = now
        else:
            at.read = now
        self.commands += 1

    def end(self, clock: int) -> None:
        """No command comes any more: is any bank left behind?"""
        for bank in range(len(self._banks)):
            self._in_time(clock * self._clock, bank)

    # Rules ----------------------------------------------------------------------------------------

    def _opens(self, now: int, bank: int) -> None:
        """What ACTIVATE and refresh of a bank have in common."""
        at = self._banks[bank]
        self._apart(DramRule.RC, now, bank, at.activated, "rc")
        self._apart(DramRule.RP, now, bank, at.precharged, "rp")
        self._apart(DramRule.RFC, now, bank, at.refreshed, "rfc")

    def _other_refresh(self, bank: int) -> int | None:
        if self._refresh is None or self._refresh[1] == bank:
            return None
        return self._refresh[0]

    def _row_bus(self, now: int, bank: int) -> None:
        self.commands += 1
        if self._bus_free is not None and now < self._bus_free:
            self._broken(DramRule.ROW_BUS, now, bank)

    def _in_time(self, now: int, bank: int) -> None:
        kept = now - (self._banks[bank].refreshed or 0)
        if kept > self._t["refresh_limit"]:
            self._broken(DramRule.REFRESH_LATE, now, bank, kept)

    def _apart(self, rule: DramRule, now: int, bank: int, then: int | None, *times: str) -> None:
        if then is not None and now - then < sum(self._t[name] for name in times):
            self._broken(rule, now, bank, now - then)

    def _broken(self, rule: DramRule, now: int, bank: int, kept: int | None = None) -> None:
        kept_ns = None if kept is None else kept / self._scale
        self.violations.append(Violation(rule, now / self._scale, bank, kept_ns))

    def _group(self, bank: int) -> int:
        return bank // self.stack.organization.banks

    def _stack_id(self, bank: int) -> int:
        return self._group(bank) // self.stack.organization.bank_groups
