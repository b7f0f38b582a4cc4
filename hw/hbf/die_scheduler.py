"""Scheduler and command sequencer of one NAND die."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
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
from hw.hbf.page_walk import PageWalk
from hw.params import Machine

PATHS = ("direct", "relay")
DESCRIPTORS_PER_DIE = 8
CLOCK_BITS = 24


class DieScheduler(wiring.Component):
    """Turns read descriptors of both paths into SENSE and LATCH commands of one die.

    Promise: a page is issued only when the command port is free, its subarray is not sensing, one
    of the subarray's two SRAM slots is free, and its path is available: while both paths have
    pages, neither may hold more than three quarters of the die's slots, so that a stalled path
    leaves room for the other. The slot is reserved at issue and freed when it is drained.

    A subarray senses for ``t_read`` clocks, then its page is latched into the cache register as
    soon as that is empty. With ``cache_read`` the subarray may sense again from then on; without,
    only after its page has left over the TSVs. Subarrays work independently; with ``lockstep``
    pages are issued only while ``wave_open``, into region ``wave_region``.

    Throughput: one command a clock, LATCH before SENSE; paths with eligible pages alternate. Pages
    of a path are issued in order. Source: DASH section IV-B.

    Members
    -------
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

        walks = []
        for name in PATHS:
            walk = PageWalk(machine, die=self._die, depth=DESCRIPTORS_PER_DIE)
            m.submodules[f"walk_{name}"] = walk
            wiring.connect(m, wiring.flipped(getattr(self, name)), walk.i)
            walks.append(walk)
        m.d.comb += self.pending.eq(walks[0].o.valid | walks[1].o.valid)

        # Scoreboard: one bit a subarray. The data register is busy from SENSE on, the cache
        # register from LATCH until the page has left, a slot from SENSE until it is drained.
        data_busy, cache_busy = Signal(subarrays), Signal(subarrays)
        slot_busy = [Signal(subarrays, name=f"slot_busy{r}") for r in range(2)]
        m.d.comb += [
            self.sensing.eq(data_busy != 0),
            *(self.region_busy[r].eq(slot_busy[r] != 0) for r in range(2)),
        ]

        def bit(subarray):
            mask = Signal(subarrays)
            m.d.comb += mask.eq(Const(1, subarrays) << subarray)
            return mask

        # Issue ----------------------------------------------------------------------------------
        share = [Signal(range(2 * subarrays + 1), name=f"held_{name}") for name in PATHS]
        eligible, region = Signal(2), Signal(2)
        for p, walk in enumerate(walks):
            subarray = walk.o.payload.subarray
            busy = [slot_busy[r].bit_select(subarray, 1) for r in range(2)]
            path_available = ~walks[1 - p].o.valid | (share[p] < 2 * subarrays * 3 // 4)
            with m.If(self.lockstep):
                m.d.comb += region[p].eq(self.wave_region)
            with m.Else():
                m.d.comb += region[p].eq(busy[0])
            m.d.comb += eligible[p].eq(
                walk.o.valid
                & ~data_busy.bit_select(subarray, 1)
                & ~Mux(region[p], busy[1], busy[0])
                & (~self.lockstep | self.wave_open)
                & path_available
            )
        last_path, path, issue = Signal(), Signal(), Signal()
        latch = Signal()
        m.d.comb += [
            path.eq(Mux(eligible.all(), ~last_path, eligible[1])),
            issue.eq(eligible.any() & ~latch),
        ]
        page = Array(walk.o.payload for walk in walks)[path]
        slot = Signal(slot_type)
        m.d.comb += [
            slot.subarray.eq(page.subarray),
            slot.region.eq(region.bit_select(path, 1)),
            *(walk.o.ready.eq(issue & (path == p)) for p, walk in enumerate(walks)),
        ]
        with m.If(issue):
            m.d.sync += last_path.eq(path)

        m.submodules.labels = labels = Memory(shape=label_layout(), depth=2 * subarrays, init=[])
        label_write, label_read = labels.write_port(), labels.read_port()
        m.d.comb += [
            label_write.en.eq(issue),
            label_write.addr.eq(slot.as_value()),
            label_write.data.tag.eq(page.tag),
            label_write.data.page.eq(page.page),
            label_read.addr.eq(self.label_slot.as_value()),
            self.label.eq(label_read.data),
        ]

        # Sensing: all take the same time, so they end in the order of issue -----------------------
        now = Signal(CLOCK_BITS)
        m.d.sync += now.eq(now + 1)
        sense_type = data.StructLayout({"slot": slot_type, "path": 1, "since": CLOCK_BITS})
        m.submodules.senses = senses = SyncFIFOBuffered(width=sense_type.size, depth=subarrays)
        started, oldest = Signal(sense_type), sense_type(senses.r_data)
        elapsed = Signal(CLOCK_BITS)
        m.d.comb += [
            started.slot.eq(slot),
            started.path.eq(path),
            started.since.eq(now),
            senses.w_data.eq(started),
            senses.w_en.eq(issue),
            elapsed.eq(now - oldest.since),
            latch.eq(
                senses.r_rdy
                & (elapsed >= self.t_read)
                & ~cache_busy.bit_select(oldest.slot.subarray, 1)
            ),
            senses.r_en.eq(latch),
        ]
        transfer_type = data.StructLayout({"slot": slot_type, "path": 1})
        m.submodules.latched = latched = SyncFIFOBuffered(
            width=transfer_type.size, depth=subarrays
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
            self.command.subarray.eq(Mux(latch, oldest.slot.subarray, page.subarray)),
            self.command.row.eq(page.row),
        ]

        # Scoreboard updates -----------------------------------------------------------------------
        issued, moved, left = bit(page.subarray), bit(oldest.slot.subarray), Signal(subarrays)
        none = Const(0, subarrays)
        with m.If(self.transferred.valid):
            m.d.comb += left.eq(Const(1, subarrays) << self.transferred.slot.subarray)
        sense_again = Mux(self.cache_read, Mux(latch, moved, none), left)
        m.d.sync += [
            data_busy.eq((data_busy & ~sense_again) | Mux(issue, issued, none)),
            cache_busy.eq((cache_busy & ~left) | Mux(latch, moved, none)),
        ]
        frees = [self.free_direct, self.free_relay]
        for r in range(2):
            freed = none
            for event in frees:
                mask = bit(event.slot.subarray)
                freed = freed | Mux(event.valid & (event.slot.region == r), mask, none)
            reserved = Mux(issue & (slot.region == r), issued, none)
            m.d.sync += slot_busy[r].eq((slot_busy[r] & ~freed) | reserved)
        for p, event in enumerate(frees):
            m.d.sync += share[p].eq(share[p] + (issue & (path == p)) - event.valid)
        return m
