"""Receive queue of a credited data port."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.sram.beat import BeatSram1r1w
from hw.ucie.transaction import BeatStream, DataPort, Header


class BeatQueue(wiring.Component):
    """Holds received beats until the consumer takes them.

    Contract: stores ``depth`` beats, so a sender that obeys its credits never overflows it. Order
    is kept; a credit pulse (one beat) follows each transfer on ``o`` by one clock. Latency 2 clocks
    when empty; one beat a clock. The output may stall for any time.
    """

    def __init__(self, *, lanes: int, depth: int, bank_bytes: int) -> None:
        self._lanes, self._depth, self._bank_bytes = lanes, depth, bank_bytes
        super().__init__({"port": In(DataPort(lanes)), "o": Out(BeatStream(lanes))})

    @property
    def depth(self) -> int:
        return self._depth

    def elaborate(self, platform) -> Module:
        m = Module()
        depth = self._depth
        m.submodules.beats = beats = BeatSram1r1w(
            lanes=self._lanes, depth=depth, bank_bytes=self._bank_bytes
        )
        m.submodules.headers = headers = Memory(shape=Header, depth=depth, init=[])
        h_write, h_read = headers.write_port(), headers.read_port()

        w_row, r_row = Signal(range(depth)), Signal(range(depth))
        stored = Signal(range(depth + 1))  # rows written and not yet read out
        read = Signal()
        m.d.comb += read.eq((stored != 0) & (~self.o.valid | self.o.ready))
        m.d.sync += stored.eq(stored + self.port.valid - read)
        with m.If(self.port.valid):
            m.d.sync += w_row.eq(Mux(w_row == depth - 1, 0, w_row + 1))
        with m.If(read):
            m.d.sync += [r_row.eq(Mux(r_row == depth - 1, 0, r_row + 1)), self.o.valid.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        m.d.sync += self.port.credit.eq(self.o.valid & self.o.ready)

        m.d.comb += [
            beats.w_en.eq(self.port.valid),
            beats.w_addr.eq(w_row),
            beats.r_en.eq(read),
            beats.r_addr.eq(r_row),
            h_write.en.eq(self.port.valid),
            h_write.addr.eq(w_row),
            h_write.data.eq(self.port.header),
            h_read.en.eq(read),
            h_read.addr.eq(r_row),
            self.o.header.eq(h_read.data),
        ]
        for k in range(self._lanes):
            m.d.comb += [
                beats.w_data[k].eq(self.port.lanes[k]),
                self.o.lanes[k].eq(beats.r_data[k]),
            ]
        return m
