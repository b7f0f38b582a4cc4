"""Pages of HBM data on their way to the HBF: read when they are granted, then staged."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.hbm.dram.address import HbmAddressMap
from hw.hbm.dram.beats import LENGTH_BITS, LaneStream, request_layout, require_beat
from hw.hbm.dram.description import HbmStack
from hw.params import Machine
from hw.sram.beat import BeatSram1r1w
from hw.sram.regions import GROUPS
from hw.ucie.write_sender import fetch_layout, grant_layout


def staged_page_layout(stack: HbmStack) -> data.StructLayout:
    """A granted page and the access of the stack where it begins, the first one of a beat."""
    address = max(LENGTH_BITS, HbmAddressMap(stack).address_bits)
    return data.StructLayout({"address": address, "grant": grant_layout()})


def staging_pages(machine: Machine, stack: HbmStack, pages: int | None) -> int:
    """``pages``, or as many as the controller can have under way, so that reads never wait.

    The controller has slots for all beats that a loaded stack moves within its latency.

    Raises:
        ValueError: ``pages`` is no power of two, or below two.
    """
    if pages is None:
        return max(2, stack.scheduling.beats * stack.halves // machine.page_beats)
    if pages < 2 or pages & (pages - 1):
        raise ValueError(f"staging must have a power of two of pages, at least 2, not {pages!r}")
    return pages


class PageReader(wiring.Component):
    """Reads granted pages from the HBM controller and holds them until the link has taken them.

    Promise: each page that comes on ``i`` is read once and handed over on ``at_hand``, in the same
    order, when all of it is there. Beats of a page that was handed over come out by ``fetch``, page
    after page in that order and the beats of each in theirs, so that ``lanes`` and ``poison`` are
    right one clock later; with the last beat its place is free. A page is asked for only when it
    has a place, so beats from the controller are always taken: nobody waits behind them.

    Reset of link C: while ``lost`` nothing is handed over; pages that are there are dropped, those
    under way when they have come, and one that was handed over may still be fetched. ``idle`` tells
    when none is left.

    Latency: a request none; 1 clock from the last beat of a page to ``at_hand``. Throughput: a beat
    a clock in and out, and a page a clock on ``i``. Back-pressure: ``i`` waits for a place and for
    the controller.

    Members
    -------
    i : In(stream)
    request : Out(stream); beats : In(LaneStream): reads of the controller
    at_hand : Out(stream)
    fetch : In; lanes, poison : Out
    lost : In; idle, arrives : Out: no page is held; a page is there from the next clock on
    """

    def __init__(self, machine: Machine, stack: HbmStack, *, pages: int | None = None) -> None:
        require_beat(stack, machine.link.beat_bytes)
        self._machine, self._stack = machine, stack
        self._pages = staging_pages(machine, stack, pages)
        super().__init__(
            {
                "i": In(stream.Signature(staged_page_layout(stack))),
                "request": Out(stream.Signature(request_layout(stack))),
                "beats": In(LaneStream(stack, labelled=True)),
                "at_hand": Out(stream.Signature(grant_layout())),
                "fetch": In(fetch_layout()),
                "lanes": Out(64).array(machine.lanes),
                "poison": Out(1),
                "lost": In(1),
                "idle": Out(1),
                "arrives": Out(1),
            }
        )

    @property
    def pages(self) -> int:
        return self._pages

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, pages = self._machine, self._pages
        request = self.request.payload
        # Pages so far, modulo twice the places: asked for, there, handed over, fetched or dropped.
        asked, there, handed, gone = (
            Signal(range(2 * pages), name=name) for name in ("asked", "there", "handed", "gone")
        )
        room, asks, comes, hands, drops, leaves = (Signal() for _ in range(6))
        low = exact_log2(pages)  # bits of a place

        # Ask --------------------------------------------------------------------------------------
        m.submodules.grants = grants = SyncFIFOBuffered(width=grant_layout().size, depth=pages + 1)
        m.d.comb += [
            room.eq((asked - gone)[: low + 1] != pages),
            self.request.valid.eq(self.i.valid & room),
            self.i.ready.eq(self.request.ready & room),
            asks.eq(self.i.valid & self.i.ready),
            request.address.eq(self.i.payload.address),
            request.length.eq(machine.page_beats * self._stack.beat_accesses),
            request.tag.eq(asked[:low]),
            grants.w_data.eq(self.i.payload.grant),
            grants.w_en.eq(asks),
        ]

        # Fill: beats come in the order of the requests --------------------------------------------
        m.submodules.store = store = BeatSram1r1w(
            lanes=machine.lanes, depth=pages * GROUPS, bank_bytes=machine.sram.bank_bytes
        )
        m.submodules.marks = marks = Memory(shape=1, depth=pages * GROUPS, init=[])
        mark, marked = marks.write_port(), marks.read_port()
        label = self.beats.label
        row = Cat(label.beat[:2], there[:low])
        m.d.comb += [
            self.beats.ready.eq(1),
            comes.eq(self.beats.valid & label.last),
            self.arrives.eq(comes),
            store.w_en.eq(self.beats.valid),
            store.w_addr.eq(row),
            mark.en.eq(self.beats.valid),
            mark.addr.eq(row),
            mark.data.eq(label.poison),
            *(lane.eq(own) for lane, own in zip(store.w_data, self.beats.lanes, strict=True)),
        ]

        # Hand over, fetch or drop -----------------------------------------------------------------
        m.d.comb += [
            self.at_hand.valid.eq((there != handed) & grants.r_rdy & ~self.lost),
            self.at_hand.payload.eq(grants.r_data),
            hands.eq(self.at_hand.valid & self.at_hand.ready),
            drops.eq(self.lost & (there != handed) & grants.r_rdy & (handed == gone)),
            grants.r_en.eq(hands | drops),
            leaves.eq(self.fetch.valid & (self.fetch.beat == GROUPS - 1)),
            store.r_en.eq(self.fetch.valid),
            store.r_addr.eq(Cat(self.fetch.beat, gone[:low])),
            marked.en.eq(self.fetch.valid),
            marked.addr.eq(store.r_addr),
            self.poison.eq(marked.data),
            *(lane.eq(own) for lane, own in zip(self.lanes, store.r_data, strict=True)),
            self.idle.eq(asked == gone),
        ]
        for count, moves in (
            (asked, asks),
            (there, comes),
            (handed, hands | drops),
            (gone, leaves | drops),
        ):
            with m.If(moves):
                m.d.sync += count.eq(count + 1)
        return m
