"""Programs and erases of one NAND die: what runs in which subarray, and for how long."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import Command
from hw.hbf.page_walk import log2
from hw.params import NAND_TIME_BITS, Machine

STAMP_BITS = 32  # of the clock count that stamps are taken from: no run is longer
LONG_AGO = 1 << (STAMP_BITS - 1)  # a stamp that is older than any time, for half the clock count


def age(clock, stamp):
    """Clocks since a stamp."""
    return (clock - stamp)[:STAMP_BITS]


def per_subarray(m: Module, name: str, shape, depth: int, *, init=None):
    """A small memory with one write port; returns that port and a maker of read data."""
    rows = [] if init is None else [init] * depth
    m.submodules[name] = memory = Memory(shape=shape, depth=depth, init=rows)

    def read(index):
        port = memory.read_port(domain="comb")
        m.d.comb += port.addr.eq(index)
        return port.data

    return memory.write_port(), read


class NandWork(wiring.Component):
    """Time of the programs and erases of a die.

    Contract: PROGRAM and ERASE run from their clock on, for the time in the register at that
    moment. They are suspended ``t_suspend`` clocks after SUSPEND unless they end by then, and go on
    at RESUME with the time that was left. What ends makes no event: it shows when it is asked for.
    Until a STATUS has found it ready whoever commands the die cannot know that it has ended, so a
    SUSPEND is legal until then, and does nothing. Commands must be legal; the answers say whether
    they are.

    Members
    -------
    running, suspended : Out(1): state of ``subarray`` in this clock, before its command
    unanswered : Out(1): no STATUS has found it ready
    stopping : Out(1): it was told to suspend
    status_early : Out(1): ``t_wb`` is not over
    unsettled : Out(1): ``row`` is being programmed, or its block erased
    """

    TIMES = ("t_program", "t_erase", "t_suspend", "t_wb")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        g = machine.geometry
        super().__init__(
            {
                "clock": In(STAMP_BITS),
                **{name: In(NAND_TIME_BITS[name]) for name in self.TIMES},
                "valid": In(1),
                "command": In(Command),
                "subarray": In(range(g.subarrays_per_die)),
                "row": In(range(g.rows)),
                "running": Out(1),
                "suspended": Out(1),
                "unanswered": Out(1),
                "stopping": Out(1),
                "status_early": Out(1),
                "unsettled": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        g = self._machine.geometry
        subarrays, s = g.subarrays_per_die, self.subarray
        program = self.valid & (self.command == Command.PROGRAM)
        erase = self.valid & (self.command == Command.ERASE)
        suspend = self.valid & (self.command == Command.SUSPEND)
        resume = self.valid & (self.command == Command.RESUME)
        status = self.valid & (self.command == Command.STATUS)
        begins = program | erase

        left_bits = NAND_TIME_BITS["t_erase"]
        run = data.StructLayout({"since": STAMP_BITS, "left": left_bits})
        work = data.StructLayout({"issued": STAMP_BITS, "row": log2(g.rows), "erase": 1})
        run_write, run_read = per_subarray(m, "runs", run, subarrays)
        work_write, work_read = per_subarray(
            m, "works", work, subarrays, init={"issued": LONG_AGO, "row": 0, "erase": 0}
        )
        stop = data.StructLayout({"since": STAMP_BITS, "latest": 1})
        told_write, told_read = per_subarray(m, "told", stop, subarrays)
        current, of_work, told = run_read(s), work_read(s), told_read(s)
        ran = Signal(STAMP_BITS)  # since ``since``, when the work stops
        m.d.comb += [
            ran.eq(told.since - current.since + self.t_suspend),
            run_write.en.eq(begins | resume),
            run_write.addr.eq(s),
            run_write.data.since.eq(self.clock),
            run_write.data.left.eq(
                Mux(resume, current.left - ran, Mux(erase, self.t_erase, self.t_program))
            ),
            work_write.en.eq(begins),
            work_write.addr.eq(s),
            work_write.data.issued.eq(self.clock),
            work_write.data.row.eq(self.row),
            work_write.data.erase.eq(erase),
            told_write.en.eq(suspend | begins | resume),
            told_write.addr.eq(s),
            told_write.data.since.eq(self.clock),
            told_write.data.latest.eq(suspend),
        ]

        open_write, open_read = per_subarray(m, "open", 1, subarrays)
        found = status & ~self.running & ~self.suspended
        working = current.left != 0  # or it is done
        page_bits = log2(g.pages_per_block)
        same_block = of_work.row[page_bits:] == self.row[page_bits:]
        m.d.comb += [
            open_write.en.eq(begins | found),
            open_write.addr.eq(s),
            open_write.data.eq(begins),
            self.unanswered.eq(open_read(s)),
            self.stopping.eq(told.latest),
            self.suspended.eq(
                working
                & self.stopping
                & (current.left > ran)
                & (age(self.clock, told.since) >= self.t_suspend)
            ),
            self.running.eq(
                working & ~self.suspended & (age(self.clock, current.since) < current.left)
            ),
            self.status_early.eq(age(self.clock, of_work.issued) < self.t_wb),
            self.unsettled.eq(
                (self.running | self.suspended)
                & same_block
                & (of_work.erase | (of_work.row == self.row))
            ),
        ]
        return m
