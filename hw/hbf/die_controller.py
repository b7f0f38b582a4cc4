"""Controller of one NAND die: reads, writes and erases on one command port."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.bits import line
from hw.hbf.array_operations import ArrayOperations
from hw.hbf.block_layouts import block_layout
from hw.hbf.block_port import BlockPort, answer_layout
from hw.hbf.control import die_status_layout
from hw.hbf.delay_queue import DelayQueue
from hw.hbf.layouts import (
    CLOCK_BITS,
    Command,
    CommandPort,
    Registers,
    descriptor_layout,
    label_layout,
    moved_layout,
    page_layout,
    slot_event,
    slot_layout,
)
from hw.hbf.page_walk import log2
from hw.hbf.read_issue import ReadIssue
from hw.hbf.subarray_state import SubarrayState
from hw.hbf.write_acceptance import range_layout
from hw.hbf.write_admission import WriteAdmission
from hw.hbf.write_tracker import event_layout, grant_layout, write_layout
from hw.params import NAND_TIME_BITS, Machine
from hw.ucie.transaction import PATHS


def issued_layout() -> data.StructLayout:
    """A page that is issued in this clock: its path, region and the epoch of its read."""
    return data.StructLayout({"valid": 1, "path": 1, "region": 1, "epoch": 1})


class DieController(wiring.Component):
    """Turns reads and writes of the stack into the commands of one die.

    Promise: pages are read as :class:`hw.hbf.read_issue.ReadIssue` says and written as
    :class:`hw.hbf.write_admission.WriteAdmission` says; the die's command port carries one command
    a clock and plane times are kept. A subarray senses for ``t_read`` clocks, then its page is
    latched into the cache register as soon as that is empty. With ``cache_read`` the subarray may
    sense again from then on; without, only after its page has left over the TSVs. With ``lockstep``
    pages are issued only while ``wave_open``, into region ``wave_region``.

    The port prefers SENSE, so that a subarray whose page has been latched senses again without
    waiting for its neighbours, then LATCH, then programs and erases. Source: DASH section IV-B.

    Members
    -------
    number : In: which die of the stack, a constant
    clock : In: free-running clock count, shared by all dies
    registers, slice_tick : In
    direct, relay, write : In(streams), broadcast to all dies
    wave_open, wave_region, region_open, path_open : In: gates of the stack
    ranges, retired, ordering, ordered, epoch : In: see ReadIssue
    command : Out(CommandPort)
    transfer : Out(stream): pages for the TSV lane, of both directions
    transferred : In: the lane has taken the last beat out of the cache register
    written_in : In: the lane has put the last beat into the cache register
    free_direct, free_relay : In: a slot has been drained
    arrived : In, one a link: a granted page is in its slot
    grant, event : Out(streams): to the write tracker
    orphans, cut, awaits : resets of links, see WriteAdmission
    label_slot, label : tag and page of a slot, read with one clock of latency
    sensing, stuck, pending, region_busy, issued, status : Out: what goes on
    query, answer : the block table
    """

    def __init__(self, machine: Machine, *, links: int) -> None:
        self._machine, self._links = machine, links
        descriptors = stream.Signature(descriptor_layout(machine))
        slot = slot_event(machine)
        moved = moved_layout(machine)
        super().__init__(
            {
                "number": In(range(machine.geometry.dies)),
                "clock": In(CLOCK_BITS),
                "registers": In(Registers()),
                "slice_tick": In(1),
                "direct": In(descriptors),
                "relay": In(descriptors),
                "write": In(stream.Signature(write_layout(machine, links=links))),
                "wave_open": In(1),
                "wave_region": In(1),
                "region_open": In(2),
                "path_open": In(2),
                "ranges": In(range_layout(machine)).array(machine.credits.writes),
                "retired": In(1),
                "ordering": In(machine.credits.writes),
                "ordered": In(1),
                "epoch": In(1),
                "command": Out(CommandPort(machine)),
                "transfer": Out(stream.Signature(page_layout(machine))),
                "transferred": In(slot),
                "written_in": In(moved),
                "free_direct": In(slot),
                "free_relay": In(slot),
                "arrived": In(moved).array(links),
                "grant": Out(stream.Signature(grant_layout(machine))),
                "event": Out(stream.Signature(event_layout(machine))),
                "orphans": In(machine.credits.writes),
                "cut": In(links),
                "awaits": Out(links),
                "label_slot": In(slot_layout(machine)),
                "label": Out(label_layout()),
                "sensing": Out(1),
                "stuck": Out(1),
                "pending": Out(1),
                "region_busy": Out(2),
                "issued": Out(issued_layout()),
                "status": Out(die_status_layout(machine)),
                "query": In(stream.Signature(block_layout(machine))),
                "answer": Out(answer_layout(machine)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        m.submodules.state = state = SubarrayState(machine)
        m.submodules.reads = reads = ReadIssue(machine, die=self.number)
        m.submodules.array = array = ArrayOperations(machine)
        m.submodules.writes = writes = WriteAdmission(machine, die=self.number, links=self._links)
        m.submodules.blocks = blocks = BlockPort(machine)

        # Requests ---------------------------------------------------------------------------------
        for name in PATHS:
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(reads, name))
        wiring.connect(m, wiring.flipped(self.write), writes.i)
        for mine, theirs in zip(self.ranges, reads.ranges, strict=True):
            m.d.comb += theirs.eq(mine)
        for name in ("retired", "ordering", "ordered", "epoch", "path_open"):
            m.d.comb += getattr(reads, name).eq(getattr(self, name))
        m.d.comb += [
            self.pending.eq((reads.waiting[0] | reads.waiting[1]) != 0),
            self.sensing.eq(state.data_busy != 0),
            self.status.blocked_on.eq(reads.blocked_on),
            self.status.issued.eq(reads.issue),
            self.status.path.eq(reads.path),
            self.status.held.eq(reads.held),
            self.status.suspends.eq(array.suspends),
            self.status.max_cycles.eq(blocks.max_cycles),
            *(self.status.counts[name].eq(getattr(writes, name)) for name in WriteAdmission.COUNTS),
        ]

        # Gates ------------------------------------------------------------------------------------
        subarrays = machine.geometry.subarrays_per_die
        plane_busy = self._plane_busy(m)
        lockstep = self.registers.lockstep
        for r in range(2):
            shut = ~self.region_open[r] | (lockstep & (self.wave_region != r))
            m.d.comb += [
                reads.slot_free[r].eq(Mux(shut, 0, ~state.slot_busy[r])),
                reads.holds[r].eq(state.holds[r]),
                self.region_busy[r].eq(state.slot_busy[r] != 0),
            ]
        busy = state.data_busy | plane_busy | (array.claimed & ~array.paused)
        m.d.comb += [
            reads.plane_free.eq(Mux(lockstep & ~self.wave_open, 0, ~busy)),
            reads.write_waits.eq(writes.waits),
            reads.port_free.eq(blocks.sensed.ready),
        ]

        # Command port -----------------------------------------------------------------------------
        senses, latch_due, latch, latched = self._sensing(m, reads, state, plane_busy)
        port = self.command
        m.d.comb += [
            latch.eq(latch_due & ~reads.issue),
            array.grant.eq(~reads.issue & ~latch_due),
            port.valid.eq(reads.issue | latch | array.valid),
            array.ready.eq(port.ready),
            array.fail.eq(port.fail),
        ]
        with m.If(reads.issue):
            m.d.comb += [
                port.command.eq(Command.SENSE),
                port.subarray.eq(reads.slot.subarray),
                port.row.eq(reads.row),
            ]
        with m.Elif(latch_due):
            m.d.comb += [port.command.eq(Command.LATCH), port.subarray.eq(senses.slot.subarray)]
        with m.Else():
            m.d.comb += [
                port.command.eq(array.command),
                port.subarray.eq(array.subarray),
                port.row.eq(array.row),
            ]

        # Scoreboard -------------------------------------------------------------------------------
        m.d.comb += [
            state.cache_read.eq(self.registers.cache_read),
            state.sense.valid.eq(reads.issue),
            state.sense.slot.eq(reads.slot),
            state.sense.path.eq(reads.path),
            state.latch.valid.eq(latch),
            state.latch.subarray.eq(senses.slot.subarray),
            state.load.eq(array.load),
            state.program.eq(array.program),
            state.left.eq(self.transferred),
            state.reserve.eq(writes.reserve),
            state.free_direct.eq(self.free_direct),
            state.free_relay.eq(self.free_relay),
            state.free_write.eq(writes.free),
            self.issued.valid.eq(reads.issue),
            self.issued.path.eq(reads.path),
            self.issued.region.eq(reads.slot.region),
            self.issued.epoch.eq(reads.page_epoch),
        ]
        m.submodules.labels = labels = Memory(shape=label_layout(), depth=2 * subarrays, init=[])
        label_write, label_read = labels.write_port(), labels.read_port()
        m.d.comb += [
            label_write.en.eq(reads.issue),
            label_write.addr.eq(reads.slot.as_value()),
            label_write.data.eq(reads.label),
            label_read.addr.eq(self.label_slot.as_value()),
            self.label.eq(label_read.data),
        ]

        # Programs and erases ----------------------------------------------------------------------
        registers = self.registers
        wiring.connect(m, writes.start, array.start)
        wiring.connect(m, writes.op, blocks.op)
        wiring.connect(m, blocks.dead, writes.dead)
        wiring.connect(m, wiring.flipped(self.query), blocks.query)
        wiring.connect(m, writes.grant, wiring.flipped(self.grant))
        wiring.connect(m, writes.event, wiring.flipped(self.event))
        m.d.comb += [
            array.clock.eq(self.clock),
            array.t_adl.eq(registers.t_adl),
            # The first STATUS, and that of a suspend, must come tWB after PROGRAM or ERASE.
            *(
                getattr(array, name).eq(Mux(registers.t_wb > time, registers.t_wb, time))
                for name, time in (
                    ("t_program", registers.t_program),
                    ("t_erase", registers.t_erase),
                    ("t_suspend", registers.t_suspend),
                )
            ),
            array.poll_clocks.eq(registers.poll_clocks),
            array.suspend_enable.eq(registers.suspend_enable),
            array.slice_tick.eq(self.slice_tick),
            array.reads_wait.eq(reads.wants),
            array.data_busy.eq(state.data_busy),
            array.cache_busy.eq(state.cache_busy),
            array.plane_busy.eq(plane_busy),
            array.left.valid.eq(self.written_in.valid),
            array.left.subarray.eq(self.written_in.slot.subarray),
            writes.hold_until_programmed.eq(registers.hold_until_programmed),
            writes.collect_enable.eq(registers.collect_enable),
            writes.answer.eq(blocks.answer),
            writes.orphans.eq(self.orphans),
            writes.cut.eq(self.cut),
            self.awaits.eq(writes.awaits),
            writes.done.eq(array.done),
            writes.left.eq(self.written_in),
            *(writes.slot_busy[r].eq(state.slot_busy[r]) for r in range(2)),
            *(writes.arrived[k].eq(self.arrived[k]) for k in range(self._links)),
            self.answer.eq(blocks.answer),
            blocks.sensed.valid.eq(reads.issue),
            blocks.sensed.payload.subarray.eq(reads.slot.subarray),
            blocks.sensed.payload.block.eq(reads.row >> log2(machine.geometry.pages_per_block)),
        ]
        self._merge(m, latched, array.loaded)
        return m

    def _plane_busy(self, m: Module) -> Signal:
        """One bit a subarray whose plane takes no command yet."""
        planes = self._machine.geometry.planes
        port, busy = self.command, Signal(planes)
        place = data.StructLayout({"plane": range(planes)})
        m.submodules.plane_times = times = DelayQueue(
            place, depth=planes, delay_bits=NAND_TIME_BITS["t_plane_busy"]
        )
        begins = port.valid & (port.command != Command.STATUS) & (self.registers.t_plane_busy != 0)
        plane = port.subarray[: log2(planes)]
        m.d.comb += [
            times.clock.eq(self.clock),
            times.delay.eq(self.registers.t_plane_busy),
            times.i.valid.eq(begins),
            times.i.payload.plane.eq(plane),
            times.o.ready.eq(1),
        ]
        with m.If(begins | (busy != 0)):
            m.d.sync += busy.eq(
                (busy & ~line(times.o.valid, times.o.payload.plane, planes))
                | line(begins, plane, planes)
            )
        return Cat(busy for _ in range(self._machine.geometry.subarrays))

    def _sensing(self, m: Module, reads: ReadIssue, state: SubarrayState, plane_busy):
        """From SENSE to the TSV lane; all pages sense equally long, so they end in order."""
        page = page_layout(self._machine)
        subarrays = self._machine.geometry.subarrays_per_die
        registers = self.registers
        m.submodules.senses = senses = DelayQueue(
            page, depth=subarrays, delay_bits=NAND_TIME_BITS["t_read"]
        )
        m.submodules.latched = latched = DelayQueue(
            page, depth=subarrays, delay_bits=NAND_TIME_BITS["t_latch"] + 1
        )
        head = senses.o.payload
        blocked = (state.cache_busy | plane_busy).bit_select(head.slot.subarray, 1)
        latch = Signal()
        m.d.comb += [
            senses.clock.eq(self.clock),
            senses.delay.eq(registers.t_read),
            senses.i.valid.eq(reads.issue),
            senses.i.payload.slot.eq(reads.slot),
            senses.i.payload.path.eq(reads.path),
            senses.i.payload.first_beat.eq(reads.first_beat),
            senses.i.payload.last_beat.eq(reads.last_beat),
            senses.o.ready.eq(latch),
            latched.clock.eq(self.clock),
            latched.delay.eq(registers.t_latch + registers.t_rr),
            latched.i.valid.eq(latch),
            latched.i.payload.eq(head),
            self.stuck.eq(senses.o.valid & blocked),
        ]
        return head, senses.o.valid & ~blocked, latch, latched.o

    def _merge(self, m: Module, read, write) -> None:
        """Pages of both directions take turns on the TSV lane."""
        last, chosen, under_way = Signal(), Signal(), Signal()
        to = self.transfer
        with m.If(under_way):  # a page that was offered stays
            m.d.comb += chosen.eq(last)
        with m.Else():
            m.d.comb += chosen.eq(write.valid & (~read.valid | ~last))
        m.d.comb += [
            to.valid.eq(Mux(chosen, write.valid, read.valid)),
            to.payload.eq(Mux(chosen, write.payload, read.payload)),
            write.ready.eq(to.ready & chosen),
            read.ready.eq(to.ready & ~chosen),
        ]
        m.d.sync += under_way.eq(to.valid & ~to.ready)
        with m.If(to.valid):
            m.d.sync += last.eq(chosen)
