# amaranth: UnusedElaboratable=no
"""The timers of a pseudo-channel: whatever commands they allow, none breaks a rule of the DRAM.

Commands come in any order that the timers allow. What was kept is counted from the commands alone,
in fractions of a clock, and compared with the nanoseconds of the description.
"""

import dataclasses
from fractions import Fraction
from math import ceil

import pytest
from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib.wiring import In

from hw.hbm.dram.bank_timers import BankTimers
from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.column_timers import ColumnTimers
from hw.hbm.dram.description import DramOrganization
from hw.hbm.dram.layouts import RowCommand, column_layout, row_layout
from hw.hbm.dram.row_timers import RowTimers
from hw.hbm.dram.stacks import stack
from tests.formal.harness import Counterexample, Properties, constant, prove
from tests.formal.variants import variant

# Bursts of two and a half clocks, sent at half clocks; two stack ids of two groups.
STACK = dataclasses.replace(
    stack("formal"),
    organization=DramOrganization(
        pseudo_channels=2, stack_ids=2, bank_groups=2, banks=1, rows=2, row_bytes=128
    ),
    timing=dataclasses.replace(stack("formal").timing, pin_gbit_per_s=6.4, rtw_ns=2.0),
)
TIMING, PHASES = STACK.timing, clocks_of(STACK).phases
LONGEST = 63


def units(*times_ns) -> int:
    """Fractions of a clock in the sum of some times, rounded up."""
    total = sum((Fraction(str(time)) if isinstance(time, float) else time for time in times_ns),
                Fraction(0))  # fmt: skip
    return ceil(total * Fraction(STACK.clock_hz) / 10**9 * PHASES)


WRITTEN = (TIMING.cwl_ns, TIMING.burst_ns)


class Commands(Properties):
    """Any row command and any column command a clock, in units since the last of each kind."""

    def __init__(self, timers: type) -> None:
        self.timers = timers(STACK)
        super().__init__({"row": In(row_layout(STACK)), "column": In(column_layout(STACK))})

    def since(self, m: Module, name: str, event, phase=0) -> Signal:
        """Units since ``event``, from its phase to the beginning of this clock."""
        kept = Signal(range(LONGEST * PHASES + 1), init=LONGEST * PHASES, name=f"since_{name}")
        limit = (LONGEST - 1) * PHASES
        later = Mux(kept > limit, kept, kept + PHASES)
        m.d.sync += kept.eq(Mux(event, PHASES - phase, later))
        return kept

    def command(self, command: RowCommand):
        return self.row.valid & (self.row.command == command)


class BankRules(Commands):
    """One bank, any of them."""

    def __init__(self, timers: type = BankTimers) -> None:
        super().__init__(timers)

    def describe(self, m) -> None:
        m.submodules.timers = timers = self.timers
        row, column, t = self.row, self.column, TIMING

        def may(lines, bank):
            return lines.bit_select(bank, 1)

        opens = self.command(RowCommand.ACTIVATE) | self.command(RowCommand.REFRESH)
        closes = self.command(RowCommand.PRECHARGE)
        m.d.comb += [
            timers.row.eq(row),
            timers.column.eq(column),
            Assume(row.command.as_value() != 3),
            Assume(~opens | may(timers.may_activate, row.bank)),
            Assume(~closes | may(timers.may_precharge, row.bank)),
            Assume(~column.valid | may(Mux(column.write, timers.may_write, timers.may_read),
                                       column.bank)),
            Assume(column.phase < PHASES),
            # A bank gets one command a clock.
            Assume(~(row.valid & column.valid) | (row.bank != column.bank)),
        ]  # fmt: skip
        bank = constant(m, "bank", range(STACK.organization.bank_count))
        here, there = row.bank == bank, column.valid & (column.bank == bank)
        activate = here & self.command(RowCommand.ACTIVATE)
        refresh = here & self.command(RowCommand.REFRESH)
        precharge = here & closes
        read, write = there & ~column.write, there & column.write
        opened = Signal()
        with m.If(activate):
            m.d.sync += opened.eq(1)
        with m.If(precharge):
            m.d.sync += opened.eq(0)
        a, p = self.since(m, "activate", activate), self.since(m, "precharge", precharge)
        f = self.since(m, "refresh", refresh)
        r = self.since(m, "read", read, column.phase)
        w = self.since(m, "write", write, column.phase)
        m.d.comb += [
            Assert(~(activate | refresh) | ~opened, "opens what is closed"),
            Assert(~(precharge | there) | opened, "uses what is open"),
            Assert(~(activate | refresh) | (a >= units(t.rc_ns)), "tRC"),
            Assert(~(activate | refresh) | (p >= units(t.rp_ns)), "tRP"),
            Assert(~(activate | refresh) | (f >= units(t.rfc_ns)), "tRFC"),
            Assert(~precharge | (a >= units(t.ras_ns)), "tRAS"),
            Assert(~precharge | (r >= units(t.rtp_ns)), "tRTP"),
            Assert(~precharge | (w >= units(*WRITTEN, t.wr_ns)), "tWR"),
            Assert(~read | (a + column.phase >= units(t.rcd_read_ns)), "tRCD of a read"),
            Assert(~write | (a + column.phase >= units(t.rcd_write_ns)), "tRCD of a write"),
            Cover(activate & (a == units(t.rc_ns)), "activates as soon as it may"),
            Cover(precharge & (w < LONGEST) & (r < LONGEST), "closes after both"),
        ]


