"""The read system: a package between NAND stacks and checking consumers."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.gpu.router import WINDOW_BITS, read_layout
from hw.hbf.layouts import Registers
from hw.package import Package
from hw.params import Machine, Topology
from hw.sram.regions import GROUPS
from tb.vip.checker import BeatChecker
from tb.vip.delivery import DeliveryMonitor
from tb.vip.nand import NandStack


class ReadSystem(wiring.Component):
    """Everything but the requests: those come from the bench on ``read``.

    Members
    -------
    registers, read, window : of :class:`hw.package.Package`
    stall_direct, stall_relay : of 256 clocks, how many the consumer of a path is not ready
    corrupt : flips a bit of what the NAND returns
    clock .. waves : stamps of :class:`tb.vip.delivery.DeliveryMonitor`
    beats_direct, beats_relay : beats received on a path, over all pairs
    errors : wrong beats; violations : broken NAND rules; senses : pages sensed
    address_sum : of all beat numbers received
    completed : reads that are whole; poisoned : those of them that carry poison
    """

    STAMPS = ("clock", "accepted", "first_beat", "last_beat", "wave_end")
    COUNTERS = (
        "beats_direct",
        "beats_relay",
        "errors",
        "violations",
        "senses",
        "address_sum",
        "completed",
        "poisoned",
    )

    def __init__(self, machine: Machine, topology: Topology) -> None:
        self._machine, self._topology = machine, topology
        super().__init__(
            {
                "registers": In(Registers()),
                "read": In(stream.Signature(read_layout(machine))),
                "window": In(WINDOW_BITS),
                "stall_direct": In(9),
                "stall_relay": In(9),
                "corrupt": In(1),
                **{stamp: Out(32) for stamp in self.STAMPS},
                "waves": Out(16),
                "beats_direct": Out(40),
                "beats_relay": Out(40),
                "errors": Out(32),
                "violations": Out(32),
                "senses": Out(32),
                "address_sum": Out(64),
                "completed": Out(32),
                "poisoned": Out(32),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, topology = self._machine, self._topology
        m.submodules.package = package = Package(machine, topology)
        m.submodules.delivery = delivery = DeliveryMonitor(
            machine, pairs=topology.pairs, sources=len(package.paths) * topology.pairs
        )
        wiring.connect(m, wiring.flipped(self.registers), package.registers)
        wiring.connect(m, wiring.flipped(self.read), package.read)
        m.d.comb += [
            package.window.eq(self.window),
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
            m.d.comb += [
                nand.t_read.eq(self.registers.t_read),
                nand.cache_read.eq(self.registers.cache_read),
                nand.corrupt.eq(self.corrupt),
            ]
            stacks.append(nand)
        m.d.comb += [
            self.senses.eq(sum(nand.senses for nand in stacks)),
            self.violations.eq(sum(nand.violations for nand in stacks)),
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
            self.address_sum.eq(sum(checker.address_sum for checker in checkers)),
        ]

        dones = [getattr(package, f"{name}_done") for name in package.paths]
        poisoned = Signal(range(3))
        m.d.comb += poisoned.eq(sum(done.valid & done.poison for done in dones))
        m.d.sync += [
            self.completed.eq(self.completed + sum(Cat(done.valid for done in dones))),
            self.poisoned.eq(self.poisoned + poisoned),
        ]
        return m
