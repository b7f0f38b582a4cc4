"""Order of writes behind reads: which reads are older than a write."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import MAX_PAGES

COUNT_BITS = 24


class ReadEpochs(wiring.Component):
    """Holds a write back until every read that was accepted before it has been issued.

    Promise: reads accepted from the clock after ``waiting`` rose are of a new epoch and younger
    than the write; ``go`` rises when no page of an older read is left to issue, and stays until
    ``taken``. Younger reads go on being issued meanwhile, so a stream of reads neither
    stops for a write nor delays it by more than what it had outstanding.

    Members
    -------
    accepted : In, one a path: pages of a read descriptor that all dies take in this clock
    issued : In, one a die: a page was issued, and the epoch of its read
    epoch : Out: of reads accepted in this clock
    waiting, taken : In: a write waits to be handed to the dies; they take it in this clock
    ordered : Out: reads of the other epoch are older than that write, those of ``epoch`` younger
    go : Out
    """

    def __init__(self, *, dies: int) -> None:
        self._dies = dies
        issued = data.StructLayout({"valid": 1, "epoch": 1})
        super().__init__(
            {
                "accepted": In(range(MAX_PAGES + 1)).array(2),
                "issued": In(issued).array(dies),
                "waiting": In(1),
                "taken": In(1),
                "epoch": Out(1),
                "ordered": Out(1),
                "go": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        left = [Signal(COUNT_BITS, name=f"left{epoch}") for epoch in range(2)]
        for epoch in range(2):
            gone = sum(
                self.issued[d].valid & (self.issued[d].epoch == epoch) for d in range(self._dies)
            )
            come = Mux(self.epoch == epoch, self.accepted[0] + self.accepted[1], 0)
            m.d.sync += left[epoch].eq(left[epoch] + come - gone)
        with m.If(self.taken):
            m.d.sync += self.ordered.eq(0)
        with m.Elif(self.waiting & ~self.ordered):
            m.d.sync += [self.ordered.eq(1), self.epoch.eq(~self.epoch)]
        m.d.comb += self.go.eq(self.ordered & (Mux(self.epoch, left[0], left[1]) == 0))
        return m