class RowRules(Commands):
    """Any two row commands."""

    def __init__(self, timers: type = RowTimers) -> None:
        super().__init__(timers)

    def describe(self, m) -> None:
        m.submodules.timers = timers = self.timers
        o, t, row = STACK.organization, TIMING, self.row
        activate, refresh = self.command(RowCommand.ACTIVATE), self.command(RowCommand.REFRESH)
        group = row.bank // o.banks
        m.d.comb += [
            timers.row.eq(row),
            Assume(row.command.as_value() != 3),
            Assume(~activate | timers.may_activate.bit_select(group, 1)),
            Assume(~refresh | timers.may_refresh),
            Assume(~row.valid | timers.may_command),
        ]
        watched = constant(m, "watched", range(o.groups))
        same = activate & (group == watched)
        last, f = self.since(m, "activate", activate), self.since(m, "refresh", refresh)
        in_group = self.since(m, "group", same)
        window = [last]
        for k in range(3):  # the ACTIVATE before the one before
            older = Signal.like(last, init=LONGEST * PHASES, name=f"older{k}")
            newer = window[-1]
            limit = (LONGEST - 1) * PHASES
            aged = [Mux(x > limit, x, x + PHASES) for x in (newer, older)]
            m.d.sync += older.eq(Mux(activate, aged[0], aged[1]))
            window.append(older)
        m.d.comb += [
            Assert(~(activate | refresh) | (last >= units(t.rrd_s_ns)), "tRRD S"),
            Assert(~same | (in_group >= units(t.rrd_l_ns)), "tRRD L"),
            Assert(~activate | (window[-1] >= units(t.faw_ns)), "tFAW"),
            Assert(~(activate | refresh) | (f >= units(t.rrefd_ns)), "tRREFD"),
            Assert(~row.valid | (last >= units(t.activate_bus_ns)), "row bus"),
            Cover(activate & (window[-1] == units(t.faw_ns)), "five at once"),
        ]


class ColumnRules(Commands):
    """Any two column commands, and the data that they move."""

    def __init__(self, timers: type = ColumnTimers) -> None:
        super().__init__(timers)

    def describe(self, m) -> None:
        m.submodules.timers = timers = self.timers
        o, t, column = STACK.organization, TIMING, self.column
        group = column.bank // o.banks
        m.d.comb += [
            timers.column.eq(column),
            timers.group.eq(group),
            Assume(column.phase == timers.phase),
            Assume(~column.valid
                   | Mux(column.write, timers.may_write, timers.may_read).bit_select(group, 1)),
        ]  # fmt: skip
        watched = constant(m, "watched", range(o.groups))
        valid, write, phase = column.valid, column.write, column.phase
        here = valid & (group == watched)
        other = valid & (group // o.bank_groups != watched // o.bank_groups)

        def kept(name, event):
            return self.since(m, name, event, phase) + phase

        burst, wr = t.burst_ns, WRITTEN
        data = Signal(range(4 * LONGEST * PHASES))  # until the last bit is over
        latency = Mux(write, units(t.cwl_ns), units(t.cl_ns)) + phase
        left = Signal.like(data)
        m.d.comb += left.eq(Mux(data > PHASES, data - PHASES, 0))
        m.d.sync += data.eq(Mux(valid, latency + units(burst) - PHASES, left))
        m.d.comb += [
            Assert(~valid | (phase < PHASES), "within its clock"),
            Assert(~valid | (kept("any", valid) >= units(burst)), "tCCD S"),
            Assert(~here | (kept("group", here) >= units(2 * burst)), "tCCD L"),
            Assert(~here | (kept("other", other) >= units(burst * 3 / 2)), "tCCD R"),
            Assert(~(valid & write) | (kept("read", valid & ~write) >= units(t.rtw_ns)), "tRTW"),
            Assert(~(valid & ~write)
                   | (kept("write", valid & write) >= units(*wr, t.wtr_s_ns)), "tWTR S"),
            Assert(~(here & ~write)
                   | (kept("group_write", here & write) >= units(*wr, t.wtr_l_ns)), "tWTR L"),
            Assert(~valid | (latency >= data), "data bus"),
            Cover(valid & (kept("again", valid) == units(burst)) & (phase != 0), "without a gap"),
        ]  # fmt: skip


RULES = {"banks": BankRules, "rows": RowRules, "columns": ColumnRules}


@pytest.mark.formal
@pytest.mark.parametrize("which", RULES)
def test_what_timers_allow_breaks_no_rule(which) -> None:
    prove(RULES[which]())
    prove(RULES[which](), mode="cover", depth=40)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("rules", "timers", "old", "new", "violated"),
    [
        (BankRules, BankTimers, "at_least(m, to_activate, t.rp)", "pass", "tRP"),
        (BankRules, BankTimers, "to_activate.eq(t.rfc - 1)", "to_activate.eq(t.rfc - 2)", "tRFC"),
        (BankRules, BankTimers, "at_least(m, to_precharge, t.write_to_precharge)", "pass", "tWR"),
        (RowRules, RowTimers, "left.eq(t.faw - 1)", "left.eq(t.faw - 2)", "tFAW"),
        (RowRules, RowTimers, "at_least(m, any_group, t.rrefd)", "pass", "tRREFD"),
        (ColumnRules, ColumnTimers, "follow(in_group[g], t.ccd_l)", "pass", "tCCD_L"),
        (ColumnRules, ColumnTimers, "follow(left, t.ccd_r)", "pass", "tCCD_R"),
        (ColumnRules, ColumnTimers, "at_least(m, to_write, t.read_to_write)", "pass", "tRTW"),
    ],
)
def test_a_rule_forgotten_is_found(rules, timers, old, new, violated) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(rules(variant(timers, (old, new))), mode="bmc", depth=30)
