"""The package: one GPU I/O die and its HBM/HBF stack pairs, in any topology."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.gpu.completions import read_done_layout
from hw.gpu.io_die import GpuIoDie
from hw.gpu.router import WINDOW_BITS, read_layout
from hw.hbf.base_die import HbfBaseDie
from hw.hbf.layouts import CommandPort, ReadoutPort, WriteinPort
from hw.hbm.base_die import HbmBaseDie
from hw.hbm.relay import most_early_pages
from hw.links import GPU, HBF, HBM, LinkPorts, PortNames, links_of
from hw.params import Machine, Topology
from hw.registers.register_file import RegisterPort
from hw.sram.regions import GROUPS
from hw.ucie.channel import DataChannel, RequestChannel
from hw.ucie.link import UcieLink
from hw.ucie.link_end import Channel
from hw.ucie.link_shape import link_shape, wire_cycles
from hw.ucie.pacer import RATE_BITS
from hw.ucie.sideband_link import SidebandPair
from hw.ucie.sideband_requester import AccessPort
from hw.ucie.sideband_serial import wire_pace
from hw.ucie.transaction import PATHS, BeatStream
from hw.ucie.write_sender import done_layout, fetch_layout, write_request_layout

Ports = dict[str, tuple[Any, Any]]
SIDEBAND_BITS = 32  # of a word, in which the bits of the wire are moved


class Package(wiring.Component):
    """GPU I/O die, base dies and the links between them.

    Link A joins GPU and HBF (present if the topology has the direct path), link C joins HBF and
    HBM and link B HBM and GPU (present if it has the relay path), see :mod:`hw.links`. No cycle of
    waiting closes over them, see :class:`hw.channel_graph.ChannelGraph`.

    Members
    -------
    registers : register ports of the HBF base dies, one a pair; with ``sideband`` in the topology
        accesses at the GPU I/O die, which reach the die over the wire
    link_rate : pace of the GPU I/O die's and HBM base dies' links, in 1/65536 beat a clock
    relay_cut_through, relay_early_pages : how the relay buffers forward, see
        :class:`hw.hbm.relay.RelayBuffer`, if link C is there
    link_reset : asks for a reset of a link, one bit each as :func:`hw.links.links_of` names them,
        one a pair, if the links carry flits
    read, window : reads from the GPU, see :class:`hw.gpu.router.RequestRouter`
    direct_o, relay_o : data at the GPU side, one a pair
    direct_done, relay_done : reads that are over: whole, refused or ended by a reset
    write, write_fetch, write_lanes, write_done : writes from the GPU, if link A is there; the last
        three one a pair, see :class:`hw.gpu.io_die.GpuIoDie`
    writeback, writeback_fetch, writeback_lanes, writeback_done : writes from the HBM, if link C is
    command, readout, writein : NAND side; one command port a die, one read-out a bank group, one
        write-in, pair by pair
    """

    def __init__(self, machine: Machine, topology: Topology) -> None:
        self._machine, self._topology = machine, topology
        pairs, lanes = topology.pairs, machine.lanes
        members = {
            "registers": In(register_port(topology)).array(pairs),
            "link_rate": In(RATE_BITS + 1),
            "read": In(stream.Signature(read_layout(machine))),
            "window": In(WINDOW_BITS),
            "command": Out(CommandPort(machine)).array(pairs, machine.geometry.dies),
            "readout": Out(ReadoutPort(machine)).array(pairs, GROUPS),
            "writein": Out(WriteinPort(machine)).array(pairs),
        }
        if topology.relay:
            members |= {
                "relay_cut_through": In(1),
                "relay_early_pages": In(range(most_early_pages(machine) + 1)),
            }
        if topology.flits:
            members["link_reset"] = In(len(links_of(topology))).array(pairs)
        for name in self.paths:
            members[f"{name}_o"] = Out(BeatStream(lanes)).array(pairs)
            members[f"{name}_done"] = Out(read_done_layout())
        for name in self.writers:
            members |= {
                name: In(stream.Signature(write_request_layout(machine))),
                f"{name}_fetch": Out(fetch_layout()).array(pairs),
                f"{name}_lanes": In(64).array(pairs, lanes),
                f"{name}_done": Out(done_layout()).array(pairs),
            }
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

    @property
    def writers(self) -> tuple[str, ...]:
        """Names of the write ports that exist: over link A, over link C."""
        there = {"write": self._topology.direct, "writeback": self._topology.relay}
        return tuple(name for name, present in there.items() if present)

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, topology = self._machine, self._topology
        present = {"direct": topology.direct, "relay": topology.relay}
        m.submodules.gpu = gpu = GpuIoDie(
            machine, pairs=topology.pairs, direct=topology.direct, relay=topology.relay
        )
        wiring.connect(m, wiring.flipped(self.read), gpu.i)
        m.d.comb += gpu.window.eq(self.window)
        for name in self.paths:
            for pair in range(topology.pairs):
                out = getattr(self, f"{name}_o")[pair]
                wiring.connect(m, getattr(gpu, f"{name}_o")[pair], wiring.flipped(out))
            m.d.comb += getattr(self, f"{name}_done").eq(getattr(gpu, f"{name}_done"))

        if topology.direct:
            wiring.connect(m, wiring.flipped(self.write), gpu.write)
            m.d.comb += gpu.link_rate.eq(self.link_rate)
        writebacks = []
        for pair in range(topology.pairs):
            hbf = HbfBaseDie(machine, **present)
            m.submodules[f"hbf{pair}"] = hbf
            self._registers(m, pair, hbf)
            for d in range(machine.geometry.dies):
                wiring.connect(m, hbf.command[d], wiring.flipped(self.command[pair][d]))
            for g in range(GROUPS):
                wiring.connect(m, hbf.readout[g], wiring.flipped(self.readout[pair][g]))
            wiring.connect(m, hbf.writein, wiring.flipped(self.writein[pair]))
            dies = {GPU: gpu, HBF: hbf}
            if topology.direct:
                self._fetch(m, "write", pair, gpu.fetch[pair], gpu.fetch_lanes[pair])
                m.d.comb += self.write_done[pair].eq(gpu.write_done[pair])
            if topology.relay:
                hbm = HbmBaseDie(machine)
                m.submodules[f"hbm{pair}"] = dies[HBM] = hbm
                m.d.comb += [
                    hbm.link_rate.eq(self.link_rate),
                    hbm.relay_cut_through.eq(self.relay_cut_through),
                    hbm.relay_early_pages.eq(self.relay_early_pages),
                ]
                self._fetch(m, "writeback", pair, hbm.fetch, hbm.fetch_lanes)
                m.d.comb += self.writeback_done[pair].eq(hbm.write_done)
                writebacks.append(hbm.writeback)
            for k, link in enumerate(links_of(topology)):
                self._link(m, k, link, pair, dies)
        if topology.relay:
            ready = Cat(port.ready for port in writebacks).all()
            m.d.comb += self.writeback.ready.eq(ready)
            for port in writebacks:
                m.d.comb += [
                    port.valid.eq(self.writeback.valid & ready),
                    port.payload.eq(self.writeback.payload),
                ]
        return m

    def _registers(self, m: Module, pair: int, hbf: HbfBaseDie) -> None:
        """The register port of a die, or the sideband that leads there."""
        machine, topology = self._machine, self._topology
        port = wiring.flipped(self.registers[pair])
        if not topology.sideband:
            wiring.connect(m, port, hbf.registers)
            return
        m.submodules[f"sideband{pair}"] = sideband = SidebandPair(
            width=SIDEBAND_BITS,
            pace=wire_pace(SIDEBAND_BITS, lclk_mhz=round(machine.clock_hz / 1e6)),
            cycles=machine.link.one_way_cycles,
            timeout=max(2, round(topology.sideband_timeout_us * machine.clock_hz / 1e6)),
        )
        wiring.connect(m, port.access, sideband.access)
        wiring.connect(m, sideband.response, port.response)
        wiring.connect(m, sideband.port, hbf.registers)
        m.d.comb += port.tag.eq(sideband.tag)

    def _fetch(self, m: Module, name: str, pair: int, fetch, lanes) -> None:
        """Data of writes, which the sender asks for."""
        m.d.comb += [
            getattr(self, f"{name}_fetch")[pair].eq(fetch),
            *(
                lanes[k].eq(getattr(self, f"{name}_lanes")[pair][k])
                for k in range(self._machine.lanes)
            ),
        ]

    def _link(self, m: Module, k: int, link: LinkPorts, pair: int, dies) -> None:
        """The channels of a link between two dies of a pair."""

        def ports(channels: PortNames, sender: str, receiver: str) -> Ports:
            return {
                part: (_port(dies, sender, out, pair), _port(dies, receiver, into, pair))
                for part, (out, into) in channels.items()
            }

        name = f"{link.name}{pair}"
        forward = ports(link.forward, link.near, link.far)
        backward = ports(link.backward, link.far, link.near)
        if self._topology.flits:
            flits = self._flit_link(m, name, forward, backward, link.chunked)
            resets = (flits.near_reset, flits.far_reset)
            for die, port, reset in zip((link.near, link.far), link.reset, resets, strict=True):
                wiring.connect(m, reset, _port(dies, die, port, pair))
            m.d.comb += flits.reset.eq(self.link_reset[pair][k])
            return
        for part, (sender, receiver) in (forward | backward).items():
            channel = self._channel(beats=hasattr(sender, "lanes"))
            m.submodules[f"{name}_{part}" if part else name] = channel
            wiring.connect(m, sender, channel.i)
            wiring.connect(m, channel.o, receiver)

    def _channel(self, *, beats: bool) -> RequestChannel | DataChannel:
        machine = self._machine
        cycles = machine.link.one_way_cycles
        if not beats:
            return RequestChannel(cycles=cycles)
        return DataChannel(lanes=machine.lanes, cycles=cycles, bank_bytes=machine.sram.bank_bytes)

    def _flit_link(
        self, m: Module, name: str, forward: Ports, backward: Ports, chunked: bool
    ) -> UcieLink:
        machine, credits = self._machine, self._machine.credits
        depths = {
            "": credits.descriptors,
            "write": credits.writes,
            "in": credits.rx_beats,
            "data": machine.sram.relay_regions if chunked else credits.rx_beats,
            "reply": credits.descriptors,
        }

        def channels(ports: Ports) -> tuple[Channel, ...]:
            return tuple(
                Channel(
                    name=part or "request",
                    depth=depths[part],
                    lanes=machine.lanes if hasattr(sender, "lanes") else 0,
                    chunked=chunked and part == "data",
                )
                for part, (sender, _) in ports.items()
            )

        m.submodules[name] = link = UcieLink(
            shape=link_shape(machine),
            cycles=wire_cycles(machine),
            forward=channels(forward),
            backward=channels(backward),
        )
        for ports, begin, end in ((forward, "near", "far"), (backward, "far", "near")):
            for part, (sender, receiver) in ports.items():
                wiring.connect(m, sender, getattr(link, f"{begin}_{part or 'request'}"))
                wiring.connect(m, getattr(link, f"{end}_{part or 'request'}"), receiver)
        return link


def register_port(topology: Topology) -> wiring.Signature:
    """Where the registers of an HBF base die are reached."""
    return AccessPort() if topology.sideband else RegisterPort()


def _port(dies, die: str, name: str, pair: int):
    """Of a die; the GPU I/O die has one for each pair."""
    port = getattr(dies[die], name)
    return port[pair] if die == GPU else port
