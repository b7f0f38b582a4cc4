"""Reads of the HBF over one path: their requests to all pairs, their beats, their ends."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.gpu.completions import Completions, read_done_layout
from hw.gpu.reassembly import Reassembly, begin_layout
from hw.gpu.watchdog import TIMEOUT_BITS, Watchdog, overdue_layout
from hw.hbf.layouts import MAX_PAGES
from hw.params import Machine
from hw.ucie.credit import RequestSender
from hw.ucie.transaction import BeatStream, Header, RequestPort, ResetPort
from hw.ucie.write_sender import read_refused_layout


class ReadPath(wiring.Component):
    """One path of the GPU I/O die: a link a pair.

    Promise: with ``send`` the request ``header`` leaves to every pair, one clock later. Each read
    that begins is told once on ``done``, when every pair is done with it, and frees its slot on
    ``completed`` in that clock; what a pair is done with says
    :class:`hw.gpu.reassembly.Reassembly`, of which each has one, when a read is told
    :class:`hw.gpu.completions.Completions`. Back-pressure: ``beats`` of a pair wait for its ``o``.

    Contract: ``send`` only with ``may_send``, with ``begin`` of the same read.

    Members
    -------
    begin : In: a read, with its slot
    header, send : In; may_send : Out: all pairs have credit for a request
    request : Out(RequestPort), one a pair
    beats : In(BeatStream); o : Out(BeatStream), one a pair
    answer : In, one a pair: a read ends without data
    received : Out: pages that came, or that will not come any more, of all pairs
    completed : Out: slot that is free
    done : Out, a pulse
    timeout : In; overdue : Out, see :class:`hw.gpu.watchdog.Watchdog`
    reset : In(ResetPort), one a pair, ``quiet`` as Reassembly wants it
    """

    def __init__(self, machine: Machine, *, pairs: int) -> None:
        if pairs < 1:
            raise ValueError(f"pairs must be at least 1, not {pairs!r}")
        self._machine, self._pairs = machine, pairs
        slots = machine.credits.descriptors
        super().__init__(
            {
                "begin": In(begin_layout(machine)),
                "header": In(Header),
                "send": In(1),
                "may_send": Out(1),
                "request": Out(RequestPort()).array(pairs),
                "beats": In(BeatStream(machine.lanes)).array(pairs),
                "o": Out(BeatStream(machine.lanes)).array(pairs),
                "answer": In(read_refused_layout()).array(pairs),
                "received": Out(range(pairs * (MAX_PAGES + 1) + 1)),
                "completed": Out(data.StructLayout({"valid": 1, "slot": range(slots)})),
                "done": Out(read_done_layout()),
                "timeout": In(TIMEOUT_BITS),
                "overdue": Out(overdue_layout(slots)),
                "reset": In(ResetPort()).array(pairs),
            }
        )

    @property
    def pairs(self) -> int:
        return self._pairs

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, slots = self._machine, self._machine.credits.descriptors
        completions = Completions(machine, pairs=self._pairs, sources=2)
        m.submodules.completions = completions
        m.submodules.watchdog = watchdog = Watchdog(slots=slots)
        m.d.comb += [
            completions.begin.valid.eq(self.begin.valid),
            completions.begin.slot.eq(self.begin.slot),
            completions.begin.tag.eq(self.begin.tag),
            self.done.eq(completions.done),
            self.completed.valid.eq(completions.done.valid),
            self.completed.slot.eq(completions.slot),
            watchdog.timeout.eq(self.timeout),
            watchdog.begin.eq(completions.begin),
            watchdog.end.eq(self.completed),
            self.overdue.eq(watchdog.overdue),
        ]

        may_send, received = [], []
        for pair in range(self._pairs):
            m.submodules[f"sender{pair}"] = sender = RequestSender(credits=slots)
            m.submodules[f"reassembly{pair}"] = part = Reassembly(machine)
            wiring.connect(m, sender.port, wiring.flipped(self.request[pair]))
            wiring.connect(m, wiring.flipped(self.beats[pair]), part.i)
            wiring.connect(m, part.o, wiring.flipped(self.o[pair]))
            wiring.connect(m, wiring.flipped(self.reset[pair]), part.reset)
            m.d.comb += [
                sender.i.valid.eq(self.send),
                sender.i.payload.eq(self.header),
                part.begin.eq(self.begin),
                part.answer.eq(self.answer[pair]),
                *(completions.end[pair][k].eq(end) for k, end in enumerate(part.end)),
            ]
            may_send.append(sender.i.ready)
            received.append(part.received)
        m.d.comb += [self.may_send.eq(Cat(may_send).all()), self.received.eq(sum(received))]
        return m
