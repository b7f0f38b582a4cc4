"""The end of the sideband that asks: tags, credits and timeouts of register accesses."""

import enum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.ucie.sideband_packet import (
    COUNT_BITS,
    STATUS_BITS,
    TAGS,
    CompletionHeader,
    CompletionStatus,
    Opcode,
    PacketPort,
    RequestHeader,
    SidebandPacket,
    check_identity,
)

TIMEOUT_CLOCKS = 16_000_000  # 8 ms at 2 GHz


class Access(data.Struct):
    """A register access.

    Members
    -------
    write, wide, config
        Else a read, of 32 bits, of memory-mapped registers.
    address
        Of a byte.
    be
        Byte enables; all four, or all eight, are set for a whole access.
    data
        What is written; the low half of a 32-bit access.
    """

    write: 1
    wide: 1
    config: 1
    address: 24
    be: 8
    data: 64


class AccessStatus(enum.IntEnum):
    """How an access ended: what the completion says, or that none came."""

    SUCCESS = CompletionStatus.SUCCESS
    UNSUPPORTED = CompletionStatus.UNSUPPORTED
    TIMEOUT = 2  # no completion carries this code
    ABORT = CompletionStatus.ABORT


class Response(data.Struct):
    """The end of an access: its tag, an :class:`AccessStatus`, and what was read.

    After a refusal the data is what the completion brought, the header of the request.
    """

    tag: 5
    status: STATUS_BITS
    data: 64


class AccessPort(wiring.Signature):
    """Accesses, the tag of each as it is accepted, and how they end."""

    def __init__(self) -> None:
        super().__init__(
            {
                "access": Out(stream.Signature(Access)),
                "tag": In(5),
                "response": In(stream.Signature(Response)),
            }
        )


def check_sizes(*, credits: int, tags: int = TAGS, timeout: int = TIMEOUT_CLOCKS) -> None:
    """Of both ends."""
    if not 1 <= tags <= TAGS:
        raise ValueError(f"tags must be 1 to {TAGS}, not {tags!r}")
    if credits < 1:
        raise ValueError(f"credits must be at least one, not {credits!r}")
    if timeout < 2:
        raise ValueError(f"timeout must be at least two clocks, not {timeout!r}")


