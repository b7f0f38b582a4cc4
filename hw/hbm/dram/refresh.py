"""Which bank is refreshed when."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import HbmStack


class RefreshPlan(wiring.Component):
    """Owes a refresh of one bank every tREFI / banks, bank after bank.

    Contract: ``owed`` counts refreshes that are due; with any, ``wants`` has the bit of the bank
    that is next while nobody has ``wanted`` it, and in any case, ``forced``, once ``postponed`` of
    them are owed. ``done`` pays for one. If a forced refresh is done within tREFI / banks, no
    bank waits longer than tREFI and ``postponed`` + 2 periods of tREFI / banks.

    Members
    -------
    wanted : In: banks with requests
    done : In
    bank, wants, forced : Out
    owed : Out
    """

    def __init__(self, stack: HbmStack) -> None:
        self._stack = stack
        banks = stack.organization.bank_count
        super().__init__(
            {
                "wanted": In(banks),
                "done": In(1),
                "bank": Out(range(banks)),
                "wants": Out(1),
                "forced": Out(1),
                "owed": Out(range(stack.scheduling.postponed + 4)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        every = clocks_of(self._stack).refresh_every
        timer = Signal(range(every), init=every - 1)
        due = Signal()
        m.d.comb += due.eq(timer == 0)
        m.d.sync += timer.eq(timer - 1)
        with m.If(due):
            m.d.sync += timer.eq(every - 1)
        m.d.sync += self.owed.eq(self.owed + due - self.done)
        with m.If(self.done):
            m.d.sync += self.bank.eq(self.bank + 1)
        m.d.comb += [
            self.forced.eq(self.owed >= self._stack.scheduling.postponed),
            self.wants.eq((self.owed != 0) & (self.forced | ~self.wanted.bit_select(self.bank, 1))),
        ]
        return m
