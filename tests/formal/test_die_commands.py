# amaranth: UnusedElaboratable=no
"""Commands of a die: only what its registers, planes and operations allow, and every page once."""

import pytest
from amaranth.hdl import Assert, Cover, Module, Mux, Signal

from hw.hbf.layouts import Command
from tests.formal.die_parts import controller
from tests.formal.die_phases import Phases
from tests.formal.die_properties import MACHINE, DieProperties
from tests.formal.harness import Counterexample, constant, prove


class Commands(DieProperties):
    """The registers of one subarray are watched, any of them, as its commands fill them.

    A page is sensed, latched and handed to the lane once each: LATCH takes the page out of the data
    register into an empty cache register, and the lane gets what was latched there.
    """

    def describe(self, m: Module) -> None:
        die = self._die
        around = self.surround(m)
        _, reads, array, _, submodules = die.seen
        at = constant(m, "at", range(around.subarrays))
        port, page = die.command, die.transfer.payload
        here = port.valid & (port.subarray == at)
        sense, latch, load, program, erase, suspend, resume, status = (
            here & (port.command == command) for command in Command
        )
        goes = die.transfer.valid & die.transfer.ready
        out = [o.valid & o.ready for o in (submodules.latched.o, array.loaded)]
        moves = goes & (page.slot.subarray == at)
        left = die.transferred.valid & (die.transferred.slot.subarray == at)
        written = die.written_in.valid & (die.written_in.slot.subarray == at)

        # Registers: empty, or a page and its slot.
        sensed, latched, loaded, ready = (
            Signal(name=name) for name in ("in_data", "in_cache", "in_load", "in_place")
        )
        on_lane = Signal()
        sensed_region, latched_region = Signal(), Signal()
        with m.If(sense):
            m.d.sync += [sensed.eq(1), sensed_region.eq(reads.slot.region)]
        with m.Elif(latch):
            m.d.sync += sensed.eq(0)
        with m.If(latch):
            m.d.sync += [latched.eq(1), latched_region.eq(sensed_region)]
        with m.Elif(left):
            m.d.sync += latched.eq(0)
        with m.If(load):
            m.d.sync += loaded.eq(1)
        with m.Elif(program):
            m.d.sync += loaded.eq(0)
        m.d.sync += [
            on_lane.eq((on_lane | moves) & ~(left | written)),
            ready.eq((ready | written) & ~program),
        ]

        # The operation of the subarray, as the answers to its STATUS tell it.
        works, stopped = around.operates.bit_select(at, 1), around.suspended.bit_select(at, 1)
        told = Signal()  # the controller has not seen the end yet
        ends = array.done.valid & (array.done.subarray == at)
        with m.If(program | erase):
            m.d.sync += told.eq(1)
        with m.Elif(ends):
            m.d.sync += told.eq(0)
        m.d.comb += [
            Assert(~sense | ~sensed, "SENSE only into a free data register"),
            Assert(~sense | die.registers.cache_read | ~latched, "SENSE after the page has left"),
            Assert(~sense | ~works | stopped, "SENSE only beside a suspended operation"),
            Assert(~latch | sensed, "LATCH only after SENSE"),
            Assert(~latch | ~(latched | loaded), "LATCH only into a free cache register"),
            Assert(~load | ~(sensed | latched | loaded), "LOAD only into free registers"),
            Assert(~(load | program | erase) | ~told, "one operation at a time"),
            Assert(~program | ready, "PROGRAM only after the page"),
            Assert(~erase | ~(sensed | latched | loaded), "ERASE only with free registers"),
            Assert(~(suspend | resume | status) | told, "no command to a subarray at rest"),
            Assert(~suspend | ~stopped, "SUSPEND once"),
            Assert(~resume | ~works | stopped, "RESUME after SUSPEND"),
            Assert(~resume | ~sensed, "RESUME only with a free data register"),
            Assert(~(moves & ~page.write) | (latched & ~on_lane), "hands over what was latched"),
            Assert(~(moves & page.write) | (loaded & ~on_lane & ~ready), "and what was opened"),
            Assert(
                ~(moves & ~page.write) | (page.slot.region == latched_region), "with its own slot"
            ),
            Assert(~out[0] | (goes & ~page.write), "no page that was read is dropped"),
            Assert(~out[1] | (goes & page.write), "no page to write is dropped"),
            Cover(sense & latched, "senses while a page leaves"),
            Cover(sense & stopped, "senses while suspended"),
            Cover(ends & array.done.erase, "an erase ends"),
            Cover(moves & page.write, "a page is written in"),
        ]

        # Planes: a command keeps its plane busy until its time is over.
        plane_count = MACHINE.geometry.planes
        times = submodules.plane_times
        plane = constant(m, "plane", range(plane_count))
        plane_busy = Signal()
        in_plane = port.valid & (port.subarray[: (plane_count - 1).bit_length()] == plane)
        begins = in_plane & (port.command != Command.STATUS)
        over = times.o.valid & (times.o.payload.plane == plane)
        with m.If(begins & (die.registers.t_plane_busy != 0)):
            m.d.sync += plane_busy.eq(1)
        with m.Elif(over):
            m.d.sync += plane_busy.eq(0)
        m.d.comb += [
            Assert(~begins | ~plane_busy, "no command to a busy plane"),
            Cover(begins & (die.registers.t_plane_busy != 0), "a plane is busy"),
        ]
        if self._lemmas:
            phases = Phases(m, die, around, at)
            phases.state(m)
            phases.operates(m, works=works, stopped=stopped, told=told)
            m.d.comb += [
                Assert(phases.sensed == sensed, "knows the data register"),
                Assert(~sensed | (phases.sensed_region == sensed_region), "knows its slot"),
                Assert((phases.latched | phases.lane_read) == latched, "knows the cache register"),
                Assert(
                    ~latched
                    | (
                        Mux(phases.latched, phases.latched_region, phases.lane_region)
                        == latched_region
                    ),
                    "knows the slot of the latched page",
                ),
                Assert(on_lane == (phases.lane_read | phases.lane_write), "knows the lane"),
                Assert(
                    loaded == (phases.program[1] | phases.program[2] | phases.program[3]),
                    "knows the loaded page",
                ),
                Assert(ready == phases.program[3], "knows the page to program"),
                Assert(plane_busy == times.bag.held.bit_select(plane, 1), "knows the plane"),
            ]


