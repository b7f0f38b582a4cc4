"""The GPU's side of the HBM stack of one pair: reads and writes that share link B."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.arbiter import RoundRobin, select
from hw.gpu.completions import read_done_layout
from hw.gpu.local_layouts import (
    LocalBeats,
    local_fetch_layout,
    local_request_layout,
    local_write_done_layout,
)
from hw.gpu.local_reads import LocalReads
from hw.gpu.local_writes import LocalWrites
from hw.gpu.router import WINDOW_BITS
from hw.gpu.watchdog import TIMEOUT_BITS, overdue_layout
from hw.hbm.dram.description import HbmStack
from hw.params import Machine
from hw.ucie.credit import RequestSender
from hw.ucie.pacer import RATE_BITS
from hw.ucie.transaction import (
    BeatStream,
    DataPort,
    Header,
    MessageClass,
    Operation,
    RequestPort,
    ResetPort,
)


def answer_layout() -> data.StructLayout:
    """A message of the replies of link B."""
    return data.StructLayout({"valid": 1, "header": Header})


class LocalAccess(wiring.Component):
    """Reads and writes of one HBM stack, in one channel of requests.

    Promise: that of :class:`hw.gpu.local_reads.LocalReads` and of
    :class:`hw.gpu.local_writes.LocalWrites`, for each as if it were alone: their requests take
    turns, their slots are numbered apart. A COMPLETION on ``answer`` ends the read or write of its
    tag, as its operation says; nothing else there concerns this block. Requests leave 1 clock after
    they are taken; neither reads nor writes wait for the end of the others.

    Members
    -------
    read, window, o, read_done, read_overdue : see LocalReads
    write, rate, fetch, fetch_lanes, write_done, write_overdue : see LocalWrites
    timeout : In, of both
    request : Out(RequestPort), ``machine.credits.descriptors`` credits
    data : Out(DataPort), ``machine.credits.rx_beats`` credits of one beat
    beats : In(BeatStream): data of reads
    answer : In: a message of the link, taken at once
    reset : In(ResetPort); ``quiet`` says that nothing is left in front of ``beats`` either
    """

    def __init__(self, machine: Machine, *, stack: HbmStack) -> None:
        self._machine, self._stack = machine, stack
        overdue = overdue_layout(machine.credits.descriptors)
        request = stream.Signature(local_request_layout(stack))
        super().__init__(
            {
                "read": In(request),
                "window": In(WINDOW_BITS),
                "o": Out(LocalBeats(machine, stack)),
                "read_done": Out(read_done_layout()),
                "read_overdue": Out(overdue),
                "write": In(request),
                "rate": In(RATE_BITS + 1),
                "fetch": Out(local_fetch_layout()),
                "fetch_lanes": In(64).array(machine.lanes),
                "write_done": Out(local_write_done_layout()),
                "write_overdue": Out(overdue),
                "timeout": In(TIMEOUT_BITS),
                "request": Out(RequestPort()),
                "data": Out(DataPort(machine.lanes)),
                "beats": In(BeatStream(machine.lanes)),
                "answer": In(answer_layout()),
                "reset": In(ResetPort()),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.reads = reads = LocalReads(self._machine, stack=self._stack)
        m.submodules.writes = writes = LocalWrites(self._machine, stack=self._stack)
        wiring.connect(m, wiring.flipped(self.read), reads.i)
        wiring.connect(m, wiring.flipped(self.write), writes.i)
        wiring.connect(m, wiring.flipped(self.beats), reads.beats)
        wiring.connect(m, reads.o, wiring.flipped(self.o))
        wiring.connect(m, writes.data, wiring.flipped(self.data))
        m.d.comb += [
            reads.window.eq(self.window),
            writes.rate.eq(self.rate),
            self.fetch.eq(writes.fetch),
            *(lane.eq(own) for lane, own in zip(writes.fetch_lanes, self.fetch_lanes, strict=True)),
            self.read_done.eq(reads.done),
            self.write_done.eq(writes.done),
            self.read_overdue.eq(reads.overdue),
            self.write_overdue.eq(writes.overdue),
            self.reset.settled.eq(reads.reset.settled & writes.reset.settled),
        ]

        # Requests take turns ----------------------------------------------------------------------
        m.submodules.sender = sender = RequestSender(credits=self._machine.credits.descriptors)
        m.submodules.turns = turns = RoundRobin(width=2)
        wiring.connect(m, sender.port, wiring.flipped(self.request))
        m.d.comb += [
            sender.i.valid.eq(turns.request.any()),
            sender.i.payload.eq(
                select(
                    turns.grant,
                    [reads.request.payload.as_value(), writes.request.payload.as_value()],
                )
            ),
            turns.take.eq(sender.i.ready),
        ]
        parts: tuple[tuple[Any, Operation], ...] = (
            (reads, Operation.READ),
            (writes, Operation.WRITE),
        )
        for k, (part, operation) in enumerate(parts):
            answer = self.answer.header
            m.d.comb += [
                turns.request[k].eq(part.request.valid),
                part.request.ready.eq(turns.grant[k] & sender.i.ready),
                part.timeout.eq(self.timeout),
                part.reset.lost.eq(self.reset.lost),
                part.reset.quiet.eq(self.reset.quiet),
                part.answer.valid.eq(
                    self.answer.valid
                    & (answer.message_class == MessageClass.COMPLETION)
                    & (answer.operation == operation)
                ),
                part.answer.tag.eq(answer.tag),
                part.answer.status.eq(answer.status),
            ]
        return m
