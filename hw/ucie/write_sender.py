"""The requester of writes: asks, sends the pages that are granted, tells how they ended."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.params import TRANSACTION_PAGES, Machine
from hw.ucie.credit import CreditCounter, RequestSender
from hw.ucie.open_writes import OpenWrites
from hw.ucie.pacer import RATE_BITS, FramePacer
from hw.ucie.transaction import (
    ADDRESS_UNIT_BYTES,
    DataPort,
    Header,
    MessageClass,
    Operation,
    RequestPort,
    ResetPort,
    Status,
)

FRAME = 4  # beats of a page, sent without gap


def write_request_layout(machine: Machine) -> data.StructLayout:
    """A WRITE, TRIM or RELEASE of ``pages`` pages of the stack from page ``first``."""
    return data.StructLayout(
        {
            "first": range(machine.geometry.stack_pages),
            "pages": range(TRANSACTION_PAGES + 1),
            "tag": 12,
            "operation": 4,
            "owner": 2,
            "relocated": 1,
        }
    )


def fetch_layout() -> data.StructLayout:
    """A beat that is to be sent."""
    return data.StructLayout({"valid": 1, "tag": 12, "page": 12, "beat": 2})


def grant_layout() -> data.StructLayout:
    """A page of a write that has its slot, and the token of the slot."""
    return data.StructLayout({"tag": 12, "page": 12, "token": 16})


def done_layout() -> data.StructLayout:
    """How a transaction ended, or with ``last`` low one of its pages."""
    return data.StructLayout(
        {"valid": 1, "operation": 4, "tag": 12, "page": 12, "status": 4, "last": 1}
    )


def read_refused_layout() -> data.StructLayout:
    """A read has ended without data, and why."""
    return data.StructLayout({"valid": 1, "tag": 12, "status": 4})


class WriteSender(wiring.Component):
    """Requester of one link, in the GPU I/O die and in the HBM base die.

    Promise: requests leave in order. Each page that a GRANT names is sent exactly once, in order of
    grants: four beats of WRITE_DATA without gap, which echo the token of the grant. The beats come
    from the owner of this block: ``fetch`` names one, ``fetch_lanes`` must carry it one clock
    later, whatever page of an outstanding write it is. TRIM and RELEASE are never granted, so they
    send nothing. Each COMPLETION becomes one pulse of ``done``. The answer to a read that was
    refused comes among the replies, too, and becomes one of ``read_done``.

    A sender that is ``staged`` is for an owner whose pages are not at hand at once: pages leave on
    ``granted`` and are sent in the order in which they come back, unchanged, on ``at_hand``. A beat
    with ``fetch_poison`` beside its lanes is sent as wrong. In any other sender a page is at hand
    when it is granted, and no clock passes between.

    Latency: request 1 clock; GRANT to the first ``fetch`` 3 to 6 clocks (a frame of four clocks
    begins), to the first beat one more; COMPLETION to ``done`` 1 clock, past grants that wait.
    Throughput: one beat a clock, of which ``rate`` lets through a share. The lanes go through
    combinationally.

    Back-pressure: ``i`` waits for one of ``machine.credits.writes``; a page waits for the credit of
    its four beats. ``done`` cannot be refused, and a granted page has its slot, so that replies
    always flow: a reply credit comes back when an answer arrives or a page starts (is taken from
    ``granted`` by a stage). At most twice ``machine.credits.writes`` requests are open.

    Reset of the link: grants that wait are forgotten, and each open request ends with one last
    ``done`` of status LINK_RESET; what of it was written is not known. A stage drops its own pages:
    with ``lost`` nothing leaves on ``granted`` and nothing is taken from ``at_hand``.

    Members
    -------
    i : In(stream)
    rate : beats a clock on the link, in 1/65536
    request : Out(RequestPort), ``machine.credits.writes`` credits
    reply : In(RequestPort), ``machine.credits.descriptors`` credits
    data : Out(DataPort), ``machine.credits.rx_beats`` credits of one beat
    fetch : Out; fetch_lanes : In(64) array
    granted, at_hand, fetch_poison : Out(stream), In(stream), In; only of a staged sender
    done, read_done : Out, pulses
    began, ended : Out: slot of a request that is open from the next clock on, and of one that is no
        more; of twice ``machine.credits.writes`` slots
    reset : In(ResetPort)
    """

    def __init__(self, machine: Machine, *, staged: bool = False) -> None:
        self._machine, self._staged = machine, staged
        of_slot = {"valid": 1, "slot": range(self.slots)}
        page = stream.Signature(grant_layout())
        stage = {"granted": Out(page), "at_hand": In(page), "fetch_poison": In(1)}
        super().__init__(
            {
                **(stage if staged else {}),
                "i": In(stream.Signature(write_request_layout(machine))),
                "rate": In(RATE_BITS + 1),
                "request": Out(RequestPort()),
                "reply": In(RequestPort()),
                "data": Out(DataPort(machine.lanes)),
                "fetch": Out(fetch_layout()),
                "fetch_lanes": In(64).array(machine.lanes),
                "done": Out(done_layout()),
                "read_done": Out(read_refused_layout()),
                "began": Out(data.StructLayout({**of_slot, "tag": 12})),
                "ended": Out(data.StructLayout(of_slot)),
                "reset": In(ResetPort()),
            }
        )

    @property
    def slots(self) -> int:
        """Requests that may be open."""
        return 2 * self._machine.credits.writes

    @property
    def staged(self) -> bool:
        return self._staged

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        replies = machine.credits.descriptors

        # Requests ---------------------------------------------------------------------------------
        units = exact_log2(machine.geometry.page_bytes // ADDRESS_UNIT_BYTES)
        m.submodules.sender = sender = RequestSender(credits=machine.credits.writes)
        m.submodules.open = opened = OpenWrites(depth=self.slots)
        wiring.connect(m, sender.port, wiring.flipped(self.request))
        write, header = self.i.payload, sender.i.payload
        may_begin, lost = Signal(), self.reset.lost
        m.d.comb += [
            may_begin.eq(opened.room & ~lost),
            sender.i.valid.eq(self.i.valid & may_begin),
            self.i.ready.eq(sender.i.ready & may_begin),
            opened.begin.valid.eq(self.i.valid & self.i.ready),
            opened.begin.operation.eq(write.operation),
            opened.begin.tag.eq(write.tag),
            self.began.valid.eq(opened.begin.valid),
            self.began.slot.eq(opened.slot),
            self.began.tag.eq(write.tag),
            self.ended.eq(opened.gone),
            header.operation.eq(write.operation),
            header.message_class.eq(MessageClass.REQUEST),
            header.address.eq(write.first << units),
            header.length.eq(write.pages << units),
            header.tag.eq(write.tag),
            header.owner.eq(write.owner),
            header.relocated.eq(write.relocated),
        ]

        # Replies: grants wait, completions do not -------------------------------------------------
        reply = self.reply.header
        # One more than the credits: a queue of two is not ready for the second of two in a row.
        m.submodules.grants = grants = SyncFIFOBuffered(
            width=grant_layout().size, depth=replies + 1
        )
        stored = grant_layout()(grants.w_data)
        granted, answered, leaves, drops = Signal(), Signal(), Signal(), Signal()
        waits = grants.w_level.any()  # before it shows at the output, too
        completes = reply.message_class == MessageClass.COMPLETION
        owed = Signal(range(replies + 1))  # credits that have not gone back
        m.d.comb += [
            granted.eq(self.reply.valid & (reply.message_class == MessageClass.GRANT)),
            answered.eq(self.reply.valid & ~granted),
            stored.tag.eq(reply.tag),
            stored.page.eq(reply.page),
            stored.token.eq(reply.credit),
            grants.w_en.eq(granted),
            drops.eq(lost & grants.r_rdy),
            grants.r_en.eq(leaves | drops),
            self.reply.credit.eq(owed != 0),
            opened.end.valid.eq(answered & completes & reply.chunk_end),
            opened.end.tag.eq(reply.tag),
        ]
        m.d.sync += [
            owed.eq(owed + answered + (leaves | drops) - self.reply.credit),
            self.done.valid.eq(answered & completes),
            self.read_done.valid.eq(answered & (reply.message_class == MessageClass.READ_DATA)),
        ]
        with m.If(answered):
            m.d.sync += [
                self.done.operation.eq(reply.operation),
                self.done.tag.eq(reply.tag),
                self.done.page.eq(reply.page),
                self.done.status.eq(reply.status),
                self.done.last.eq(reply.chunk_end),
                self.read_done.tag.eq(reply.tag),
                self.read_done.status.eq(reply.status),
            ]
        m.d.comb += [
            opened.drop.eq(self.reset.quiet & ~waits & opened.some.valid),
            self.reset.settled.eq(~waits & (owed == 0) & ~opened.some.valid),
        ]
        with m.If(opened.drop):
            m.d.sync += [
                self.done.valid.eq(1),
                self.done.operation.eq(opened.some.operation),
                self.done.tag.eq(opened.some.tag),
                self.done.page.eq(0),
                self.done.status.eq(Status.LINK_RESET),
                self.done.last.eq(1),
            ]

        # Pages: frames of four clocks -------------------------------------------------------------
        offered, wanted = Signal(), Signal()  # a granted page, to the link or to the stage
        at_hand, may_start, starts = Signal(), Signal(), Signal()
        m.submodules.pacer = pacer = FramePacer()
        m.submodules.credits = credits = CreditCounter(
            initial=machine.credits.rx_beats, max_take=FRAME
        )
        frame = Signal(range(FRAME))
        page, next_page = Signal(grant_layout()), Signal(grant_layout())
        m.d.comb += [
            offered.eq(grants.r_rdy & ~lost),
            leaves.eq(offered & wanted),
            pacer.rate.eq(self.rate),
            pacer.tick.eq(frame == FRAME - 1),
            may_start.eq(pacer.grant & (credits.count >= FRAME) & ~lost),
            starts.eq(at_hand & may_start),
            pacer.use.eq(starts),
            credits.give.eq(self.data.credit),
            self.fetch.tag.eq(page.tag),
            self.fetch.page.eq(page.page),
            self.fetch.beat.eq(frame),
        ]
        m.d.sync += frame.eq(frame + 1)
        with m.If(pacer.tick):
            m.d.sync += self.fetch.valid.eq(starts)
        with m.If(starts):
            m.d.comb += credits.take.eq(FRAME)
            m.d.sync += page.eq(next_page)
        if self._staged:
            m.d.comb += [
                self.granted.valid.eq(offered),
                self.granted.payload.eq(grants.r_data),
                wanted.eq(self.granted.ready),
                self.at_hand.ready.eq(may_start),
                at_hand.eq(self.at_hand.valid),
                next_page.eq(self.at_hand.payload),
            ]
        else:
            m.d.comb += [
                wanted.eq(may_start),
                at_hand.eq(offered),
                next_page.eq(grants.r_data),
            ]

        # Link -------------------------------------------------------------------------------------
        label = Signal(Header)
        m.d.sync += self.data.valid.eq(self.fetch.valid)
        with m.If(self.fetch.valid):
            m.d.sync += [
                label.operation.eq(Operation.WRITE),
                label.message_class.eq(MessageClass.WRITE_DATA),
                label.tag.eq(page.tag),
                label.page.eq(page.page),
                label.beat.eq(frame),
                label.page_end.eq(frame == FRAME - 1),
                label.credit.eq(page.token),
            ]
        m.d.comb += self.data.header.eq(label)
        m.d.comb += [self.data.lanes[k].eq(self.fetch_lanes[k]) for k in range(machine.lanes)]
        if self._staged:
            m.d.comb += self.data.header.poison.eq(self.fetch_poison)  # it comes with the lanes
        return m
