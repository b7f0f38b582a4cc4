"""Tells of transactions that are open for too long."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.bits import line

TIMEOUT_BITS = 24  # 8.4 ms at 2 GHz
COUNT_BITS = 32


def overdue_layout(slots: int) -> data.StructLayout:
    """A transaction is overdue; ``count`` of them were so before this clock, valid or not."""
    return data.StructLayout({"valid": 1, "slot": range(slots), "tag": 12, "count": COUNT_BITS})


class Watchdog(wiring.Component):
    """Reports each transaction of some slots that stays open for ``timeout`` clocks, once.

    Promise: a transaction that is still open ``timeout + slots`` clocks after its ``begin`` has
    been reported, and none is reported less than ``timeout`` clocks after it, nor in the clock of
    its ``end`` or later. It stays open: what comes of it late is as good as ever, and whoever wants
    it gone resets the link. With ``timeout`` zero nothing is reported. It may change at any time;
    what is then older than the new one is reported within ``slots`` clocks.

    One slot is looked at in a clock, so there is one comparison for all of them. Times are kept
    modulo twice the longest timeout, and what grows older than that is marked.

    Contract: ``begin`` only of a slot that is not open, ``end`` only of one that is.

    Members
    -------
    timeout : In, in clocks, of ``bits``
    begin : In: slot and tag; end : In: slot
    overdue : Out, a pulse
    """

    def __init__(self, *, slots: int, bits: int = TIMEOUT_BITS) -> None:
        if bits < 1:
            raise ValueError(f"bits must be at least 1, not {bits!r}")
        if not 1 <= slots <= 1 << bits:
            raise ValueError(f"slots must be 1 to {1 << bits}, not {slots!r}")
        self._slots, self._bits = slots, bits
        of_slot = {"valid": 1, "slot": range(slots)}
        super().__init__(
            {
                "timeout": In(bits),
                "begin": In(data.StructLayout({**of_slot, "tag": 12})),
                "end": In(data.StructLayout(of_slot)),
                "overdue": Out(overdue_layout(slots)),
            }
        )

    @property
    def slots(self) -> int:
        return self._slots

    def elaborate(self, platform) -> Module:
        m = Module()
        slots = self._slots
        stamp = data.StructLayout({"at": self._bits + 1, "tag": 12})
        m.submodules.stamps = stamps = Memory(shape=stamp, depth=slots, init=[])
        write, read = stamps.write_port(), stamps.read_port(domain="comb")

        now, looks_at = Signal(self._bits + 1), Signal(range(slots))
        open_, old, told = Signal(slots), Signal(slots), Signal(slots)
        age, late = Signal(self._bits + 1), Signal()
        m.d.sync += [now.eq(now + 1), looks_at.eq(looks_at + 1)]
        with m.If(looks_at == slots - 1):
            m.d.sync += looks_at.eq(0)
        begins = line(self.begin.valid, self.begin.slot, slots)
        ends = line(self.end.valid, self.end.slot, slots)
        seen = Signal(slots)
        m.d.comb += [
            write.en.eq(self.begin.valid),
            write.addr.eq(self.begin.slot),
            write.data.at.eq(now),
            write.data.tag.eq(self.begin.tag),
            read.addr.eq(looks_at),
            seen.eq(line(1, looks_at, slots)),
            age.eq(now - read.data.at),
            late.eq((old & seen).any() | (age >= self.timeout)),
            self.overdue.valid.eq((open_ & ~told & ~ends & seen).any() & late & self.timeout.any()),
            self.overdue.slot.eq(looks_at),
            self.overdue.tag.eq(read.data.tag),
        ]
        m.d.sync += [
            open_.eq((open_ & ~ends) | begins),
            # Past half the range: seen before it has gone round, since slots are not more.
            old.eq((old | (seen & age[-1].replicate(slots))) & ~begins),
            told.eq((told | (seen & self.overdue.valid.replicate(slots))) & ~begins),
            self.overdue.count.eq(self.overdue.count + self.overdue.valid),
        ]
        return m
