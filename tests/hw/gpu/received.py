"""Reassembly behind the receive queue of its link, as in the GPU I/O die."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.gpu.reassembly import Reassembly
from hw.params import Machine
from hw.ucie.beat_queue import BeatQueue
from hw.ucie.transaction import DataPort


class Received(wiring.Component):
    """The members of :class:`Reassembly`, with ``port`` of the link in place of ``i``."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._part = machine, Reassembly(machine)
        members = dict(self._part.signature.members)
        del members["i"]
        super().__init__({**members, "port": In(DataPort(machine.lanes))})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.queue = queue = BeatQueue(
            lanes=self._machine.lanes,
            depth=self._machine.credits.rx_beats,
            bank_bytes=self._machine.sram.bank_bytes,
        )
        m.submodules.part = part = self._part
        wiring.connect(m, wiring.flipped(self.port), queue.port)
        wiring.connect(m, queue.o, part.i)
        wiring.connect(m, part.o, wiring.flipped(self.o))
        wiring.connect(m, wiring.flipped(self.reset), part.reset)
        m.d.comb += [
            part.begin.eq(self.begin),
            part.answer.eq(self.answer),
            self.received.eq(part.received),
            *(mine.eq(end) for mine, end in zip(self.end, part.end, strict=True)),
        ]
        return m
