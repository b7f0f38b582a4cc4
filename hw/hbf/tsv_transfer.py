# amaranth: UnusedElaboratable=no
"""Traffic between the TSV lanes, the links' write data and the transfer regions."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.arbiter import RoundRobin, select
from hw.hbf.layouts import ReadoutPort, page_layout, slot_event, slot_layout
from hw.hbf.page_walk import log2
from hw.hbf.tsv_lane import TsvLane
from hw.hbf.write_ingress import want_layout
from hw.params import NAND_TIME_BITS, Machine
from hw.shared import shared
from hw.sram.regions import FILL_CLOCKS, GROUPS, READ_CLOCKS
from hw.ucie.pacer import RATE_BITS

READOUT_CLOCKS = 2  # from the choice of a beat to its arrival at the transfer regions
PROGRAM_CLOCKS = READOUT_CLOCKS + FILL_CLOCKS  # from a choice to the read: that of a fill's write
PATIENCE_CLOCKS = 16  # of write data from a link, before lanes leave it a slot


class TsvTransfer(wiring.Component):
    """Lanes of all dies, and write data of the links, on the fill clocks of four bank groups.

    Promise: beat ``b`` of a page of die ``d`` goes to group ``(b + d) mod 4``, so that dies in step
    reach all groups at once. Each group takes one waiting beat in each of its fill clocks, lanes in
    turn; a beat that was read from the NAND reaches the regions ``READOUT_CLOCKS`` later. A beat
    on its way to the NAND is read from the regions in the clock ``now == group`` only, one a clock
    in all, and leaves as ``program``. Write data of a link takes a fill clock that no lane uses;
    one that has waited for ``PATIENCE_CLOCKS`` keeps the lanes out of its group.

    ``transferred`` (per die) tells that a page that was read has left the cache register,
    ``filled`` that its last beat can be read from the regions, ``sent`` that the last beat of a
    write has left the regions ``READ_CLOCKS`` ago.

    Throughput: two beats a clock. ``rate`` is that of one lane, in 1/65536 beat a clock.
    """

    def __init__(self, machine: Machine, *, links: int) -> None:
        self._machine, self._link_count = machine, links
        g = machine.geometry
        page = page_layout(machine)
        row = range(g.wave_pages)
        write = wiring.Signature({"en": Out(1), "region": Out(1), "row": Out(row)})
        program = wiring.Signature(
            {"en": Out(1), "group": Out(2), "region": Out(1), "row": Out(row)}
        )
        sent = data.StructLayout(
            {"valid": 1, "die": range(g.dies), "slot": slot_layout(machine), "beat": 2, "last": 1}
        )
        super().__init__(
            {
                "now": In(2),
                "rate": In(RATE_BITS + 1),
                "t_ccs": In(NAND_TIME_BITS["t_ccs"]),
                "i": In(stream.Signature(page)).array(g.dies),
                "readout": Out(ReadoutPort(machine)).array(GROUPS),
                "want": In(want_layout(machine)).array(links),
                "take": Out(1).array(links),
                "write": Out(write).array(GROUPS),
                "of_link": Out(links).array(GROUPS),
                "program": Out(program),
                "sent": Out(sent),
                "transferred": Out(slot_event(machine)).array(g.dies),
                "filled": Out(data.StructLayout({"valid": 1, "page": page})).array(g.dies),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        dies = machine.geometry.dies
        lanes = []
        for d in range(dies):
            lane = TsvLane(machine, write_clocks=PROGRAM_CLOCKS + READ_CLOCKS - 1)
            m.submodules[f"lane{d}"] = shared("tsv_lane", lane)
            wiring.connect(m, wiring.flipped(self.i[d]), lane.i)
            m.d.comb += [lane.rate.eq(self.rate), lane.t_ccs.eq(self.t_ccs)]
            lanes.append(lane)

        # Groups that a link has wanted for too long.
        keep_out = [Signal(name=f"keep_out{g}") for g in range(GROUPS)]
        groups = [self._group(m, g, lanes, keep_out[g]) for g in range(GROUPS)]
        grants = [group.grant for group in groups]
        program = self._program(m, groups)
        self._links(m, groups, program, keep_out)

        for d, lane in enumerate(lanes):
            m.d.comb += lane.take.eq(grants[0][d] | grants[1][d] | grants[2][d] | grants[3][d])
            last = Signal(name=f"last{d}")
            m.d.comb += [
                last.eq(lane.take & lane.last & ~lane.page.write),
                self.transferred[d].valid.eq(last),
                self.transferred[d].slot.eq(lane.page.slot),
            ]
            page, valid = lane.page, last
            for stage in range(READOUT_CLOCKS + FILL_CLOCKS):
                next_page, next_valid = Signal.like(page), Signal(name=f"filled{d}_{stage}")
                m.d.sync += next_valid.eq(valid)
                with m.If(valid):
                    m.d.sync += next_page.eq(page)
                page, valid = next_page, next_valid
            m.d.comb += [self.filled[d].valid.eq(valid), self.filled[d].page.eq(page)]
        return m

    def _group(self, m: Module, g: int, lanes: list[TsvLane], keep_out: Signal) -> "_Group":
        """Lanes in turn on the fill clocks of one group; what was read goes to the regions."""
        machine = self._machine
        dies = machine.geometry.dies
        m.submodules[f"arbiter{g}"] = arbiter = RoundRobin(width=dies)
        clock = Signal(2, name=f"clock{g}")
        m.d.comb += [clock.eq(self.now - g), arbiter.take.eq(1)]
        for d, lane in enumerate(lanes):
            wants = lane.valid & (lane.beat == (g - d) % GROUPS)
            may = ~clock[0] & ~(lane.page.write & clock[1]) & ~keep_out
            m.d.comb += arbiter.request[d].eq(wants & may)

        die, reads = Signal(range(dies), name=f"die{g}"), Signal(name=f"reads{g}")
        last, beat = Signal(name=f"last_of{g}"), Signal(2, name=f"beat{g}")
        slot = Signal(slot_layout(machine), name=f"slot{g}")
        m.d.comb += [
            die.eq(select(arbiter.grant, range(dies))),
            slot.eq(select(arbiter.grant, [lane.page.slot.as_value() for lane in lanes])),
            beat.eq(g - die),
            last.eq((arbiter.grant & Cat(lane.last for lane in lanes)).any()),
            reads.eq((arbiter.grant & ~Cat(lane.page.write for lane in lanes)).any()),
        ]
        readout, write = self.readout[g], self.write[g]
        m.d.sync += readout.valid.eq(reads)
        with m.If(reads):
            m.d.sync += [
                readout.die.eq(die),
                readout.subarray.eq(slot.subarray),
                readout.beat.eq(beat),
                readout.last.eq(last),
            ]
        region, arrives = Signal(name=f"region{g}"), Signal(name=f"arrives{g}")
        row = Signal(range(machine.geometry.wave_pages), name=f"row{g}")
        m.d.sync += [
            region.eq(slot.region),
            arrives.eq(readout.valid),
            row.eq((readout.subarray << log2(dies)) | readout.die),
        ]
        read_region = Signal(name=f"read_region{g}")
        m.d.sync += read_region.eq(region)
        m.d.comb += [write.en.eq(arrives), write.region.eq(read_region), write.row.eq(row)]
        return _Group(arbiter.grant, arrives, die, slot, beat, last, reads)

    def _program(self, m: Module, groups: list["_Group"]) -> Signal:
        """Beats on their way to the NAND; the stage in which a fill would be presented."""
        kind = data.StructLayout(
            {
                "valid": 1,
                "group": 2,
                "die": range(self._machine.geometry.dies),
                "slot": slot_layout(self._machine),
                "beat": 2,
                "last": 1,
            }
        )
        item = Signal(kind)
        with m.Switch(self.now):
            for g, group in enumerate(groups):
                with m.Case(g):
                    m.d.comb += [
                        item.valid.eq(group.grant.any() & ~group.reads),
                        item.group.eq(g),
                        item.die.eq(group.die),
                        item.slot.eq(group.slot),
                        item.beat.eq(group.beat),
                        item.last.eq(group.last),
                    ]
        stages = [item]
        for k in range(PROGRAM_CLOCKS + READ_CLOCKS):
            stage = Signal(kind, name=f"program{k + 1}")
            m.d.sync += stage.valid.eq(stages[-1].valid)
            with m.If(stages[-1].valid):
                m.d.sync += stage.eq(stages[-1])
            stages.append(stage)
        read, done = stages[PROGRAM_CLOCKS], stages[-1]
        m.d.comb += [
            self.program.en.eq(read.valid),
            self.program.group.eq(read.group),
            self.program.region.eq(read.slot.region),
            self.program.row.eq(
                (read.slot.subarray << log2(self._machine.geometry.dies)) | read.die
            ),
            *(self.sent[name].eq(done[name]) for name in ("valid", "die", "slot", "beat", "last")),
        ]
        return stages[READOUT_CLOCKS]

    def _links(self, m: Module, groups: list["_Group"], program, keep_out: list[Signal]) -> None:
        """Write data takes fill clocks that no lane uses."""
        turn = Signal(range(max(2, self._link_count)))
        can = [Signal(name=f"can{k}") for k in range(self._link_count)]
        for k, want in enumerate(self.want):
            free = Signal(name=f"free{k}")
            with m.Switch(want.group):
                for g, group in enumerate(groups):
                    with m.Case(g):
                        fill_clock = ~(self.now - g)[0]
                        taken = group.arrives | (program.valid & (program.group == g))
                        m.d.comb += free.eq(fill_clock & ~taken)
            m.d.comb += can[k].eq(want.valid & free)
            others = [
                can[j] & (self.want[j].group == want.group) & (turn != k)
                for j in range(self._link_count)
                if j != k
            ]
            m.d.comb += self.take[k].eq(can[k] & ~Cat(others).any())
            waited = Signal(range(PATIENCE_CLOCKS + 1), name=f"waited{k}")
            with m.If(self.take[k] | ~want.valid):
                m.d.sync += waited.eq(0)
            with m.Elif(waited != PATIENCE_CLOCKS):
                m.d.sync += waited.eq(waited + 1)
            with m.If(self.take[k]):
                m.d.sync += turn.eq((k + 1) % self._link_count)
            for g in range(GROUPS):
                with m.If((waited == PATIENCE_CLOCKS) & (want.group == g)):
                    m.d.comb += keep_out[g].eq(1)
                with m.If(self.take[k] & (want.group == g)):
                    m.d.comb += [
                        self.of_link[g][k].eq(1),
                        self.write[g].en.eq(1),
                        self.write[g].region.eq(want.region),
                        self.write[g].row.eq(want.row),
                    ]


@dataclass
class _Group:
    """What one bank group does: the lane it takes in this clock, the beat that arrives."""

    grant: Signal
    arrives: Signal
    die: Signal
    slot: Signal
    beat: Signal
    last: Signal
    reads: Signal
