"""Registers, counters and error log of the HBF base die behind its register port."""

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.block_layouts import BlockOperation, block_layout
from hw.hbf.block_port import answer_layout
from hw.hbf.layouts import Registers
from hw.hbf.read_issue import Blocked
from hw.hbf.write_admission import WriteAdmission
from hw.params import ERASE_CYCLE_BITS, Machine
from hw.registers.hbf import hbf_description, hbf_resets
from hw.registers.register_file import RegisterFile, RegisterPort
from hw.sram.ecc_log import EccPort

REASONS = tuple(name.lower() for name in Blocked.__members__)  # by bit
COUNTERS = {  # of the register map, from the counts of the dies
    "pages_programmed": "programmed",
    "pages_relocated": "relocated",
    "program_failures": "program_failed",
    "erases": "erased",
    "collected": "collected",
    "erase_failures": "erase_failed",
}


def die_status_layout(machine: Machine) -> data.StructLayout:
    """What one die reports in each clock."""
    return data.StructLayout(
        {
            "blocked_on": Blocked,
            "issued": 1,
            "path": 1,
            "held": 1,
            "suspends": 1,
            "counts": data.StructLayout(dict.fromkeys(WriteAdmission.COUNTS, 1)),
            "max_cycles": ERASE_CYCLE_BITS,
        }
    )


class Control(wiring.Component):
    """The register file of one HBF base die and what it counts.

    Contract: ``registers`` are those of the map; counters follow what the dies report by two
    clocks. A question for a block goes to its die; its answer stays until the next. ``slice_tick``
    pulses every ``suspend_slice`` + 1 clocks.

    Members
    -------
    port : In(RegisterPort)
    registers : Out
    slice_tick : Out
    dies : In, one a die
    ecc : Out(EccPort): of the transfer regions
    query : Out(stream of blocks), one a die; answer : In, one a die
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        dies = machine.geometry.dies
        super().__init__(
            {
                "port": In(RegisterPort()),
                "registers": Out(Registers()),
                "slice_tick": Out(1),
                "dies": In(die_status_layout(machine)).array(dies),
                "ecc": Out(EccPort(machine)),
                "query": Out(stream.Signature(block_layout(machine))).array(dies),
                "answer": In(answer_layout(machine)).array(dies),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        m.submodules.file = file = RegisterFile(hbf_description(), resets=hbf_resets(machine))
        wiring.connect(m, wiring.flipped(self.port), file.port)
        m.d.comb += [
            getattr(self.registers, name).eq(getattr(file, name))
            for name in self.registers.signature.members
        ]

        left = Signal(len(file.suspend_slice))
        m.d.comb += self.slice_tick.eq(left == 0)
        m.d.sync += left.eq(left - 1)
        with m.If(self.slice_tick):
            m.d.sync += left.eq(file.suspend_slice)

        self._counters(m, file)
        self._ecc(m, file)
        self._query(m, file)
        return m

    def _counters(self, m: Module, file: RegisterFile) -> None:
        def count(name: str, events) -> None:
            total = Signal(len(getattr(file, name)), name=f"new_{name}")
            m.d.sync += total.eq(sum(events))
            m.d.comb += getattr(file, name).eq(total)

        for bit, name in enumerate(REASONS):
            events = [Value.cast(die.blocked_on)[bit] for die in self.dies]
            count(f"blocked_{name}", events)
        for path, name in enumerate(("direct", "relay")):
            count(f"issued_{name}", [die.issued & (die.path == path) for die in self.dies])
        for name, event in COUNTERS.items():
            count(name, [die.counts[event] for die in self.dies])
        count("suspends", [die.suspends for die in self.dies])
        count("reads_held", [die.held for die in self.dies])
        most = Const(0, ERASE_CYCLE_BITS)
        for die in self.dies:
            larger = Signal.like(most)
            m.d.sync += larger.eq(most)
            with m.If(die.max_cycles > most):
                m.d.sync += larger.eq(die.max_cycles)
            most = larger
        m.d.comb += file.max_cycles.eq(most)

    def _ecc(self, m: Module, file: RegisterFile) -> None:
        inject, log = self.ecc.inject, self.ecc.log
        place = log.first.place
        m.d.comb += [
            inject.arm.eq(file.inject_arm),
            inject.beats.eq(file.inject_beats),
            inject.word.eq(file.inject_word),
            inject.first.eq(file.inject_bit0),
            inject.second.eq(file.inject_bit1),
            inject.double.eq(file.inject_double),
            file.inject_armed.eq(inject.armed),
            log.clear.eq(file.ecc_clear),
            file.ecc_corrected.eq(log.corrected),
            file.ecc_uncorrected.eq(log.uncorrectable),
            file.ecc_first_valid.eq(log.first.valid),
            file.ecc_first_uncorrected.eq(log.first.uncorrectable),
            file.ecc_first_word.eq(log.first.word),
            file.ecc_first_syndrome.eq(log.first.syndrome),
            file.ecc_first_address.eq(Cat(place.region, place.group, place.row)),
        ]

    def _query(self, m: Module, file: RegisterFile) -> None:
        asks, under_way, die = Signal(), Signal(), file.query_die
        asked = Signal.like(die)  # of the question that is under way
        for d, (query, answer) in enumerate(zip(self.query, self.answer, strict=True)):
            m.d.comb += [
                query.valid.eq(asks & ~under_way & (die == d)),
                query.payload.subarray.eq(file.query_subarray),
                query.payload.block.eq(file.query_block),
            ]
            with m.If(query.valid & query.ready):
                m.d.sync += [asks.eq(0), under_way.eq(1), asked.eq(die)]
            with m.If(answer.valid & (answer.kind == BlockOperation.QUERY) & (asked == d)):
                entry = answer.entry
                m.d.sync += [
                    under_way.eq(0),
                    file.query_valid.eq(~asks),
                    file.query_owner.eq(entry.owner),
                    file.query_dirty.eq(entry.dirty),
                    file.query_failed.eq(entry.failed),
                    file.query_next.eq(entry.next_page),
                    file.query_live.eq(entry.live_pages),
                    file.query_cycles.eq(entry.erase_cycles),
                    file.query_reads.eq(entry.reads),
                ]
        with m.If(file.query_go):  # what is under way answers an earlier question
            m.d.sync += [asks.eq(1), file.query_valid.eq(0)]
