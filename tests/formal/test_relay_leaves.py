# amaranth: UnusedElaboratable=no
"""Both relay regions occupied: that state ends in time, whatever comes over link C meanwhile."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.hbm.relay import RelayBuffer
from hw.hbm.relay_chunks import RelayChunks
from hw.hbm.relay_control import RelayControl
from hw.hbm.relay_regions import RelayRegions
from hw.params import Machine
from hw.presets import preset
from hw.sram.regions import GROUPS
from hw.ucie.pacer import FramePacer
from hw.ucie.transaction import MessageClass
from tests.formal.harness import Counterexample, Properties, prove
from tests.formal.variants import variant

MACHINE = preset("formal")
PAGES = MACHINE.relay_chunk_pages
CREDIT_CLOCKS = 2  # until link B gives back a credit, one after the other
# A frame and the credits of its beats for each page of a chunk; the first frame is waited for, and
# a region is free behind its last read.
CLOCKS = PAGES * (GROUPS + GROUPS * CREDIT_CLOCKS) + GROUPS + 2
DEPTH = 50  # clocks of a run: both regions fill, stay full as long as they may, and fill again


class NoStorage(wiring.Component):
    """In place of the regions, which move nothing else."""

    fill_clocks, read_clocks = 0, 2

    def __init__(self, machine: Machine) -> None:
        super().__init__(RelayRegions(machine).signature)

    def elaborate(self, platform) -> Module:
        return Module()


def buffer(*edits: tuple[str, str]) -> type:
    """With rates of a half and of one, and without data; ``edits`` are of the control."""
    control = variant(
        RelayControl,
        *edits,
        FramePacer=variant(FramePacer, RATE_BITS=1, RATE_ONE=2),
        RelayChunks=variant(RelayChunks, RATE_BITS=1),
        RATE_BITS=1,
    )
    return variant(RelayBuffer, RelayRegions=NoStorage, RelayControl=control, RATE_BITS=1)


class Leaves(Properties):
    """Chunks come as :class:`RelayAdmission` is proved to send them, and whenever they like.

    A chunk opens under a credit and ends with a page or behind one, with its last at the latest; a
    page has one to four beats; cut-through changes at any time. Link B takes what is forwarded and
    gives a credit back
    ``CREDIT_CLOCKS`` clocks after one is owed, or earlier.
    """

    def __init__(self, *, relay: type | None = None, clocks: int = CLOCKS) -> None:
        self._relay, self._clocks = (relay or buffer())(MACHINE), clocks
        inputs = ("beat", "page_end", "chunk_end", "credit", "cut_through")
        super().__init__({name: In(1) for name in inputs})

    def describe(self, m: Module) -> None:
        m.submodules.relay = relay = self._relay
        c, b = relay.c_data, relay.b_data
        held = Signal(range(3), init=2)  # credits, regions that a chunk may open
        pages, beats = Signal(range(PAGES)), Signal(range(GROUPS))  # of the open chunk, of a page
        is_open, opens, ends, closes = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            relay.rate.eq(2),  # one
            relay.cut_through.eq(self.cut_through),
            opens.eq(self.beat & ~is_open),
            ends.eq(self.beat & (self.page_end | (beats == GROUPS - 1))),
            closes.eq(
                (ends & (self.chunk_end | (pages == PAGES - 1)))
                | (~self.beat & self.chunk_end & is_open & (beats == 0))
            ),
            Assume(~opens | (held != 0)),
            c.valid.eq(self.beat | closes),
            c.header.message_class.eq(
                Mux(self.beat, MessageClass.RELAY_DATA, MessageClass.COMPLETION)
            ),
            c.header.page_end.eq(ends),
            c.header.chunk_end.eq(closes),
        ]
        m.d.sync += [
            held.eq(held - opens + c.credit),
            is_open.eq((is_open | opens) & ~closes),
            pages.eq(Mux(closes, 0, pages + ends)),
            beats.eq(Mux(ends, 0, beats + self.beat)),
        ]
        owed = Signal(range(MACHINE.credits.rx_beats + 1))
        waits = Signal(range(CREDIT_CLOCKS))
        m.d.comb += [
            b.credit.eq(self.credit & (owed != 0)),
            Assume((owed == 0) | self.credit | (waits != CREDIT_CLOCKS - 1)),
        ]
        m.d.sync += owed.eq(owed + b.valid - b.credit)
        with m.If(b.credit | (owed == 0)):
            m.d.sync += waits.eq(0)
        with m.Else():
            m.d.sync += waits.eq(waits + 1)
        both = Signal(range(self._clocks + 2))
        with m.If(relay.occupied != 0b11):
            m.d.sync += both.eq(0)
        with m.Elif(both <= self._clocks):
            m.d.sync += both.eq(both + 1)
        m.d.comb += [
            Assert(both <= self._clocks, "both regions occupied leaves in time"),
            Cover((both != 0) & (relay.occupied != 0b11), "leaves"),
            Cover((held == 0) & ~is_open & (both > GROUPS), "both full"),
        ]


@pytest.mark.formal
def test_both_regions_occupied_leaves_in_time() -> None:
    prove(Leaves(), mode="bmc", depth=DEPTH)
    prove(Leaves(), mode="cover", depth=30)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Forwards only while nothing comes over link C, which may never be.
        ("(free >= GROUPS)", "(free >= GROUPS) & ~self.i.valid"),
        # A credit of link B that comes with a beat of link C is lost.
        ("credits.give.eq(self.b_credit)", "credits.give.eq(self.b_credit & ~self.i.valid)"),
        ("with m.Elif(frees[r]):", "with m.Elif(frees[r] & ~self.i.beat):"),
    ],
    ids=["waits for link C", "loses a credit", "stays full"],
)
def test_a_buffer_that_stays_full_is_found(old: str, new: str) -> None:
    with pytest.raises(Counterexample, match="leaves_in_time"):
        prove(Leaves(relay=buffer((old, new))), mode="bmc", depth=DEPTH)
