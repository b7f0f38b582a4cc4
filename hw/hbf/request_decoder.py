"""Requests of one link, checked and decoded into page descriptors."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.hbf.layouts import MAX_PAGES, descriptor_layout
from hw.params import Machine
from hw.ucie.credit import RequestReceiver
from hw.ucie.transaction import ADDRESS_UNIT_BYTES, RequestPort, Status


def page_units(machine: Machine) -> int:
    """Address units of one page."""
    return machine.geometry.page_bytes // ADDRESS_UNIT_BYTES


def fits_stack(machine: Machine, header):
    """Whether a request asks for something, for at most MAX_PAGES, and for nothing outside."""
    stack_units = machine.geometry.stack_pages * page_units(machine)
    return (
        (header.length != 0)
        & (header.length <= MAX_PAGES * page_units(machine))
        & (header.address + header.length <= stack_units)
    )


def whole_pages(machine: Machine, header):
    """Whether a request begins and ends at a page boundary."""
    units = exact_log2(page_units(machine))
    return (header.address[:units] == 0) & (header.length[:units] == 0)


def refused_layout() -> data.StructLayout:
    """A request that ended before it began: its tag and why."""
    return data.StructLayout({"tag": 12, "status": 4})


class RequestDecoder(wiring.Component):
    """Receive queue of one link for reads, decoded into page descriptors.

    Promise: every read leaves exactly once and in order, on ``o`` if it asks for 1 to 4096 whole
    pages of the stack or for a piece of one page, and else on ``refused`` with BAD_ADDRESS: of
    length zero, past the end of the stack, longer, or with a piece that reaches into a second page.
    A piece is a descriptor of one page that names the beats which hold it. ``pages`` gives the
    pages of a descriptor in the clock it leaves, else zero.

    Latency: 2 clocks; one read a clock. Back-pressure: a read waits for its stream, and the ones
    behind it with it; the link has ``machine.credits.descriptors`` credits. While ``lost`` is high
    reads are dropped: a stream that is not taken falls then. Source: OCP HBF 0.7.0 for the sizes
    (64 B to a page, not across pages) and the status.

    Members
    -------
    port : In(RequestPort)
    o : Out(stream)
    refused : Out(stream): tag and status
    pages : Out
    epoch : In: goes with every descriptor
    lost : In: the link is being reset
    empty : Out: no read waits
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "port": In(RequestPort()),
                "o": Out(stream.Signature(descriptor_layout(machine))),
                "refused": Out(stream.Signature(refused_layout())),
                "pages": Out(range(MAX_PAGES + 1)),
                "epoch": In(1),
                "lost": In(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        units = exact_log2(page_units(machine))
        beat_units = exact_log2(machine.link.beat_bytes // ADDRESS_UNIT_BYTES)
        m.submodules.receiver = receiver = RequestReceiver(credits=machine.credits.descriptors)
        wiring.connect(m, wiring.flipped(self.port), receiver.port)
        header = receiver.o.payload

        whole, inside, good, waits = Signal(), Signal(), Signal(), Signal()
        last_unit = Signal(range(2 * page_units(machine)))  # of a piece, from its page on
        descriptor = self.o.payload
        m.d.comb += [
            whole.eq(whole_pages(machine, header)),
            last_unit.eq(header.address[:units] + header.length[:units] - 1),
            # A length of a page or more is whole pages or ends in a second page.
            inside.eq((header.length >> units == 0) & ~last_unit[units]),
            good.eq(fits_stack(machine, header) & (whole | inside)),
            waits.eq(receiver.o.valid & ~self.lost),
            self.empty.eq(~receiver.o.valid),
            self.o.valid.eq(waits & good),
            descriptor.first.eq(header.address >> units),
            descriptor.tag.eq(header.tag),
            descriptor.epoch.eq(self.epoch),
            self.refused.valid.eq(waits & ~good),
            self.refused.payload.tag.eq(header.tag),
            self.refused.payload.status.eq(Status.BAD_ADDRESS),
        ]
        with m.If(whole):
            m.d.comb += [
                descriptor.pages.eq(header.length >> units),
                descriptor.first_beat.eq(0),
                descriptor.last_beat.eq(machine.page_beats - 1),
            ]
        with m.Else():
            m.d.comb += [
                descriptor.pages.eq(1),
                descriptor.first_beat.eq(header.address[:units] >> beat_units),
                descriptor.last_beat.eq(last_unit >> beat_units),
            ]
        with m.If(self.lost):
            m.d.comb += receiver.o.ready.eq(1)
        with m.Elif(good):
            m.d.comb += receiver.o.ready.eq(self.o.ready)
        with m.Else():
            m.d.comb += receiver.o.ready.eq(self.refused.ready)
        with m.If(self.o.valid & self.o.ready):
            m.d.comb += self.pages.eq(descriptor.pages)
        return m
