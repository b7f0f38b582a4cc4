"""The GPU I/O die: asks for whole transactions and puts them together again."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.gpu.completions import Completions, read_done_layout
from hw.gpu.reassembly import Reassembly
from hw.gpu.router import WINDOW_BITS, RequestRouter, read_layout
from hw.params import Machine
from hw.ucie.credit import RequestReceiver, RequestSender
from hw.ucie.pacer import RATE_BITS
from hw.ucie.transaction import PATHS, BeatStream, DataPort, RequestPort, ResetPort, Route
from hw.ucie.write_sender import (
    WriteSender,
    done_layout,
    fetch_layout,
    read_refused_layout,
    write_request_layout,
)


class GpuIoDie(wiring.Component):
    """I/O die for ``pairs`` stack pairs.

    Promise: a read goes to every pair over the same path, each pair holding its stripe at the same
    pages; when each pair's last page has been taken, or the pair has refused it or lost it to a
    reset, ``done`` tells its tag and status, once. Reads may complete in any order. Data leaves per
    pair and path as it comes.

    Writes go to every pair over link A, each pair programming its stripe at the same pages; see
    :class:`hw.ucie.write_sender.WriteSender`, of which each pair has one.

    A reset of a link ends what is under way over it with status LINK_RESET; no read or write begins
    on a path while its link to this die is lost, and reads that may take either path take the
    other. What came of a read that was cut has left as always. Of link C this die knows nothing.

    Back-pressure: ``i`` waits as :class:`hw.gpu.router.RequestRouter` says; data waits under
    credit; ``done`` is a pulse and never waits.

    Members
    -------
    i, window : reads, and the router's registers
    direct_request, direct_data : link A, one a pair, if ``direct``
    relay_request, relay_data, relay_reply : link B, one a pair, if ``relay``; the reply is what
        becomes of a read that brings no data
    direct_o, relay_o : beats with their address, one a pair
    direct_done, relay_done : tag, poison and status of a read that is over
    write, fetch, fetch_lanes, write_done : writes, if ``direct``; the last three one a pair
    direct_write, direct_write_data, direct_reply : link A, one a pair
    link_rate : beats a clock of write data on link A, in 1/65536
    direct_reset, relay_reset : resets of link A and link B, one a pair
    """

    # See `hw.channel_graph`. Users take data and ends of transactions at last.
    WAITS: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "direct_data": (),
            "direct_reply": ("direct_write_data",),  # a grant, until its page starts
            "relay_data": (),
            "relay_reply": (),
        }
    )

    def __init__(self, machine: Machine, *, pairs: int, direct: bool, relay: bool) -> None:
        if not (direct or relay):
            raise ValueError("a GPU I/O die needs the direct path, the relay path or both")
        self._machine, self._pairs = machine, pairs
        self._present = {"direct": direct, "relay": relay}
        members = {
            "i": In(stream.Signature(read_layout(machine))),
            "window": In(WINDOW_BITS),
        }
        for name in PATHS:
            if self._present[name]:
                members |= {
                    f"{name}_request": Out(RequestPort()).array(pairs),
                    f"{name}_data": In(DataPort(machine.lanes)).array(pairs),
                    f"{name}_o": Out(BeatStream(machine.lanes)).array(pairs),
                    f"{name}_done": Out(read_done_layout()),
                    f"{name}_reset": In(ResetPort()).array(pairs),
                }
        if relay:
            members["relay_reply"] = In(RequestPort()).array(pairs)
        if direct:
            members |= {
                "link_rate": In(RATE_BITS + 1),
                "write": In(stream.Signature(write_request_layout(machine))),
                "fetch": Out(fetch_layout()).array(pairs),
                "fetch_lanes": In(64).array(pairs, machine.lanes),
                "write_done": Out(done_layout()).array(pairs),
                "direct_write": Out(RequestPort()).array(pairs),
                "direct_write_data": Out(DataPort(machine.lanes)).array(pairs),
                "direct_reply": In(RequestPort()).array(pairs),
            }
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, pairs = self._machine, self._pairs
        m.submodules.router = router = RequestRouter(machine, pairs=pairs, **self._present)
        wiring.connect(m, wiring.flipped(self.i), router.i)
        m.d.comb += router.window.eq(self.window)
        if self._present["direct"]:
            writers = self._writes(m)
            settled = [writer.reset.settled for writer in writers]
            self._path(m, router, Route.DIRECT, [writer.read_done for writer in writers], settled)
        if self._present["relay"]:
            self._path(m, router, Route.RELAY, self._answers(m), [Const(1)] * pairs)
        return m

    def _answers(self, m: Module) -> list:
        """What comes over link B in answer to reads that bring no data."""
        answers = []
        for pair, port in enumerate(self.relay_reply):
            receiver = RequestReceiver(credits=self._machine.credits.descriptors)
            m.submodules[f"answers{pair}"] = receiver
            wiring.connect(m, wiring.flipped(port), receiver.port)
            m.d.comb += receiver.o.ready.eq(1)
            answer = Signal(read_refused_layout(), name=f"answer{pair}")
            m.d.comb += [
                answer.valid.eq(receiver.o.valid),
                answer.tag.eq(receiver.o.payload.tag),
                answer.status.eq(receiver.o.payload.status),
            ]
            answers.append(answer)
        return answers

    def _writes(self, m: Module) -> list[WriteSender]:
        """The write senders, among whose replies come the answers to reads, too."""
        senders = []
        for pair in range(self._pairs):
            m.submodules[f"writer{pair}"] = sender = WriteSender(self._machine)
            wiring.connect(m, sender.request, wiring.flipped(self.direct_write[pair]))
            wiring.connect(m, sender.data, wiring.flipped(self.direct_write_data[pair]))
            wiring.connect(m, wiring.flipped(self.direct_reply[pair]), sender.reply)
            m.d.comb += [
                sender.rate.eq(self.link_rate),
                self.fetch[pair].eq(sender.fetch),
                self.write_done[pair].eq(sender.done),
                *(
                    sender.fetch_lanes[k].eq(self.fetch_lanes[pair][k])
                    for k in range(self._machine.lanes)
                ),
            ]
            senders.append(sender)
        ready = Cat(sender.i.ready for sender in senders).all()
        m.d.comb += self.write.ready.eq(ready)
        for sender, reset in zip(senders, self.direct_reset, strict=True):
            m.d.comb += [
                sender.i.valid.eq(self.write.valid & ready),
                sender.i.payload.eq(self.write.payload),
                sender.reset.lost.eq(reset.lost),
                sender.reset.quiet.eq(reset.quiet),
            ]
        return senders

    def _path(
        self, m: Module, router: RequestRouter, p: Route, answers: list, settled: list
    ) -> None:
        """Reads of one path; ``answers`` and ``settled`` are of what else its links carry."""
        machine, pairs, name = self._machine, self._pairs, p.name.lower()
        slots = machine.credits.descriptors
        accepted, read = router.accepted, self.i.payload
        begins = accepted.valid & (accepted.path == p)

        completions = Completions(machine, pairs=pairs, sources=2)
        m.submodules[f"{name}_completions"] = completions
        m.d.comb += [
            completions.begin.valid.eq(begins),
            completions.begin.slot.eq(accepted.slot),
            completions.begin.tag.eq(read.tag),
        ]

        senders, received, lost = [], [], []
        for pair in range(pairs):
            sender = RequestSender(credits=slots)
            part = Reassembly(machine)
            m.submodules[f"{name}_sender{pair}"] = sender
            m.submodules[f"{name}_reassembly{pair}"] = part
            wiring.connect(m, sender.port, wiring.flipped(getattr(self, f"{name}_request")[pair]))
            wiring.connect(m, wiring.flipped(getattr(self, f"{name}_data")[pair]), part.port)
            wiring.connect(m, part.o, wiring.flipped(getattr(self, f"{name}_o")[pair]))
            reset = getattr(self, f"{name}_reset")[pair]
            m.d.comb += [
                sender.i.valid.eq(router.send[p]),
                sender.i.payload.eq(router.header[p]),
                part.begin.valid.eq(begins),
                part.begin.slot.eq(accepted.slot),
                part.begin.first.eq(read.first),
                part.begin.pages.eq(read.pages),
                part.begin.tag.eq(read.tag),
                part.answer.eq(answers[pair]),
                *(completions.end[pair][k].eq(end) for k, end in enumerate(part.end)),
                part.reset.lost.eq(reset.lost),
                part.reset.quiet.eq(reset.quiet),
                reset.settled.eq(part.reset.settled & settled[pair]),
            ]
            senders.append(sender.i.ready)
            received.append(part.received)
            lost.append(reset.lost)
        done = completions.done
        m.d.comb += [
            router.may_send[p].eq(Cat(senders).all()),
            router.lost[p].eq(Cat(lost).any()),
            router.received[p].eq(sum(received)),
            router.completed[p].valid.eq(done.valid),
            router.completed[p].slot.eq(completions.slot),
            getattr(self, f"{name}_done").eq(done),
        ]
