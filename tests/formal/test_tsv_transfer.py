# amaranth: UnusedElaboratable=no
"""Traffic of the TSVs: bank groups do one thing a clock, and every beat gets to its place once."""

from functools import reduce

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Module, Signal
from amaranth.lib.wiring import In

from hw.hbf.page_walk import log2
from hw.hbf.tsv_transfer import PROGRAM_CLOCKS, READOUT_CLOCKS, TsvTransfer
from hw.presets import preset
from hw.sram.regions import FILL_CLOCKS, GROUPS, READ_CLOCKS
from tests.formal.harness import Counterexample, Properties, anything, before, constant, prove
from tests.formal.order import in_order
from tests.formal.test_tsv_lane import ONE, RATE_BITS, offered
from tests.formal.test_tsv_lane import small as small_lane
from tests.formal.variants import variant

MACHINE = preset("formal")
LINKS = 2


def small(*edits: tuple[str, str]) -> type:
    """With rates in quarters and little patience; the lanes in ``lanes`` once elaborated."""
    seen = (
        "        # Groups that a link",
        "        self.lanes = lanes\n        # Groups that a link",
    )
    return variant(
        TsvTransfer,
        seen,
        *edits,
        RATE_BITS=RATE_BITS,
        PATIENCE_CLOCKS=3,
        TsvLane=small_lane(),
    )


def clocks_ago(m: Module, value, clocks: int) -> Signal:
    """``value`` of some clocks before."""
    return reduce(lambda late, _: before(m, late), range(clocks), value)


