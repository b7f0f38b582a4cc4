"""Scheduler and command sequencer of one NAND die."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import (
    Command,
    CommandPort,
    descriptor_layout,
    label_layout,
    slot_layout,
)
from hw.hbf.pending import PendingPages
from hw.params import Machine

PATHS = ("direct", "relay")
DESCRIPTORS_PER_DIE = 8
CLOCK_BITS = 24


class DieScheduler(wiring.Component):
    """Turns read descriptors of both paths into SENSE and LATCH commands of one die.

    Promise: a page is issued only when the command port is free, its subarray is not sensing, one
    of the subarray's two SRAM slots is free, and its path is available: while the other path waits
    for the same subarray, a path that holds one of its slots leaves the second to the other. A path
    that takes both slots while the other has no page waiting there, and then stalls, holds up the
    other until it drains again. The slot is reserved at issue and freed when drained.

    Pages are issued out of order over subarrays, in order within a path and subarray; when both
    paths have a page that can go, they alternate. A subarray senses for ``t_read`` clocks, then its
    page is latched into the cache register as soon as that is empty. With ``cache_read`` the
    subarray may sense again from then on; without, only after its page has left over the TSVs. With
    ``lockstep`` pages are issued only while ``wave_open``, into region ``wave_region``.

    Throughput: one command a clock, SENSE before LATCH, so that a subarray whose page has been
    latched senses again without waiting for its neighbours. Source: DASH section IV-B.

    Members
    -------
    clock : In
        Free-running clock count, shared by all dies.
    direct, relay : In(stream)
        Descriptors, broadcast to all dies.
    command : Out(CommandPort)
    transfer : Out(stream of slot and path)
        Latched pages, waiting for the TSV lane.
    transferred : In
        The lane has taken the last beat out of the cache register.
    free : In, one per path
        A slot has been drained.
    label_slot, label
        Tag and page of a slot, read with one clock of latency.
    """

    def __init__(self, machine: Machine, *, die: int) -> None:
        self._machine, self._die = machine, die
        slot = slot_layout(machine)
        event = data.StructLayout({"valid": 1, "slot": slot})
        descriptors = stream.Signature(descriptor_layout(machine))
        super().__init__(
            {
                "direct": In(descriptors),
                "relay": In(descriptors),
                "clock": In(CLOCK_BITS),
                "t_read": In(20),
                "cache_read": In(1),
                "lockstep": In(1),
                "wave_open": In(1),
                "wave_region": In(1),
                "command": Out(CommandPort(machine)),
                "transfer": Out(stream.Signature(data.StructLayout({"slot": slot, "path": 1}))),
                "transferred": In(event),
                "free_direct": In(event),
                "free_relay": In(event),
                "label_slot": In(slot),
                "label": Out(label_layout()),
                "sensing": Out(1),
                "pending": Out(1),
                "region_busy": Out(2),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        subarrays = machine.geometry.subarrays_per_die
        slot_type = slot_layout(machine)

        queues = []
        for name in PATHS:
            queue = PendingPages(machine, die=self._die, depth=DESCRIPTORS_PER_DIE)
            m.submodules[f"pending_{name}"] = queue
            wiring.connect(m, wiring.flipped(getattr(self, name)), queue.i)
            queues.append(queue)

        # Scoreboard: one bit a subarray. The data register is busy from SENSE on, the cache
        # register from LATCH until the page has left, a slot from SENSE until it is drained.
        data_busy, cache_busy = Signal(subarrays), Signal(subarrays)
        slot_busy = [Signal(subarrays, name=f"slot_busy{r}") for r in range(2)]
        slot_path = [Signal(subarrays, name=f"slot_path{r}") for r in range(2)]
        m.d.comb += [
            self.pending.eq((queues[0].waiting | queues[1].waiting) != 0),
            self.sensing.eq(data_busy != 0),
            *(self.region_busy[r].eq(slot_busy[r] != 0) for r in range(2)),
        ]

        # Issue ------------------------------------------------------------------------------------
        usable = Signal(subarrays)  # not sensing, and a slot is free
        wave_slots = Mux(self.wave_region, slot_busy[1], slot_busy[0])
        with m.If(~self.lockstep):
            m.d.comb += usable.eq(~data_busy & ~(slot_busy[0] & slot_busy[1]))
        with m.Elif(self.wave_open):
            m.d.comb += usable.eq(~data_busy & ~wave_slots)
        candidates = []
        for p, queue in enumerate(queues):
            of_path = [slot_path[r] if p else ~slot_path[r] for r in range(2)]
            holds_one = (slot_busy[0] & of_path[0]) | (slot_busy[1] & of_path[1])
            can_go = Signal(subarrays, name=f"can_go_{PATHS[p]}")
            choice = Signal(range(subarrays), name=f"choice_{PATHS[p]}")
            m.d.comb += [
                can_go.eq(queue.waiting & usable & ~(holds_one & queues[1 - p].waiting)),
                choice.eq(lowest(m, can_go)),
                queue.subarray.eq(choice),
            ]
            candidates.append(can_go)
        last_path, path, issue, latch = Signal(), Signal(), Signal(), Signal()
        go = Signal(2)  # one bit a path: it has a page that can be issued
        m.d.comb += [
            *(go[p].eq(can_go != 0) for p, can_go in enumerate(candidates)),
            path.eq(Mux(go.all(), ~last_path, go[1])),
            issue.eq(go.any()),
            *(queue.take.eq(issue & (path == p)) for p, queue in enumerate(queues)),
        ]
        with m.If(issue):
            m.d.sync += last_path.eq(path)
        subarray, row, label = (
            Mux(path, getattr(queues[1], name), getattr(queues[0], name))
            for name in ("subarray", "row", "label")
        )
        slot = Signal(slot_type)
        m.d.comb += slot.subarray.eq(subarray)
        with m.If(self.lockstep):
            m.d.comb += slot.region.eq(self.wave_region)
        with m.Else():
            m.d.comb += slot.region.eq(slot_busy[0].bit_select(slot.subarray, 1))

        m.submodules.labels = labels = Memory(shape=label_layout(), depth=2 * subarrays, init=[])
        label_write, label_read = labels.write_port(), labels.read_port()
        m.d.comb += [
            label_write.en.eq(issue),
            label_write.addr.eq(slot.as_value()),
            label_write.data.eq(label),
            label_read.addr.eq(self.label_slot.as_value()),
            self.label.eq(label_read.data),
        ]

        # Sensing: all take the same time, so they end in the order of issue -----------------------
        sense_type = data.StructLayout({"slot": slot_type, "path": 1, "since": CLOCK_BITS})
        # One more than the subarrays: a queue of two is not ready for the second of two in a row.
        m.submodules.senses = senses = SyncFIFOBuffered(width=sense_type.size, depth=subarrays + 1)
        started, oldest = Signal(sense_type), sense_type(senses.r_data)
        sensed = (self.clock - oldest.since)[:CLOCK_BITS] >= self.t_read
        with m.If(issue):
            m.d.comb += [
                started.slot.eq(slot),
                started.path.eq(path),
                started.since.eq(self.clock),
            ]
        m.d.comb += [
            senses.w_data.eq(started),
            senses.w_en.eq(issue),
            latch.eq(
                ~issue & senses.r_rdy & sensed & ~cache_busy.bit_select(oldest.slot.subarray, 1)
            ),
            senses.r_en.eq(latch),
        ]
        transfer_type = data.StructLayout({"slot": slot_type, "path": 1})
        m.submodules.latched = latched = SyncFIFOBuffered(
            width=transfer_type.size, depth=subarrays + 1
        )
        m.d.comb += [
            latched.w_data.eq(senses.r_data[: transfer_type.size]),
            latched.w_en.eq(latch),
            self.transfer.valid.eq(latched.r_rdy),
            self.transfer.payload.eq(transfer_type(latched.r_data)),
            latched.r_en.eq(self.transfer.ready),
        ]

        m.d.comb += [
            self.command.valid.eq(issue | latch),
            self.command.command.eq(Mux(latch, Command.LATCH, Command.SENSE)),
            self.command.subarray.eq(Mux(latch, oldest.slot.subarray, slot.subarray)),
            self.command.row.eq(row),
        ]

        # Scoreboard updates -----------------------------------------------------------------------
        one, none = Const(1, subarrays), Const(0, subarrays)

        def line(when, subarray):
            return Mux(when, one << subarray, none)

        issued, latched_now, left = Signal(subarrays), Signal(subarrays), Signal(subarrays)
        m.d.comb += [
            issued.eq(line(issue, slot.subarray)),
            latched_now.eq(line(latch, oldest.slot.subarray)),
            left.eq(line(self.transferred.valid, self.transferred.slot.subarray)),
        ]
        m.d.sync += [
            data_busy.eq((data_busy & ~Mux(self.cache_read, latched_now, left)) | issued),
            cache_busy.eq((cache_busy & ~left) | latched_now),
        ]
        frees = (self.free_direct, self.free_relay)
        for r in range(2):
            freed = [
                line(free.valid & (free.slot.region == r), free.slot.subarray) for free in frees
            ]
            reserved = Mux(slot.region == r, issued, none)
            m.d.sync += slot_busy[r].eq((slot_busy[r] & ~(freed[0] | freed[1])) | reserved)
            with m.If(issue & (slot.region == r)):
                m.d.sync += slot_path[r].eq(
                    Mux(path, slot_path[r] | issued, slot_path[r] & ~issued)
                )
        return m


def lowest(m: Module, lines: Signal) -> Signal:
    """The position of the lowest set line, zero if none is set."""
    width = len(lines)
    one_hot, position = Signal(width), Signal(range(width))
    m.d.comb += one_hot.eq(lines & (~lines + 1))
    for bit in range(len(position)):
        mask = sum(1 << k for k in range(width) if k >> bit & 1)
        m.d.comb += position[bit].eq((one_hot & mask) != 0)
    return position
