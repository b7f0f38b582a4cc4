"""NAND core dies of one stack: what they hold, how long they take, what they forbid."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.arbiter import select
from hw.hbf.layouts import Command, CommandPort, ReadoutPort
from hw.hbf.page_walk import log2
from hw.params import Machine
from hw.sram.regions import GROUPS
from tb.vip.content import BeatContent

CLOCK_BITS = 24


class NandDie(wiring.Component):
    """Registers of one NAND die, and the judge of its commands.

    SENSE loads the data register of a subarray, LATCH moves it to the cache register, read-outs
    take four beats out of that. ``violation`` pulses on a SENSE over a page that was not latched
    yet, on a LATCH without a SENSE, earlier than ``t_read`` after it or over a page that was not
    read out yet, on a SENSE that needs the cache register while ``cache_read`` is off, and on a
    read-out of an empty cache register or out of beat order. The clock of the last read-out already
    counts as read out.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        g = machine.geometry
        super().__init__(
            {
                "command": In(CommandPort(machine)),
                "clock": In(CLOCK_BITS),
                "t_read": In(20),
                "cache_read": In(1),
                "read": In(1),
                "read_subarray": In(range(g.subarrays_per_die)),
                "read_beat": In(2),
                "row": Out(range(g.rows)),
                "violation": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        g = self._machine.geometry
        subarrays = g.subarrays_per_die
        command = self.command
        sensed = Signal(subarrays)  # data register holds a page not yet latched
        cached = Signal(subarrays)  # cache register holds a page not yet read out
        m.submodules.rows = rows = Memory(shape=range(g.rows), depth=subarrays, init=[])
        m.submodules.times = times = Memory(shape=CLOCK_BITS, depth=subarrays, init=[])
        m.submodules.cache = cache = Memory(shape=range(g.rows), depth=subarrays, init=[])
        row_write, row_read = rows.write_port(), rows.read_port(domain="comb")
        time_write, time_read = times.write_port(), times.read_port(domain="comb")
        cache_write, cache_read = cache.write_port(), cache.read_port(domain="comb")

        sense = command.valid & (command.command == Command.SENSE)
        latch = command.valid & (command.command == Command.LATCH)
        s = command.subarray
        m.d.comb += [
            row_write.en.eq(sense),
            row_write.addr.eq(s),
            row_write.data.eq(command.row),
            time_write.en.eq(sense),
            time_write.addr.eq(s),
            time_write.data.eq(self.clock),
            row_read.addr.eq(s),
            time_read.addr.eq(s),
            cache_write.en.eq(latch),
            cache_write.addr.eq(s),
            cache_write.data.eq(row_read.data),
            cache_read.addr.eq(self.read_subarray),
            self.row.eq(cache_read.data),
        ]

        m.submodules.beats = beats = Memory(shape=2, depth=subarrays, init=[])
        beat_write, beat_read = beats.write_port(), beats.read_port(domain="comb")
        m.d.comb += [
            beat_read.addr.eq(self.read_subarray),
            beat_write.en.eq(self.read),
            beat_write.addr.eq(self.read_subarray),
            beat_write.data.eq(beat_read.data + 1),
        ]
        emptied = self.read & (beat_read.data == GROUPS - 1)

        one = Const(1, subarrays)
        none = Const(0, subarrays)
        here = Mux(command.valid, one << s, none)
        m.d.sync += [
            sensed.eq((sensed & ~Mux(latch, here, none)) | Mux(sense, here, none)),
            cached.eq(
                (cached & ~Mux(emptied, one << self.read_subarray, none)) | Mux(latch, here, none)
            ),
        ]
        was_sensed = sensed.bit_select(s, 1)
        was_cached = cached.bit_select(s, 1) & ~(emptied & (self.read_subarray == s))
        early = (self.clock - time_read.data)[:CLOCK_BITS] < self.t_read
        wrong_read = ~cached.bit_select(self.read_subarray, 1) | (beat_read.data != self.read_beat)
        m.d.sync += self.violation.eq(
            (sense & (was_sensed | (was_cached & ~self.cache_read)))
            | (latch & (~was_sensed | was_cached | early))
            | (self.read & wrong_read)
        )
        return m


class NandStack(wiring.Component):
    """All core dies of one stack behind its TSVs.

    Contract: a read-out returns the content of the page that its die's commands put in the cache
    register, whatever the base die believes it to be. ``senses`` and ``violations`` count.
    ``corrupt`` flips one bit of every beat that is read out while it is high.
    """

    def __init__(self, machine: Machine, *, stack: int) -> None:
        self._machine, self._stack = machine, stack
        super().__init__(
            {
                "command": In(CommandPort(machine)).array(machine.geometry.dies),
                "readout": In(ReadoutPort(machine)).array(GROUPS),
                "t_read": In(20),
                "cache_read": In(1),
                "corrupt": In(1),
                "senses": Out(32),
                "violations": Out(32),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, g = self._machine, self._machine.geometry
        clock = Signal(CLOCK_BITS)
        m.d.sync += clock.eq(clock + 1)
        dies = []
        for d in range(g.dies):
            m.submodules[f"die{d}"] = die = NandDie(machine)
            wiring.connect(m, wiring.flipped(self.command[d]), die.command)
            asks = [port.valid & (port.die == d) for port in self.readout]
            m.d.comb += [
                die.clock.eq(clock),
                die.t_read.eq(self.t_read),
                die.cache_read.eq(self.cache_read),
                die.read.eq(Cat(asks).any()),
                die.read_subarray.eq(select(asks, [port.subarray for port in self.readout])),
                die.read_beat.eq(select(asks, [port.beat for port in self.readout])),
            ]
            dies.append(die)
        new_senses = sum(die.command.valid & (die.command.command == Command.SENSE) for die in dies)
        m.d.sync += [
            self.senses.eq(self.senses + new_senses),
            self.violations.eq(self.violations + sum(die.violation for die in dies)),
        ]

        for i, port in enumerate(self.readout):
            m.submodules[f"content{i}"] = content = BeatContent(
                stack=self._stack, lanes=machine.lanes
            )
            row = Signal(range(g.rows), name=f"row{i}")
            m.d.comb += row.eq(
                select([port.die == d for d in range(g.dies)], [x.row for x in dies])
            )
            address = Cat(port.beat, port.die, port.subarray[: log2(g.subarrays_per_die)], row)
            flip = Signal(name=f"flip{i}")
            with m.If(port.valid):
                m.d.sync += [content.beat.eq(address), flip.eq(self.corrupt)]
            for k in range(machine.lanes):
                m.d.comb += port.lanes[k].eq(
                    content.lanes[k] ^ (flip << 17) if k == 1 else content.lanes[k]
                )
        return m
