# amaranth: UnusedElaboratable=no
"""Relay admission: pages only into granted regions, and no region is lost."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Mux, Signal
from amaranth.lib.wiring import In

from hw.hbf.relay_admission import RelayAdmission
from tests.formal.harness import Counterexample, Properties, prove
from tests.formal.variants import variant

CHUNK_PAGES, REGIONS, IDLE_CLOCKS, MAX_PAGES = 2, 2, 8, 3


class Relay(Properties):
    """The die sends when it may; the relay buffer frees a full region whenever it likes.

    The buffer is its contract: a chunk opens an empty region and fills it until ``chunk_end`` or
    ``close``, and only full regions are freed. A link that is lost cuts the chunk, whose region is
    full from then on; it frees none as long as it is lost.
    """

    def __init__(self, *, chunk_pages: int = CHUNK_PAGES, admission: type = RelayAdmission) -> None:
        self._chunk_pages = chunk_pages
        self._admission = admission(
            chunk_pages=chunk_pages,
            regions=REGIONS,
            max_pages=MAX_PAGES,
            idle_clocks=IDLE_CLOCKS,
        )
        super().__init__(
            {
                "requested": In(range(MAX_PAGES + 1)),
                "waiting": In(1),
                "send": In(1),
                "free": In(1),
                "lost": In(1),
            }
        )

    def describe(self, m) -> None:
        m.submodules.admission = admission = self._admission
        wanted = Signal(4)  # pages accepted and not yet sent
        empty, full = Signal(range(REGIONS + 2), init=REGIONS), Signal(range(REGIONS + 2))
        pages = Signal(range(self._chunk_pages + 2))  # in the open chunk
        sent, closes, cuts = Signal(), Signal(), Signal()
        m.d.comb += [
            Assume(~self.waiting | (wanted != 0)),
            Assume(wanted + self.requested <= 9),
            Assume(~self.free | ((full != 0) & ~self.lost)),
            sent.eq(self.waiting & self.send & (admission.admit | self.lost)),
            cuts.eq(self.lost & (pages != 0)),
            closes.eq((~self.lost & sent & admission.chunk_end) | admission.close | cuts),
            admission.lost.eq(self.lost),
            admission.requested.eq(self.requested),
            admission.waiting.eq(self.waiting),
            admission.sent.eq(sent),
            admission.grant.eq(self.free),
        ]
        opens = sent & (pages == 0) & ~self.lost
        m.d.sync += [
            wanted.eq(wanted + self.requested - sent),
            empty.eq(empty + self.free - opens),
            full.eq(full - self.free + closes),
            pages.eq(Mux(closes | self.lost, 0, pages + sent)),
        ]
        m.d.comb += [
            Assert(~opens | (empty != 0), "a chunk opens only a granted region"),
            Assert(empty + full + (pages != 0) == REGIONS, "regions are conserved"),
            Assert(admission.regions == empty, "credits are the empty regions"),
            Assert(admission.admit == ((pages != 0) | (empty != 0)), "admits whenever it may"),
            Assert(pages < self._chunk_pages, "no chunk overflows"),
            Assert(~admission.close | (pages != 0), "closes only an open chunk"),
            Assert(~admission.close | ~sent, "close comes alone"),
            Assert((wanted != 0) | (pages == 0) | sent, "no chunk stays open after the last page"),
            Assert(~(admission.close & self.lost), "nothing closes while the link is lost"),
            Cover(cuts, "a chunk is cut"),
            Cover(self.lost & sent & (empty == 0), "dropped without credit"),
            Cover(admission.close, "closed by idleness"),
            Cover((full == REGIONS) & (empty == 0), "all full"),
            Cover(sent & admission.chunk_end & (pages == self._chunk_pages - 1), "a full chunk"),
            Cover(opens & self.free, "one opens as another is freed"),
        ]


@pytest.mark.formal
@pytest.mark.parametrize("chunk_pages", [2, 3, 4])
def test_relay_admission(chunk_pages: int) -> None:
    label = f"of {chunk_pages} pages"
    prove(Relay(chunk_pages=chunk_pages), label=label)
    prove(Relay(chunk_pages=chunk_pages), mode="cover", depth=30, label=label)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        ("(filled != 0) | (self.regions != 0)", "1", "admits_whenever_it_may"),
        ("self.regions + self.grant - opens", "self.regions - opens | self.grant", "empty_regions"),
        ("(filled == self._chunk_pages - 1) | ", "", "no_chunk_overflows"),
        # Pages that are dropped take credit.
        ("opens.eq(self.sent & (filled == 0) & ~self.lost)",
         "opens.eq(self.sent & (filled == 0))", "empty_regions"),
        # The chunk goes on when the link is up again.
        ("with m.If(self.lost):\n            m.d.sync += filled.eq(0)",
         "with m.If(self.lost):\n            m.d.sync += filled.eq(filled)",
         "empty_regions|granted|whenever"),
        ("~self.waiting & ~self.lost", "~self.waiting", "nothing_closes"),
    ],
)  # fmt: skip
def test_broken_admissions_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Relay(chunk_pages=3, admission=variant(RelayAdmission, (old, new))))
