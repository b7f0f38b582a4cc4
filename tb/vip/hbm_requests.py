"""Requests to an HBM controller and everything that comes of them, in hardware.

Writes bring what the DRAM holds anyway (:func:`tb.vip.dram.preloaded`), so that every access of
every read can be compared.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.address import HbmAddressMap
from hw.hbm.dram.beats import LENGTH_BITS, LaneStream, done_layout, request_layout
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import ACCESS_LANES, place_layout
from tb.vip.dram import content
from tb.vip.hbm_traffic import NUMBER_BITS, Pattern
from tb.vip.xorshift import xorshift

SIDES = 256  # of the dice
DEPTH = 1024  # requests under way


def stack_content(m: Module, stack: HbmStack, beat) -> list:
    """The lanes of beat number ``beat`` of the stack."""
    low = (stack.halves - 1).bit_length()
    bank, row, column = HbmAddressMap(stack).fields(beat[low:])
    # No signal holds bank and row: the bank depends on the row, and a vector that depends on itself
    # stops Verilator.
    place = place_layout(stack)(Cat(bank, row, column))
    lanes = []
    for k in range(stack.beat_accesses):
        channel = Signal(range(max(2, stack.organization.pseudo_channels)), name=f"channel{k}")
        m.d.comb += channel.eq(beat[:low] * stack.beat_accesses + k if low else k)
        lanes += content(m, channel, place)
    return lanes


class _Follower:
    """The beats of requests in order, as they must come: a queue of requests and a position."""

    def __init__(self, m: Module, stack: HbmStack, name: str) -> None:
        self._stack = stack
        layout = request_layout(stack)
        self.queue = SyncFIFOBuffered(width=layout.size, depth=DEPTH)
        m.submodules[name] = self.queue
        self.request = layout(self.queue.r_data)
        self.position = Signal(LENGTH_BITS, name=f"{name}_position")
        low = (stack.beat_accesses - 1).bit_length()
        end = self.request.address + self.request.length  # of its accesses
        beats_begin = (self.request.address >> low) + self.position
        self.beat = Signal(HbmAddressMap(stack).address_bits - low, name=f"{name}_beat")
        self.last = Signal(name=f"{name}_last")
        self.wanted = Signal(stack.beat_accesses, name=f"{name}_wanted")
        access = self.beat << low
        m.d.comb += [
            self.beat.eq(beats_begin),
            self.last.eq(access + stack.beat_accesses >= end),
            self.wanted.eq(
                Cat(
                    (access + k >= self.request.address) & (access + k < end)
                    for k in range(stack.beat_accesses)
                )
            ),
        ]

    def step(self, m: Module, moves) -> None:
        with m.If(moves):
            m.d.sync += self.position.eq(Mux(self.last, 0, self.position + 1))
        m.d.comb += self.queue.r_en.eq(moves & self.last)


class HbmRequests(wiring.Component):
    """Asks for ``total`` requests of ``length`` accesses each and judges what comes back.

    Members
    -------
    total, length, pattern : In; sequential requests follow each other
    write_share : In: of 256 requests, how many are writes on average
    bad_share : In: how many reach beyond the end of the stack
    stall : In: in how many of 256 clocks no beat and no ``done`` is taken
    late : In: in how many of 256 clocks a beat of a write is not offered
    request, write_data, beats, done : ports of the controller
    sent, ended : Out: requests; ``ended`` when whole, done or refused
    accesses_read, accesses_written : Out
    errors : Out: beats or answers that are wrong, doubled or out of order
    """

    def __init__(self, stack: HbmStack, *, seed: int = 0) -> None:
        self._stack, self._seed = stack, seed
        super().__init__(
            {
                "total": In(NUMBER_BITS),
                "length": In(LENGTH_BITS),
                "pattern": In(Pattern),
                "write_share": In(9),
                "bad_share": In(9),
                "stall": In(9),
                "late": In(9),
                "request": Out(stream.Signature(request_layout(stack))),
                "write_data": Out(LaneStream(stack, labelled=False)),
                "beats": In(LaneStream(stack, labelled=True)),
                "done": In(stream.Signature(done_layout())),
                **{
                    name: Out(NUMBER_BITS)
                    for name in ("sent", "ended", "accesses_read", "accesses_written", "errors")
                },
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        stack = self._stack
        address_bits = HbmAddressMap(stack).address_bits
        reads = _Follower(m, stack, "reads")
        writes = _Follower(m, stack, "writes")
        dice = [
            xorshift(m, f"dice{k}", bits=64, stream=2 * (self._seed * 8 + k) + 1) for k in range(2)
        ]

        # Requests ---------------------------------------------------------------------------------
        place = Signal(address_bits)  # of sequential requests
        chosen = Signal(64, init=0x9E3779B97F4A7C15)
        request, taken, bad = self.request.payload, Signal(), Signal()
        room = reads.queue.w_rdy & writes.queue.w_rdy
        # One request is chosen after the other, so that what is offered stays.
        m.d.comb += [
            taken.eq(self.request.valid & self.request.ready),
            self.request.valid.eq((self.sent != self.total) & room),
            request.write.eq(chosen[:8] < self.write_share),
            request.length.eq(self.length),
            request.tag.eq(self.sent),
            bad.eq(chosen[8:16] < self.bad_share),
        ]
        with m.If(bad):
            m.d.comb += request.address.eq(stack.accesses - self.length + 1)
        with m.Elif(self.pattern == Pattern.SEQUENTIAL):
            m.d.comb += request.address.eq(place)
        with m.Else():
            # Of the lower half, so that every length fits.
            m.d.comb += request.address.eq(chosen[16 : 16 + address_bits - 2])
        with m.If(taken):
            m.d.sync += [self.sent.eq(self.sent + 1), chosen.eq(dice[0])]
            with m.If(~bad):
                m.d.sync += place.eq(place + self.length)
        for follower, mine in ((reads, ~request.write), (writes, request.write)):
            m.d.comb += [
                follower.queue.w_data.eq(request),
                follower.queue.w_en.eq(taken & mine & ~bad),
            ]

        # Write data -------------------------------------------------------------------------------
        offered = Signal()  # stays until it is taken
        goes = self.write_data.valid & self.write_data.ready
        m.d.sync += offered.eq(self.write_data.valid & ~goes)
        m.d.comb += self.write_data.valid.eq(
            writes.queue.r_rdy & (offered | (dice[1][:8] >= self.late))
        )
        for k, lane in enumerate(stack_content(m, stack, writes.beat)):
            wanted = writes.wanted[k // ACCESS_LANES]
            m.d.comb += self.write_data.lanes[k].eq(Mux(wanted, lane, 0))
        writes.step(m, goes)

        # What comes back --------------------------------------------------------------------------
        may, label = Signal(), self.beats.label
        m.d.comb += [
            may.eq(dice[1][8:16] >= self.stall),
            self.beats.ready.eq(may),
            self.done.ready.eq(may),
        ]
        beat = self.beats.valid & self.beats.ready
        reads.step(m, beat)
        wrong_lane = Cat(
            reads.wanted[k // ACCESS_LANES] & (lane != self.beats.lanes[k])
            for k, lane in enumerate(stack_content(m, stack, reads.beat))
        ).any()
        wrong_beat = beat & (
            ~reads.queue.r_rdy
            | wrong_lane
            | label.poison
            | (label.tag != reads.request.tag)
            | (label.beat != reads.position)
            | (label.last != reads.last)
            | (label.wanted != reads.wanted)
        )
        answer = self.done.valid & self.done.ready
        # Writes are done in order; refusals come at any time.
        m.submodules.open_writes = open_writes = SyncFIFOBuffered(width=12, depth=DEPTH)
        finished = answer & ~self.done.payload.refused
        m.d.comb += [
            open_writes.w_data.eq(request.tag),
            open_writes.w_en.eq(taken & request.write & ~bad),
            open_writes.r_en.eq(finished),
        ]
        wrong_answer = finished & (
            ~open_writes.r_rdy
            | ~self.done.payload.write
            | (open_writes.r_data != self.done.payload.tag)
        )
        refusals = Signal(NUMBER_BITS)  # open
        m.d.sync += refusals.eq(refusals + (taken & bad) - (answer & self.done.payload.refused))
        unasked = answer & self.done.payload.refused & (refusals == 0) & ~(taken & bad)
        m.d.sync += [
            self.errors.eq(self.errors + wrong_beat + wrong_answer + unasked),
            self.ended.eq(self.ended + answer + (beat & reads.last)),
            self.accesses_read.eq(self.accesses_read + Mux(beat, _ones(label.wanted), 0)),
            self.accesses_written.eq(self.accesses_written + Mux(goes, _ones(writes.wanted), 0)),
        ]
        return m


def _ones(lines):
    return sum(lines[k] for k in range(len(lines)))
