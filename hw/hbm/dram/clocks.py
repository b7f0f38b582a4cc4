"""Times of a stack in clocks of the base die.

A column command has a *phase*: how far into its clock the PHY sends it, in units of ``1 / phases``
clocks. Bursts of HBM3E last 1.739 clocks of 2 GHz; commands on whole clocks would cost 13 % of the
data rate. Row commands are sent at the beginning of their clock.

Whatever ends at a column command is kept exactly, in units; everything else in clocks, rounded up,
with a clock more where the command that begins it may be late by its phase.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from hw.hbm.dram.description import HbmStack

MAX_PHASES = 64


@dataclass(frozen=True)
class DramClocks:
    """Times as the RTL counts them, named as in :class:`hw.hbm.dram.description.DramTiming`.

    Attributes:
        phases: Units of a clock.
        burst, ccd_l, ccd_r: In units.
        read_to_precharge, write_to_precharge, write_to_read_s, write_to_read_l, read_to_write:
            From a column command at any phase.
        refresh_every: Clocks to a refresh of one bank, rounded down.
        read_latency: From the clock of a READ until its burst has come as a whole.
    """

    phases: int
    burst: int
    ccd_l: int
    ccd_r: int
    rcd_read: int
    rcd_write: int
    rp: int
    ras: int
    rc: int
    rrd_s: int
    rrd_l: int
    faw: int
    rfc: int
    rrefd: int
    activate_bus: int
    read_to_precharge: int
    write_to_precharge: int
    write_to_read_s: int
    write_to_read_l: int
    read_to_write: int
    refresh_every: int
    read_latency: int


def clocks_of(stack: HbmStack) -> DramClocks:
    """The times of ``stack`` at its clock."""
    t = stack.timing
    per_ns = Fraction(str(stack.clock_hz)) / 10**9
    burst = t.burst_ns * per_ns
    phases = burst.denominator
    if phases > MAX_PHASES:
        phases = MAX_PHASES

    def units(bursts: float) -> int:
        return ceil(Fraction(str(bursts)) * burst * phases)

    def whole(time_ns: float) -> int:
        return ceil(Fraction(str(time_ns)) * per_ns)

    def behind_column(time_ns: Fraction) -> int:
        return ceil(time_ns * per_ns) + (phases > 1)

    def exact(*times_ns: float) -> Fraction:
        return sum((Fraction(str(time)) for time in times_ns), Fraction(0))

    written = exact(t.cwl_ns) + t.burst_ns
    return DramClocks(
        phases=phases,
        burst=units(1),
        ccd_l=units(t.ccd_l_bursts),
        ccd_r=units(t.ccd_r_bursts),
        rcd_read=whole(t.rcd_read_ns),
        rcd_write=whole(t.rcd_write_ns),
        rp=whole(t.rp_ns),
        ras=whole(t.ras_ns),
        rc=whole(t.rc_ns),
        rrd_s=whole(t.rrd_s_ns),
        rrd_l=whole(t.rrd_l_ns),
        faw=whole(t.faw_ns),
        rfc=whole(t.rfc_ns),
        rrefd=whole(t.rrefd_ns),
        activate_bus=whole(t.activate_bus_ns),
        read_to_precharge=behind_column(exact(t.rtp_ns)),
        write_to_precharge=behind_column(written + exact(t.wr_ns)),
        write_to_read_s=behind_column(written + exact(t.wtr_s_ns)),
        write_to_read_l=behind_column(written + exact(t.wtr_l_ns)),
        read_to_write=behind_column(exact(t.rtw_ns)),
        refresh_every=floor(Fraction(str(t.refi_ns)) * per_ns / stack.organization.bank_count),
        read_latency=behind_column(exact(t.cl_ns) + t.burst_ns),
    )
