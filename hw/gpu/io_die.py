"""The GPU I/O die: asks for whole transactions and puts them together again."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from hw.gpu.beat_split import BeatSplit
from hw.gpu.local_access import LocalAccess
from hw.gpu.path_policy import LeastOutstanding, PathPolicy
from hw.gpu.ports import Members, local_ports, read_ports, write_ports
from hw.gpu.read_path import ReadPath
from hw.gpu.router import WINDOW_BITS, RequestRouter, read_layout
from hw.gpu.watchdog import TIMEOUT_BITS, Watchdog
from hw.hbm.dram.description import HbmStack
from hw.params import Machine
from hw.ucie.beat_queue import BeatQueue
from hw.ucie.credit import RequestReceiver
from hw.ucie.pacer import RATE_BITS
from hw.ucie.transaction import PATHS, MessageClass, Route
from hw.ucie.write_sender import WriteSender, read_refused_layout


class GpuIoDie(wiring.Component):
    """I/O die for ``pairs`` stack pairs.

    Promise: a read goes to every pair over the same path, each pair holding its stripe at the same
    pages; when each pair's last page has been taken, or the pair has refused it or lost it to a
    reset, ``done`` tells its tag and status, once. Reads may complete in any order. Data leaves per
    pair and path as it comes.

    Writes go to every pair over link A, each pair programming its stripe at the same pages; see
    :class:`hw.ucie.write_sender.WriteSender`, of which each pair has one.

    With ``hbm`` each pair has reads and writes of its own HBM stack over link B, as
    :class:`hw.gpu.local_access.LocalAccess` says. Their data share the receive queue of the link,
    and so its credits, with relayed data: a consumer of either that stalls stalls both.

    Whatever is open for ``timeout`` clocks is reported once; see :class:`hw.gpu.watchdog.Watchdog`.

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
        becomes of a read that brings no data, and of local reads and writes
    direct_o, relay_o : beats with their address, one a pair
    direct_done, relay_done : tag, poison and status of a read that is over
    write, fetch, fetch_lanes, write_done : writes, if ``direct``; the last three one a pair
    direct_write, direct_write_data, direct_reply : link A, one a pair
    local, local_window, local_o, local_done : reads of the HBM stack, if ``hbm``, one a pair; all
        pairs have the same window
    local_write, local_fetch, local_fetch_lanes, local_write_done : writes to it, one a pair
    relay_local, relay_in : requests and write data of local accesses: link B, one a pair
    link_rate : beats a clock of write data on each link, in 1/65536
    timeout : In, in clocks, zero for never
    direct_overdue, relay_overdue : reads that are overdue; their slot is that of the path
    write_overdue, local_overdue, local_write_overdue : writes and local accesses, one a pair
    direct_reset, relay_reset : resets of link A and link B, one a pair
    """

    # See `hw.channel_graph`. Users take data and ends of transactions at last.
    WAITS: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "direct_data": (),
            "direct_reply": ("direct_write_data",),  # a grant, until its page starts
            "relay_data": (),  # of local reads, too
            "relay_reply": (),
        }
    )

    def __init__(
        self,
        machine: Machine,
        *,
        pairs: int,
        direct: bool,
        relay: bool,
        hbm: HbmStack | None = None,
        policy: type[PathPolicy] = LeastOutstanding,
    ) -> None:
        if not (direct or relay):
            raise ValueError("a GPU I/O die needs the direct path, the relay path or both")
        if hbm is not None and not relay:
            raise ValueError("HBM stacks are reached over link B, which needs the relay path")
        self._machine, self._pairs, self._hbm, self._policy = machine, pairs, hbm, policy
        self._present = {"direct": direct, "relay": relay}
        members: Members = {
            "i": In(stream.Signature(read_layout(machine))),
            "window": In(WINDOW_BITS),
            "timeout": In(TIMEOUT_BITS),
        }
        if direct or hbm is not None:
            members["link_rate"] = In(RATE_BITS + 1)
        for name in PATHS:
            if self._present[name]:
                members |= read_ports(machine, pairs=pairs, path=name)
        if direct:
            members |= write_ports(machine, pairs=pairs)
        if hbm is not None:
            members |= local_ports(machine, hbm, pairs=pairs)
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, pairs = self._machine, self._pairs
        m.submodules.router = router = RequestRouter(
            machine, pairs=pairs, policy=self._policy, **self._present
        )
        wiring.connect(m, wiring.flipped(self.i), router.i)
        m.d.comb += router.window.eq(self.window)
        if self._present["direct"]:
            writers, queues = self._writes(m), self._queues(m, "direct")
            self._path(
                m,
                router,
                Route.DIRECT,
                queues=queues,
                beats=[queue.o for queue in queues],
                answers=[writer.read_done for writer in writers],
                settled=[writer.reset.settled for writer in writers],
            )
        if self._present["relay"]:
            queues, replies = self._queues(m, "relay"), self._replies(m)
            locals_ = self._locals(m, self._hbm, queues, replies) if self._hbm else []
            self._path(
                m,
                router,
                Route.RELAY,
                queues=queues,
                beats=[split.relay for split, _ in locals_] or [queue.o for queue in queues],
                answers=[self._answer(m, pair, reply) for pair, reply in enumerate(replies)],
                settled=[part.reset.settled for _, part in locals_] or [Const(1)] * pairs,
            )
        return m

    def _queues(self, m: Module, name: str) -> list[BeatQueue]:
        """The receive queues of the links of a path."""
        machine, queues = self._machine, []
        for pair, port in enumerate(getattr(self, f"{name}_data")):
            queue = BeatQueue(
                lanes=machine.lanes,
                depth=machine.credits.rx_beats,
                bank_bytes=machine.sram.bank_bytes,
            )
            m.submodules[f"{name}_queue{pair}"] = queue
            wiring.connect(m, wiring.flipped(port), queue.port)
            queues.append(queue)
        return queues

    def _replies(self, m: Module) -> list:
        """What comes over link B in answer, taken at once."""
        replies = []
        for pair, port in enumerate(self.relay_reply):
            receiver = RequestReceiver(credits=self._machine.credits.descriptors)
            m.submodules[f"answers{pair}"] = receiver
            wiring.connect(m, wiring.flipped(port), receiver.port)
            m.d.comb += receiver.o.ready.eq(1)
            replies.append(receiver.o)
        return replies

    def _answer(self, m: Module, pair: int, reply) -> Signal:
        """A reply that ends a relayed read which brings no data."""
        answer = Signal(read_refused_layout(), name=f"answer{pair}")
        relayed = Const(1)
        if self._hbm is not None:
            relayed = reply.payload.message_class == MessageClass.READ_DATA
        m.d.comb += [
            answer.valid.eq(reply.valid & relayed),
            answer.tag.eq(reply.payload.tag),
            answer.status.eq(reply.payload.status),
        ]
        return answer

    def _locals(
        self, m: Module, hbm: HbmStack, queues: list[BeatQueue], replies: list
    ) -> list[tuple[BeatSplit, LocalAccess]]:
        """Accesses of each pair to its HBM stack, and what gives them their beats."""
        parts = []
        for pair in range(self._pairs):
            split = BeatSplit(lanes=self._machine.lanes)
            part = LocalAccess(self._machine, stack=hbm)
            m.submodules[f"split{pair}"], m.submodules[f"local{pair}"] = split, part
            wiring.connect(m, queues[pair].o, split.i)
            wiring.connect(m, split.local, part.beats)
            for own, port in (
                (part.read, self.local[pair]),
                (part.write, self.local_write[pair]),
                (part.o, self.local_o[pair]),
                (part.request, self.relay_local[pair]),
                (part.data, self.relay_in[pair]),
            ):
                wiring.connect(m, own, wiring.flipped(port))
            lanes = zip(part.fetch_lanes, self.local_fetch_lanes[pair], strict=True)
            m.d.comb += [
                part.window.eq(self.local_window),
                part.rate.eq(self.link_rate),
                part.timeout.eq(self.timeout),
                part.answer.valid.eq(replies[pair].valid),
                part.answer.header.eq(replies[pair].payload),
                part.reset.lost.eq(self.relay_reset[pair].lost),
                part.reset.quiet.eq(self.relay_reset[pair].quiet & ~queues[pair].o.valid),
                self.local_done[pair].eq(part.read_done),
                self.local_overdue[pair].eq(part.read_overdue),
                self.local_fetch[pair].eq(part.fetch),
                *(lane.eq(own) for lane, own in lanes),
                self.local_write_done[pair].eq(part.write_done),
                self.local_write_overdue[pair].eq(part.write_overdue),
            ]
            parts.append((split, part))
        return parts

    def _writes(self, m: Module) -> list[WriteSender]:
        """The write senders, among whose replies come the answers to reads, too."""
        senders = []
        for pair in range(self._pairs):
            m.submodules[f"writer{pair}"] = sender = WriteSender(self._machine)
            m.submodules[f"write_watchdog{pair}"] = watchdog = Watchdog(slots=sender.slots)
            wiring.connect(m, sender.request, wiring.flipped(self.direct_write[pair]))
            wiring.connect(m, sender.data, wiring.flipped(self.direct_write_data[pair]))
            wiring.connect(m, wiring.flipped(self.direct_reply[pair]), sender.reply)
            m.d.comb += [
                sender.rate.eq(self.link_rate),
                self.fetch[pair].eq(sender.fetch),
                self.write_done[pair].eq(sender.done),
                watchdog.timeout.eq(self.timeout),
                watchdog.begin.eq(sender.began),
                watchdog.end.eq(sender.ended),
                self.write_overdue[pair].eq(watchdog.overdue),
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
        self,
        m: Module,
        router: RequestRouter,
        p: Route,
        *,
        queues: list[BeatQueue],
        beats: list,
        answers: list,
        settled: list,
    ) -> None:
        """Reads of one path; by pair, ``settled`` is of what else its link carries."""
        name, accepted, read = p.name.lower(), router.accepted, self.i.payload
        m.submodules[name] = path = ReadPath(self._machine, pairs=self._pairs)
        m.d.comb += [
            path.begin.valid.eq(accepted.valid & (accepted.path == p)),
            path.begin.slot.eq(accepted.slot),
            path.begin.first.eq(read.first),
            path.begin.pages.eq(read.pages),
            path.begin.tag.eq(read.tag),
            path.header.eq(router.header[p]),
            path.send.eq(router.send[p]),
            path.timeout.eq(self.timeout),
            router.may_send[p].eq(path.may_send),
            router.received[p].eq(path.received),
            router.completed[p].eq(path.completed),
            getattr(self, f"{name}_done").eq(path.done),
            getattr(self, f"{name}_overdue").eq(path.overdue),
        ]
        resets = getattr(self, f"{name}_reset")
        m.d.comb += router.lost[p].eq(Cat(reset.lost for reset in resets).any())
        for pair, (reset, own) in enumerate(zip(resets, path.reset, strict=True)):
            for port, part in (("request", path.request[pair]), ("o", path.o[pair])):
                wiring.connect(m, part, wiring.flipped(getattr(self, f"{name}_{port}")[pair]))
            wiring.connect(m, beats[pair], path.beats[pair])
            waits = queues[pair].o.valid
            m.d.comb += [
                path.answer[pair].eq(answers[pair]),
                own.lost.eq(reset.lost),
                own.quiet.eq(reset.quiet & ~waits),
                reset.settled.eq(own.settled & settled[pair] & ~waits),
            ]
