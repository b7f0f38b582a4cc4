"""Local writes of the GPU: requests and their data, from link B to the HBM controller."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.address import HbmAddressMap
from hw.hbm.dram.beats import LENGTH_BITS, LaneStream, request_layout, require_beat
from hw.hbm.dram.description import HbmStack
from hw.params import Machine
from hw.ucie.beat_queue import BeatQueue
from hw.ucie.transaction import DataPort

PIECE_BEATS = 4  # fewer would not keep both halves of a stack at work, more would only wait longer
SLOT_BITS = 10  # of a tag; the bit above it tells the last piece of a write, the next one the user


def local_layout(stack: HbmStack) -> data.StructLayout:
    """A read or write of ``length`` accesses from ``address`` on; ``bad`` if it cannot be done."""
    address = max(LENGTH_BITS, HbmAddressMap(stack).address_bits)
    return data.StructLayout(
        {"address": address, "length": LENGTH_BITS, "tag": SLOT_BITS, "bad": 1}
    )


def beats_of(stack: HbmStack, address, length):
    """Beats that ``length`` accesses from ``address`` on lie in."""
    low = (stack.beat_accesses - 1).bit_length()
    return (address[:low] + length + stack.beat_accesses - 1) >> low


class WritePieces(wiring.Component):
    """Takes writes and their beats, which come in the order of the writes, to the controller.

    Promise: a write enters the controller in pieces of up to ``PIECE_BEATS`` beats, each as a
    request of its own, and only when all data of the piece have come: so no piece is ever cut, and
    what is under way in the controller waits for nobody. The last piece of a write has the bit
    above the slot set in its tag. The data of a ``bad`` write are dropped, then its tag is
    ``refused``.

    Reset of link B: while ``lost`` nothing begins. Pieces that have left are written; the rest of
    their write is not, nor any other write, and its data are dropped.

    Latency: 2 clocks from the last beat of a piece to the first on ``write_data``. Throughput: a
    beat and a write a clock. Back-pressure: a beat's credit comes back when it
    has gone to the controller or was dropped; ``i`` waits for the data of the write before.

    Members
    -------
    i : In(stream)
    port : In(DataPort), ``machine.credits.rx_beats`` credits of one beat
    request, write_data : Out(stream), Out(LaneStream)
    refused : Out(stream): tag
    lost : In; empty : Out: nothing waits here, data neither
    """

    def __init__(self, machine: Machine, stack: HbmStack) -> None:
        require_beat(stack, machine.link.beat_bytes)
        self._machine, self._stack = machine, stack
        super().__init__(
            {
                "i": In(stream.Signature(local_layout(stack))),
                "port": In(DataPort(machine.lanes)),
                "request": Out(stream.Signature(request_layout(stack))),
                "write_data": Out(LaneStream(stack, labelled=False)),
                "refused": Out(stream.Signature(SLOT_BITS)),
                "lost": In(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, accesses = self._machine, self._stack.beat_accesses
        low, depth = (accesses - 1).bit_length(), machine.credits.rx_beats
        m.submodules.queue = queue = BeatQueue(
            lanes=machine.lanes, depth=depth, bank_bytes=machine.sram.bank_bytes
        )
        wiring.connect(m, wiring.flipped(self.port), queue.port)
        beat, request = queue.o, self.request.payload

        # The next piece: up to the end of the fourth beat, of what is left of the write -----------
        active, write = Signal(), Signal(local_layout(self._stack))
        stock, promised = Signal(range(depth + 1)), Signal(range(depth + 1))  # beats in the queue
        room, length = Signal(LENGTH_BITS), Signal(LENGTH_BITS)
        beats, last, asked = Signal(range(PIECE_BEATS + 1)), Signal(), Signal()
        drops, moves = Signal(), Signal()
        reach = Mux(write.bad, 1, PIECE_BEATS)  # beats
        m.d.comb += [
            room.eq((reach << low) - write.address[:low]),
            last.eq(write.length <= room),
            length.eq(Mux(last, write.length, room)),
            beats.eq(beats_of(self._stack, write.address, length)),
            self.request.valid.eq(active & ~write.bad & (stock >= beats) & ~self.lost),
            request.write.eq(1),
            request.address.eq(write.address),
            request.length.eq(length),
            request.tag.eq(Cat(write.tag, last)),
            asked.eq(self.request.valid & self.request.ready),
            self.refused.valid.eq(active & write.bad & (write.length == 0)),
            self.refused.payload.eq(write.tag),
        ]
        ends = Signal()
        m.d.comb += [
            ends.eq((asked & last) | (self.refused.valid & self.refused.ready) | self.lost),
            self.i.ready.eq(~active | ends),
        ]
        with m.If(self.i.ready):
            m.d.sync += [active.eq(self.i.valid & ~self.lost), write.eq(self.i.payload)]
        with m.Elif(asked | (drops & write.bad)):
            m.d.sync += [
                write.address.eq(write.address + length),
                write.length.eq(write.length - length),
            ]

        # Beats: those of pieces go first, they are the older ones ---------------------------------
        unwanted = active & write.bad & (write.length != 0)
        m.d.comb += [
            self.write_data.valid.eq(beat.valid & (promised != 0)),
            moves.eq(self.write_data.valid & self.write_data.ready),
            drops.eq(beat.valid & (promised == 0) & (unwanted | self.lost)),
            beat.ready.eq(moves | drops),
            self.empty.eq(~active & ~self.i.valid & (stock == 0) & (promised == 0)),
            *(lane.eq(own) for lane, own in zip(self.write_data.lanes, beat.lanes, strict=True)),
        ]
        enters = Mux(asked, beats, Const(0, len(beats)))
        m.d.sync += [
            stock.eq(stock + self.port.valid - enters - drops),
            promised.eq(promised + enters - moves),
        ]
        return m
