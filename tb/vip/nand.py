# amaranth: UnusedElaboratable=no
"""NAND core dies of one stack: what they hold, how long they take, what they forbid."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.arbiter import select
from hw.hbf.layouts import Command, CommandPort, ReadoutPort, WriteinPort
from hw.hbf.page_walk import log2
from hw.params import NAND_TIME_BITS, Machine
from hw.shared import shared
from hw.sram.regions import GROUPS
from tb.vip.content import VERSION_BITS, BeatContent
from tb.vip.nand_array import CONTENT
from tb.vip.nand_die import NandDie
from tb.vip.nand_rules import NandRule
from tb.vip.nand_work import STAMP_BITS

__all__ = ["NandDie", "NandStack"]

RANDOM_SEED = 0x6A09E667


class NandStack(wiring.Component):
    """All core dies of one stack behind its TSVs.

    Contract: a read-out returns, one clock later, the content of the page that its die's commands
    put in the cache register, whatever the base die believes it to be. A write-in must carry the
    content of its address in any version (:mod:`tb.vip.content`); the version is what is stored.
    A page with a wrong beat counts in ``data_errors`` once a beat, and reads back as garbage.

    Members
    -------
    t_read .. t_plane_busy, cache_read : registers as in :class:`hw.hbf.layouts.Registers`
    corrupt : In(1): flips one bit of every beat that is read out while it is high
    fail_program, fail_erase : In(9): of 256 programs or erases, how many fail on average
    fail_program_at : In(32): this program of the stack fails, counted from 1; 0 is none
    senses, programs, erases : Out(32): commands
    program_failures, erase_failures : Out(32): those of them that fail
    violations : Out(32): clocks of dies with broken rules
    violation_kind : Out: broken rules, a bit each, see :class:`tb.vip.nand_rules.NandRule`
    data_errors : Out(32): wrong beats written
    overflow : Out(32): pages sensed that the model had to forget: the run cannot be judged
    """

    def __init__(self, machine: Machine, *, stack: int) -> None:
        self._machine, self._stack = machine, stack
        super().__init__(
            {
                "command": In(CommandPort(machine)).array(machine.geometry.dies),
                "readout": In(ReadoutPort(machine)).array(GROUPS),
                "writein": In(WriteinPort(machine)),
                **{name: In(bits) for name, bits in NAND_TIME_BITS.items()},
                "cache_read": In(1),
                "corrupt": In(1),
                "fail_program": In(9),
                "fail_erase": In(9),
                "fail_program_at": In(32),
                "senses": Out(32),
                "programs": Out(32),
                "erases": Out(32),
                "program_failures": Out(32),
                "erase_failures": Out(32),
                "violations": Out(32),
                "violation_kind": Out(len(NandRule)),
                "data_errors": Out(32),
                "overflow": Out(32),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, g = self._machine, self._machine.geometry
        clock = Signal(STAMP_BITS)
        m.d.sync += clock.eq(clock + 1)
        dies = []
        for d in range(g.dies):
            die = NandDie(machine)
            m.submodules[f"die{d}"] = shared("nand_die", die)
            wiring.connect(m, wiring.flipped(self.command[d]), die.command)
            asks = Cat(port.valid & (port.die == d) for port in self.readout)
            m.d.comb += [
                die.clock.eq(clock),
                *(getattr(die, name).eq(getattr(self, name)) for name in NAND_TIME_BITS),
                die.cache_read.eq(self.cache_read),
                die.read.eq(asks.any()),
                die.read_twice.eq((asks & (asks - 1))[:GROUPS].any()),
                die.read_subarray.eq(select(asks, [port.subarray for port in self.readout])),
                die.read_beat.eq(select(asks, [port.beat for port in self.readout])),
                die.read_last.eq(select(asks, [port.last for port in self.readout])),
            ]
            dies.append(die)
        self._read(m, dies)
        self._write(m, dies)
        fails = self._fail(m, dies)
        for name, events in (
            ("senses", [_is(die, Command.SENSE) for die in dies]),
            ("programs", [_is(die, Command.PROGRAM) for die in dies]),
            ("erases", [_is(die, Command.ERASE) for die in dies]),
            ("program_failures", [f & _is(x, Command.PROGRAM) for f, x in fails]),
            ("erase_failures", [f & _is(x, Command.ERASE) for f, x in fails]),
            ("violations", [die.violation for die in dies]),
            ("data_errors", [die.data_error for die in dies]),
            ("overflow", [die.overflow for die in dies]),
        ):
            count = getattr(self, name)
            m.d.sync += count.eq(count + sum(events))
        kinds = 0
        for die in dies:
            kinds = kinds | die.violation_kind
        m.d.comb += self.violation_kind.eq(kinds)
        return m

    def _address(self, port, row) -> Cat:
        """Number of the beat that a port names."""
        subarray = port.subarray[: log2(self._machine.geometry.subarrays_per_die)]
        return Cat(port.beat, port.die, subarray, row)

    def _read(self, m: Module, dies: list[NandDie]) -> None:
        g = self._machine.geometry
        for i, port in enumerate(self.readout):
            m.submodules[f"content{i}"] = content = BeatContent(
                stack=self._stack, lanes=self._machine.lanes
            )
            row, held = Signal(range(g.rows), name=f"row{i}"), Signal(CONTENT, name=f"held{i}")
            here = [port.die == d for d in range(g.dies)]
            found = select(here, [Cat(die.row, die.content) for die in dies])
            m.d.comb += Cat(row, held).eq(found)
            flip = Signal(name=f"flip{i}")
            with m.If(port.valid):
                m.d.sync += [
                    content.beat.eq(self._address(port, row)),
                    content.version.eq(held.version),
                    content.form.eq(held.form),
                    flip.eq(self.corrupt),
                ]
            for k in range(self._machine.lanes):
                m.d.comb += port.lanes[k].eq(
                    content.lanes[k] ^ (flip << 17) if k == 1 else content.lanes[k]
                )

    def _write(self, m: Module, dies: list[NandDie]) -> None:
        g, port = self._machine.geometry, self.writein
        m.submodules.written = content = BeatContent(stack=self._stack, lanes=self._machine.lanes)
        here = [port.die == d for d in range(g.dies)]
        row, wrong = Signal(range(g.rows)), Signal()
        version = port.lanes[0][:VERSION_BITS]
        differs = [port.lanes[k] != content.lanes[k] for k in range(self._machine.lanes)]
        m.d.comb += [
            row.eq(select(here, [die.write_row for die in dies])),
            content.beat.eq(self._address(port, row)),
            content.version.eq(version),
            wrong.eq(Cat(differs).any()),
        ]
        for d, die in enumerate(dies):
            m.d.comb += [
                die.write.eq(port.valid & here[d]),
                die.write_subarray.eq(port.subarray),
                die.write_beat.eq(port.beat),
                die.write_version.eq(version),
                die.write_wrong.eq(wrong),
            ]

    def _fail(self, m: Module, dies: list[NandDie]) -> list:
        """Chooses what fails, and returns whether with its die."""
        # Marsaglia's xorshift32.
        random = Signal(32, init=(RANDOM_SEED * (2 * self._stack + 1)) & 0xFFFFFFFF)
        left, right = Signal(32), Signal(32)
        m.d.comb += [left.eq(random ^ (random << 13)), right.eq(left ^ (left >> 17))]
        m.d.sync += random.eq(right ^ (right << 5))
        number = self.programs
        for d, die in enumerate(dies):
            program = _is(die, Command.PROGRAM)
            programs = Signal(32, name=f"programs{d}")
            dice = random.rotate_left(5 * d % 32)[:8]
            # Whether the dice are below, as a carry: linters dislike comparing with a tied zero.
            loses_program = (self.fail_program + ~dice)[8:].any()
            loses_erase = (self.fail_erase + ~dice)[8:].any()
            m.d.comb += [
                programs.eq(number + program),
                die.fail.eq(
                    Mux(
                        program,
                        loses_program | (programs == self.fail_program_at),
                        loses_erase,
                    )
                ),
            ]
            number = programs
        return [(die.fail, die) for die in dies]


def _is(die: NandDie, command: int):
    return die.command.valid & (die.command.command == command)