class Transfer(Properties):
    """Pages come to all lanes and write data to all links as they like; one die is watched, any.

    A beat counts when it leaves its lane, which is proved to hand on every beat of a page once.
    """

    def __init__(self, transfer: type | None = None) -> None:
        self._transfer = (transfer or small())(MACHINE, links=LINKS)
        dies = MACHINE.geometry.dies
        payload = self._transfer.i[0].payload.shape()
        super().__init__(
            {
                "valid": In(dies),
                **{f"page{d}": In(payload) for d in range(dies)},
                "pick": In(1),
            }
        )

    def describe(self, m: Module) -> None:
        tsv = self._transfer
        m.submodules.tsv = tsv.elaborate("formal")
        dies = MACHINE.geometry.dies
        at_die = constant(m, "at_die", range(dies))
        rate, t_ccs = constant(m, "rate", RATE_BITS + 1), constant(m, "t_ccs", 1)
        now = Signal(2)
        m.d.sync += now.eq(now + 1)
        m.d.comb += [
            Assume(rate <= ONE),
            tsv.rate.eq(rate),
            tsv.t_ccs.eq(t_ccs),
            tsv.now.eq(now),
        ]
        for d in range(dies):
            m.d.comb += [
                tsv.i[d].valid.eq(self.valid[d]),
                tsv.i[d].payload.eq(getattr(self, f"page{d}")),
            ]
            offered(m, tsv.i[d])
        for want in tsv.want:
            anything(m, want)
        self._banks(m, tsv, now)
        self._beats(m, tsv, at_die)

    def _banks(self, m: Module, tsv: TsvTransfer, now: Signal) -> None:
        """What the bank groups are asked to do, of lanes and links."""
        program = tsv.program
        m.d.comb += [
            Assert(~program.en | (program.group == now), "program reads in their clock"),
            Cover(program.en & before(m, before(m, tsv.of_link[0].any())), "program and link"),
        ]
        for g in range(GROUPS):
            write, links = tsv.write[g], tsv.of_link[g]
            of_lane = before(m, tsv.readout[g].valid)
            pending = clocks_ago(m, write.en, FILL_CLOCKS)  # is written in this clock
            m.d.comb += [
                Assert(~write.en | (((now - g) & 1) == 0), f"group {g} filled in its clocks"),
                Assert(write.en == (of_lane | links.any()), f"group {g} filled by someone"),
                Assert(~(of_lane & links.any()), f"group {g} filled by a lane or a link"),
                Assert((links & (links - 1)[:LINKS]) == 0, f"group {g} filled by one link"),
                Assert(
                    ~(pending & program.en & (program.group == g)),
                    f"group {g} is not filled and read at once",
                ),
            ]
            for k, want in enumerate(tsv.want):
                m.d.comb += [
                    Assert(
                        links[k] == (tsv.take[k] & (want.group == g)),
                        f"group {g} takes what link {k} gives",
                    ),
                    Assert(
                        ~links[k] | ((write.region == want.region) & (write.row == want.row)),
                        f"group {g} puts it where link {k} wants",
                    ),
                ]
        for k, want in enumerate(tsv.want):
            m.d.comb += Assert(~tsv.take[k] | want.valid, f"link {k} gives what it has")

    def _beats(self, m: Module, tsv: TsvTransfer, at_die: Signal) -> None:
        """What leaves the lane of the watched die arrives once, some clocks later."""
        dies = MACHINE.geometry.dies

        def of_die(values):
            chosen = Signal(len(values[0]))
            m.d.comb += chosen.eq(Array(values)[at_die])
            return chosen

        take = of_die([lane.take & lane.valid for lane in tsv.lanes])
        write = of_die([lane.page.write for lane in tsv.lanes])
        beat, last = (of_die([getattr(lane, n) for lane in tsv.lanes]) for n in ("beat", "last"))
        slot_type = tsv.sent.slot.shape()
        slot = Signal(slot_type)
        m.d.comb += slot.as_value().eq(of_die([lane.page.slot.as_value() for lane in tsv.lanes]))
        row = (slot.subarray << log2(dies)) | at_die
        read_out, written = Signal(), Signal()
        m.d.comb += [read_out.eq(take & ~write), written.eq(take & write)]
        takes_valid = of_die([~lane.take | lane.valid for lane in tsv.lanes])

        one_ago, two_ago = before(m, read_out), clocks_ago(m, read_out, READOUT_CLOCKS)
        reads = Cat(r.valid & (r.die == at_die) for r in tsv.readout)
        beat_ago, last_ago, subarray_ago = (before(m, v) for v in (beat, last, slot.subarray))
        row_ago, region_ago = (clocks_ago(m, v, READOUT_CLOCKS) for v in (row, slot.region))
        group_ago = before(m, (beat_ago + at_die)[:2])
        m.d.comb += [
            Assert(takes_valid, "takes a beat that is there"),
            Assert(reads.any() == one_ago, "each beat is read out"),
            Assert((reads & (reads - 1)[:GROUPS]) == 0, "read out once"),
        ]
        for g, readout in enumerate(tsv.readout):
            right = (readout.beat == beat_ago) & (readout.last == last_ago)
            m.d.comb += [
                Assert(
                    ~reads[g]
                    | (right & (readout.subarray == subarray_ago) & ((beat_ago + at_die)[:2] == g)),
                    f"group {g} reads out that beat",
                ),
                Assert(
                    ~(two_ago & (group_ago == g))
                    | (
                        tsv.write[g].en
                        & (tsv.write[g].row == row_ago)
                        & (tsv.write[g].region == region_ago)
                    ),
                    f"group {g} writes it to its slot",
                ),
            ]

        program_ago = clocks_ago(m, written, PROGRAM_CLOCKS)
        program_group = clocks_ago(m, (beat + at_die)[:2], PROGRAM_CLOCKS)
        program_row = clocks_ago(m, row, PROGRAM_CLOCKS)
        program_region = clocks_ago(m, slot.region, PROGRAM_CLOCKS)
        program = tsv.program
        sent = tsv.sent.valid & (tsv.sent.die == at_die)
        m.d.comb += [
            Assert(
                ~program_ago
                | (
                    program.en
                    & (program.group == program_group)
                    & (program.row == program_row)
                    & (program.region == program_region)
                ),
                "each beat to write is read from its slot",
            ),
            Assert(
                ~program.en | program_ago | (program.row[: log2(dies)] != at_die),
                "and no other",
            ),
            Assert(sent == clocks_ago(m, program_ago, READ_CLOCKS), "sent once"),
            Cover(sent & tsv.sent.last, "a page is written"),
        ]
        transferred = of_die([event.valid for event in tsv.transferred])
        left_slot = of_die([event.slot.as_value() for event in tsv.transferred])
        filled = of_die([event.valid for event in tsv.filled])
        filled_slot = of_die([event.page.slot.as_value() for event in tsv.filled])
        late = READOUT_CLOCKS + FILL_CLOCKS
        m.d.comb += [
            Assert(transferred == (read_out & last), "left with the last beat"),
            Assert(filled == clocks_ago(m, transferred, late), "filled with the last beat"),
            Assert(~filled | (filled_slot == clocks_ago(m, left_slot, late)), "the slot that left"),
        ]
        accept = of_die([i.valid & i.ready & ~i.payload.write for i in tsv.i])
        in_order(
            m,
            pick=self.pick,
            put=accept,
            sent=of_die([i.payload.slot.as_value() for i in tsv.i]),
            take=transferred,
            received=left_slot,
            limit=1,
        )


@pytest.mark.formal
def test_transfer() -> None:
    prove(Transfer())
    prove(Transfer(), mode="cover", depth=30)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        ("may = ~clock[0] &", "may =", "filled_in_its_clocks"),
        ("(program.valid & (program.group == g))", "0", "filled_and_read_at_once"),
        ("taken = group.arrives |", "taken =", "lane_or_a_link"),
        ("can[k] & ~Cat(others).any()", "can[k]", "by_one_link"),
        ("~(lane.page.write & clock[1])", "1", "each_beat_to_write|sent"),
        ("lane.beat == (g - d) % GROUPS", "lane.beat == g", "read_out|reads_out"),
        ("region.eq(slot.region)", "region.eq(0)", "writes_it_to_its_slot"),
    ],
)
def test_broken_transfers_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Transfer(small((old, new))), mode="bmc", depth=16)
