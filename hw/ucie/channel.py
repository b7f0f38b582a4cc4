"""The die-to-die channel as the base dies see it: a fixed delay each way."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.sram.beat import BeatSram1r1w
from hw.ucie.transaction import DataPort, Header, RequestPort


class _DelayLine(wiring.Component):
    """Delays a narrow value by ``cycles`` clocks."""

    def __init__(self, *, shape, cycles: int) -> None:
        self._shape, self._cycles = shape, cycles
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform) -> Module:
        m = Module()
        value = self.i
        for stage in range(self._cycles):
            delayed = Signal(self._shape, name=f"stage{stage}")
            m.d.sync += delayed.eq(value)
            value = delayed
        m.d.comb += self.o.eq(value)
        return m


class RequestChannel(wiring.Component):
    """One direction of a link for descriptors, its credits flowing back.

    Contract: ``o`` repeats ``i`` and ``i.credit`` repeats ``o.credit``, each ``cycles`` clocks
    later. Nothing is lost, reordered or stalled.
    """

    def __init__(self, *, cycles: int) -> None:
        self._cycles = cycles
        super().__init__({"i": In(RequestPort()), "o": Out(RequestPort())})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.valid = valid = _DelayLine(shape=1, cycles=self._cycles)
        m.submodules.header = header = _DelayLine(shape=Header, cycles=self._cycles)
        m.submodules.credit = credit = _DelayLine(shape=1, cycles=self._cycles)
        m.d.comb += [
            valid.i.eq(self.i.valid),
            header.i.eq(self.i.header),
            self.o.valid.eq(valid.o),
            self.o.header.eq(header.o),
            credit.i.eq(self.o.credit),
            self.i.credit.eq(credit.o),
        ]
        return m


class DataChannel(wiring.Component):
    """One direction of a link for data beats, its credits flowing back.

    Contract: as :class:`RequestChannel`, one beat a clock. The lanes of a beat that is under way
    wait in a ring of ``cycles`` rows instead of moving through as many registers; ports cannot tell
    the difference.
    """

    def __init__(self, *, lanes: int, cycles: int, bank_bytes: int) -> None:
        if cycles < 2:
            raise ValueError(f"channel delay must be at least 2 clocks, not {cycles!r}")
        self._lanes, self._cycles, self._bank_bytes = lanes, cycles, bank_bytes
        super().__init__({"i": In(DataPort(lanes)), "o": Out(DataPort(lanes))})

    def elaborate(self, platform) -> Module:
        m = Module()
        cycles = self._cycles
        m.submodules.early = early = _DelayLine(shape=1, cycles=cycles - 1)
        m.submodules.header = header = _DelayLine(shape=Header, cycles=cycles)
        m.submodules.credit = credit = _DelayLine(shape=1, cycles=cycles)
        m.submodules.ring = ring = BeatSram1r1w(
            lanes=self._lanes, depth=cycles, bank_bytes=self._bank_bytes
        )
        # Row t mod cycles is written at clock t and read at clock t + cycles - 1.
        row, oldest = Signal(range(cycles)), Signal(range(cycles))
        m.d.comb += oldest.eq(Mux(row == cycles - 1, 0, row + 1))
        m.d.sync += [row.eq(oldest), self.o.valid.eq(early.o)]
        m.d.comb += [
            early.i.eq(self.i.valid),
            ring.w_en.eq(self.i.valid),
            ring.w_addr.eq(row),
            ring.r_en.eq(early.o),
            ring.r_addr.eq(oldest),
            header.i.eq(self.i.header),
            self.o.header.eq(header.o),
            credit.i.eq(self.o.credit),
            self.i.credit.eq(credit.o),
        ]
        for k in range(self._lanes):
            m.d.comb += [
                ring.w_data[k].eq(self.i.lanes[k]),
                self.o.lanes[k].eq(ring.r_data[k]),
            ]
        return m
