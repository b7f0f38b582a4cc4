# amaranth: UnusedElaboratable=no
"""Writeback: a range of the HBM is released once, and never before it is in the HBF."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.bits import line
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.stacks import stack
from hw.hbm.page_reader import PageReader
from hw.hbm.writeback import Writeback
from hw.params import Machine
from hw.presets import preset
from hw.ucie.transaction import Status
from tests.formal.harness import Counterexample, Properties, before, prove
from tests.formal.variants import variant

MACHINE, STACK = preset("formal"), stack("formal")
UNIT = 2  # pages of a complete wave, of the four that the stack holds
PAGE = 4  # accesses


class NoReader(wiring.Component):
    """In place of the pages, which end no command."""

    def __init__(self, machine: Machine, hbm: HbmStack, *, pages: int) -> None:
        super().__init__(dict(PageReader(machine, hbm, pages=pages).signature.members))

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += self.idle.eq(1)
        return m


class Releases(Properties):
    """Any commands, of which one is followed; any ends that the HBF base die may tell.

    The HBF base die ends what was sent to it, once each, with any status; before that it may tell
    pages that failed. Owner and tag of the command that is followed are 1, of all others 0.
    """

    def __init__(self, *edits: tuple[str, str]) -> None:
        block = variant(Writeback, *edits, PageReader=NoReader)
        self._dut = block(MACHINE, STACK, unit_pages=UNIT, pages=2)
        free = {"offers": 1, "follow": 1, "sends": 1, "tells": 1, "last": 1, "hears": 2}
        super().__init__(
            {name: In(width) for name, width in free.items()}
            | {"command": In(self._dut.command.payload.shape()), "status": In(4), "slot": In(1)}
        )

    def describe(self, m: Module) -> None:
        m.submodules.dut = dut = self._dut
        slots = MACHINE.credits.writes
        command, write, done = dut.command.payload, dut.write, dut.done
        seen, mine, takes = Signal(), Signal(), Signal()
        waits = before(m, dut.command.valid & ~dut.command.ready)
        same = before(m, command.as_value())
        m.d.comb += [
            dut.command.valid.eq(self.offers | waits),
            command.eq(self.command),
            command.owner.eq(mine),
            command.tag.eq(mine),
            mine.eq(self.follow & ~seen),
            Assume(~waits | (command.as_value() == same)),
            takes.eq(dut.command.valid & dut.command.ready & mine),
            write.ready.eq(self.sends),
            dut.released.ready.eq(self.hears[0]),
            dut.failed.ready.eq(self.hears[1]),
        ]
        followed = Signal(command.shape())
        with m.If(takes):
            m.d.sync += [seen.eq(1), followed.eq(command)]
        keeps_rule = (
            ((followed.source == 0) & ((followed.pages == 2) | (followed.pages == 4)))
            | ((followed.source == PAGE) & (followed.pages == 2))
            | ((followed.source == 2 * PAGE) & (followed.pages == 2))
        )

        # The HBF base die -------------------------------------------------------------------------
        there, slot, sent = Signal(slots), Signal(range(slots)), Signal()
        outcome, ended = Signal(4), Signal()
        leaves = write.valid & write.ready
        of_mine = write.payload.owner == 1
        m.d.comb += [
            done.valid.eq(self.tells),
            done.tag.eq(self.slot),
            done.last.eq(self.last),
            done.status.eq(self.status),
            Assume(~done.valid | there.bit_select(self.slot, 1)),
            Assert(~(line(leaves, write.payload.tag, slots) & there).any(), "slots are apart"),
            Assert(~leaves | ~of_mine | (seen & ~sent), "sent once"),
            Assert(~leaves | ~of_mine | keeps_rule, "complete waves only"),
            Assert(
                ~leaves
                | ~of_mine
                | (
                    (write.payload.first == followed.first)
                    & (write.payload.pages == followed.pages)
                ),
                "sent as asked",
            ),
        ]
        m.d.sync += there.eq(
            (there | line(leaves, write.payload.tag, slots))
            & ~line(done.valid & done.last, done.tag, slots)
        )
        with m.If(leaves & of_mine):
            m.d.sync += [slot.eq(write.payload.tag), sent.eq(1)]
        with m.If(done.valid & done.last & (done.tag == slot) & sent & ~ended):
            m.d.sync += [ended.eq(1), outcome.eq(done.status)]

        # The user ---------------------------------------------------------------------------------
        releases = dut.released.valid & (dut.released.payload.tag == 1)
        fails = dut.failed.valid & (dut.failed.payload.tag == 1)
        told = Signal()
        m.d.sync += told.eq(told | (releases & dut.released.ready) | (fails & dut.failed.ready))
        m.d.comb += [
            Assert(~releases | (ended & (outcome == Status.OK)), "released when it is written"),
            Assert(
                ~releases
                | (
                    (dut.released.payload.source == followed.source)
                    & (dut.released.payload.pages == followed.pages)
                ),
                "its own range",
            ),
            Assert(
                ~fails
                | (
                    (dut.failed.payload.status == Mux(ended, outcome, Status.BAD_ADDRESS))
                    & Mux(ended, outcome != Status.OK, seen & ~keeps_rule)
                ),
                "fails with its status",
            ),
            Assert(~(releases & fails) & ~(told & (releases | fails)), "one end"),
            Cover(releases & (followed.source == PAGE), "released"),
            Cover(fails & ended, "failed"),
            Cover(fails & ~ended, "refused"),
        ]


@pytest.mark.formal
def test_nothing_is_released_early() -> None:
    prove(Releases())
    prove(Releases(), mode="cover", depth=16)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        ("self.done.valid & self.done.last", "self.done.valid", "status|when_it_is_written"),
        ("Mux(self.done.status == Status.OK, ends, 0)) &", "ends) &", "released_when"),
        ("(good | Mux(", "(ended | good | Mux(", "released_when_it_is_written"),
        ("place.eq(~busy & (busy + 1))", "place.eq(~left & (left + 1))", "range|end|status|apart"),
        ("~command.pages[: exact_log2(self._unit_pages)].any()", "1", "complete_waves_only"),
        ("~command.source[:page_bits].any()", "1", "complete_waves_only"),
    ],
    ids=["at any COMPLETION", "whatever the status", "a refused command", "a slot used twice",
         "half a wave", "half a page"],
)  # fmt: skip
def test_planted_bugs_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Releases((old, new)))
