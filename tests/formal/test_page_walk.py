# amaranth: UnusedElaboratable=no
"""Every page of every descriptor is presented once by the die that owns it."""

import pytest
from amaranth.hdl import Assert, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import descriptor_layout
from hw.hbf.page_walk import PageWalk, rest_layout
from hw.hbf.pending import PendingPages
from hw.params import Machine
from hw.presets import preset
from tests.formal.harness import Counterexample, Properties, constant, prove
from tests.formal.order import in_order
from tests.formal.pages import FOLLOWED, FollowedPage
from tests.formal.variants import variant

MACHINE = preset("formal")


class NoQueue(wiring.Component):
    """In place of the queue of descriptors: each waits at the port until it is taken.

    That queue is a FIFO of Amaranth, and :mod:`tests.formal.test_credits` proves one of the same
    class to hand on what it gets. Without it the walk itself is proved for all descriptors.
    """

    def __init__(self, *, width: int, depth: int) -> None:
        super().__init__(
            {
                "w_data": In(width),
                "w_en": In(1),
                "w_rdy": Out(1),
                "r_data": Out(width),
                "r_rdy": Out(1),
                "r_en": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += [
            self.r_data.eq(self.w_data),
            self.r_rdy.eq(self.w_en),
            self.w_rdy.eq(self.r_en),
        ]
        return m


def walk_alone(*edits: tuple[str, str]) -> type:
    """The walk without its queue, its registers in ``seen`` once it is elaborated."""
    seen = (
        "active = Signal()",
        "active = Signal()\n        self.seen = local, end, first, rest.tag",
    )
    return variant(PageWalk, seen, *edits, SyncFIFOBuffered=NoQueue)


class AnyWalk(wiring.Component):
    """In place of a walk: each descriptor is one page, anywhere, in any order."""

    def __init__(
        self, machine: Machine, *, die: int, depth: int, descriptor: data.StructLayout
    ) -> None:
        walk = PageWalk(machine, die=die, depth=depth, descriptor=descriptor)
        ports, self._rest = walk.signature.members, rest_layout(descriptor)
        super().__init__({"i": ports["i"], "o": ports["o"]})

    def elaborate(self, platform) -> Module:
        m = Module()
        page = self.o.payload
        m.d.comb += [
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
            Cat(page.subarray, page.row).eq(self.i.payload.first),
            page.page.eq(self.i.payload.pages),
            *(page.rest[name].eq(self.i.payload[name]) for name, _ in self._rest),
        ]
        return m


def inputs(machine: Machine) -> dict:
    """A descriptor offered in each clock, with any tag."""
    pages = range(machine.geometry.stack_pages + 1)
    return {
        "valid": In(1),
        "tag": In(2),
        "start": In(range(machine.geometry.stack_pages)),
        "count": In(pages),
    }


def follow(m: Module, component, machine: Machine, *, die: int, stream) -> FollowedPage:
    """Connects the offered descriptors to ``stream`` and follows a page."""
    m.d.comb += [
        stream.valid.eq(component.valid),
        stream.payload.first.eq(component.start),
        stream.payload.pages.eq(component.count),
        stream.payload.tag.eq(component.tag),
    ]
    followed = FollowedPage(m, machine, die=die)
    followed.accepts(m, stream.valid & stream.ready, stream.payload)
    return followed


def quiet_for(m: Module, clocks: int, busy) -> Signal:
    """High once ``busy`` has been low for ``clocks`` clocks."""
    count = Signal(range(clocks + 1))
    m.d.sync += count.eq(Mux(busy, 0, Mux(count == clocks, clocks, count + 1)))
    return count == clocks


class Walk(Properties):
    """Descriptors come and pages are taken at any time.

    What is stated of the registers only helps the proof; it is left out when a bug is planted.
    """

    def __init__(self, *, die: int, machine: Machine = MACHINE, walk: type | None = None) -> None:
        self._machine, self._die, self._lemmas = machine, die, walk is None
        self._walk = (walk or walk_alone())(
            machine, die=die, depth=1, descriptor=descriptor_layout(machine)
        )
        super().__init__({**inputs(machine), "take": In(1)})

    def describe(self, m: Module) -> None:
        walk = self._walk
        m.submodules.walk = walk.elaborate(None)
        local, end, first, tag = walk.seen
        followed = follow(m, self, self._machine, die=self._die, stream=walk.i)
        page = walk.o.payload
        m.d.comb += walk.o.ready.eq(self.take)
        transfer = walk.o.valid & walk.o.ready
        followed.presents(
            m, transfer, tag=page.rest.tag, page=page.page, subarray=page.subarray, row=page.row
        )
        if self._lemmas:
            followed.walks(m, local=local, end=end, first=first, tag=tag)
        # A walk that presents nothing passes a descriptor in two clocks at most.
        busy = walk.o.valid | (walk.i.valid & walk.i.ready)
        followed.finished(m, quiet_for(m, 4, busy))
        last, any_before = Signal.like(page.page), Signal()
        with m.If(transfer & (page.rest.tag == FOLLOWED)):
            m.d.sync += [last.eq(page.page), any_before.eq(1)]
            m.d.comb += Assert(
                ~any_before | (page.page == last + self._machine.geometry.dies), "rising order"
            )
        offered, payload = Signal(), Signal.like(page.as_value())
        m.d.sync += [offered.eq(walk.o.valid & ~walk.o.ready), payload.eq(page.as_value())]
        m.d.comb += Assert(
            ~offered | (walk.o.valid & (page.as_value() == payload)), "what is offered stays"
        )


class Pending(Properties):
    """Pages come and waiting ones are taken at any time; one subarray is watched, any of them."""

    def __init__(self, *, machine: Machine = MACHINE, pending: type | None = None) -> None:
        self._machine = machine
        pending = pending or variant(PendingPages, PageWalk=AnyWalk)
        self._pending = pending(machine, die=0, depth=1, descriptor=descriptor_layout(machine))
        subarrays = range(machine.geometry.subarrays_per_die)
        super().__init__(
            {**inputs(machine), "take": In(1), "subarray": In(subarrays), "pick": In(1)}
        )

    def describe(self, m: Module) -> None:
        m.submodules.pending = pending = self._pending
        subarrays = self._machine.geometry.subarrays_per_die
        at = constant(m, "at", range(subarrays))
        take, put, row = Signal(), Signal(), Signal.like(pending.row)
        payload = pending.i.payload
        m.d.comb += [
            pending.i.valid.eq(self.valid),
            payload.first.eq(self.start),
            payload.pages.eq(self.count),
            payload.tag.eq(self.tag),
            pending.subarray.eq(self.subarray),
            take.eq(self.take & pending.waiting.bit_select(self.subarray, 1)),
            pending.take.eq(take),
            put.eq(pending.i.valid & pending.i.ready & (payload.first % subarrays == at)),
            row.eq(payload.first // subarrays),
        ]
        inside = in_order(
            m,
            pick=self.pick,
            put=put,
            sent=Cat(row, payload.tag[:2], payload.pages[:5]),
            take=take & (self.subarray == at),
            received=Cat(pending.row, pending.rest.tag[:2], pending.page[:5]),
            limit=1,
        )
        m.d.comb += [
            Assert(pending.waiting.bit_select(at, 1) == (inside != 0), "waits exactly if inside"),
            Assert(
                ~pending.i.valid | pending.i.ready | pending.waiting.any(), "an empty row accepts"
            ),
            Cover(pending.waiting.all() & take, "taken from a full row"),
        ]


@pytest.mark.formal
@pytest.mark.parametrize("die", [0, 1])
def test_page_walk(die: int) -> None:
    prove(Walk(die=die), label=f"of die {die}")
    prove(Walk(die=die), mode="cover", depth=30, label=f"of die {die}")


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        ("local.eq((head.first + round_up) >> die_bits)", "local.eq(head.first >> die_bits)",
         "asked|own|past"),
        ("head.first + head.pages + round_up", "head.first + head.pages", "lost|past"),
        ("local.eq(local + 1)", "local.eq(local + 2)", "lost|rising"),
    ],
)  # fmt: skip
def test_broken_walks_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Walk(die=0, walk=walk_alone((old, new))))


@pytest.mark.formal
def test_pending_pages() -> None:
    prove(Pending())
    prove(Pending(), mode="cover", depth=30)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        ("~self.waiting.bit_select(page.subarray, 1)", "1", "fit|turn"),
        ("(self.waiting & ~taken) | stored", "self.waiting | stored", "nothing|waits"),
    ],
)
def test_broken_pending_pages_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Pending(pending=variant(PendingPages, (old, new), PageWalk=AnyWalk)))
