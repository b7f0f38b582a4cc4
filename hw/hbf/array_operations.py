"""Programs and erases of one die, from the claimed subarray to the answer of its STATUS."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.bits import line, lowest
from hw.hbf.delay_queue import DelayQueue
from hw.hbf.layouts import CLOCK_BITS, POLL_BITS, Command, page_layout, slot_layout
from hw.hbf.subarray_state import subarray_event
from hw.params import NAND_TIME_BITS, Machine


def start_layout(machine: Machine) -> data.StructLayout:
    """An erase of the block of ``row``, or a program of the page in ``slot`` into it."""
    return data.StructLayout(
        {"slot": slot_layout(machine), "row": range(machine.geometry.rows), "erase": 1}
    )


def ended_layout(machine: Machine) -> data.StructLayout:
    """An erase or a program has ended."""
    subarray = range(machine.geometry.subarrays_per_die)
    return data.StructLayout({"valid": 1, "subarray": subarray, "erase": 1, "fail": 1})


class ArrayOperations(wiring.Component):
    """Runs the erases and programs of one die, each in a subarray of its own.

    Promise: ``start`` claims the subarray; reads that are under way there end first. An erase is
    ERASE and, ``t_erase`` later, STATUS until it is ready. A program is LOAD, the page over the TSV
    lane (``loaded``, ``left``), PROGRAM and, ``t_program`` later, STATUS until it is ready. Then
    ``done`` tells how it ended and the claim ends. STATUS is repeated every ``poll_clocks``.

    With ``suspend_enable`` an operation at whose subarray a read waits is suspended once it has
    run for at least one slice, and resumed when no read waits or a slice later; a slice lasts one
    to two periods of ``slice_tick``. So neither reads nor programs starve.

    ``start`` is never refused; a subarray takes one at a time. One command a clock, when ``grant``.

    Members
    -------
    reads_wait, data_busy, cache_busy, plane_busy : In: one bit a subarray
    command, subarray, row, valid : Out: a command for the port; ``grant`` : In: it goes out
    ready, fail : In: answer to STATUS, one clock later
    loaded : Out(stream): pages for the TSV lane, tADL after their LOAD
    left : In: the lane has moved a write page into the cache register
    claimed : Out: one bit a subarray that may not be read
    paused : Out: one bit a subarray that may be read for now although it is claimed
    load, program : Out: commands of this clock, for the scoreboard
    done : Out: an operation has ended
    suspends : Out: SUSPEND goes out
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        g = machine.geometry
        subarrays = g.subarrays_per_die
        event = subarray_event(machine)
        times = ("t_program", "t_erase", "t_suspend", "t_adl")
        super().__init__(
            {
                "clock": In(CLOCK_BITS),
                **{name: In(NAND_TIME_BITS[name]) for name in times},
                "poll_clocks": In(POLL_BITS),
                "suspend_enable": In(1),
                "slice_tick": In(1),
                "start": In(stream.Signature(start_layout(machine))),
                "reads_wait": In(subarrays),
                "data_busy": In(subarrays),
                "cache_busy": In(subarrays),
                "plane_busy": In(subarrays),
                "valid": Out(1),
                "command": Out(Command),
                "subarray": Out(range(subarrays)),
                "row": Out(range(g.rows)),
                "grant": In(1),
                "ready": In(1),
                "fail": In(1),
                "loaded": Out(stream.Signature(page_layout(machine))),
                "left": In(event),
                "claimed": Out(subarrays),
                "paused": Out(subarrays),
                "load": Out(event),
                "program": Out(event),
                "done": Out(ended_layout(machine)),
                "suspends": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        subarrays = machine.geometry.subarrays_per_die
        place = data.StructLayout({"subarray": range(subarrays)})
        none = Const(0, subarrays)

        # What each claimed subarray waits for, one bit a subarray ---------------------------------
        to_erase, to_load, to_program, running, pausing, paused, is_erase, region = (
            Signal(subarrays, name=name)
            for name in (
                "to_erase", "to_load", "to_program", "running", "pausing", "suspended",
                "is_erase", "region",
            )
        )  # fmt: skip
        young, old = Signal(subarrays), Signal(subarrays)  # ran or paused for one tick, for two
        over = Signal(subarrays)  # a STATUS was answered ready: nothing is left to suspend

        start = self.start.payload
        here = Signal(subarrays)
        m.submodules.rows = rows = Memory(
            shape=range(machine.geometry.rows), depth=subarrays, init=[]
        )
        row_write, row_read = rows.write_port(), rows.read_port(domain="comb")
        m.d.comb += [
            here.eq(line(self.start.valid, start.slot.subarray, subarrays)),
            row_write.en.eq(self.start.valid),
            row_write.addr.eq(start.slot.subarray),
            row_write.data.eq(start.row),
            row_read.addr.eq(self.subarray),
            self.row.eq(row_read.data),
            self.paused.eq(paused & ~old),
            self.start.ready.eq(1),
        ]

        # STATUS falls due -------------------------------------------------------------------------
        dues = {}
        for name, delay in (
            ("program", self.t_program),
            ("erase", self.t_erase),
            ("poll", self.poll_clocks),
            ("suspend", self.t_suspend),
        ):
            queue = DelayQueue(place, depth=subarrays, delay_bits=len(delay))
            m.submodules[f"due_{name}"] = queue
            m.d.comb += [queue.clock.eq(self.clock), queue.delay.eq(delay)]
            dues[name] = queue
        due = Signal()
        due_at, of_suspend = Signal(range(subarrays)), Signal()
        asked, asked_at, asked_suspend = Signal(), Signal(range(subarrays)), Signal()
        for name, queue in dues.items():
            # Every other clock is left to other commands, however many polls there are.
            with m.If(queue.o.valid & ~asked):
                m.d.comb += [
                    due.eq(1),
                    due_at.eq(queue.o.payload.subarray),
                    of_suspend.eq(name == "suspend"),
                ]

        answered = Signal(subarrays)
        m.d.comb += answered.eq(line(asked, asked_at, subarrays))

        # Choice of a command ----------------------------------------------------------------------
        idle = ~(self.data_busy | self.cache_busy | self.plane_busy)
        lines, chosen = Signal(subarrays), Signal(Command)
        with m.If((self.claimed != 0) & ~due):
            can_stop = running & ~pausing & ~paused & ~over & ~self.plane_busy
            suspendable = can_stop & old & self.reads_wait
            resumable = paused & ~self.data_busy & ~self.plane_busy & (old | ~self.reads_wait)
            for command, name, wanted in (  # the last assignment counts
                (Command.ERASE, "erase", to_erase & idle),
                # Not in the clock of an answer, which may end the operation.
                (Command.SUSPEND, "suspend", Mux(self.suspend_enable, suspendable & ~answered, 0)),
                (Command.LOAD, "load", to_load & idle),
                (Command.PROGRAM, "program", to_program & ~self.plane_busy),
                (Command.RESUME, "resume", resumable),
            ):
                candidates = Signal(subarrays, name=f"may_{name}")
                m.d.comb += candidates.eq(wanted)
                with m.If(candidates != 0):
                    m.d.comb += [lines.eq(candidates), chosen.eq(command)]
        position = lowest(m, lines)
        with m.If(due):
            m.d.comb += [self.command.eq(Command.STATUS), self.subarray.eq(due_at)]
        with m.Else():
            m.d.comb += [self.command.eq(chosen), self.subarray.eq(position)]
        m.d.comb += self.valid.eq(due | (lines != 0))
        sent, at = Signal(Command), Signal(subarrays)
        goes = Signal()
        m.d.comb += [
            goes.eq(self.valid & self.grant),
            at.eq(line(goes, self.subarray, subarrays)),
            sent.eq(self.command),
        ]
        loads, programs, erases, suspends, resumes, asks = (
            goes & (sent == command)
            for command in (
                Command.LOAD,
                Command.PROGRAM,
                Command.ERASE,
                Command.SUSPEND,
                Command.RESUME,
                Command.STATUS,
            )
        )
        taken = Const(0, 1)
        for queue in reversed(dues.values()):
            m.d.comb += queue.o.ready.eq(asks & ~taken)
            taken = taken | queue.o.valid

        # Answer to STATUS -------------------------------------------------------------------------
        m.d.sync += [
            asked.eq(asks),
            asked_at.eq(due_at),
            asked_suspend.eq(of_suspend),
        ]
        pausing_there = pausing.bit_select(asked_at, 1)
        ends = Signal()
        m.d.comb += [
            # While a suspend is under way its own STATUS must come first.
            ends.eq(asked & ~asked_suspend & self.ready & ~pausing_there),
            self.done.valid.eq(ends),
            self.done.subarray.eq(asked_at),
            self.done.erase.eq(is_erase.bit_select(asked_at, 1)),
            self.done.fail.eq(self.fail),
        ]
        stops = asked & asked_suspend

        # Next state -------------------------------------------------------------------------------
        loaded, programmed, erased, suspended, resumed = (
            Mux(event, at, 0) for event in (loads, programs, erases, suspends, resumes)
        )
        arrived = line(self.left.valid, self.left.subarray, subarrays)
        starts = {"erase": Mux(start.erase, here, 0), "program": Mux(start.erase, 0, here)}
        gone, checked = Mux(ends, answered, 0), Mux(stops, answered, 0)
        pauses = Mux(stops & ~self.ready, answered, 0)
        moved = programmed | erased | resumed | pauses
        with m.If(self.start.valid | (self.claimed != 0)):
            m.d.sync += [
                self.claimed.eq((self.claimed | here) & ~gone),
                to_erase.eq((to_erase | starts["erase"]) & ~erased),
                to_load.eq((to_load | starts["program"]) & ~loaded),
                to_program.eq((to_program | arrived) & ~programmed),
                is_erase.eq((is_erase & ~here) | starts["erase"]),
                region.eq((region & ~here) | Mux(start.slot.region, here, 0)),
                running.eq((running | programmed | erased) & ~gone),
                pausing.eq((pausing | suspended) & ~checked),
                paused.eq((paused | pauses) & ~resumed),
                over.eq((over | Mux(asked & self.ready, answered, 0)) & ~gone),
                young.eq(Mux(self.slice_tick, ~none, young) & ~moved),
                old.eq((old | Mux(self.slice_tick, young, 0)) & ~moved),
            ]

        m.d.comb += [
            dues["program"].i.valid.eq(programs),
            dues["erase"].i.valid.eq(erases),
            dues["suspend"].i.valid.eq(suspends),
            dues["poll"].i.valid.eq(asked & ~asked_suspend & ~ends),
            *(
                dues[name].i.payload.subarray.eq(self.subarray)
                for name in ("program", "erase", "suspend")
            ),
            dues["poll"].i.payload.subarray.eq(asked_at),
            self.load.valid.eq(loads),
            self.program.valid.eq(programs),
            self.load.subarray.eq(self.subarray),
            self.program.subarray.eq(self.subarray),
            self.suspends.eq(suspends),
        ]

        m.submodules.loads = to_lane = DelayQueue(
            page_layout(machine), depth=subarrays, delay_bits=len(self.t_adl)
        )
        wiring.connect(m, to_lane.o, wiring.flipped(self.loaded))
        m.d.comb += [
            to_lane.clock.eq(self.clock),
            to_lane.delay.eq(self.t_adl),
            to_lane.i.valid.eq(loads),
            to_lane.i.payload.write.eq(1),
            to_lane.i.payload.slot.subarray.eq(self.subarray),
            to_lane.i.payload.slot.region.eq(region.bit_select(self.subarray, 1)),
            to_lane.i.payload.last_beat.eq(3),
        ]
        return m
