"""Writes of the GPU to the HBM stack, over link B of one pair."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.bits import line, lowest
from hw.gpu.local_layouts import (
    check_beats,
    local_fetch_layout,
    local_request_layout,
    local_write_done_layout,
)
from hw.gpu.slots import Slots
from hw.gpu.watchdog import TIMEOUT_BITS, Watchdog, overdue_layout
from hw.hbm.dram.beats import LENGTH_BITS
from hw.hbm.dram.description import HbmStack
from hw.params import Machine
from hw.ucie.credit import CreditCounter
from hw.ucie.pacer import RATE_BITS, FramePacer
from hw.ucie.transaction import (
    DataPort,
    Header,
    MessageClass,
    Operation,
    ResetPort,
    Route,
    Status,
)


class LocalWrites(wiring.Component):
    """Asks for writes, sends their beats, and tells when they are over.

    Promise: each write leaves as one request, with its slot for a tag; then its beats follow as
    WRITE_DATA, in order of the requests and of addresses, each once. They come from the owner of
    this block: ``fetch`` names one, ``fetch_lanes`` must carry it one clock later, each access at
    its place in the beat; what else is in there does not matter. A write that is empty or reaches
    beyond the stack sends its request and no beats, since the far end refuses it. Each write ends
    once on ``done``: with its ``answer`` or by a reset. Only the beats are ordered: who wants a
    read of the same bytes to come after a write waits for its ``done``.

    Latency: none for requests; 4 clocks to the first ``fetch``, from there one to its beat; 1 clock
    from ``answer`` to ``done``. Throughput: a request a clock; a beat a clock, of which ``rate``
    lets through a share, without a gap between writes. The lanes go through combinationally.

    Back-pressure: ``i`` waits for one of ``machine.credits.descriptors`` slots and for ``request``;
    a beat waits for credit. ``answer`` and ``done`` never wait.

    Reset of the link: beats that have not been sent are forgotten, and each write that is open ends
    with LINK_RESET; what of it was written is not known. Source: DASH section IV-B.

    Members
    -------
    i : In(stream): address, length and tag
    rate : beats a clock on the link, in 1/65536
    request : Out(stream): headers
    data : Out(DataPort), ``machine.credits.rx_beats`` credits of one beat
    fetch : Out; fetch_lanes : In(64) array
    answer : In: the write of slot ``tag`` is over
    done : Out, a pulse
    timeout : In; overdue : Out, see :class:`hw.gpu.watchdog.Watchdog`
    reset : In(ResetPort)
    """

    def __init__(self, machine: Machine, *, stack: HbmStack) -> None:
        check_beats(machine, stack)
        self._machine, self._stack = machine, stack
        super().__init__(
            {
                "i": In(stream.Signature(local_request_layout(stack))),
                "rate": In(RATE_BITS + 1),
                "request": Out(stream.Signature(Header)),
                "data": Out(DataPort(machine.lanes)),
                "fetch": Out(local_fetch_layout()),
                "fetch_lanes": In(64).array(machine.lanes),
                "answer": In(local_write_done_layout()),
                "done": Out(local_write_done_layout()),
                "timeout": In(TIMEOUT_BITS),
                "overdue": Out(overdue_layout(machine.credits.descriptors)),
                "reset": In(ResetPort()),
            }
        )

    @property
    def stack(self) -> HbmStack:
        return self._stack

    def elaborate(self, platform) -> Module:
        m = Module()
        slots = self._machine.credits.descriptors
        m.submodules.slots = free = Slots(slots=slots)
        write, header, lost = self.i.payload, self.request.payload, self.reset.lost
        may_begin, begins = Signal(), Signal()
        m.d.comb += [
            may_begin.eq(free.room & ~lost),
            self.request.valid.eq(self.i.valid & may_begin),
            self.i.ready.eq(self.request.ready & may_begin),
            begins.eq(self.i.valid & self.i.ready),
            free.take.eq(begins),
            header.operation.eq(Operation.WRITE),
            header.message_class.eq(MessageClass.REQUEST),
            header.route.eq(Route.RELAY),
            header.address.eq(write.address),
            header.length.eq(write.length),
            header.tag.eq(free.slot),
        ]
        forgotten = self._beats(m, begins, free.slot)
        self._ends(m, free, begins, forgotten)
        return m

    def _beats(self, m: Module, begins: Signal, slot) -> Signal:
        """Beats of the writes that have begun; tells when none waits any more."""
        machine, write, lost = self._machine, self.i.payload, self.reset.lost
        accesses = self._stack.beat_accesses
        low = (accesses - 1).bit_length()
        job_type = data.StructLayout(
            {"slot": range(machine.credits.descriptors), "tag": 12, "beats": LENGTH_BITS}
        )
        # One more than the slots: a queue of two is not ready for the second of two in a row.
        m.submodules.jobs = jobs = SyncFIFOBuffered(
            width=job_type.size, depth=machine.credits.descriptors + 1
        )
        stored, following = job_type(jobs.w_data), job_type(jobs.r_data)
        in_range = Signal()
        m.d.comb += [
            in_range.eq(
                (write.length != 0) & (write.address + write.length <= self._stack.accesses)
            ),
            jobs.w_en.eq(begins & in_range),
            stored.slot.eq(slot),
            stored.tag.eq(write.tag),
            stored.beats.eq((write.address[:low] + write.length + (accesses - 1)) >> low),
        ]

        m.submodules.pacer = pacer = FramePacer()
        m.submodules.credits = credits = CreditCounter(initial=machine.credits.rx_beats)
        active, job = Signal(), Signal(job_type)  # the write whose beats are being sent
        number, sends, last = Signal(LENGTH_BITS), Signal(), Signal()
        m.d.comb += [
            pacer.rate.eq(self.rate),
            pacer.tick.eq(1),  # a frame is one beat
            sends.eq(active & pacer.grant & (credits.count != 0) & ~lost),
            pacer.use.eq(sends),
            credits.take.eq(sends),
            credits.give.eq(self.data.credit),
            last.eq(number == job.beats - 1),
            jobs.r_en.eq(~active | (sends & last) | lost),
        ]
        with m.If(lost):
            m.d.sync += active.eq(0)
        with m.Elif(jobs.r_en):
            m.d.sync += [active.eq(jobs.r_rdy), job.eq(following), number.eq(0)]
        with m.Elif(sends):
            m.d.sync += number.eq(number + 1)

        label, fetch = self.data.header, self.fetch
        fetched_slot, fetched_last = Signal.like(job.slot), Signal()
        m.d.sync += [fetch.valid.eq(sends), self.data.valid.eq(fetch.valid)]
        with m.If(sends):
            m.d.sync += [
                fetch.tag.eq(job.tag),
                fetch.beat.eq(number),
                fetched_slot.eq(job.slot),
                fetched_last.eq(last),
            ]
        with m.If(fetch.valid):
            m.d.sync += [
                label.operation.eq(Operation.WRITE),
                label.message_class.eq(MessageClass.WRITE_DATA),
                label.route.eq(Route.RELAY),
                label.tag.eq(fetched_slot),
                label.beat.eq(fetch.beat),
                label.page.eq(fetch.beat >> len(label.beat)),
                label.page_end.eq(fetched_last),
            ]
        m.d.comb += [
            out.eq(own) for out, own in zip(self.data.lanes, self.fetch_lanes, strict=True)
        ]
        forgotten = Signal()  # none of them is on its way to the link either
        m.d.comb += forgotten.eq(~jobs.r_rdy & ~active & ~fetch.valid & ~self.data.valid)
        return forgotten

    def _ends(self, m: Module, free: Slots, begins: Signal, forgotten: Signal) -> None:
        slots = self._machine.credits.descriptors
        m.submodules.tags = tags = Memory(shape=12, depth=slots, init=[])
        store, tag = tags.write_port(), tags.read_port(domain="comb")
        m.submodules.watchdog = watchdog = Watchdog(slots=slots)
        open_, ended, over = Signal(slots), Signal(range(slots)), Signal()
        m.d.comb += [
            store.en.eq(begins),
            store.addr.eq(free.slot),
            store.data.eq(self.i.payload.tag),
            over.eq(self.answer.valid | (self.reset.quiet & forgotten & open_.any())),
            ended.eq(Mux(self.answer.valid, self.answer.tag, lowest(m, open_))),
            tag.addr.eq(ended),
            free.free.valid.eq(over),
            free.free.slot.eq(ended),
            self.reset.settled.eq(forgotten & ~open_.any()),
            watchdog.timeout.eq(self.timeout),
            watchdog.begin.valid.eq(begins),
            watchdog.begin.slot.eq(free.slot),
            watchdog.begin.tag.eq(self.i.payload.tag),
            watchdog.end.eq(free.free),
            self.overdue.eq(watchdog.overdue),
        ]
        m.d.sync += [
            open_.eq((open_ & ~line(over, ended, slots)) | line(begins, free.slot, slots)),
            self.done.valid.eq(over),
            self.done.tag.eq(tag.data),
            self.done.status.eq(Mux(self.answer.valid, self.answer.status, Status.LINK_RESET)),
        ]
