"""State of the banks of a pseudo-channel, and what each may do next."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import RowCommand, column_layout, row_layout


def wait(m: Module, name: str, clocks: int) -> Signal:
    """A counter up to ``clocks`` that falls by one a clock; later assignments go before that."""
    left = Signal(range(max(2, clocks)), name=name)
    m.d.sync += left.eq(Mux(left == 0, 0, left - 1))
    return left


def at_least(m: Module, left: Signal, clocks: int) -> None:
    """Lets ``left`` become 0 no earlier than ``clocks`` clocks from now."""
    with m.If(left < clocks):
        m.d.sync += left.eq(clocks - 1)


class BankTimers(wiring.Component):
    """Keeps, bank by bank, the rules between commands to one bank: tRCD, tRAS, tRP, tRC, tRTP,
    write recovery and tRFC.

    Contract: the outputs have a bit a bank and say what a command of this clock may do, as far as
    its own bank is concerned; ``row`` and ``column`` are the commands of this clock, and the user
    gives none that is not allowed. A row may be activated or refreshed with ``may_activate``. What
    is told changes one clock after a command.
    """

    def __init__(self, stack: HbmStack) -> None:
        self._stack = stack
        banks = stack.organization.bank_count
        super().__init__(
            {
                "row": In(row_layout(stack)),
                "column": In(column_layout(stack)),
                "open": Out(banks),
                "may_activate": Out(banks),
                "may_precharge": Out(banks),
                "may_read": Out(banks),
                "may_write": Out(banks),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        t = clocks_of(self._stack)
        row, column = self.row, self.column
        for b in range(self._stack.organization.bank_count):
            here = row.valid & (row.bank == b)
            activate = Signal(name=f"activate{b}")
            precharge = Signal(name=f"precharge{b}")
            refresh = Signal(name=f"refresh{b}")
            read, write = Signal(name=f"read{b}"), Signal(name=f"write{b}")
            moves = column.valid & (column.bank == b)
            m.d.comb += [
                activate.eq(here & (row.command == RowCommand.ACTIVATE)),
                precharge.eq(here & (row.command == RowCommand.PRECHARGE)),
                refresh.eq(here & (row.command == RowCommand.REFRESH)),
                read.eq(moves & ~column.write),
                write.eq(moves & column.write),
            ]
            to_activate = wait(m, f"to_activate{b}", max(t.rc, t.rp, t.rfc))
            to_precharge = wait(
                m, f"to_precharge{b}", max(t.ras, t.read_to_precharge, t.write_to_precharge)
            )
            to_read = wait(m, f"to_read{b}", t.rcd_read)
            to_write = wait(m, f"to_write{b}", t.rcd_write)
            with m.If(activate):
                m.d.sync += [
                    self.open[b].eq(1),
                    to_activate.eq(t.rc - 1),
                    to_precharge.eq(t.ras - 1),
                    to_read.eq(t.rcd_read - 1),
                    to_write.eq(t.rcd_write - 1),
                ]
            with m.If(precharge):
                m.d.sync += self.open[b].eq(0)
                at_least(m, to_activate, t.rp)
            with m.If(refresh):
                m.d.sync += to_activate.eq(t.rfc - 1)
            with m.If(read):
                at_least(m, to_precharge, t.read_to_precharge)
            with m.If(write):
                at_least(m, to_precharge, t.write_to_precharge)
            m.d.comb += [
                self.may_activate[b].eq(~self.open[b] & (to_activate == 0)),
                self.may_precharge[b].eq(self.open[b] & (to_precharge == 0)),
                self.may_read[b].eq(self.open[b] & (to_read == 0)),
                self.may_write[b].eq(self.open[b] & (to_write == 0)),
            ]
        return m
