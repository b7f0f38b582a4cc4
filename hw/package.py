"""The package: one GPU I/O die and its HBM/HBF stack pairs, in any topology."""

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.gpu.io_die import PATHS, GpuIoDie
from hw.gpu.router import WINDOW_BITS, read_layout
from hw.hbf.base_die import HbfBaseDie
from hw.hbf.layouts import CommandPort, ReadoutPort, Registers
from hw.hbm.base_die import HbmBaseDie
from hw.params import Machine, Topology
from hw.sram.regions import GROUPS
from hw.ucie.channel import DataChannel, RequestChannel
from hw.ucie.transaction import BeatStream


class Package(wiring.Component):
    """GPU I/O die, base dies and the links between them.

    Link A joins GPU and HBF (present if the topology has the direct path), link C joins HBF and
    HBM and link B HBM and GPU (present if it has the relay path). Messages of a link flow request
    to data to completion and never back, over links A, B and C alike, so no cycle of waiting can
    close.

    Members
    -------
    registers : of all HBF base dies; ``link_rate`` also paces link B
    read, window : reads from the GPU, see :class:`hw.gpu.router.RequestRouter`
    direct_o, relay_o : data at the GPU side, one a pair
    direct_done, relay_done : reads that are whole
    command, readout : NAND side; one command port a die, one read-out a bank group, pair by pair
    """

    def __init__(self, machine: Machine, topology: Topology) -> None:
        self._machine, self._topology = machine, topology
        pairs, lanes = topology.pairs, machine.lanes
        done = data.StructLayout({"valid": 1, "tag": 12, "poison": 1})
        members = {
            "registers": In(Registers()),
            "read": In(stream.Signature(read_layout(machine))),
            "window": In(WINDOW_BITS),
            "command": Out(CommandPort(machine)).array(pairs, machine.geometry.dies),
            "readout": Out(ReadoutPort(machine)).array(pairs, GROUPS),
        }
        for name in self.paths:
            members[f"{name}_o"] = Out(BeatStream(lanes)).array(pairs)
            members[f"{name}_done"] = Out(done)
        super().__init__(members)

    @property
    def machine(self) -> Machine:
        return self._machine

    @property
    def topology(self) -> Topology:
        return self._topology

    @property
    def paths(self) -> tuple[str, ...]:
        """Names of the read paths that exist."""
        return tuple(name for name in PATHS if getattr(self._topology, name))

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, topology = self._machine, self._topology
        present = {"direct": topology.direct, "relay": topology.relay}
        m.submodules.gpu = gpu = GpuIoDie(machine, pairs=topology.pairs, **present)
        wiring.connect(m, wiring.flipped(self.read), gpu.i)
        m.d.comb += gpu.window.eq(self.window)
        for name in self.paths:
            for pair in range(topology.pairs):
                out = getattr(self, f"{name}_o")[pair]
                wiring.connect(m, getattr(gpu, f"{name}_o")[pair], wiring.flipped(out))
            m.d.comb += getattr(self, f"{name}_done").eq(getattr(gpu, f"{name}_done"))

        for pair in range(topology.pairs):
            hbf = HbfBaseDie(machine, **present)
            m.submodules[f"hbf{pair}"] = hbf
            wiring.connect(m, wiring.flipped(self.registers), hbf.registers)
            for d in range(machine.geometry.dies):
                wiring.connect(m, hbf.command[d], wiring.flipped(self.command[pair][d]))
            for g in range(GROUPS):
                wiring.connect(m, hbf.readout[g], wiring.flipped(self.readout[pair][g]))
            if topology.direct:
                self._link(m, f"link_a{pair}", gpu.direct_request[pair], hbf.a_request)
                self._link(m, f"link_a{pair}_data", hbf.a_data, gpu.direct_data[pair])
            if topology.relay:
                hbm = HbmBaseDie(machine)
                m.submodules[f"hbm{pair}"] = hbm
                m.d.comb += hbm.link_rate.eq(self.registers.link_rate)
                self._link(m, f"link_b{pair}", gpu.relay_request[pair], hbm.b_request)
                self._link(m, f"link_c{pair}", hbm.c_request, hbf.c_request)
                self._link(m, f"link_c{pair}_data", hbf.c_data, hbm.c_data)
                self._link(m, f"link_b{pair}_data", hbm.b_data, gpu.relay_data[pair])
        return m

    def _link(self, m: Module, name: str, sender, receiver) -> None:
        """One direction of a link between two dies."""
        cycles = self._machine.link.one_way_cycles
        if hasattr(sender, "lanes"):
            channel = DataChannel(
                lanes=self._machine.lanes,
                cycles=cycles,
                bank_bytes=self._machine.sram.bank_bytes,
            )
        else:
            channel = RequestChannel(cycles=cycles)
        m.submodules[name] = channel
        wiring.connect(m, sender, channel.i)
        wiring.connect(m, channel.o, receiver)
