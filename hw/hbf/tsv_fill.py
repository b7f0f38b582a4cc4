"""Fill of the transfer regions over the shared TSVs, one lane per die."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.arbiter import RoundRobin, select
from hw.hbf.layouts import ReadoutPort, slot_layout
from hw.hbf.page_walk import log2
from hw.params import Machine
from hw.sram.regions import GROUPS
from hw.ucie.pacer import RATE_BITS, RATE_ONE

READOUT_CLOCKS = 2  # from the choice of a beat to its write into the bank group


class TsvLane(wiring.Component):
    """Moves pages of one die into its lane's beat register at the lane rate.

    Contract: a beat is complete every ``65536 / rate`` clocks on average; what is left over of a
    clock counts for the next beat as long as the lane has work, so a page has no rounding of its
    own. A finished beat waits in a register until ``take``; the next one is already under way, and
    the lane stalls only if that is complete too. ``o`` names the waiting beat.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._page = data.StructLayout({"slot": slot_layout(machine), "path": 1})
        super().__init__(
            {
                "i": In(stream.Signature(self._page)),
                "rate": In(RATE_BITS + 1),
                "valid": Out(1),
                "page": Out(self._page),
                "beat": Out(2),
                "take": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        moved = Signal(range(2 * RATE_ONE + 1))  # of the beat under way, in 1/65536
        beat = Signal(2)
        full, room = Signal(), Signal()
        m.d.comb += [
            full.eq(self.i.valid & (moved + self.rate >= RATE_ONE)),
            room.eq(~self.valid | self.take),
            self.i.ready.eq(full & room & (beat == GROUPS - 1)),
        ]
        with m.If(~self.i.valid):
            m.d.sync += moved.eq(0)
        with m.Elif(~full):
            m.d.sync += moved.eq(moved + self.rate)
        with m.Elif(room):
            m.d.sync += [moved.eq(moved + self.rate - RATE_ONE), beat.eq(beat + 1)]
        with m.If(full & room):
            m.d.sync += [self.valid.eq(1), self.page.eq(self.i.payload), self.beat.eq(beat)]
        with m.Elif(self.take):
            m.d.sync += self.valid.eq(0)
        return m


class TsvFill(wiring.Component):
    """Sixteen lanes (``paper``) that fill four bank groups.

    Promise: beat ``b`` of a page of die ``d`` goes to group ``(b + d) mod 4``, so that dies in step
    reach all groups at once. Each group takes one waiting beat in each of its fill clocks, lanes in
    turn; two clocks later the beat is written. ``transferred`` (per die) tells that a page has left
    the cache register, ``filled`` (per die, with its path) that its last beat is in the SRAM.

    Throughput: two beats a clock. ``rate`` is that of one lane, in 1/65536 beat a clock.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        slot = slot_layout(machine)
        page = data.StructLayout({"slot": slot, "path": 1})
        dies = machine.geometry.dies
        write = wiring.Signature(
            {
                "en": Out(1),
                "region": Out(1),
                "row": Out(range(machine.geometry.wave_pages)),
            }
        )
        super().__init__(
            {
                "now": In(2),
                "rate": In(RATE_BITS + 1),
                "i": In(stream.Signature(page)).array(dies),
                "readout": Out(ReadoutPort(machine)).array(GROUPS),
                "write": Out(write).array(GROUPS),
                "transferred": Out(data.StructLayout({"valid": 1, "slot": slot})).array(dies),
                "filled": Out(data.StructLayout({"valid": 1, "page": page})).array(dies),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        dies = machine.geometry.dies
        lanes = []
        for d in range(dies):
            m.submodules[f"lane{d}"] = lane = TsvLane(machine)
            wiring.connect(m, wiring.flipped(self.i[d]), lane.i)
            m.d.comb += lane.rate.eq(self.rate)
            lanes.append(lane)

        grants = []
        for g in range(GROUPS):
            m.submodules[f"arbiter{g}"] = arbiter = RoundRobin(width=dies)
            fill_clock = ~(self.now - g)[0]
            for d, lane in enumerate(lanes):
                wants = lane.valid & (lane.beat == (g - d) % GROUPS)
                m.d.comb += arbiter.request[d].eq(wants & fill_clock)
            m.d.comb += arbiter.take.eq(1)
            grants.append(arbiter.grant)

            die = Signal(range(dies), name=f"die{g}")
            m.d.comb += die.eq(select(arbiter.grant, range(dies)))
            slot = slot_layout(machine)(
                select(arbiter.grant, [lane.page.slot.as_value() for lane in lanes])
            )
            beat = Signal(2, name=f"beat{g}")
            m.d.comb += beat.eq(g - die)
            readout, write = self.readout[g], self.write[g]
            m.d.sync += readout.valid.eq(arbiter.grant.any())
            with m.If(arbiter.grant.any()):
                m.d.sync += [
                    readout.die.eq(die),
                    readout.subarray.eq(slot.subarray),
                    readout.beat.eq(beat),
                ]
            region = Signal(name=f"region{g}")
            m.d.sync += [
                region.eq(slot.region),
                write.en.eq(readout.valid),
                write.region.eq(region),
                write.row.eq((readout.subarray << log2(dies)) | readout.die),
            ]

        for d, lane in enumerate(lanes):
            last = Signal(name=f"last{d}")
            m.d.comb += [
                lane.take.eq(grants[0][d] | grants[1][d] | grants[2][d] | grants[3][d]),
                last.eq(lane.take & (lane.beat == GROUPS - 1)),
                self.transferred[d].valid.eq(last),
                self.transferred[d].slot.eq(lane.page.slot),
            ]
            page, valid = lane.page, last
            for stage in range(READOUT_CLOCKS):
                next_page, next_valid = Signal.like(page), Signal(name=f"filled{d}_{stage}")
                m.d.sync += next_valid.eq(valid)
                with m.If(valid):
                    m.d.sync += next_page.eq(page)
                page, valid = next_page, next_valid
            m.d.comb += [self.filled[d].valid.eq(valid), self.filled[d].page.eq(page)]
        return m
