"""Outstanding writes of one stack: accepted, ordered against reads, answered."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.arbiter import RoundRobin, select
from hw.hbf.layouts import MAX_PAGES
from hw.hbf.request_decoder import page_units, refused_layout
from hw.hbf.write_acceptance import WriteAcceptance, range_layout
from hw.params import Machine
from hw.ucie.credit import RequestSender
from hw.ucie.transaction import Header, MessageClass, Operation, RequestPort, Status


def write_layout(machine: Machine, *, links: int) -> data.StructLayout:
    """A write, trim or release of ``pages`` pages from ``first``, as all dies get it.

    ``index`` names it between tracker and dies until it retires.
    """
    return data.StructLayout(
        {
            "first": range(machine.geometry.stack_pages),
            "pages": range(MAX_PAGES + 1),
            "index": range(machine.credits.writes),
            "operation": 4,
            "owner": 2,
            "relocated": 1,
            "link": range(max(links, 2)),
        }
    )


def grant_layout(machine: Machine) -> data.StructLayout:
    """A page that has a slot: write, page of the transaction, token of the slot."""
    return data.StructLayout({"index": range(machine.credits.writes), "page": 12, "token": 16})


def event_layout(machine: Machine) -> data.StructLayout:
    """A page that is finished: write, page of the transaction, and how it ended."""
    return data.StructLayout({"index": range(machine.credits.writes), "page": 12, "status": 4})


def completion(of, status, **fields) -> dict:
    """Header fields of a COMPLETION to ``of``, which has operation and tag."""
    return {
        "message_class": MessageClass.COMPLETION,
        "operation": of.operation,
        "tag": of.tag,
        "status": status,
        **fields,
    }


class WriteTracker(wiring.Component):
    """Up to ``machine.credits.writes`` outstanding writes, trims and releases of one stack.

    Promise: every request ends with exactly one COMPLETION with ``chunk_end``, its last message.
    One that :class:`WriteAcceptance` refuses gets that alone. One that it accepts is offered once
    on ``o`` and waits until each of its pages has had its one ``event``; an event that failed is
    answered at once with a COMPLETION of its page and status, and the last COMPLETION has the
    status of the first event that failed, or OK. A ``grant`` goes to the requester as GRANT with
    the token in ``credit``. Replies carry operation and tag of the request.

    Order: ``ranges`` holds an entry from the second clock after the request was taken from ``i``,
    the clock in which ``o`` first offers it, up to that of ``retired``, which is one before its
    last COMPLETION is on ``reply``. A read that looks at ``ranges`` in that time is ordered behind
    the write; one that looked before is not.

    Throughput: a request every 2 clocks; a grant and an event a clock; a reply a clock and link.
    Back-pressure: ``o`` waits until all dies are ready; a reply waits for one of the
    ``machine.credits.descriptors`` credits of its link, and holds up failed events and grants of
    that link, and no other unless it is behind them in the stream of a die. Dies take turns.

    Reset of a link: while its ``lost`` is high nothing is taken from its ``i``, what would go to it
    as ``reply`` is dropped, and each entry of it becomes one of the ``orphans``: it stays until all
    its pages are finished, and retires without a word.

    Members
    -------
    i : In(stream) array, one a link
    refused_read : In(stream) array, one a link: reads that are answered among the replies
    reply : Out(RequestPort) array, one a link
    o : Out(stream): broadcast to the dies
    grant, event : In(stream) arrays, one a die
    ranges : Out array: outstanding writes
    retired : Out, one bit an entry: a pulse
    lost : In, one bit a link; orphans : Out, one bit an entry
    """

    def __init__(self, machine: Machine, *, links: int) -> None:
        if links < 1:
            raise ValueError(f"a tracker needs at least 1 link, not {links!r}")
        self._machine, self._links = machine, links
        writes, dies = machine.credits.writes, machine.geometry.dies
        super().__init__(
            {
                "i": In(stream.Signature(Header)).array(links),
                "refused_read": In(stream.Signature(refused_layout())).array(links),
                "reply": Out(RequestPort()).array(links),
                "o": Out(stream.Signature(write_layout(machine, links=links))),
                "grant": In(stream.Signature(grant_layout(machine))).array(dies),
                "event": In(stream.Signature(event_layout(machine))).array(dies),
                "ranges": Out(range_layout(machine)).array(writes),
                "retired": Out(writes),
                "lost": In(links),
                "orphans": Out(writes),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, links = self._machine, self._links
        writes = range(machine.credits.writes)
        units = exact_log2(page_units(machine))

        m.submodules.acceptance = acceptance = WriteAcceptance(machine, links=links)
        for k, source in enumerate(self.i):
            to = acceptance.i[k]
            m.d.comb += [
                to.payload.eq(source.payload),
                to.valid.eq(source.valid & ~self.lost[k]),
                source.ready.eq(to.ready & ~self.lost[k]),
            ]
        for n in writes:
            m.d.comb += acceptance.ranges[n].eq(self.ranges[n])

        # Entries ----------------------------------------------------------------------------------
        entry_type = data.StructLayout(
            {
                "link": range(max(links, 2)),
                "operation": 4,
                "tag": 12,
                "left": range(MAX_PAGES + 1),  # pages that have had no event
                "status": 4,
            }
        )
        entries = [Signal(entry_type, name=f"entry{n}") for n in writes]
        free, lowest = Signal(len(writes)), Signal(len(writes))
        header = acceptance.accepted.header
        accepts, offer = Signal(), self.o.payload
        m.d.comb += [
            free.eq(~Cat(entry.valid for entry in self.ranges)),
            lowest.eq(free & (~free + 1)),
            # Nothing is under way when a request is taken, so `o` is still empty when it is judged.
            acceptance.room.eq(~self.o.valid | self.o.ready),
            accepts.eq(acceptance.accepted.valid),
        ]
        first, pages = header.address >> units, header.length >> units
        with m.If(accepts):
            m.d.sync += [
                self.o.valid.eq(1),
                offer.first.eq(first),
                offer.pages.eq(pages),
                offer.index.eq(select(lowest, writes)),
                offer.operation.eq(header.operation),
                offer.owner.eq(header.owner),
                offer.relocated.eq(header.relocated),
                offer.link.eq(acceptance.accepted.link),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)

        # Events: one a clock, dies in turn --------------------------------------------------------
        event_type, grant_type = event_layout(machine), grant_layout(machine)
        link_of = Array(entry.link for entry in entries)
        failed = [Signal(event_type, name=f"failed{k}") for k in range(links)]
        granted = [Signal(grant_type, name=f"granted{k}") for k in range(links)]
        failed_valid, granted_valid = Signal(links), Signal(links)
        failed_sent, granted_sent = Signal(links), Signal(links)

        m.submodules.event_turn = event_turn = RoundRobin(width=machine.geometry.dies)
        m.d.comb += event_turn.take.eq(1)
        for d, source in enumerate(self.event):
            busy = (failed_valid & ~failed_sent).bit_select(link_of[source.payload.index], 1)
            blocked = busy & (source.payload.status != Status.OK)
            m.d.comb += [
                event_turn.request[d].eq(source.valid & ~blocked),
                source.ready.eq(event_turn.grant[d]),
            ]
        event, event_valid = Signal(event_type), Signal()
        chosen = Signal(event_type, name="chosen_event")
        m.d.comb += chosen.as_value().eq(
            select(event_turn.grant, [source.payload.as_value() for source in self.event])
        )
        m.d.sync += [event_valid.eq(event_turn.grant.any()), event.eq(chosen)]

        # Grants: one a clock, dies in turn --------------------------------------------------------
        m.submodules.grant_turn = grant_turn = RoundRobin(width=machine.geometry.dies)
        m.d.comb += grant_turn.take.eq(1)
        for d, source in enumerate(self.grant):
            busy = (granted_valid & ~granted_sent).bit_select(link_of[source.payload.index], 1)
            m.d.comb += [
                grant_turn.request[d].eq(source.valid & ~busy),
                source.ready.eq(grant_turn.grant[d]),
            ]
        next_grant = Signal(grant_type)
        m.d.comb += next_grant.as_value().eq(
            select(grant_turn.grant, [source.payload.as_value() for source in self.grant])
        )

        chosen_fails = event_turn.grant.any() & (chosen.status != Status.OK)
        for k in range(links):
            orphan = self.orphans.bit_select(chosen.index, 1)
            with m.If(chosen_fails & (link_of[chosen.index] == k) & ~orphan):
                m.d.sync += [failed_valid[k].eq(1), failed[k].eq(chosen)]
            with m.Elif(failed_sent[k]):
                m.d.sync += failed_valid[k].eq(0)
            with m.If(grant_turn.grant.any() & (link_of[next_grant.index] == k)):
                m.d.sync += [granted_valid[k].eq(1), granted[k].eq(next_grant)]
            with m.Elif(granted_sent[k]):
                m.d.sync += granted_valid[k].eq(0)

        # Life of an entry -------------------------------------------------------------------------
        finished, retires = Signal(len(writes)), Signal(len(writes))
        for n, (entry, span) in enumerate(zip(entries, self.ranges, strict=True)):
            m.d.comb += finished[n].eq(span.valid & (entry.left == 0))
            with m.If(span.valid & self.lost.bit_select(entry.link, 1)):
                m.d.sync += self.orphans[n].eq(1)
            with m.If(accepts & lowest[n]):
                m.d.sync += [
                    span.valid.eq(1),
                    span.first.eq(first),
                    span.end.eq(first + pages),
                    entry.link.eq(acceptance.accepted.link),
                    entry.operation.eq(header.operation),
                    entry.tag.eq(header.tag),
                    entry.left.eq(pages),
                    entry.status.eq(Status.OK),
                ]
            with m.Elif(event_valid & (event.index == n)):
                m.d.sync += entry.left.eq(entry.left - 1)
                with m.If(entry.status == Status.OK):
                    m.d.sync += entry.status.eq(event.status)
            with m.Elif(retires[n]):
                m.d.sync += [span.valid.eq(0), self.orphans[n].eq(0)]

        # Replies: one a clock and link ------------------------------------------------------------
        entry_of = Array(entries)
        last_sent = []
        for k in range(links):
            last = Signal(len(writes), name=f"last{k}")
            for n, entry in enumerate(entries):
                # The failure of its last page goes first.
                waits = failed_valid[k] & (failed[k].index == n)
                m.d.comb += last[n].eq(finished[n] & (entry.link == k) & ~waits & ~self.orphans[n])
            m.submodules[f"last_turn{k}"] = last_turn = RoundRobin(width=len(writes))
            ended = Signal(entry_type, name=f"ended{k}")
            m.d.comb += [
                last_turn.request.eq(last),
                ended.as_value().eq(select(last_turn.grant, [e.as_value() for e in entries])),
            ]
            of_failed, of_granted = entry_of[failed[k].index], entry_of[granted[k].index]
            refused, refused_read = acceptance.refused[k], self.refused_read[k]
            read = refused_read.payload
            sources = [
                (refused.valid, completion(refused, refused.status, chunk_end=1)),
                (
                    refused_read.valid,
                    {
                        "message_class": MessageClass.READ_DATA,
                        "operation": Operation.READ,
                        "tag": read.tag,
                        "status": read.status,
                    },
                ),
                (
                    failed_valid[k],
                    completion(of_failed, failed[k].status, page=failed[k].page),
                ),
                (
                    granted_valid[k],
                    {
                        "message_class": MessageClass.GRANT,
                        "operation": of_granted.operation,
                        "tag": of_granted.tag,
                        "page": granted[k].page,
                        "credit": granted[k].token,
                    },
                ),
                (last.any(), completion(ended, ended.status, chunk_end=1)),
            ]
            sent = self._send(m, k, sources)
            m.d.comb += [
                acceptance.refused_taken[k].eq(sent[0]),
                refused_read.ready.eq(sent[1]),
                failed_sent[k].eq(sent[2]),
                granted_sent[k].eq(sent[3]),
                last_turn.take.eq(sent[4]),
            ]
            last_sent.append(Mux(sent[4], last_turn.grant, 0))
        retires_now = reduce(or_, last_sent, finished & self.orphans)
        m.d.comb += [retires.eq(retires_now), self.retired.eq(retires)]
        return m

    def _send(self, m: Module, link: int, sources) -> Signal:
        """Send the headers of ``sources``, (valid, fields) each, in turn; tells which goes now."""
        m.submodules[f"sender{link}"] = sender = RequestSender(
            credits=self._machine.credits.descriptors
        )
        wiring.connect(m, sender.port, wiring.flipped(self.reply[link]))
        m.submodules[f"turn{link}"] = turn = RoundRobin(width=len(sources))
        sent = Signal(len(sources), name=f"sent{link}")
        m.d.comb += [
            turn.request.eq(Cat(valid for valid, _ in sources)),
            sender.i.valid.eq(turn.request.any() & ~self.lost[link]),
            turn.take.eq(sender.i.ready | self.lost[link]),
            sent.eq(Mux(turn.take, turn.grant, 0)),
        ]
        for n, (_, fields) in enumerate(sources):
            with m.If(turn.grant[n]):
                m.d.comb += [sender.i.payload[name].eq(value) for name, value in fields.items()]
        return sent
