"""The memory system: a package between NAND stacks and those who read and write it."""

from typing import ClassVar

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.gpu.router import WINDOW_BITS, read_layout
from hw.hbf.layouts import Registers
from hw.hbm.relay import most_early_pages
from hw.package import Package, register_port
from hw.params import NAND_TIME_BITS, Machine, Topology
from hw.sram.regions import GROUPS
from hw.ucie.codes import Status
from hw.ucie.write_sender import write_request_layout
from tb.vip.checker import BeatChecker
from tb.vip.delivery import DeliveryMonitor
from tb.vip.fill import FillMonitor
from tb.vip.nand import NandStack
from tb.vip.nand_rules import NandRule
from tb.vip.stamps import StampTable
from tb.vip.write_source import WriteSource


class MemorySystem(wiring.Component):
    """Everything but the requests: those come from the bench.

    Members
    -------
    registers : timing of the NAND dies and modes, as their judge holds them to it
    port : ``registers`` of :class:`hw.package.Package`
    read, window : of :class:`hw.package.Package`; ``registers.link_rate`` is its ``link_rate``
    relay_cut_through, relay_early_pages : of :class:`hw.package.Package`, if link C is there
    stall_direct, stall_relay : of 256 clocks, how many the consumer of a path is not ready
    corrupt : flips a bit of what the NAND returns
    write, writeback : of :class:`hw.package.Package`, as far as they exist; their tags say what is
        written, see :class:`tb.vip.write_source.WriteSource`
    fail_program, fail_erase, fail_program_at : faults of the NAND, see
        :class:`tb.vip.nand.NandStack`
    clock .. waves : stamps of :class:`tb.vip.delivery.DeliveryMonitor`
    first_fill .. fill_waves : stamps of :class:`tb.vip.fill.FillMonitor`; beats_filled : its beats
    beats_direct, beats_relay : beats received on a path, over all pairs
    errors : wrong beats; violations, violation_kind : broken NAND rules
    senses, programs, erases, program_failures, erase_failures : commands of the NAND
    write_errors : wrong beats that reached the NAND
    overflow : pages that the NAND model forgot
    address_sum, version_sum, versioned_sum : over all beats received
    completed : reads that are whole; poisoned : those of them that carry poison
    written : writes, trims and releases of a stack that have ended
    read_status, write_status : how many reads, and of those writes, ended with each status, in the
        order of Status
    page_failures : pages that were answered with a status
    write_begin, write_end : stamps of the first request and of the last answer
    query : a tag; one clock later ``tag_accepted`` and ``tag_done`` (one a path) are the stamps of
        its read, ``tag_first`` and ``tag_last`` (one a path and pair) those of its beats
    """

    STAMPS = ("clock", "accepted", "first_beat", "last_beat", "wave_end")
    FILL_STAMPS = ("first_fill", "last_fill", "fill_wave_end")
    COUNTERS = (
        "beats_filled",
        "beats_direct",
        "beats_relay",
        "errors",
        "violations",
        "violation_kind",
        "senses",
        "programs",
        "erases",
        "program_failures",
        "erase_failures",
        "write_errors",
        "overflow",
        "address_sum",
        "version_sum",
        "versioned_sum",
        "completed",
        "poisoned",
        "written",
        "page_failures",
        "write_begin",
        "write_end",
    )
    WIDTHS: ClassVar = {  # of counters that are not 32 bits wide
        "beats_filled": 40,
        "beats_direct": 40,
        "beats_relay": 40,
        "violation_kind": len(NandRule),
        "address_sum": 64,
        "version_sum": 64,
        "versioned_sum": 64,
    }

    def __init__(self, machine: Machine, topology: Topology) -> None:
        self._machine, self._topology = machine, topology
        writers = {"write": topology.direct, "writeback": topology.relay}
        self._writers = [name for name, there in writers.items() if there]
        self._switches = {}
        if topology.relay:
            self._switches = {
                "relay_cut_through": 1,
                "relay_early_pages": range(most_early_pages(machine) + 1),
            }
        super().__init__(
            {
                "registers": In(Registers()),
                "port": In(register_port(topology)).array(topology.pairs),
                "read": In(stream.Signature(read_layout(machine))),
                **{
                    name: In(stream.Signature(write_request_layout(machine)))
                    for name in self._writers
                },
                "window": In(WINDOW_BITS),
                **{name: In(shape) for name, shape in self._switches.items()},
                "stall_direct": In(9),
                "stall_relay": In(9),
                "corrupt": In(1),
                "fail_program": In(9),
                "fail_erase": In(9),
                "fail_program_at": In(32),
                **{stamp: Out(32) for stamp in (*self.STAMPS, *self.FILL_STAMPS)},
                "waves": Out(16),
                "fill_waves": Out(16),
                **{name: Out(self.WIDTHS.get(name, 32)) for name in self.COUNTERS},
                "read_status": Out(32).array(len(Status)),
                "write_status": Out(32).array(len(Status)),
                "query": In(12),
                "tag_accepted": Out(32),
                "tag_first": Out(32).array(self.sources),
                "tag_last": Out(32).array(self.sources),
                "tag_done": Out(32).array(self.sources // topology.pairs),
            }
        )

    @property
    def sources(self) -> int:
        """Streams of data that arrive: one a path and pair."""
        return (self._topology.direct + self._topology.relay) * self._topology.pairs

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, topology = self._machine, self._topology
        m.submodules.package = package = Package(machine, topology)
        m.submodules.delivery = delivery = DeliveryMonitor(
            machine, pairs=topology.pairs, sources=len(package.paths) * topology.pairs
        )
        for pair in range(topology.pairs):
            wiring.connect(m, wiring.flipped(self.port[pair]), package.registers[pair])
        wiring.connect(m, wiring.flipped(self.read), package.read)
        m.d.comb += [
            package.window.eq(self.window),
            *(getattr(package, name).eq(getattr(self, name)) for name in self._switches),
            package.link_rate.eq(self.registers.link_rate),
            delivery.accept.eq(self.read.valid & self.read.ready),
            *(getattr(self, stamp).eq(getattr(delivery, stamp)) for stamp in self.STAMPS),
            self.waves.eq(delivery.waves),
        ]

        stacks = []
        for pair in range(topology.pairs):
            m.submodules[f"nand{pair}"] = nand = NandStack(machine, stack=pair)
            for d in range(machine.geometry.dies):
                wiring.connect(m, package.command[pair][d], nand.command[d])
            for g in range(GROUPS):
                wiring.connect(m, package.readout[pair][g], nand.readout[g])
            wiring.connect(m, package.writein[pair], nand.writein)
            m.d.comb += [
                *(getattr(nand, t).eq(getattr(self.registers, t)) for t in NAND_TIME_BITS),
                nand.cache_read.eq(self.registers.cache_read),
                *(
                    getattr(nand, name).eq(getattr(self, name))
                    for name in ("corrupt", "fail_program", "fail_erase", "fail_program_at")
                ),
            ]
            stacks.append(nand)
        for name in ("senses", "programs", "erases", "program_failures", "erase_failures"):
            m.d.comb += getattr(self, name).eq(sum(getattr(nand, name) for nand in stacks))
        m.d.comb += [
            self.violations.eq(sum(nand.violations for nand in stacks)),
            self.write_errors.eq(sum(nand.data_errors for nand in stacks)),
            self.overflow.eq(sum(nand.overflow for nand in stacks)),
        ]
        for nand in stacks:
            with m.If(nand.violation_kind != 0):
                m.d.comb += self.violation_kind.eq(nand.violation_kind)
        self._writes(m, package, delivery.clock)
        m.submodules.fill = fill = FillMonitor(machine, stacks=topology.pairs)
        m.d.comb += [
            fill.readouts.eq(sum(port.valid for ports in package.readout for port in ports)),
            fill.clock.eq(self.clock),
            self.beats_filled.eq(fill.beats),
            self.first_fill.eq(fill.first),
            self.last_fill.eq(fill.last),
            self.fill_wave_end.eq(fill.wave_end),
            self.fill_waves.eq(fill.waves),
        ]

        checkers = []
        for index, name in enumerate(package.paths):
            of_path = []
            for pair in range(topology.pairs):
                checker = BeatChecker(machine, stack=pair, seed=2 * pair + index)
                m.submodules[f"check_{name}{pair}"] = checker
                wiring.connect(m, getattr(package, f"{name}_o")[pair], checker.i)
                m.d.comb += checker.stall.eq(getattr(self, f"stall_{name}"))
                of_path.append(checker)
            total = sum(checker.beats for checker in of_path)
            m.d.comb += getattr(self, f"beats_{name}").eq(total)
            checkers += of_path
        m.d.comb += [
            delivery.beats.eq(sum(checker.taken for checker in checkers)),
            self.errors.eq(sum(checker.errors for checker in checkers)),
            *(
                getattr(self, name).eq(sum(getattr(checker, name) for checker in checkers))
                for name in ("address_sum", "version_sum", "versioned_sum")
            ),
        ]

        dones = [getattr(package, f"{name}_done") for name in package.paths]
        poisoned = Signal(range(3))
        m.d.comb += poisoned.eq(sum(done.valid & done.poison for done in dones))
        m.d.sync += [
            self.completed.eq(self.completed + sum(Cat(done.valid for done in dones))),
            self.poisoned.eq(self.poisoned + poisoned),
        ]
        self._count(m, self.read_status, [(done.valid, done.status) for done in dones])
        self._stamps(m, delivery.clock, checkers, dones)
        return m

    def _stamps(self, m: Module, clock: Signal, checkers: list[BeatChecker], dones: list) -> None:
        """Stamps by tag of the reads."""

        def stamp(name, out, en, tag, *, first=False):
            m.submodules[name] = table = StampTable(first=first)
            m.d.comb += [
                table.clock.eq(clock),
                table.en.eq(en),
                table.tag.eq(tag),
                table.query.eq(self.query),
                out.eq(table.stamp),
            ]

        accept = self.read.valid & self.read.ready
        stamp("tags_accepted", self.tag_accepted, accept, self.read.payload.tag)
        for k, checker in enumerate(checkers):
            event = checker.taken, checker.i.header.tag
            stamp(f"tags_first{k}", self.tag_first[k], *event, first=True)
            stamp(f"tags_last{k}", self.tag_last[k], *event)
        for k, done in enumerate(dones):
            stamp(f"tags_done{k}", self.tag_done[k], done.valid, done.tag)

    def _writes(self, m: Module, package: Package, clock: Signal) -> None:
        """Sources of write data, and the count of answers."""
        answers = []
        for name in self._writers:
            port = getattr(self, name)
            wiring.connect(m, wiring.flipped(port), getattr(package, name))
            for pair in range(self._topology.pairs):
                source = WriteSource(self._machine, stack=pair)
                m.submodules[f"source_{name}{pair}"] = source
                lanes = getattr(package, f"{name}_lanes")[pair]
                m.d.comb += [
                    source.begin.valid.eq(port.valid & port.ready),
                    source.begin.tag.eq(port.payload.tag),
                    source.begin.first.eq(port.payload.first),
                    source.fetch.eq(getattr(package, f"{name}_fetch")[pair]),
                    *(lane.eq(own) for lane, own in zip(lanes, source.lanes, strict=True)),
                ]
                answers.append(getattr(package, f"{name}_done")[pair])
        ended = sum(answer.valid & answer.last for answer in answers)
        failed = sum(answer.valid & ~answer.last for answer in answers)
        m.d.sync += [
            self.written.eq(self.written + ended),
            self.page_failures.eq(self.page_failures + failed),
        ]
        ends = [(answer.valid & answer.last, answer.status) for answer in answers]
        self._count(m, self.write_status, ends)
        with m.If(Cat(answer.valid for answer in answers).any()):
            m.d.sync += self.write_end.eq(clock)
        asks = Cat(getattr(self, name).valid & getattr(self, name).ready for name in self._writers)
        begun = Signal()
        with m.If(asks.any() & ~begun):
            m.d.sync += [begun.eq(1), self.write_begin.eq(clock)]

    def _count(self, m: Module, counters, ends: list) -> None:
        """Counts what ended in this clock by its status."""
        for counter, status in zip(counters, Status, strict=True):
            m.d.sync += counter.eq(counter + sum(ended & (s == status) for ended, s in ends))
