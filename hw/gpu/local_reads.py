"""Reads of the HBM stack by the GPU, over link B of one pair."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.bits import line, lowest
from hw.gpu.completions import Completions, read_done_layout
from hw.gpu.local_layouts import LocalBeats, check_beats, local_request_layout
from hw.gpu.open_accesses import OpenAccesses
from hw.gpu.reassembly import BY_DATA, BY_WORD
from hw.gpu.router import WINDOW_BITS
from hw.gpu.slots import Slots
from hw.gpu.watchdog import TIMEOUT_BITS, Watchdog, overdue_layout
from hw.hbm.dram.beats import LENGTH_BITS
from hw.hbm.dram.description import HbmStack
from hw.params import Machine
from hw.ucie.transaction import (
    BeatStream,
    Header,
    MessageClass,
    Operation,
    ResetPort,
    Route,
    Status,
)
from hw.ucie.write_sender import read_refused_layout


class LocalReads(wiring.Component):
    """Asks for reads, says what of each beat belongs to them, and tells when they are over.

    Promise: each read leaves as one request, with its slot for a tag. Each beat that comes leaves
    on ``o`` once, in order, with its address, the tag of the read and the accesses that are wanted.
    Each read ends once on ``done``: with its last beat, and ``poison`` if any beat of it had that;
    by ``answer``, with the status that it bears; or by a reset. Several that end at once are told
    one a clock. Nothing is ordered: neither reads among each other nor reads with writes.

    The far end sends the beats of a read in rising order; beats of several reads may alternate.
    Where a beat lies follows from the read and what of it has come, not from its number.

    Latency: none for requests and beats; 1 clock from what ends a read to ``done``, more only
    behind other ends. Throughput: a request and a beat a clock. Back-pressure: ``i`` waits for one
    of ``machine.credits.descriptors`` slots, for ``request`` and while ``window`` accesses or more
    are outstanding: asked for and not yet left on ``o``. ``o`` may stall; then ``beats`` does.
    ``answer`` and ``done`` never wait.

    Reset of the link: nothing begins while it is lost; beats that came leave as always, then each
    read that is open ends with LINK_RESET. Here ``quiet`` says that nothing is left in front of
    ``beats`` either. Source: DASH sections IV-B and V-B.

    Members
    -------
    i : In(stream): address, length and tag
    window : accesses outstanding at which no more is taken
    request : Out(stream): headers
    beats : In(BeatStream); o : Out(LocalBeats)
    answer : In: the read of slot ``tag`` ends without data
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
                "window": In(WINDOW_BITS),
                "request": Out(stream.Signature(Header)),
                "beats": In(BeatStream(machine.lanes)),
                "o": Out(LocalBeats(machine, stack)),
                "answer": In(read_refused_layout()),
                "done": Out(read_done_layout()),
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
        m.submodules.accesses = accesses = OpenAccesses(self._stack, slots=slots)
        begins = self._requests(m, free, accesses)
        completions = self._ends(m, accesses, begins, free.slot)
        m.submodules.watchdog = watchdog = Watchdog(slots=slots)
        m.d.comb += [
            free.free.valid.eq(completions.done.valid),
            free.free.slot.eq(completions.slot),
            self.done.eq(completions.done),
            watchdog.timeout.eq(self.timeout),
            watchdog.begin.eq(completions.begin),
            watchdog.end.eq(free.free),
            self.overdue.eq(watchdog.overdue),
        ]
        return m

    def _requests(self, m: Module, free: Slots, accesses: OpenAccesses) -> Signal:
        """Reads that begin; tells when one does."""
        read, header = self.i.payload, self.request.payload
        outstanding = Signal(max(WINDOW_BITS, LENGTH_BITS) + 1)
        may_begin, begins = Signal(), Signal()
        m.d.comb += [
            may_begin.eq(free.room & (outstanding < self.window) & ~self.reset.lost),
            self.request.valid.eq(self.i.valid & may_begin),
            self.i.ready.eq(self.request.ready & may_begin),
            begins.eq(self.i.valid & self.i.ready),
            free.take.eq(begins),
            header.operation.eq(Operation.READ),
            header.message_class.eq(MessageClass.REQUEST),
            header.route.eq(Route.RELAY),
            header.address.eq(read.address),
            header.length.eq(read.length),
            header.tag.eq(free.slot),
            accesses.begin.valid.eq(begins),
            accesses.begin.slot.eq(free.slot),
            accesses.begin.address.eq(read.address),
            accesses.begin.length.eq(read.length),
        ]
        begun = Mux(begins, read.length, 0)
        m.d.sync += outstanding.eq(outstanding + begun - accesses.received)
        return begins

    def _ends(self, m: Module, accesses: OpenAccesses, begins, begun) -> Completions:
        """Beats on their way to the consumer, and what ends a read."""
        slots = self._machine.credits.descriptors
        m.submodules.completions = completions = Completions(self._machine, pairs=1, sources=2)
        m.submodules.tags = tags = Memory(shape=12, depth=slots, init=[])
        write, tag = tags.write_port(), tags.read_port(domain="comb")
        beat, place, taken = self.beats, accesses.place, Signal()
        slot = beat.header.tag[: exact_log2(slots)]
        m.d.comb += [
            completions.begin.valid.eq(begins),
            completions.begin.slot.eq(begun),
            completions.begin.tag.eq(self.i.payload.tag),
            write.en.eq(begins),
            write.addr.eq(begun),
            write.data.eq(self.i.payload.tag),
            tag.addr.eq(slot),
            self.o.valid.eq(beat.valid),
            beat.ready.eq(self.o.ready),
            taken.eq(beat.valid & beat.ready),
            self.o.header.eq(beat.header),
            self.o.header.tag.eq(tag.data),
            self.o.header.address.eq(place.address),
            self.o.header.page_end.eq(place.last),
            self.o.wanted.eq(place.wanted),
            *(self.o.lanes[k].eq(lane) for k, lane in enumerate(beat.lanes)),
            accesses.beat.valid.eq(taken),
            accesses.beat.slot.eq(slot),
        ]

        word, sweeps = accesses.end, Signal()
        poisoned, bad = Signal(slots), Signal()
        m.d.comb += [
            sweeps.eq(self.reset.quiet & ~beat.valid & accesses.open.any()),
            word.valid.eq(self.answer.valid | sweeps),
            word.slot.eq(Mux(self.answer.valid, self.answer.tag, lowest(m, accesses.open))),
            self.reset.settled.eq(~beat.valid & ~accesses.open.any()),
            bad.eq(poisoned.bit_select(slot, 1) | beat.header.poison),
        ]
        begun_now = line(begins, begun, slots)
        poisoned_now = line(taken & beat.header.poison, slot, slots)
        by_data, by_word = (completions.end[0][k] for k in (BY_DATA, BY_WORD))
        m.d.sync += [
            poisoned.eq((poisoned | poisoned_now) & ~begun_now),
            by_data.valid.eq(taken & place.last),
            by_data.slot.eq(slot),
            by_data.poison.eq(bad),
            by_data.status.eq(Status.OK),
            by_word.valid.eq(word.valid),
            by_word.slot.eq(word.slot),
            by_word.poison.eq(poisoned.bit_select(word.slot, 1)),
            by_word.status.eq(Mux(self.answer.valid, self.answer.status, Status.LINK_RESET)),
        ]
        return completions
