"""Stopwatch at the TSV ports: when pages got into the transfer regions, in clocks."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.params import Machine
from hw.sram.regions import GROUPS


class FillMonitor(wiring.Component):
    """Counts the beats that HBF base dies take from their NAND dies, and stamps them.

    What the links carry away shows at the GPU side; this is what sensing and TSVs bring, on a
    machine whose TSVs are faster than its links too. A beat counts in the clock in which its
    read-out is asked for; it is in the region one clock later. A wave ends with the beat that
    completes another ``wave_pages`` pages a stack, over all stacks together, so that waves here
    are those of :class:`tb.vip.delivery.DeliveryMonitor`.

    Members
    -------
    readouts : In: beats asked for in this clock, over all bank groups and stacks
    clock : In(32): clocks since reset
    beats : Out(40): beats so far
    first, last, wave_end : Out(32): stamps
    waves : Out(16): whole waves filled
    """

    def __init__(self, machine: Machine, *, stacks: int) -> None:
        self._wave_beats = machine.geometry.wave_pages * machine.page_beats * stacks
        self._ports = GROUPS * stacks
        super().__init__(
            {
                "readouts": In(range(self._ports + 1)),
                "clock": In(32),
                "beats": Out(40),
                "first": Out(32),
                "last": Out(32),
                "wave_end": Out(32),
                "waves": Out(16),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        in_wave = Signal(range(self._wave_beats + self._ports))
        after, ends = Signal.like(in_wave), Signal()
        m.d.comb += [after.eq(in_wave + self.readouts), ends.eq(after >= self._wave_beats)]
        m.d.sync += [
            self.beats.eq(self.beats + self.readouts),
            in_wave.eq(Mux(ends, after - self._wave_beats, after)),
        ]
        with m.If(self.readouts != 0):
            m.d.sync += self.last.eq(self.clock)
            with m.If(self.beats == 0):
                m.d.sync += self.first.eq(self.clock)
        with m.If(ends):
            m.d.sync += [self.wave_end.eq(self.clock), self.waves.eq(self.waves + 1)]
        return m
