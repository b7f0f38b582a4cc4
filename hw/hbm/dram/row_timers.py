"""What the row commands of different banks keep among each other."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.bank_timers import at_least, wait
from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import RowCommand, row_layout

WINDOW = 4  # ACTIVATEs within tFAW


class RowTimers(wiring.Component):
    """Keeps tRRD_S, tRRD_L, tFAW, tRREFD and the row bus.

    Contract: ``may_activate`` has a bit a bank group; ``may_refresh`` and ``may_command`` (any
    other row command) are for all. They are told for a command of this clock, ``row``, and change
    one clock after it. A refresh keeps tRRD_S from the ACTIVATE before it.
    """

    def __init__(self, stack: HbmStack) -> None:
        self._stack = stack
        super().__init__(
            {
                "row": In(row_layout(stack)),
                "may_activate": Out(stack.organization.groups),
                "may_refresh": Out(1),
                "may_command": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        t, o = clocks_of(self._stack), self._stack.organization
        activate, refresh = Signal(), Signal()
        m.d.comb += [
            activate.eq(self.row.valid & (self.row.command == RowCommand.ACTIVATE)),
            refresh.eq(self.row.valid & (self.row.command == RowCommand.REFRESH)),
        ]
        bus = wait(m, "bus", t.activate_bus)
        any_group = wait(m, "any_group", max(t.rrd_s, t.rrefd))
        # The four last ACTIVATEs in turn; the oldest is the one that the next overwrites.
        window = [wait(m, f"window{k}", t.faw) for k in range(WINDOW)]
        oldest = Signal(range(WINDOW))
        window_open = Signal()
        with m.Switch(oldest):
            for k, left in enumerate(window):
                with m.Case(k):
                    m.d.comb += window_open.eq(left == 0)
                    with m.If(activate):
                        m.d.sync += left.eq(t.faw - 1)
        with m.If(activate):
            m.d.sync += [
                oldest.eq(oldest + 1),
                bus.eq(t.activate_bus - 1),
            ]
            at_least(m, any_group, t.rrd_s)
        with m.If(refresh):
            at_least(m, any_group, t.rrefd)
        m.d.comb += [
            self.may_command.eq(bus == 0),
            self.may_refresh.eq(self.may_command & (any_group == 0)),
        ]
        for g in range(o.groups):
            same = wait(m, f"group{g}", t.rrd_l)
            with m.If(activate & (self.row.bank // o.banks == g)):
                m.d.sync += same.eq(t.rrd_l - 1)
            m.d.comb += self.may_activate[g].eq(self.may_refresh & window_open & (same == 0))
        return m
