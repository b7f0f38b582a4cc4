"""When the column bus and the data bus are free, to a fraction of a clock."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.bank_timers import at_least, wait
from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import column_layout


class ColumnTimers(wiring.Component):
    """Keeps tCCD_S, tCCD_L, tCCD_R and both turnarounds, hence also the data bus.

    Contract: ``may_read`` and ``may_write`` have a bit a bank group, for a command of this clock.
    ``phase`` is the earliest at which a command to ``group`` may be sent in this clock; ``column``,
    the command of this clock, is sent at it. Bursts then follow each other without a gap: over any
    run of commands tCCD_S costs the burst exactly, not its clocks rounded up.
    """

    def __init__(self, stack: HbmStack) -> None:
        self._stack = stack
        o, t = stack.organization, clocks_of(stack)
        super().__init__(
            {
                "column": In(column_layout(stack)),
                "group": In(range(o.groups)),
                "phase": Out(range(max(2, t.phases))),
                "may_read": Out(o.groups),
                "may_write": Out(o.groups),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        t, o = clocks_of(self._stack), self._stack.organization
        column, one = self.column, t.phases
        read, write = Signal(), Signal()
        m.d.comb += [
            read.eq(column.valid & ~column.write),
            write.eq(column.valid & column.write),
        ]

        def units(name: str, most: int) -> Signal:
            """From the beginning of this clock until the next command may be sent."""
            left = Signal(range(most + one), name=name)
            m.d.sync += left.eq(Mux(left < one, 0, left - one))
            return left

        def follow(left: Signal, least: int) -> None:
            """No command before ``least`` units after this one."""
            to_go = Signal(range(least + one), name=f"{left.name}_next")
            m.d.comb += to_go.eq(column.phase + least - one)
            with m.If(to_go + one > left):  # tCCD_R may end before what is already waited for
                m.d.sync += left.eq(to_go)

        anywhere = units("anywhere", t.burst)
        in_group = [units(f"in_group{g}", t.ccd_l) for g in range(o.groups)]
        in_stack = [units(f"in_stack{s}", t.ccd_r) for s in range(o.stack_ids)]
        to_read = wait(m, "to_read", t.write_to_read_s)
        to_read_group = [wait(m, f"to_read{g}", t.write_to_read_l) for g in range(o.groups)]
        to_write = wait(m, "to_write", t.read_to_write)
        with m.If(column.valid):
            follow(anywhere, t.burst)
        with m.If(write):
            at_least(m, to_read, t.write_to_read_s)
        with m.If(read):
            at_least(m, to_write, t.read_to_write)
        for s, left in enumerate(in_stack):
            if o.stack_ids > 1:
                with m.If(column.valid & (column.bank // (o.banks * o.bank_groups) != s)):
                    follow(left, t.ccd_r)
        earliest = []
        for g in range(o.groups):
            here = column.bank // o.banks == g
            with m.If(column.valid & here):
                follow(in_group[g], t.ccd_l)
            with m.If(write & here):
                at_least(m, to_read_group[g], t.write_to_read_l)
            stack_wait = in_stack[g // o.bank_groups]
            both = Signal(range(max(t.ccd_l, t.ccd_r) + one), name=f"both{g}")
            first = Signal(range(max(t.ccd_l, t.ccd_r) + one), name=f"first{g}")
            free = Signal(name=f"free{g}")
            m.d.comb += [
                both.eq(Mux(in_group[g] > stack_wait, in_group[g], stack_wait)),
                first.eq(Mux(both > anywhere, both, anywhere)),
                free.eq(first < one),
                self.may_read[g].eq(free & (to_read == 0) & (to_read_group[g] == 0)),
                self.may_write[g].eq(free & (to_write == 0)),
            ]
            earliest.append(first)
        m.d.comb += self.phase.eq(Array(earliest)[self.group])
        return m
