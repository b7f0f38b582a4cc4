"""Drain of ready pages from the transfer regions onto one link."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.arbiter import RoundRobin, select
from hw.hbf.layouts import label_layout, page_layout, slot_event, slot_layout
from hw.hbf.page_walk import log2
from hw.params import Machine
from hw.sram.regions import GROUPS, READ_CLOCKS
from hw.ucie.pacer import RATE_BITS, FramePacer
from hw.ucie.transaction import DataPort, MessageClass, Route


class DrainEngine(wiring.Component):
    """Sends pages of one path, a beat from each bank group in turn.

    Promise: a page leaves only after it is wholly in SRAM and its region drains, when the pacer
    grants a frame and ``admit`` is high (the path holds credit for a page); its wanted beats leave
    in one frame of four clocks, the last with ``page_end``. Ready pages of a die leave in the order
    they were filled, dies take turns. ``free`` (per die) follows the last read of a slot. ``sent``
    pulses as a page of ``beats`` beats is chosen. While ``drop`` is high a page is chosen without
    credit and none of its beats leaves.

    The frame starts in clock ``start`` of the slot, one clock after the choice, so that reads meet
    the Direct or Relay time slots of the groups in order 0 to 3. First beat on the link
    ``READ_CLOCKS`` + 1 clocks after the choice. Throughput: one beat a clock before pacing.

    Members
    -------
    ready : In, one a die
        A page of this path has been filled.
    drains : In(2)
        One bit a region whose pages may leave.
    read_en, read_region, read_row : Out
        Reads of :class:`hw.sram.regions.TransferRegions`, whose beats come back ``READ_CLOCKS``
        later as ``lanes``, with ``poison`` if they are wrong; both go to the link as they come.
    label_en, label_slot, label
        Asks all dies for tag and page of the slot in the first clock of a frame; ``label`` answers
        one clock later, and that of the chosen die counts.
    port : Out(DataPort)
        ``port.credit`` is not looked at here: whoever drives ``admit`` counts it.
    """

    def __init__(self, machine: Machine, *, route: Route, start: int) -> None:
        self._machine, self._route, self._start = machine, route, start
        dies = machine.geometry.dies
        ready = data.StructLayout({"valid": 1, "page": page_layout(machine)})
        super().__init__(
            {
                "now": In(2),
                "rate": In(RATE_BITS + 1),
                "drains": In(2),
                "admit": In(1),
                "drop": In(1),
                "chunk_end": In(1),
                "sent": Out(1),
                "beats": Out(range(GROUPS + 1)),
                "waiting": Out(1),
                "ready": In(ready).array(dies),
                "free": Out(slot_event(machine)).array(dies),
                "read_en": Out(1),
                "read_region": Out(1),
                "read_row": Out(range(machine.geometry.wave_pages)),
                "lanes": In(64).array(machine.lanes),
                "poison": In(1),
                "label_en": Out(1),
                "label_slot": Out(slot_layout(machine)),
                "label": In(label_layout()).array(dies),
                "port": Out(DataPort(machine.lanes)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        dies = machine.geometry.dies
        page_type = data.Layout.cast(page_layout(machine))

        queues = []
        for d in range(dies):
            queue = SyncFIFOBuffered(
                width=page_type.size, depth=2 * machine.geometry.subarrays_per_die
            )
            m.submodules[f"queue{d}"] = queue
            m.d.comb += [
                queue.w_data.eq(self.ready[d].page),
                queue.w_en.eq(self.ready[d].valid),
            ]
            queues.append(queue)

        # Choice, in the clock before the frame ----------------------------------------------------
        m.submodules.arbiter = arbiter = RoundRobin(width=dies)
        m.submodules.pacer = pacer = FramePacer()
        for d, queue in enumerate(queues):
            region = page_type(queue.r_data).slot.region
            m.d.comb += [
                arbiter.request[d].eq(queue.r_rdy & self.drains.bit_select(region, 1)),
                queue.r_en.eq(self.sent & arbiter.grant[d]),
            ]
        head, die, may = Signal(page_type), Signal(range(dies)), Signal()
        m.d.comb += [
            self.waiting.eq(arbiter.request.any()),
            pacer.rate.eq(self.rate),
            pacer.tick.eq(self.now == (self._start - 1) % GROUPS),
            may.eq(self.drop | (self.admit & ~self.port.hold)),
            self.sent.eq(pacer.grant & may & self.waiting),
            pacer.use.eq(self.sent),
            arbiter.take.eq(self.sent),
            head.eq(select(arbiter.grant, [queue.r_data for queue in queues])),
            self.beats.eq(head.last_beat - head.first_beat + 1),
        ]
        chosen, die_lines = Signal(slot_layout(machine)), Signal(dies)
        first_beat, last_beat, chunk_end = Signal(2), Signal(2), Signal()
        reading = Signal(range(GROUPS + 1))  # clocks of the frame still to come
        dropping = Signal()
        with m.If(self.sent):
            m.d.sync += [
                chosen.eq(head.slot),
                first_beat.eq(head.first_beat),
                last_beat.eq(head.last_beat),
                die.eq(select(arbiter.grant, range(dies))),
                die_lines.eq(arbiter.grant),
                chunk_end.eq(self.chunk_end),
                dropping.eq(self.drop),
                reading.eq(GROUPS),
            ]
        with m.Elif(reading != 0):
            m.d.sync += reading.eq(reading - 1)

        # Read, one group a clock ------------------------------------------------------------------
        group, wanted = Signal(2), Signal(GROUPS)  # wanted: one bit a group
        for g in range(GROUPS):
            beat = Signal(2, name=f"beat{g}")
            m.d.comb += [
                beat.eq(g - die),
                wanted[g].eq((beat >= first_beat) & (beat <= last_beat)),
            ]
        m.d.comb += [
            group.eq(GROUPS - reading),
            self.read_en.eq((reading != 0) & wanted.bit_select(group, 1)),
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

        # Link: the header comes with the beat from the SRAM ---------------------------------------
        read_die, first = Signal(dies), Signal()
        label, held = Signal(label_layout()), Signal(label_layout())
        m.d.comb += label.eq(
            Mux(first, select(read_die, [line.as_value() for line in self.label]), held)
        )
        m.d.sync += [first.eq(self.label_en), read_die.eq(die_lines), held.eq(label)]

        position = data.StructLayout({"valid": 1, "beat": 2, "page_end": 1, "chunk_end": 1})
        later = Signal(GROUPS)  # groups of the frame after this one
        now = Signal(position)
        m.d.comb += [
            later.eq(Const(0b1110, GROUPS) << group),
            now.valid.eq(self.read_en & ~dropping),
            now.beat.eq(group - die),
            now.page_end.eq((wanted & later) == 0),
            now.chunk_end.eq(chunk_end),
        ]
        for stage in range(READ_CLOCKS):
            before, now = now, Signal(position, name=f"position{stage}")
            m.d.sync += now.eq(before)
            if stage:  # the label comes one clock after the first read
                earlier, label = label, Signal(label_layout(), name=f"label{stage}")
                m.d.sync += label.eq(earlier)
        message = MessageClass.RELAY_DATA if self._route else MessageClass.READ_DATA
        m.d.comb += self.port.valid.eq(now.valid)
        with m.If(now.valid):
            m.d.comb += [
                self.port.header.message_class.eq(message),
                self.port.header.route.eq(self._route),
                self.port.header.tag.eq(label.tag),
                self.port.header.page.eq(label.page),
                self.port.header.beat.eq(now.beat),
                self.port.header.page_end.eq(now.page_end),
                self.port.header.chunk_end.eq(now.chunk_end),
                self.port.header.poison.eq(self.poison),
            ]
        m.d.comb += [self.port.lanes[k].eq(self.lanes[k]) for k in range(machine.lanes)]
        return m
