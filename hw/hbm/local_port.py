"""The port of the GPU to the HBM of a stack: local reads and writes that come over link B."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.arbiter import RoundRobin
from hw.hbm.dram.beats import LaneStream, done_layout, request_layout, require_beat
from hw.hbm.dram.description import HbmStack
from hw.hbm.write_pieces import SLOT_BITS, WritePieces, beats_of, local_layout
from hw.params import Machine
from hw.ucie.transaction import (
    BeatStream,
    DataPort,
    Header,
    MessageClass,
    Operation,
    RequestPort,
    ResetPort,
    Status,
)

MOST_BEATS = 1 << 14  # of a request: page and beat of a header number them


class LocalPort(wiring.Component):
    """Serves the local reads and writes of the GPU from the HBM controller.

    Promise: the beats of a read leave on ``o`` as READ_DATA, in the order of the reads: its tag,
    the number of the beat within the request in ``page`` and ``beat``, ``page_end`` with its last
    one, an access at its own place in its beat. A write becomes one COMPLETION when all of it lies
    in the controller: a read that comes after it sees it. A request that is empty, reaches beyond
    the stack or lies in more than ``MOST_BEATS`` beats becomes one COMPLETION of status
    BAD_ADDRESS; the data of such a write come all the same, and are dropped. Reads and writes do
    not wait for each other: a read that comes before the COMPLETION of a write may see old or new
    bytes, access by access.

    Tags are slots of the GPU, below 1,024. A slot has one request at a time, and the GPU has room
    for its completion.

    Reset of link B: with ``lost`` requests that wait are dropped, reads that are under way in the
    controller are read and dropped, and of a write the pieces that have begun
    (:class:`WritePieces`) are written and no others, without a word. It is ``settled`` when none
    of that is left, credits included.

    Latency: a read 2 clocks, a write 3, beats none, completions 1. Throughput: a beat a clock each
    way; one read and one write a clock. Back-pressure: a request keeps its credit until it leaves;
    a link that takes no beats stops reads, one that takes no completions writes.

    Members
    -------
    b_local : In(RequestPort), ``machine.credits.descriptors`` credits
    b_local_data : In(DataPort), ``machine.credits.rx_beats`` credits of one beat
    o : Out(BeatStream); completion : Out(stream of Header): for link B
    read, write : Out(stream); beats : In(LaneStream): :class:`hw.hbm.controller_share`
    write_data, done : Out(LaneStream), In(stream): the controller
    reset : In(ResetPort): of link B
    """

    def __init__(self, machine: Machine, stack: HbmStack) -> None:
        self._machine, self._stack = machine, stack
        require_beat(stack, machine.link.beat_bytes)
        if machine.credits.descriptors > 1 << SLOT_BITS:
            raise ValueError(
                f"Credits.descriptors is {machine.credits.descriptors}: at most {1 << SLOT_BITS}, "
                "the slots that a tag of the controller can name"
            )
        request = stream.Signature(request_layout(stack))
        super().__init__(
            {
                "b_local": In(RequestPort()),
                "b_local_data": In(DataPort(machine.lanes)),
                "o": Out(BeatStream(machine.lanes)),
                "completion": Out(stream.Signature(Header)),
                "read": Out(request),
                "write": Out(request),
                "write_data": Out(LaneStream(stack, labelled=False)),
                "beats": In(LaneStream(stack, labelled=True)),
                "done": In(stream.Signature(done_layout())),
                "reset": In(ResetPort()),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        lost = self.reset.lost
        m.submodules.writes = writes = WritePieces(self._machine, self._stack)
        reads_queue, writes_queue, owed = self._door(m)
        wiring.connect(m, wiring.flipped(self.b_local_data), writes.port)
        wiring.connect(m, writes.request, wiring.flipped(self.write))
        wiring.connect(m, writes.write_data, wiring.flipped(self.write_data))

        # Requests ---------------------------------------------------------------------------------
        read = local_layout(self._stack)(reads_queue.r_data)
        bad_read, asks, writes_asked = Signal(), Signal(), Signal()
        m.d.comb += [
            self.read.valid.eq(reads_queue.r_rdy & ~read.bad & ~lost),
            self.read.payload.address.eq(read.address),
            self.read.payload.length.eq(read.length),
            self.read.payload.tag.eq(read.tag),
            asks.eq(self.read.valid & self.read.ready),
            writes.lost.eq(lost),
            writes.i.valid.eq(writes_queue.r_rdy),
            writes.i.payload.eq(writes_queue.r_data),
            writes_queue.r_en.eq(writes.i.ready),
            writes_asked.eq(self.write.valid & self.write.ready),
        ]

        # Beats of reads ---------------------------------------------------------------------------
        label, header = self.beats.label, self.o.header
        m.d.comb += [
            self.o.valid.eq(self.beats.valid & ~lost),
            self.beats.ready.eq(self.o.ready | lost),
            header.operation.eq(Operation.READ),
            header.message_class.eq(MessageClass.READ_DATA),
            header.tag.eq(label.tag),
            Cat(header.beat, header.page).eq(label.beat),
            header.page_end.eq(label.last),
            header.poison.eq(label.poison),
            *(lane.eq(own) for lane, own in zip(self.o.lanes, self.beats.lanes, strict=True)),
        ]

        # Completions ------------------------------------------------------------------------------
        m.submodules.turns = turns = RoundRobin(width=3)
        done = self.done.payload
        whole = done.tag[SLOT_BITS]  # no piece of the write follows
        room = ~self.completion.valid | self.completion.ready
        answer = self.completion.payload
        m.d.comb += [
            bad_read.eq(reads_queue.r_rdy & read.bad & ~lost),
            turns.request.eq(Cat(self.done.valid & whole, bad_read, writes.refused.valid)),
            turns.take.eq(room),
            self.done.ready.eq((room & turns.grant[0]) | ~whole | lost),
            reads_queue.r_en.eq(asks | (room & turns.grant[1]) | lost),
            writes.refused.ready.eq(room & turns.grant[2]),
        ]
        with m.If(room | lost):
            m.d.sync += [
                self.completion.valid.eq(turns.grant.any() & ~lost),
                answer.message_class.eq(MessageClass.COMPLETION),
                answer.operation.eq(Mux(turns.grant[1], Operation.READ, Operation.WRITE)),
                answer.tag.eq(
                    Mux(
                        turns.grant[0],
                        done.tag[:SLOT_BITS],
                        Mux(turns.grant[1], read.tag, writes.refused.payload),
                    )
                ),
                answer.status.eq(Mux(turns.grant[0], Status.OK, Status.BAD_ADDRESS)),
            ]

        # Under way in the controller --------------------------------------------------------------
        reads_open, writes_open = Signal(SLOT_BITS + 1), Signal(SLOT_BITS + 1)
        read_ends = self.beats.valid & self.beats.ready & label.last
        m.d.sync += [
            reads_open.eq(reads_open + asks - read_ends),
            writes_open.eq(writes_open + writes_asked - (self.done.valid & self.done.ready)),
        ]
        waits = Cat(reads_queue.r_level.any(), writes_queue.r_level.any(), ~writes.empty, owed != 0)
        m.d.comb += self.reset.settled.eq(
            ~waits.any() & (reads_open == 0) & (writes_open == 0) & ~self.completion.valid
        )
        return m

    def _door(self, m: Module) -> tuple[SyncFIFOBuffered, SyncFIFOBuffered, Signal]:
        """Queues of reads and of writes, each with room for all; credits that are still owed."""
        header, credits = self.b_local.header, self._machine.credits.descriptors
        layout = local_layout(self._stack)
        owed = Signal(range(credits + 1))
        queues = []
        for name, wanted in (
            ("reads", header.operation == Operation.READ),
            ("writes", header.operation == Operation.WRITE),
        ):
            # One more than the credits: a queue of two is not ready for the second of two in a row.
            queue = SyncFIFOBuffered(width=layout.size, depth=credits + 1)
            m.submodules[f"{name}_queue"] = queue
            request = layout(queue.w_data)
            m.d.comb += [
                queue.w_en.eq(self.b_local.valid & wanted),
                request.address.eq(header.address),
                request.length.eq(header.length),
                request.tag.eq(header.tag),
                request.bad.eq(
                    (header.length == 0)
                    | (header.address + header.length > self._stack.accesses)
                    | (beats_of(self._stack, header.address, header.length) > MOST_BEATS)
                ),
            ]
            queues.append(queue)
        m.d.comb += self.b_local.credit.eq(owed != 0)
        left = sum(queue.r_rdy & queue.r_en for queue in queues)
        m.d.sync += owed.eq(owed + left - self.b_local.credit)
        return *queues, owed
