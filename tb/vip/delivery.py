"""Stopwatch at the GPU side: when data came, in clocks."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.params import Machine


class DeliveryMonitor(wiring.Component):
    """Stamps the accepted request, the first beat and the end of every page wave.

    A wave ends with the beat that completes another ``wave_pages`` pages a pair, over both paths
    together. ``first_beat`` and ``accepted`` are those of the first request since reset; each
    stamp is the clock of the event itself.

    Members
    -------
    accept : In(1): a read is accepted
    beats : In: beats taken in this clock, over all paths and pairs
    clock : Out(32): clocks since reset
    accepted, first_beat, last_beat, wave_end : Out(32): stamps
    waves : Out(16): whole waves received
    """

    def __init__(self, machine: Machine, *, pairs: int, sources: int) -> None:
        self._wave_beats = machine.geometry.wave_pages * machine.page_beats * pairs
        self._sources = sources
        super().__init__(
            {
                "accept": In(1),
                "beats": In(range(sources + 1)),
                "clock": Out(32),
                "accepted": Out(32),
                "first_beat": Out(32),
                "last_beat": Out(32),
                "wave_end": Out(32),
                "waves": Out(16),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        started, arrived = Signal(), Signal()
        in_wave = Signal(range(self._wave_beats + self._sources))
        after, ends = Signal.like(in_wave), Signal()
        m.d.comb += [after.eq(in_wave + self.beats), ends.eq(after >= self._wave_beats)]
        m.d.sync += [
            self.clock.eq(self.clock + 1),
            in_wave.eq(Mux(ends, after - self._wave_beats, after)),
        ]
        with m.If(self.accept & ~started):
            m.d.sync += [started.eq(1), self.accepted.eq(self.clock)]
        with m.If(self.beats != 0):
            m.d.sync += self.last_beat.eq(self.clock)
            with m.If(~arrived):
                m.d.sync += [arrived.eq(1), self.first_beat.eq(self.clock)]
        with m.If(ends):
            m.d.sync += [self.wave_end.eq(self.clock), self.waves.eq(self.waves + 1)]
        return m
