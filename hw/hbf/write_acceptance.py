"""Write requests of several links, judged one at a time."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.arbiter import RoundRobin, select
from hw.hbf.layouts import MAX_PAGES
from hw.hbf.request_decoder import fits_stack, page_units, whole_pages
from hw.params import Machine
from hw.ucie.transaction import Header, Operation, Owner, Status


def range_layout(machine: Machine) -> data.StructLayout:
    """The pages ``first`` to ``end - 1`` of an outstanding write."""
    pages = machine.geometry.stack_pages
    return data.StructLayout({"valid": 1, "first": range(pages), "end": range(pages + 1)})


class WriteAcceptance(wiring.Component):
    """Takes write requests of several links one at a time and judges them.

    Contract: takes a request from ``i``, links in turn, while ``room`` is high, an entry is free
    and the link's ``refused`` is. The next clock it is judged against ``ranges`` of that clock and
    is in ``accepted``, or from the clock after in the link's ``refused``. One every 2 clocks.
    The first of these applies:

    - BAD_ADDRESS: not 1 to 4096 whole pages of the stack;
    - ILLEGAL_OWNER: no write, trim or release, or a write without a valid owner;
    - OVERLAP: shares a page with an outstanding entry.

    Members
    -------
    i : In(stream) array, one a link
    ranges : In array: the outstanding entries
    room : In(1): one more would be welcome in the next clock
    accepted : Out, a pulse: header and link
    refused : Out array of {valid, operation, tag, status}, one a link, until ``refused_taken``
    """

    def __init__(self, machine: Machine, *, links: int) -> None:
        self._machine, self._links = machine, links
        accepted = data.StructLayout({"valid": 1, "header": Header, "link": range(max(links, 2))})
        refused = data.StructLayout({"valid": 1, "operation": 4, "tag": 12, "status": 4})
        super().__init__(
            {
                "i": In(stream.Signature(Header)).array(links),
                "ranges": In(range_layout(machine)).array(machine.credits.writes),
                "room": In(1),
                "accepted": Out(accepted),
                "refused": Out(refused).array(links),
                "refused_taken": In(links),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, links = self._machine, self._links
        units = exact_log2(page_units(machine))

        # Take -------------------------------------------------------------------------------------
        m.submodules.turn = turn = RoundRobin(width=links)
        valid, header, link = Signal(), Signal(Header), Signal(range(max(links, 2)))
        entry_free = ~Cat(entry.valid for entry in self.ranges).all()
        for k, source in enumerate(self.i):
            free = ~valid & self.room & entry_free & ~self.refused[k].valid
            m.d.comb += [
                turn.request[k].eq(source.valid & free),
                source.ready.eq(turn.grant[k]),
            ]
        m.d.comb += turn.take.eq(1)
        m.d.sync += valid.eq(turn.grant.any())
        with m.If(turn.grant.any()):
            m.d.sync += [
                header.as_value().eq(
                    select(turn.grant, [source.payload.as_value() for source in self.i])
                ),
                link.eq(select(turn.grant, range(links))),
            ]

        # Judge ------------------------------------------------------------------------------------
        pages = machine.geometry.stack_pages
        first, end = Signal(range(pages)), Signal(range(pages + MAX_PAGES + 1))
        address_ok, user_ok, overlaps = Signal(), Signal(), Signal()
        owned = (header.owner == Owner.WEIGHT) | (header.owner == Owner.KV)
        other = (header.operation == Operation.TRIM) | (header.operation == Operation.RELEASE)
        m.d.comb += [
            first.eq(header.address >> units),
            end.eq(first + (header.length >> units)),
            address_ok.eq(fits_stack(machine, header) & whole_pages(machine, header)),
            user_ok.eq(other | ((header.operation == Operation.WRITE) & owned)),
            overlaps.eq(
                Cat(
                    entry.valid & (first < entry.end) & (entry.first < end) for entry in self.ranges
                ).any()
            ),
        ]
        good = Signal()
        m.d.comb += [
            good.eq(address_ok & user_ok & ~overlaps),
            self.accepted.valid.eq(valid & good),
            self.accepted.header.eq(header),
            self.accepted.link.eq(link),
        ]
        for k, refused in enumerate(self.refused):
            with m.If(self.refused_taken[k]):
                m.d.sync += refused.valid.eq(0)
            with m.If(valid & ~good & (link == k)):
                m.d.sync += [
                    refused.valid.eq(1),
                    refused.operation.eq(header.operation),
                    refused.tag.eq(header.tag),
                ]
                with m.If(~address_ok):
                    m.d.sync += refused.status.eq(Status.BAD_ADDRESS)
                with m.Elif(~user_ok):
                    m.d.sync += refused.status.eq(Status.ILLEGAL_OWNER)
                with m.Else():
                    m.d.sync += refused.status.eq(Status.OVERLAP)
        return m
