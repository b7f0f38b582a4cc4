"""Whether reads or writes have the column bus."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.description import HbmStack


class DrainPolicy(wiring.Component):
    """Reads first, writes by the level of their queue.

    Contract: a drain begins, ``writing`` rises, when the writes reach ``drain_level``, when a
    request at the door waits for one of them (``urgent``), or when no read has waited for
    ``idle_clocks`` clocks. It ends with the last write; before that, once reads wait: at
    ``drained_level``, after as many writes as the queue holds twice, or at once if it began only
    because there were no reads. After a drain that reached its limit reads keep the bus for as many
    reads as their queue holds or until none waits. So neither direction waits for ever.

    Members
    -------
    reads, writes : In: levels of the queues
    urgent : In
    leaves : In: an access of the direction that has the bus leaves its queue
    writing : Out
    """

    def __init__(self, stack: HbmStack) -> None:
        self._stack = stack
        s = stack.scheduling
        super().__init__(
            {
                "reads": In(range(s.reads + 1)),
                "writes": In(range(s.writes + 1)),
                "urgent": In(1),
                "leaves": In(1),
                "writing": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        s = self._stack.scheduling
        reading_waits = self.reads != 0
        quiet = Signal(range(s.idle_clocks + 1))  # clocks without a read
        served = Signal(range(2 * max(s.reads, s.writes) + 1))  # in this direction
        yields = Signal()  # this drain has no better reason than that no read waited
        owes_reads = Signal()  # the drain before went to its limit
        full, urgent = Signal(), Signal()
        m.d.comb += [
            full.eq(self.writes >= s.drain_level),
            urgent.eq(self.urgent & (self.writes != 0)),
        ]
        m.d.sync += quiet.eq(Mux(reading_waits, 0, Mux(quiet == s.idle_clocks, quiet, quiet + 1)))
        with m.If(self.leaves & (served != 2 * max(s.reads, s.writes))):
            m.d.sync += served.eq(served + 1)

        with m.If(self.writing):
            with m.If(full | urgent):
                m.d.sync += yields.eq(0)
            limit = served >= 2 * s.writes
            level = (self.writes <= s.drained_level) & ~urgent
            done = (self.writes == 0) | (reading_waits & (yields | limit | level))
            with m.If(done & ~(yields & (full | urgent))):
                m.d.sync += [self.writing.eq(0), served.eq(0), owes_reads.eq(limit)]
        with m.Else():
            may = ~owes_reads | (served >= s.reads) | ~reading_waits
            idle = (quiet == s.idle_clocks) & (self.writes != 0)
            with m.If(may & (full | urgent | idle)):
                m.d.sync += [
                    self.writing.eq(1),
                    served.eq(0),
                    yields.eq(~(full | urgent)),
                ]
        return m
