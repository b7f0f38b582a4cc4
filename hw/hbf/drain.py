"""Drain of ready pages from the transfer regions onto one link."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.arbiter import RoundRobin, select
from hw.hbf.layouts import label_layout, slot_layout
from hw.hbf.page_walk import log2
from hw.params import Machine
from hw.sram.regions import GROUPS
from hw.ucie.pacer import RATE_BITS, FramePacer
from hw.ucie.transaction import DataPort, MessageClass, Route


class DrainEngine(wiring.Component):
    """Sends whole pages of one path, a beat from each bank group in turn.

    Promise: a page leaves only after it is wholly in SRAM, when the pacer grants a frame and
    ``admit`` is high (the path holds credit for a page); its four beats follow each other without a
    gap. Ready pages of a die leave in the order they were filled, dies take turns. ``free`` (per
    die) follows the last read of a slot. ``sent`` pulses as a page is chosen.

    The frame starts in clock ``start`` of the slot, one clock after the choice, so that reads meet
    the Direct or Relay time slots of the groups in order 0 to 3. First beat on the link three
    clocks after the choice. Throughput: one beat a clock before pacing.

    Members
    -------
    ready : In, one a die
        A page of this path has been filled.
    read_en, read_region, read_row : Out
        Reads of :class:`hw.sram.regions.TransferRegions`, whose lanes come back as ``lanes``.
    label_en, label_slot, label
        Asks all dies for tag and page of the slot in the first clock of a frame; ``label`` answers
        one clock later, and that of the chosen die counts.
    port : Out(DataPort)
        ``port.credit`` is not looked at here: whoever drives ``admit`` counts it.
    """

    def __init__(self, machine: Machine, *, route: Route, start: int) -> None:
        self._machine, self._route, self._start = machine, route, start
        slot = slot_layout(machine)
        dies = machine.geometry.dies
        event = data.StructLayout({"valid": 1, "slot": slot})
        super().__init__(
            {
                "now": In(2),
                "rate": In(RATE_BITS + 1),
                "admit": In(1),
                "chunk_end": In(1),
                "sent": Out(1),
                "waiting": Out(1),
                "ready": In(event).array(dies),
                "free": Out(event).array(dies),
                "read_en": Out(1),
                "read_region": Out(1),
                "read_row": Out(range(machine.geometry.wave_pages)),
                "lanes": In(64).array(machine.lanes),
                "label_en": Out(1),
                "label_slot": Out(slot),
                "label": In(label_layout()).array(dies),
                "port": Out(DataPort(machine.lanes)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        dies = machine.geometry.dies
        slot_type = slot_layout(machine)

        queues = []
        for d in range(dies):
            queue = SyncFIFOBuffered(
                width=slot_type.size, depth=2 * machine.geometry.subarrays_per_die
            )
            m.submodules[f"queue{d}"] = queue
            m.d.comb += [
                queue.w_data.eq(self.ready[d].slot),
                queue.w_en.eq(self.ready[d].valid),
            ]
            queues.append(queue)

        # Choice, in the clock before the frame ----------------------------------------------------
        m.submodules.arbiter = arbiter = RoundRobin(width=dies)
        m.submodules.pacer = pacer = FramePacer()
        m.d.comb += [
            *(arbiter.request[d].eq(queue.r_rdy) for d, queue in enumerate(queues)),
            self.waiting.eq(arbiter.request.any()),
            pacer.rate.eq(self.rate),
            pacer.tick.eq(self.now == (self._start - 1) % GROUPS),
            self.sent.eq(pacer.grant & self.admit & self.waiting),
            pacer.use.eq(self.sent),
            arbiter.take.eq(self.sent),
            *(queue.r_en.eq(self.sent & arbiter.grant[d]) for d, queue in enumerate(queues)),
        ]
        chosen, die, die_lines = Signal(slot_type), Signal(range(dies)), Signal(dies)
        chunk_end = Signal()
        reading = Signal(range(GROUPS + 1))  # beats of the frame still to read
        with m.If(self.sent):
            m.d.sync += [
                chosen.eq(slot_type(select(arbiter.grant, [q.r_data for q in queues]))),
                die.eq(select(arbiter.grant, range(dies))),
                die_lines.eq(arbiter.grant),
                chunk_end.eq(self.chunk_end),
                reading.eq(GROUPS),
            ]
        with m.Elif(reading != 0):
            m.d.sync += reading.eq(reading - 1)

        # Read, one group a clock ------------------------------------------------------------------
        group = Signal(2)
        m.d.comb += [
            group.eq(GROUPS - reading),
            self.read_en.eq(reading != 0),
            self.read_region.eq(chosen.region),
            self.read_row.eq((chosen.subarray << log2(dies)) | die),
            self.label_en.eq(reading == GROUPS),
            self.label_slot.eq(chosen),
        ]
        for d in range(dies):
            m.d.comb += [
                self.free[d].valid.eq((reading == 1) & die_lines[d]),
                self.free[d].slot.eq(chosen),
            ]

        # Link -------------------------------------------------------------------------------------
        read_valid, read_beat, read_die = Signal(), Signal(2), Signal(dies)
        read_end, first = Signal(), Signal()
        message = MessageClass.RELAY_DATA if self._route else MessageClass.READ_DATA
        label, held = Signal(label_layout()), Signal(label_layout())
        m.d.comb += label.eq(
            Mux(first, select(read_die, [line.as_value() for line in self.label]), held)
        )
        m.d.sync += [
            first.eq(self.label_en),
            held.eq(label),
            read_valid.eq(self.read_en),
            read_beat.eq(group - die),
            read_die.eq(die_lines),
            read_end.eq(chunk_end),
            self.port.valid.eq(read_valid),
        ]
        with m.If(read_valid):
            m.d.sync += [
                self.port.header.message_class.eq(message),
                self.port.header.route.eq(self._route),
                self.port.header.tag.eq(label.tag),
                self.port.header.page.eq(label.page),
                self.port.header.beat.eq(read_beat),
                self.port.header.chunk_end.eq(read_end),
                *(self.port.lanes[k].eq(self.lanes[k]) for k in range(machine.lanes)),
            ]
        return m


class RelayAdmission(wiring.Component):
    """Relay credits at the HBF die: which page may go, and where chunks end.

    A credit is a free region of the relay buffer, for one chunk of up to ``chunk_pages`` pages.
    Promise: pages are admitted only into a region that was granted and not yet closed. A chunk
    closes when it is full; with the last page of the last descriptor accepted so far; or by a
    ``close`` pulse of its own after ``idle_clocks`` in which no page was ready, so that data never
    waits in the relay buffer for pages that are still being sensed.

    Members
    -------
    requested : In
        Pages of a relay descriptor that the die accepts in this clock.
    waiting, sent : In
        A page is ready; a page leaves in this clock.
    grant : In
        The relay buffer has freed a region.
    admit, chunk_end : Out
        A page may leave; it would be the last of its chunk.
    close : Out
        The open chunk ends with the page before. Comes when no page is on its way to the link.
    """

    def __init__(self, *, chunk_pages: int, regions: int, max_pages: int, idle_clocks: int) -> None:
        if chunk_pages < 2:
            raise ValueError(f"a relay chunk must hold at least 2 pages, not {chunk_pages!r}")
        if idle_clocks < 2 * GROUPS:
            raise ValueError(f"idle_clocks must be at least {2 * GROUPS}, not {idle_clocks!r}")
        self._chunk_pages, self._regions = chunk_pages, regions
        self._max_pages, self._idle_clocks = max_pages, idle_clocks
        super().__init__(
            {
                "requested": In(range(max_pages + 1)),
                "waiting": In(1),
                "sent": In(1),
                "grant": In(1),
                "admit": Out(1),
                "chunk_end": Out(1),
                "close": Out(1),
                "regions": Out(range(regions + 1), init=regions),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        outstanding = Signal(32)  # pages accepted and not yet sent
        filled = Signal(range(self._chunk_pages))  # pages in the open chunk
        idle = Signal(range(self._idle_clocks))
        opens = Signal()
        m.d.comb += [
            self.admit.eq((filled != 0) | (self.regions != 0)),
            self.chunk_end.eq((filled == self._chunk_pages - 1) | (outstanding == 1)),
            self.close.eq((idle == self._idle_clocks - 1) & ~self.waiting),
            opens.eq(self.sent & (filled == 0)),
        ]
        m.d.sync += [
            outstanding.eq(outstanding + self.requested - self.sent),
            self.regions.eq(self.regions + self.grant - opens),
        ]
        with m.If(self.waiting | self.close | (filled == 0)):
            m.d.sync += idle.eq(0)
        with m.Else():
            m.d.sync += idle.eq(idle + 1)
        with m.If(self.sent):
            m.d.sync += filled.eq(Mux(self.chunk_end, 0, filled + 1))
        with m.Elif(self.close):
            m.d.sync += filled.eq(0)
        return m
