"""Slots of transactions: small numbers, each in use for one transaction at a time."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.bits import line, position


class Slots(wiring.Component):
    """Hands out slots, the lowest that is free first.

    Promise: a slot that was taken is handed out again from the clock after ``free`` of it on, and
    not before. One taken and one freed a clock; nothing is held back.

    Contract: ``take`` only with ``room``; ``free`` only of a slot that is taken.

    Members
    -------
    room : Out: a slot is free; slot : Out: the one that ``take`` takes
    take : In
    free : In: slot
    """

    def __init__(self, *, slots: int) -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, not {slots!r}")
        self._slots = slots
        super().__init__(
            {
                "room": Out(1),
                "slot": Out(range(slots)),
                "take": In(1),
                "free": In(data.StructLayout({"valid": 1, "slot": range(slots)})),
            }
        )

    @property
    def slots(self) -> int:
        return self._slots

    def elaborate(self, platform) -> Module:
        m = Module()
        busy, first = Signal(self._slots), Signal(self._slots)
        m.d.comb += [
            first.eq(~busy & (busy + 1)),
            self.room.eq(~busy.all()),
            self.slot.eq(position(m, first)),
        ]
        freed = line(self.free.valid, self.free.slot, self._slots)
        m.d.sync += busy.eq((busy & ~freed) | Mux(self.take, first, 0))
        return m