class SidebandRequester(wiring.Component):
    """Sends register accesses as request packets and matches the completions that come back.

    Promise: each access that is accepted gets one response, in whatever order completions come. No
    two accesses whose responses are not taken have the same tag. A request leaves only under
    credit. Completions are always taken: an access is accepted with room for its response.

    An access without a completion within ``timeout`` clocks, -0/+50 %, ends as TIMEOUT. Its tag and
    its credit then stay in quarantine, until the late completion comes, which is dropped, or for as
    long again. So a tag is not confused and no credit is lost or made as long as a completion comes
    within twice ``timeout`` or never. A packet that completes nothing is dropped and counted: it
    has the wrong kind, tag, length or destination, or a reserved status.

    While ``up`` is low nothing is sent or taken, open accesses end as TIMEOUT, one a clock, and
    there is no credit; all credits are there two clocks after it rises. Nothing sent before it fell
    may arrive after it rose.

    Latency: 1 clock from ``access`` to ``o``, 2 from ``i`` to ``response``. Throughput: an access a
    clock. Source: UCIe 3.0 chapter 7 (tags, one credit a request, completions sink, credits at the
    exit of domain reset); the quarantine is a choice of this design.

    Members
    -------
    up : In: both ends are out of domain reset
    access : stream of :class:`Access`
    tag : Out: the tag of the access that is accepted in this clock
    response : stream of :class:`Response`
    o : stream of packets, without parity
    i : packets that have come
    credits : Out: those held
    idle : Out: no access is open and no tag in quarantine
    unexpected : Out: packets dropped, stays at its last value
    """

    def __init__(
        self,
        *,
        tags: int = TAGS,
        credits: int = 32,
        timeout: int = TIMEOUT_CLOCKS,
        identity: int = 0,
        destination: int = 0,
    ) -> None:
        check_sizes(tags=tags, credits=credits, timeout=timeout)
        check_identity(identity)
        check_identity(destination)
        self._tags, self._credits, self._timeout = tags, credits, timeout
        self._identity, self._destination = identity, destination
        super().__init__(
            {
                "up": In(1),
                "access": In(stream.Signature(Access)),
                "tag": Out(5),
                "response": Out(stream.Signature(Response)),
                "o": Out(stream.Signature(SidebandPacket)),
                "i": In(PacketPort()),
                "credits": Out(range(credits + 1)),
                "idle": Out(1),
                "unexpected": Out(COUNT_BITS),
            }
        )

    @property
    def tags(self) -> int:
        return self._tags

    @property
    def timeout(self) -> int:
        return self._timeout

    def elaborate(self, platform) -> Module:
        m = Module()
        tags = self._tags
        # One bit a tag: its response is not taken yet; none has come; it is in quarantine; it
        # holds a credit; its packet waits at `o`; what it asks for; the ticks it has seen.
        names = ("used", "busy", "late", "holds", "waiting", "reads", "wides", "age0", "age1")
        used, busy, late, holds, waiting, reads, wides, age0, age1 = (
            Signal(tags, name=name) for name in names
        )

        # Accept -----------------------------------------------------------------------------------
        accept, open_slot = Signal(), Signal()
        chosen = Signal(tags)
        number = Signal(5)
        access = self.access.payload
        m.d.comb += [
            chosen.eq(_lowest(~(used | late))),
            number.eq(_number(chosen)),
            open_slot.eq(self.up & (self.credits != 0) & chosen.any()),
            self.access.ready.eq(open_slot & (~self.o.valid | self.o.ready)),
            accept.eq(self.access.valid & self.access.ready),
            self.tag.eq(number),
            self.idle.eq((used | late) == 0),
        ]
        request = Signal(RequestHeader)
        m.d.comb += [
            request.opcode.eq(Cat(access.write, Const(0, 1), access.config, access.wide)),
            request.be.eq(Mux(access.wide, access.be, access.be[:4])),
            request.tag.eq(number),
            request.srcid.eq(self._identity),
            request.address.eq(access.address),
            request.dstid.eq(self._destination),
        ]
        with m.If(~self.up):
            m.d.sync += self.o.valid.eq(0)
        with m.Elif(accept):
            m.d.sync += [
                self.o.valid.eq(1),
                self.o.payload.header.eq(request),
                self.o.payload.data.eq(Mux(access.write, access.data, 0)),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)

        # Completions ------------------------------------------------------------------------------
        done = Signal(CompletionHeader)
        named = Signal(tags)
        fits, answered, returned = Signal(), Signal(), Signal()
        wanted = Cat((reads & named).any(), Const(0, 2), (reads & wides & named).any(), Const(1, 1))
        refused = (done.status == CompletionStatus.UNSUPPORTED) | (
            done.status == CompletionStatus.ABORT
        )
        plain = (done.opcode == Opcode.COMPLETION) | (done.opcode == Opcode.COMPLETION_64)
        m.d.comb += [
            done.eq(self.i.packet.header),
            named.eq((1 << done.tag)[:tags]),
            fits.eq(
                self.up
                & (done.dstid == self._identity)
                & Mux(refused, plain, (done.opcode == wanted) & (done.status == 0))
            ),
            answered.eq(self.i.valid & fits & (busy & ~waiting & named).any()),
            returned.eq(self.i.valid & fits & (late & named).any()),
        ]
        stranger = self.i.valid & self.up & ~answered & ~returned
        with m.If(stranger & (self.unexpected != 2**COUNT_BITS - 1)):
            m.d.sync += self.unexpected.eq(self.unexpected + 1)

        # Time -------------------------------------------------------------------------------------
        # Three ticks are two to three times as long as the time between them.
        tick_clocks = -(-self._timeout // 2)
        clock, tick = Signal(range(tick_clocks)), Signal()
        reaped, reap, expire = Signal(tags), Signal(), Signal()
        m.d.comb += [
            tick.eq(clock == tick_clocks - 1),
            reaped.eq(_lowest((busy | late) & Mux(self.up, age0 & age1, ~waiting))),
            reap.eq(reaped.any() & ~answered & ~returned),
            expire.eq(reap & (reaped & busy).any()),
        ]
        m.d.sync += clock.eq(Mux(tick, 0, clock + 1))
        ended, begun = Signal(tags), Signal(tags)
        m.d.comb += [
            ended.eq(Mux(answered | returned, named, Mux(reap, reaped, 0))),
            begun.eq(Mux(accept, chosen, 0)),
        ]
        fresh = begun | ended | waiting
        older = Mux(tick, ~(age0 & age1), 0)[:tags]
        m.d.sync += [
            age0.eq((age0 ^ older) & ~fresh),
            age1.eq((age1 ^ (older & age0)) & ~fresh),
            busy.eq((busy & ~ended) | begun),
            late.eq((late & ~ended) | Mux(expire, reaped, 0)),
            waiting.eq(Mux(self.up, Mux(self.o.ready, 0, waiting) | begun, 0)),
        ]
        with m.If(accept):
            m.d.sync += [
                reads.eq(Mux(access.write, reads & ~chosen, reads | chosen)),
                wides.eq(Mux(access.wide, wides | chosen, wides & ~chosen)),
            ]

        # Credits ----------------------------------------------------------------------------------
        was_up, give = Signal(), Signal()
        m.d.comb += give.eq(
            (holds & ended).any() & Mux(answered | returned, done.cr, reap & ~expire)
        )
        m.d.sync += was_up.eq(self.up)
        with m.If(~self.up):
            m.d.sync += [self.credits.eq(0), holds.eq(0)]
        with m.Elif(~was_up):
            m.d.sync += self.credits.eq(self._credits)
        with m.Else():
            m.d.sync += [
                self.credits.eq(self.credits - accept + give),
                holds.eq((holds & ~Mux(expire, 0, ended)) | begun),
            ]

        # Responses --------------------------------------------------------------------------------
        # There is room for all: a tag stays in use until its response is taken.
        # One more than there are tags: a queue of two is not ready for the second of two in a row.
        m.submodules.responses = responses = SyncFIFOBuffered(
            width=Response.as_shape().size, depth=tags + 1
        )
        entry = Signal(Response)
        m.d.comb += [
            entry.tag.eq(Mux(answered, done.tag, _number(reaped))),
            entry.status.eq(Mux(answered, done.status, AccessStatus.TIMEOUT)),
            entry.data.eq(Mux(answered, self.i.packet.data, 0)),
            responses.w_en.eq(answered | expire),
            responses.w_data.eq(entry),
            self.response.valid.eq(responses.r_rdy),
            self.response.payload.eq(responses.r_data),
            responses.r_en.eq(self.response.ready),
        ]
        taken = Signal(tags)
        with m.If(self.response.valid & self.response.ready):
            m.d.comb += taken.eq(1 << self.response.payload.tag)
        m.d.sync += used.eq((used & ~taken) | begun)
        return m


def _lowest(mask: Value) -> Value:
    """Only the lowest bit of ``mask``."""
    return (mask & (~mask + 1))[: len(mask)]


def _number(one_hot: Value) -> Value:
    """Which bit of ``one_hot`` is set."""
    bits = range((TAGS - 1).bit_length())
    masks = [sum(1 << k for k in range(len(one_hot)) if k >> bit & 1) for bit in bits]
    return Cat((one_hot & mask).any() for mask in masks)
