"""Writeback of KV from the HBM to the HBF of its pair, over link C, in complete page waves."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.arbiter import RoundRobin, select
from hw.bits import line, position
from hw.hbm.dram.address import HbmAddressMap
from hw.hbm.dram.beats import LaneStream, request_layout, require_beat
from hw.hbm.dram.description import HbmStack
from hw.hbm.page_reader import PageReader, staging_pages
from hw.params import TRANSACTION_PAGES, Machine
from hw.ucie.transaction import Operation, ResetPort, Status
from hw.ucie.write_sender import done_layout, fetch_layout, grant_layout, write_request_layout

COUNTER_BITS = 48
PAGE_COUNTERS = ("pages_asked", "pages_granted", "pages_read", "pages_sent", "pages_done")
CLOCK_COUNTERS = ("link_clocks", "hbm_clocks", "grant_clocks", "program_clocks")
COUNTERS = PAGE_COUNTERS + CLOCK_COUNTERS

PAGES = range(TRANSACTION_PAGES + 1)


def command_layout(machine: Machine, stack: HbmStack) -> data.StructLayout:
    """Move ``pages`` pages from access ``source`` of the HBM to page ``first`` of the HBF."""
    return data.StructLayout(
        {
            "source": HbmAddressMap(stack).address_bits,
            "first": range(machine.geometry.stack_pages),
            "pages": PAGES,
            "tag": 12,
            "owner": 2,
        }
    )


def released_layout(stack: HbmStack) -> data.StructLayout:
    """A range of the HBM that nobody needs any more: it is in the HBF."""
    return data.StructLayout(
        {"source": HbmAddressMap(stack).address_bits, "pages": PAGES, "tag": 12}
    )


def failed_layout() -> data.StructLayout:
    """A command has ended, and what was not OK."""
    return data.StructLayout({"tag": 12, "status": 4})


class Writeback(wiring.Component):
    """Writes ranges of the HBM to the HBF, and releases each when all of it is programmed.

    Promise: each command ends with exactly one message: ``released`` after a last COMPLETION of
    status OK, which the HBF base die sends when all pages are programmed; else ``failed`` with the
    status of that COMPLETION. Up to ``machine.credits.writes`` commands are open at a time, they
    leave in order and may end in any. Nothing is read before it is granted.

    The rule of complete waves: ``pages`` is a multiple of ``unit_pages``, one page wave of the
    stack unless set otherwise, so that every subarray programs alike. The source begins with a
    page and lies in the stack. A command that breaks this ends with BAD_ADDRESS and is not sent.

    Reset of link C: each command whose write has left ends with LINK_RESET and releases nothing:
    what of it was written is not known. Pages on their way are dropped, ``settled`` tells when none
    is left. A command whose write has not left waits for the link.

    Latency: a command 1 clock to ``write``, an end 2 clocks from ``done``; a page as
    :class:`PageReader` says. Throughput: a command a clock, a beat a clock. Back-pressure:
    ``command`` waits for a slot and for the sender, ``released`` and ``failed`` keep their slot
    until they are taken; a page waits for one of the ``pages`` places of staging.

    Counters: pages of writes that left, of grants, read, sent, and of commands that were released.
    Each clock with an open write counts as one of: ``link`` a page is at hand or leaves, else
    ``hbm`` pages are being read, else ``grant`` a page has no grant yet, else ``program``.

    Source: DASH section V-B.

    Members
    -------
    command : In(stream); released, failed : Out(stream)
    write, granted, at_hand, fetch, fetch_lanes, fetch_poison, done : those of a staged
        :class:`hw.ucie.write_sender.WriteSender`
    page_request, page_beats : Out(stream), In(LaneStream): :class:`hw.hbm.controller_share`
    counters : Out
    reset : In(ResetPort): of link C
    """

    def __init__(
        self,
        machine: Machine,
        stack: HbmStack,
        *,
        unit_pages: int | None = None,
        pages: int | None = None,
    ) -> None:
        unit_pages = machine.geometry.wave_pages if unit_pages is None else unit_pages
        if not 1 <= unit_pages <= TRANSACTION_PAGES or unit_pages & (unit_pages - 1):
            raise ValueError(
                f"unit_pages must be a power of two up to {TRANSACTION_PAGES}, not {unit_pages!r}"
            )
        require_beat(stack, machine.link.beat_bytes)
        self._machine, self._stack, self._unit_pages = machine, stack, unit_pages
        self._staging_pages = staging_pages(machine, stack, pages)
        super().__init__(
            {
                "command": In(stream.Signature(command_layout(machine, stack))),
                "released": Out(stream.Signature(released_layout(stack))),
                "failed": Out(stream.Signature(failed_layout())),
                "write": Out(stream.Signature(write_request_layout(machine))),
                "granted": In(stream.Signature(grant_layout())),
                "at_hand": Out(stream.Signature(grant_layout())),
                "fetch": In(fetch_layout()),
                "fetch_lanes": Out(64).array(machine.lanes),
                "fetch_poison": Out(1),
                "done": In(done_layout()),
                "page_request": Out(stream.Signature(request_layout(stack))),
                "page_beats": In(LaneStream(stack, labelled=True)),
                "counters": Out(data.StructLayout(dict.fromkeys(COUNTERS, COUNTER_BITS))),
                "reset": In(ResetPort()),
            }
        )

    @property
    def unit_pages(self) -> int:
        return self._unit_pages

    def elaborate(self, platform) -> Module:
        m = Module()
        slots = self._machine.credits.writes
        page_bits = exact_log2(self._machine.page_beats * self._stack.beat_accesses)
        command, write = self.command.payload, self.write.payload
        m.submodules.reader = reader = PageReader(
            self._machine, self._stack, pages=self._staging_pages
        )

        # Slots: free, then open with a write of the sender, then ended until they are told --------
        busy, left, ended, good = (Signal(slots, name=n) for n in ("busy", "left", "ended", "good"))
        held = [
            Signal(command_layout(self._machine, self._stack), name=f"held{s}")
            for s in range(slots)
        ]
        status = [Signal(4, name=f"status{s}") for s in range(slots)]
        ungranted = [Signal(PAGES, name=f"ungranted{s}") for s in range(slots)]
        place, ends, told = (Signal(slots, name=n) for n in ("place", "ends", "told"))
        takes, rules, leaves = Signal(), Signal(), Signal()
        m.d.comb += [
            place.eq(~busy & (busy + 1)),
            self.command.ready.eq(place.any() & (~self.write.valid | self.write.ready)),
            takes.eq(self.command.valid & self.command.ready),
            rules.eq(
                (command.pages != 0)
                & ~command.pages[: exact_log2(self._unit_pages)].any()
                & ~command.source[:page_bits].any()
                & (command.source + (command.pages << page_bits) <= self._stack.accesses)
            ),
            leaves.eq(self.write.valid & self.write.ready),
            ends.eq(line(self.done.valid & self.done.last, self.done.tag, slots) & left),
        ]
        with m.If(takes | leaves):
            m.d.sync += self.write.valid.eq(takes & rules)
        with m.If(takes & rules):
            m.d.sync += [
                write.first.eq(command.first),
                write.pages.eq(command.pages),
                write.tag.eq(position(m, place)),
                write.operation.eq(Operation.WRITE),
                write.owner.eq(command.owner),
            ]
        starts, sent = Mux(takes, place, 0), line(leaves, write.tag, slots)
        m.d.sync += [
            busy.eq((busy | starts) & ~told),
            left.eq((left | sent) & ~ends),
            ended.eq((ended | ends | Mux(rules, 0, starts)) & ~told),
            good.eq((good | Mux(self.done.status == Status.OK, ends, 0)) & ~starts),
        ]
        grants = line(self.granted.valid & self.granted.ready, self.granted.payload.tag, slots)
        for s in range(slots):
            with m.If(starts[s]):
                m.d.sync += [held[s].eq(command), status[s].eq(Status.BAD_ADDRESS)]
            with m.If(ends[s]):
                m.d.sync += [status[s].eq(self.done.status), ungranted[s].eq(0)]
            with m.Elif(sent[s]):
                m.d.sync += ungranted[s].eq(write.pages)
            with m.Elif(grants[s]):
                m.d.sync += ungranted[s].eq(ungranted[s] - 1)

        # Ends: each kind in turn ------------------------------------------------------------------
        tells = []
        for name, port, wanted in (
            ("released", self.released, ended & good),
            ("failed", self.failed, ended & ~good),
        ):
            m.submodules[f"{name}_turns"] = turns = RoundRobin(width=slots)
            room = ~port.valid | port.ready
            m.d.comb += [turns.request.eq(wanted), turns.take.eq(room)]
            tells.append(Mux(room, turns.grant, Const(0, slots)))
            of = held[0].shape()(select(turns.grant, [Value.cast(h) for h in held]))
            with m.If(room):
                m.d.sync += [port.valid.eq(wanted.any()), port.payload.tag.eq(of.tag)]
                if port is self.released:
                    m.d.sync += [
                        port.payload.source.eq(of.source),
                        port.payload.pages.eq(of.pages),
                    ]
                else:
                    m.d.sync += port.payload.status.eq(select(turns.grant, status))
        m.d.comb += told.eq(tells[0] | tells[1])

        # Pages ------------------------------------------------------------------------------------
        grant, page = self.granted.payload, reader.i.payload
        source = select(line(Const(1), grant.tag, slots), [h.source for h in held])
        wiring.connect(m, reader.request, wiring.flipped(self.page_request))
        wiring.connect(m, wiring.flipped(self.page_beats), reader.beats)
        wiring.connect(m, reader.at_hand, wiring.flipped(self.at_hand))
        m.d.comb += [
            reader.i.valid.eq(self.granted.valid),
            self.granted.ready.eq(reader.i.ready),
            page.grant.eq(grant),
            page.address.eq(source + (grant.page << page_bits)),
            reader.fetch.eq(self.fetch),
            self.fetch_poison.eq(reader.poison),
            reader.lost.eq(self.reset.lost),
            self.reset.settled.eq(reader.idle),
            *(out.eq(lane) for out, lane in zip(self.fetch_lanes, reader.lanes, strict=True)),
        ]
        done_pages = Mux(self.done.status == Status.OK, select(ends, [h.pages for h in held]), 0)
        m.d.sync += [
            self.counters[name].eq(self.counters[name] + step)
            for name, step in (
                ("pages_asked", Mux(leaves, write.pages, 0)),
                ("pages_granted", self.granted.valid & self.granted.ready),
                ("pages_read", reader.arrives),
                ("pages_sent", self.at_hand.valid & self.at_hand.ready),
                ("pages_done", done_pages),
            )
        ]
        with m.If(left.any()):
            waits = Cat(
                self.at_hand.valid | self.fetch.valid, ~reader.idle, Cat(ungranted).any(), 1
            )
            first = Signal(len(CLOCK_COUNTERS))
            m.d.comb += first.eq(waits & (~waits + 1))
            m.d.sync += [
                self.counters[name].eq(self.counters[name] + first[k])
                for k, name in enumerate(CLOCK_COUNTERS)
            ]
        return m
