"""Scoreboard of one die: which registers and slots of its subarrays are taken."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.bits import line
from hw.hbf.layouts import slot_event, slot_layout
from hw.params import Machine


def subarray_event(machine: Machine) -> data.StructLayout:
    """Something happens at a subarray in this clock."""
    return data.StructLayout({"valid": 1, "subarray": range(machine.geometry.subarrays_per_die)})


class SubarrayState(wiring.Component):
    """One bit a subarray for each register and slot.

    Contract: the data register is busy from SENSE until LATCH, or without ``cache_read`` until the
    page has left; the cache register from LATCH until the page has left, or from LOAD until
    PROGRAM; a slot from the clock it is reserved until it is freed. A change shows one clock after
    its event. A slot is never reserved and freed in the same clock.

    Members
    -------
    sense : In: SENSE reserves ``slot`` for a page of ``path``
    latch, load, program : In: commands of this clock
    left : In: a page that was read has left the cache register
    reserve : In: a slot is reserved for a write
    free_direct, free_relay, free_write : In: slots that have been emptied
    data_busy, cache_busy : Out
    slot_busy : Out, one a region
    holds : Out, one a path: the path has a slot of the subarray
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        subarrays = machine.geometry.subarrays_per_die
        command, slot = subarray_event(machine), slot_event(machine)
        sense = data.StructLayout({"valid": 1, "slot": slot_layout(machine), "path": 1})
        super().__init__(
            {
                "cache_read": In(1),
                "sense": In(sense),
                "latch": In(command),
                "load": In(command),
                "program": In(command),
                "left": In(slot),
                "reserve": In(slot),
                "free_direct": In(slot),
                "free_relay": In(slot),
                "free_write": In(slot),
                "data_busy": Out(subarrays),
                "cache_busy": Out(subarrays),
                "slot_busy": Out(subarrays).array(2),
                "holds": Out(subarrays).array(2),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        subarrays = self._machine.geometry.subarrays_per_die

        sensed, latched, left = Signal(subarrays), Signal(subarrays), Signal(subarrays)
        m.d.comb += [
            sensed.eq(line(self.sense.valid, self.sense.slot.subarray, subarrays)),
            latched.eq(line(self.latch.valid, self.latch.subarray, subarrays)),
            left.eq(line(self.left.valid, self.left.slot.subarray, subarrays)),
        ]
        m.d.sync += [
            self.data_busy.eq((self.data_busy & ~Mux(self.cache_read, latched, left)) | sensed),
            self.cache_busy.eq((self.cache_busy & ~left) | latched),
        ]
        with m.If(self.load.valid | self.program.valid):
            loaded = line(self.load.valid, self.load.subarray, subarrays)
            programmed = line(self.program.valid, self.program.subarray, subarrays)
            m.d.sync += self.cache_busy.eq(
                (self.cache_busy & ~left & ~programmed) | latched | loaded
            )

        relayed = [Signal(subarrays, name=f"relayed{r}") for r in range(2)]
        written = [Signal(subarrays, name=f"written{r}") for r in range(2)]
        frees = (self.free_direct, self.free_relay, self.free_write)
        for r in range(2):
            busy = self.slot_busy[r]
            read, write, *freed = (
                line(event.valid & (event.slot.region == r), event.slot.subarray, subarrays)
                for event in (self.sense, self.reserve, *frees)
            )
            m.d.sync += busy.eq((busy & ~(freed[0] | freed[1] | freed[2])) | read | write)
            with m.If(self.sense.valid & (self.sense.slot.region == r)):
                m.d.sync += [
                    relayed[r].eq(Mux(self.sense.path, relayed[r] | read, relayed[r] & ~read)),
                    written[r].eq(written[r] & ~read),
                ]
            with m.If(self.reserve.valid & (self.reserve.slot.region == r)):
                m.d.sync += written[r].eq((written[r] & ~read) | write)
        of_path = ([~lines for lines in relayed], relayed)
        for p, holds in enumerate(self.holds):
            held = [self.slot_busy[r] & of_path[p][r] & ~written[r] for r in range(2)]
            m.d.comb += holds.eq(held[0] | held[1])
        return m
