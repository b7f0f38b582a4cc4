"""The life of each write page, trim and collection of one die, from its request to its answer."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.arbiter import RoundRobin
from hw.hbf.array_operations import ended_layout, start_layout
from hw.hbf.bits import line, lowest, position
from hw.hbf.block_layouts import BlockOperation, block_layout, operation_layout
from hw.hbf.block_port import answer_layout
from hw.hbf.layouts import moved_layout, slot_event, token_layout
from hw.hbf.page_walk import log2
from hw.hbf.pending import PendingPages
from hw.hbf.write_tracker import event_layout, grant_layout, write_layout
from hw.params import Machine
from hw.ucie.transaction import Operation, Status

WRITES_PER_DIE = 4


class Cause(enum.Enum, shape=2):
    """Why the sequencer is at work."""

    REQUEST = 0
    COLLECT = 1
    ERASED = 2
    PROGRAMMED = 3


class WriteAdmission(wiring.Component):
    """Sequencer of the writes, trims, releases and collections of one die.

    Promise: each page of an accepted request has exactly one ``event``. A page of a write is judged
    by the block table; if it may be written, its block is erased first if need be, then its slot is
    granted, and when the page has ``arrived`` there it is programmed. A page that arrives poisoned,
    or turns out to be when it is read for the TSVs, fails like one that the die failed to program:
    the block is failed, and the host replays it from its first page. Each subarray has one page,
    trim or collection under way at a time, in the order of their requests; other subarrays do not
    wait for it. Subarrays take turns: a page that waits where nothing is under way and a slot is
    free begins after at most one page of each other subarray.

    Pages of ``orphans`` have lost their link: one that waits ends at once, with LINK_RESET and no
    change of its block; one that is further is not granted any more, or was and lost its data if
    ``cut`` of its link comes. Both count as poisoned.

    The slot is freed when the page has left it for the cache register, with
    ``hold_until_programmed`` when its program has ended. With ``collect_enable`` a block that the
    table offers as dead is erased when the table still agrees.

    Throughput: about one step in 6 clocks, two steps a page. Back-pressure: ``grant`` and ``event``
    may stall, and with them the die's further writes.

    Members
    -------
    i : In(stream), broadcast to all dies
    waits : Out: one bit a subarray at which a page wants a slot
    slot_busy : In, one a region; reserve, free : Out
    op, answer, dead : the block table
    start, done : the array
    arrived : In, one a link: a granted page is in its slot
    left : In: a page has left its slot for the cache register
    grant, event : Out(streams): to the tracker; an offered grant of one of the orphans falls
    orphans : In, one bit a write; cut : In, one bit a link: no more data come for what was granted
    awaits : Out, one bit a link: a page is granted and has not arrived
    programmed, relocated, program_failed, erased, collected, erase_failed : Out: count pulses
    """

    COUNTS = (
        "programmed",
        "relocated",
        "program_failed",
        "erased",
        "collected",
        "erase_failed",
    )

    def __init__(self, machine: Machine, *, die: int | Value, links: int) -> None:
        self._machine, self._die, self._links = machine, die, links
        g = machine.geometry
        subarrays = g.subarrays_per_die
        super().__init__(
            {
                "i": In(stream.Signature(write_layout(machine, links=links))),
                "hold_until_programmed": In(1),
                "collect_enable": In(1),
                "waits": Out(subarrays),
                "slot_busy": In(subarrays).array(2),
                "reserve": Out(slot_event(machine)),
                "free": Out(slot_event(machine)),
                "op": Out(stream.Signature(operation_layout(machine))),
                "answer": In(answer_layout(machine)),
                "dead": In(stream.Signature(block_layout(machine))),
                "start": Out(stream.Signature(start_layout(machine))),
                "done": In(ended_layout(machine)),
                "arrived": In(moved_layout(machine)).array(links),
                "left": In(moved_layout(machine)),
                "grant": Out(stream.Signature(grant_layout(machine))),
                "event": Out(stream.Signature(event_layout(machine))),
                "orphans": In(machine.credits.writes),
                "cut": In(links),
                "awaits": Out(links),
                **{name: Out(1) for name in self.COUNTS},
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, g = self._machine, self._machine.geometry
        subarrays = g.subarrays_per_die
        block_bits = log2(g.pages_per_block)

        m.submodules.pending = pending = PendingPages(
            machine,
            die=self._die,
            depth=WRITES_PER_DIE,
            descriptor=write_layout(machine, links=self._links),
        )
        wiring.connect(m, wiring.flipped(self.i), pending.i)

        # One bit a subarray: work under way, of which kind; a slot is reserved, and in region 1;
        # the page is granted and comes over link 1; it has arrived, it is poisoned.
        active, collecting, reserved, region, granted, of_1, there, bad = (
            Signal(subarrays, name=name)
            for name in (
                "active",
                "collecting",
                "reserved",
                "slot_region",
                "granted",
                "of_link_1",
                "there",
                "bad",
            )
        )
        free_slot, eligible, picks = Signal(subarrays), Signal(subarrays), Signal()
        m.submodules.turns = turns = RoundRobin(width=subarrays)
        m.d.comb += [
            free_slot.eq(~(self.slot_busy[0] & self.slot_busy[1])),
            self.waits.eq(pending.waiting & ~active),
            eligible.eq(self.waits & free_slot),
            turns.request.eq(eligible),
            turns.take.eq(picks),
            pending.subarray.eq(position(m, turns.grant)),
        ]
        job_type = data.StructLayout(
            {
                "row": range(g.rows),
                "index": range(machine.credits.writes),
                "page": 12,
                "relocated": 1,
            }
        )
        m.submodules.jobs = jobs = Memory(shape=job_type, depth=subarrays, init=[])
        job_write, job_finished, job_arrived = (
            jobs.write_port(),
            jobs.read_port(domain="comb"),
            jobs.read_port(domain="comb"),
        )

        # Pages that have ended: done by the array, or poisoned on arrival -------------------------
        ended_type = data.StructLayout({"subarray": range(subarrays), "erase": 1, "fail": 1})
        m.submodules.ended = ended = SyncFIFOBuffered(width=ended_type.size, depth=subarrays + 1)
        ended_in, ended_out = ended_type(ended.w_data), ended_type(ended.r_data)
        erase_starts = Signal()
        come = Signal(range(subarrays))
        come_bad, begins, spoilt = Signal(), Signal(), Signal()
        m.d.comb += [
            come.eq(lowest(m, there)),
            come_bad.eq(bad.bit_select(come, 1)),
            begins.eq((there != 0) & ~come_bad & ~erase_starts),
            spoilt.eq((there != 0) & come_bad & ~self.done.valid),
            ended.w_en.eq(self.done.valid | spoilt),
            ended_in.subarray.eq(Mux(self.done.valid, self.done.subarray, come)),
            ended_in.erase.eq(self.done.valid & self.done.erase),
            ended_in.fail.eq(self.done.fail | ~self.done.valid),
            job_arrived.addr.eq(come),
            job_finished.addr.eq(ended_out.subarray),
        ]

        # Sequencer --------------------------------------------------------------------------------
        at = Signal(range(subarrays))
        job = Signal(job_type)
        operation, owner = Signal(4), Signal(2)
        cause, fail, status = Signal(Cause), Signal(), Signal(Status)
        kind = Signal(BlockOperation)
        collects, clears, gives_up = Signal(), Signal(), Signal()
        here = line(1, at, subarrays)
        rest, orphaned = pending.rest, Signal()
        writes = rest.operation == Operation.WRITE
        m.d.comb += [
            orphaned.eq(writes & self.orphans.bit_select(rest.index, 1)),
            pending.take.eq(picks),
            # Of a collection only the row counts, which its failure names.
            job_write.en.eq(picks | collects),
            job_write.addr.eq(Mux(collects, self.dead.payload.subarray, pending.subarray)),
            job_write.data.row.eq(
                Mux(collects, self.dead.payload.block << block_bits, pending.row)
            ),
            job_write.data.index.eq(rest.index),
            job_write.data.page.eq(pending.page),
            job_write.data.relocated.eq(rest.relocated),
            self.reserve.valid.eq(picks & writes & ~orphaned),
            self.reserve.slot.subarray.eq(pending.subarray),
            # Reads take region 0 first: of two free slots each may have one in the same clock.
            self.reserve.slot.region.eq(~self.slot_busy[1].bit_select(pending.subarray, 1)),
            self.op.payload.kind.eq(kind),
            self.op.payload.where.subarray.eq(at),
            self.op.payload.where.block.eq(job.row >> block_bits),
            self.op.payload.page.eq(job.row[:block_bits]),
            self.op.payload.owner.eq(owner),
            self.grant.payload.index.eq(job.index),
            self.grant.payload.page.eq(job.page),
            self.event.payload.index.eq(job.index),
            self.event.payload.page.eq(job.page),
            self.event.payload.status.eq(status),
        ]
        token = Signal(token_layout(machine))
        m.d.comb += [
            token.die.eq(self._die),
            token.subarray.eq(at),
            token.region.eq(region.bit_select(at, 1)),
            self.grant.payload.token.eq(token),
        ]
        frees = Signal()  # the sequencer's own release of a slot

        with m.FSM():
            with m.State("Idle"):
                collectable = (
                    self.dead.valid
                    & self.collect_enable
                    & ~active.bit_select(self.dead.payload.subarray, 1)
                )
                with m.If(ended.r_rdy):
                    m.d.comb += ended.r_en.eq(1)
                    failed = ended_out.fail | (bad.bit_select(ended_out.subarray, 1))
                    m.d.sync += [
                        at.eq(ended_out.subarray),
                        job.eq(job_finished.data),
                        fail.eq(failed),
                        status.eq(Mux(failed, Status.PROGRAM_FAILED, Status.OK)),
                        kind.eq(Mux(failed, BlockOperation.FAILED, BlockOperation.ERASED)),
                        cause.eq(Mux(ended_out.erase, Cause.ERASED, Cause.PROGRAMMED)),
                    ]
                    m.next = "Ended"
                with m.Elif(collectable):
                    m.d.comb += [collects.eq(1), self.dead.ready.eq(1)]
                    m.d.sync += [
                        at.eq(self.dead.payload.subarray),
                        job.eq(job_write.data),
                        kind.eq(BlockOperation.COLLECT),
                        cause.eq(Cause.COLLECT),
                    ]
                    m.next = "Ask"
                with m.Elif(eligible != 0):
                    m.d.comb += picks.eq(1)
                    m.d.sync += [
                        at.eq(pending.subarray),
                        job.eq(job_write.data),
                        operation.eq(rest.operation),
                        owner.eq(rest.owner),
                        cause.eq(Cause.REQUEST),
                    ]
                    with m.Switch(rest.operation):
                        with m.Case(Operation.TRIM):
                            m.d.sync += kind.eq(BlockOperation.TRIM)
                        with m.Case(Operation.RELEASE):
                            m.d.sync += kind.eq(BlockOperation.RELEASE)
                        with m.Default():
                            m.d.sync += kind.eq(BlockOperation.ADMIT)
                    m.next = "Ask"
                    with m.If(orphaned):
                        m.d.sync += status.eq(Status.LINK_RESET)
                        m.next = "Event"

            with m.State("Ended"):
                erase_ended = cause == Cause.ERASED
                collected = collecting.bit_select(at, 1)
                m.d.comb += [
                    self.erased.eq(erase_ended & ~fail),
                    self.collected.eq(erase_ended & ~fail & collected),
                    self.erase_failed.eq(erase_ended & fail),
                    self.programmed.eq(~erase_ended & ~fail),
                    self.relocated.eq(~erase_ended & ~fail & job.relocated),
                    self.program_failed.eq(~erase_ended & fail),
                ]
                with m.If(fail | (erase_ended & ~collected)):
                    m.next = "Ask"
                with m.Elif(erase_ended):
                    m.d.comb += clears.eq(1)
                    m.next = "Idle"
                with m.Else():
                    m.next = "Release"

            with m.State("Ask"):
                m.d.comb += self.op.valid.eq(1)
                with m.If(self.op.ready):
                    m.next = "Wait"

            with m.State("Wait"):
                verdict = self.answer
                with m.If(verdict.valid & (verdict.kind == kind)):
                    with m.Switch(cause):
                        with m.Case(Cause.REQUEST):
                            m.d.sync += status.eq(verdict.status)
                            with m.If(operation != Operation.WRITE):
                                m.next = "Event"
                            with m.Elif(verdict.status != Status.OK):
                                m.next = "Release"
                            with m.Elif(verdict.erase):
                                m.next = "Erase"
                            with m.Else():
                                m.next = "Grant"
                        with m.Case(Cause.COLLECT):
                            with m.If(verdict.erase):
                                m.next = "Erase"
                            with m.Else():
                                m.d.comb += clears.eq(1)
                                m.next = "Idle"
                        with m.Case(Cause.ERASED):
                            with m.If(~fail):
                                m.next = "Grant"
                            with m.Elif(collecting.bit_select(at, 1)):
                                m.d.comb += clears.eq(1)
                                m.next = "Idle"
                            with m.Else():
                                m.next = "Release"
                        with m.Default():
                            m.next = "Release"

            with m.State("Erase"):
                m.d.comb += erase_starts.eq(1)
                m.next = "Idle"

            with m.State("Grant"):
                m.d.comb += [
                    gives_up.eq(self.orphans.bit_select(job.index, 1)),
                    self.grant.valid.eq(~gives_up),
                ]
                with m.If(self.grant.ready | gives_up):
                    m.next = "Idle"

            with m.State("Release"):  # of a slot that is still reserved
                with m.If(~reserved.bit_select(at, 1)):
                    m.next = "Event"
                with m.Elif(~self.left.valid):
                    m.d.comb += frees.eq(1)
                    m.next = "Event"

            with m.State("Event"):
                m.d.comb += self.event.valid.eq(1)
                with m.If(self.event.ready):
                    m.d.comb += clears.eq(1)
                    m.next = "Idle"

        # Array and slots --------------------------------------------------------------------------
        gives_back = self.left.valid & ~self.hold_until_programmed
        m.d.comb += [
            self.start.valid.eq(erase_starts | begins),
            self.start.payload.erase.eq(erase_starts),
            self.free.valid.eq(gives_back | frees),
        ]
        with m.If(erase_starts):
            m.d.comb += [
                self.start.payload.slot.subarray.eq(at),
                self.start.payload.row.eq(job.row),
            ]
        with m.Else():
            m.d.comb += [
                self.start.payload.slot.subarray.eq(come),
                self.start.payload.slot.region.eq(region.bit_select(come, 1)),
                self.start.payload.row.eq(job_arrived.data.row),
            ]
        with m.If(frees):
            m.d.comb += [
                self.free.slot.subarray.eq(at),
                self.free.slot.region.eq(region.bit_select(at, 1)),
            ]
        with m.Else():
            m.d.comb += self.free.slot.eq(self.left.slot)

        picked = line(picks, pending.subarray, subarrays)
        cleared = Mux(clears, here, 0)
        collect = line(collects, self.dead.payload.subarray, subarrays)
        arrivals = [line(a.valid, a.slot.subarray, subarrays) for a in self.arrived]
        spoilt_now = [line(a.valid & a.poison, a.slot.subarray, subarrays) for a in self.arrived]
        grants = Mux(self.grant.valid & self.grant.ready, here, 0)
        given_up = Mux(gives_up, here, 0)
        for k in range(self._links):
            of_link = granted & (of_1 if k else ~of_1)
            m.d.comb += self.awaits[k].eq(of_link != 0)
            given_up |= Mux(self.cut[k], of_link, 0)
        left_bad = line(self.left.valid & self.left.poison, self.left.slot.subarray, subarrays)
        busy = active != 0
        with m.If(picks | collects | busy):
            m.d.sync += [
                active.eq((active | picked | collect) & ~cleared),
                collecting.eq((collecting | collect) & ~cleared),
                reserved.eq(
                    (reserved | Mux(self.reserve.valid, picked, 0))
                    & ~line(self.free.valid, self.free.slot.subarray, subarrays)
                ),
                region.eq((region & ~picked) | Mux(self.reserve.slot.region, picked, 0)),
                of_1.eq((of_1 & ~picked) | Mux(rest.link == 1, picked, 0)),
                granted.eq((granted | grants) & ~reduce(or_, arrivals, given_up)),
                there.eq(
                    reduce(or_, arrivals, there | given_up)
                    & ~line(begins | spoilt, come, subarrays)
                ),
                bad.eq(reduce(or_, spoilt_now, bad | given_up | left_bad) & ~cleared),
            ]
        return m
