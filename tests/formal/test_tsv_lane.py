# amaranth: UnusedElaboratable=no
"""TSV lane of a die: each wanted beat of each page once and in order, at the lane's rate."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal, signed
from amaranth.lib.wiring import In

from hw.hbf.tsv_lane import TsvLane
from hw.presets import preset
from tests.formal.harness import Counterexample, Properties, before, constant, prove
from tests.formal.order import in_order
from tests.formal.variants import variant

MACHINE = preset("formal")
RATE_BITS = 2
ONE = 1 << RATE_BITS
WRITE_CLOCKS = 3


def small(*edits: tuple[str, str]) -> type:
    """With rates in quarters: a lane adds and compares, whatever number is one."""
    return variant(TsvLane, *edits, RATE_BITS=RATE_BITS, RATE_ONE=ONE)


def offered(m: Module, stream) -> None:
    """The stream rule: what is offered stays until it is taken. Pages have a first beat."""
    payload = stream.payload
    waits, page = before(m, stream.valid & ~stream.ready), before(m, payload.as_value())
    m.d.comb += [
        Assume(~waits | (stream.valid & (payload.as_value() == page))),
        Assume(payload.first_beat <= payload.last_beat),
    ]


class Lane(Properties):
    """Pages of both directions come as they like, and the consumer takes beats as it likes."""

    def __init__(self, lane: type | None = None) -> None:
        self._lane = (lane or small())(MACHINE, write_clocks=WRITE_CLOCKS)
        payload = self._lane.i.payload.shape()
        super().__init__({"valid": In(1), "page": In(payload), "take": In(1), "pick": In(1)})

    def describe(self, m: Module) -> None:
        m.submodules.lane = lane = self._lane
        rate, t_ccs = constant(m, "rate", RATE_BITS + 1), constant(m, "t_ccs", 2)
        take, accept, last = Signal(), Signal(), Signal()
        m.d.comb += [
            Assume(rate <= ONE),
            lane.rate.eq(rate),
            lane.t_ccs.eq(t_ccs),
            lane.i.valid.eq(self.valid),
            lane.i.payload.eq(self.page),
            lane.take.eq(take),
            take.eq(lane.valid & self.take),
            accept.eq(lane.i.valid & lane.i.ready),
            last.eq(take & lane.last),
        ]
        offered(m, lane.i)
        page = lane.page.as_value()
        in_order(
            m,
            pick=self.pick,
            put=accept,
            sent=self.page.as_value(),
            take=last,
            received=page,
            limit=1,
        )
        beat, of_page, begun = Signal(2), Signal.like(page), Signal()
        with m.If(take):
            m.d.sync += [beat.eq(lane.beat + 1), of_page.eq(page), begun.eq(~lane.last)]
        # How far the lane is from its last page: a later page must not come sooner.
        gap, wrote = Signal(range(WRITE_CLOCKS + 4)), Signal()
        with m.If(last):
            m.d.sync += [
                gap.eq(t_ccs + Mux(lane.page.write, WRITE_CLOCKS, 0)),
                wrote.eq(lane.page.write),
            ]
        with m.Elif(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        # Beats above the rate over the worst stretch, as in the proof of the pacer.
        excess, more = Signal(range(8 * ONE)), Signal(signed(RATE_BITS + 5))
        m.d.comb += [
            Assert(
                ~take | (lane.beat == Mux(begun, beat, lane.page.first_beat)), "beats rise by one"
            ),
            Assert(~take | (lane.last == (lane.beat == lane.page.last_beat)), "last is last"),
            Assert(~take | ~begun | (page == of_page), "beats of a page do not part"),
            Assert(
                ~lane.valid | begun | (gap == 0) | ((t_ccs == 0) & (lane.page.write | ~wrote)),
                "the gap between pages",
            ),
            more.eq(excess + Mux(take, ONE, 0) - rate),
            # One that waits in the register, one that is complete behind it.
            Assert(excess <= 2 * ONE, "at most two beats above the rate"),
            Cover(last & (rate == 1) & begun & (lane.page.first_beat != 0), "a part of a page"),
            Cover(last & wrote & ~lane.page.write, "a read after a write"),
        ]
        m.d.sync += excess.eq(Mux(more < 0, 0, more))


@pytest.mark.formal
def test_lane() -> None:
    prove(Lane())
    prove(Lane(), mode="cover", depth=30)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        ("room.eq(~self.valid | self.take)", "room.eq(1)", "beats_rise|last|part|fit"),
        ("begun.eq(~self.i.ready)", "begun.eq(1)", "beats_rise"),
        ("full & room & (beat == page.last_beat)", "full & (beat == page.last_beat)",
         "rise|fit|turn|part"),
        ("Mux(wrote, self._write_clocks, 0)", "0", "gap"),
        ("moved.eq(moved + self.rate - RATE_ONE)", "moved.eq(moved)", "above_the_rate"),
    ],
)  # fmt: skip
def test_broken_lanes_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Lane(small((old, new))))
