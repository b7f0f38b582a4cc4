# amaranth: UnusedElaboratable=no
"""Pages between controller and link: none lost, none doubled, all in order, whatever stalls."""

import pytest
from amaranth.hdl import Assert, Cover, Module, Mux, Signal
from amaranth.lib.wiring import In

from hw.hbm.dram.stacks import stack
from hw.hbm.page_reader import PageReader
from hw.presets import preset
from hw.sram.regions import GROUPS
from tests.formal.harness import Counterexample, Properties, before, prove
from tests.formal.order import in_order
from tests.formal.variants import variant

MACHINE, STACK = preset("formal"), stack("formal")
PAGES = 2
DEPTH = 20  # clocks: each place is used twice


class Staging(Properties):
    """Pages are granted, read and fetched at any time; a page is a bit, a beat is another.

    The controller brings four beats for each request, in order. A page that was handed over is
    fetched in the next four clocks, so the next one is handed over with its last fetch at the
    earliest.
    """

    def __init__(self, *edits: tuple[str, str]) -> None:
        self._dut = variant(PageReader, *edits)(MACHINE, STACK, pages=PAGES)
        names = ("grants", "page", "asks", "comes", "bit", "takes", "pick_page", "pick_beat")
        super().__init__({name: In(1) for name in names})

    def describe(self, m: Module) -> None:
        m.submodules.dut = dut = self._dut
        asked, hands = Signal(), Signal()
        m.d.comb += [
            dut.i.valid.eq(self.grants),
            dut.i.payload.grant.tag.eq(self.page),
            dut.request.ready.eq(self.asks),
            asked.eq(dut.request.valid & dut.request.ready),
            Assert(asked == (dut.i.valid & dut.i.ready), "a page is asked for as it is taken"),
            Assert(dut.beats.ready, "beats are always taken"),
        ]
        owed, beat = Signal(range(PAGES + 2)), Signal(range(GROUPS))
        m.d.comb += [
            dut.beats.valid.eq(self.comes & (owed != 0)),
            dut.beats.label.beat.eq(beat),
            dut.beats.label.last.eq(beat == GROUPS - 1),
            dut.beats.label.poison.eq(self.bit),
            dut.beats.lanes[0].eq(self.bit),
            Assert(owed <= PAGES, "no more than have a place"),
        ]
        ends = dut.beats.valid & dut.beats.label.last
        m.d.sync += [beat.eq(beat + dut.beats.valid), owed.eq(owed + asked - ends)]

        left = Signal(range(GROUPS + 1))  # fetches of the page that was handed over
        m.d.comb += [
            dut.at_hand.ready.eq(self.takes & (left <= 1)),
            hands.eq(dut.at_hand.valid & dut.at_hand.ready),
            dut.fetch.valid.eq(left != 0),
            dut.fetch.beat.eq(GROUPS - left),
        ]
        m.d.sync += left.eq(Mux(hands, GROUPS, Mux(left != 0, left - 1, 0)))
        fetched = before(m, dut.fetch.valid)
        waits = before(m, dut.at_hand.valid & ~dut.at_hand.ready)
        tag = before(m, dut.at_hand.payload.tag)
        m.d.comb += [
            Assert(~waits | (dut.at_hand.valid & (dut.at_hand.payload.tag == tag)), "offers stay"),
            Assert(~fetched | (dut.poison == dut.lanes[0][0]), "poison stays with its beat"),
            Cover(hands & (left == 1), "pages without a gap"),
        ]
        in_order(
            m,
            pick=self.pick_page,
            put=asked,
            sent=self.page,
            take=hands,
            received=dut.at_hand.payload.tag[0],
            limit=PAGES,
        )
        # A beat is inside until the clock behind its fetch, the first in which its place is free.
        in_order(
            m,
            pick=self.pick_beat,
            put=dut.beats.valid,
            sent=self.bit,
            take=fetched,
            received=dut.lanes[0][0],
            limit=PAGES * GROUPS,
        )


@pytest.mark.formal
def test_staging_keeps_every_beat() -> None:
    prove(Staging(), mode="bmc", depth=DEPTH)
    prove(Staging(), mode="cover", depth=DEPTH)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        ("!= pages)", "!= pages + 1)", "no_more_than_have_a_place|fit"),
        ("Cat(self.fetch.beat, gone[:low])", "Cat(self.fetch.beat, handed[:low])", "turn"),
        ("valid.eq((there != handed)", "valid.eq((asked != handed)", "nothing_out_of_nothing"),
        ("(gone, leaves | drops)", "(gone, hands | drops)", "turn|place|fit"),
    ],
    ids=["a page too many", "the next page", "a page that is not there", "a place too early"],
)
def test_planted_bugs_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Staging((old, new)), mode="bmc", depth=DEPTH)