@pytest.mark.formal
def test_commands() -> None:
    prove(Commands())
    prove(Commands(), mode="cover", depth=30)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("part", "old", "new", "violated"),
    [
        ("DieController", "state.data_busy | plane_busy |", "state.data_busy |",
         "busy_plane|times"),
        ("DieController", "(array.claimed & ~array.paused)", "0", "SENSE_only|free_registers"),
        ("DieController", "(state.cache_busy | plane_busy)", "plane_busy", "LATCH_only|one_item"),
        # Both directions take the turn of one.
        ("DieController", "write.ready.eq(to.ready & chosen)", "write.ready.eq(to.ready)",
         "no_page_to_write"),
        # Without cache read the data register counts as free while its page leaves.
        ("SubarrayState", "~Mux(self.cache_read, latched, left)", "~latched", "page_has_left"),
        ("ArrayOperations", "~(self.data_busy | self.cache_busy | self.plane_busy)",
         "~(self.cache_busy | self.plane_busy)", "free_registers"),
        # Suspends in the clock of the answer that ends the operation.
        ("ArrayOperations", "suspendable & ~answered", "suspendable", "at_rest|one_item"),
        ("ArrayOperations", "paused & ~self.data_busy", "paused", "RESUME"),
    ],
)  # fmt: skip
def test_broken_commands_are_found(part: str, old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Commands(controller(**{part: ((old, new),)})), mode="bmc", depth=12)
