# amaranth: UnusedElaboratable=no
"""Every block and every package converts: no combinational cycle, no port without bits."""

import dataclasses

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring

from hw.gpu.io_die import GpuIoDie
from hw.gpu.path_policy import Alternate
from hw.gpu.reassembly import Reassembly
from hw.gpu.router import RequestRouter
from hw.hbf.array_operations import ArrayOperations
from hw.hbf.base_die import HbfBaseDie
from hw.hbf.block_port import BlockPort
from hw.hbf.block_table import BlockTable
from hw.hbf.control import Control
from hw.hbf.delay_queue import DelayQueue
from hw.hbf.die_controller import DieController
from hw.hbf.drain import DrainEngine
from hw.hbf.layouts import descriptor_layout, page_layout
from hw.hbf.page_walk import PageWalk
from hw.hbf.path_gate import PathGate
from hw.hbf.pending import PendingPages
from hw.hbf.read_epochs import ReadEpochs
from hw.hbf.read_issue import ReadIssue
from hw.hbf.region_drain import RegionDrain
from hw.hbf.relay_admission import RelayAdmission
from hw.hbf.request_decoder import RequestDecoder
from hw.hbf.subarray_state import SubarrayState
from hw.hbf.tsv_lane import TsvLane
from hw.hbf.tsv_transfer import TsvTransfer
from hw.hbf.wave_gate import WaveGate
from hw.hbf.write_acceptance import WriteAcceptance
from hw.hbf.write_admission import WriteAdmission
from hw.hbf.write_ingress import WriteIngress
from hw.hbf.write_tracker import WriteTracker, write_layout
from hw.hbm.base_die import HbmBaseDie
from hw.hbm.controller_share import ControllerShare
from hw.hbm.dram.controller import HbmController
from hw.hbm.dram.stacks import stack
from hw.hbm.link_b import LinkBArbiter
from hw.hbm.local_port import LocalPort
from hw.hbm.relay import RelayBuffer
from hw.hbm.relay_chunks import RelayChunks
from hw.hbm.relay_control import RelayControl
from hw.hbm.relay_reader import RelayReader
from hw.hbm.relay_receive import RelayReceiver
from hw.hbm.relay_regions import RelayRegions
from hw.hbm.writeback import Writeback
from hw.package import Package
from hw.presets import TOPOLOGIES, preset
from hw.sram.macro import MacroPlatform
from hw.sram.regions import TransferRegions
from hw.ucie.adapter import D2DAdapter
from hw.ucie.crc import Crc16
from hw.ucie.credit_ledger import CreditGiver, CreditTaker
from hw.ucie.flit import STANDARD
from hw.ucie.flit_codec import FlitDecoder, FlitEncoder
from hw.ucie.link import UcieLink
from hw.ucie.link_end import Channel
from hw.ucie.link_shape import link_shape, wire_cycles
from hw.ucie.link_state import LinkState
from hw.ucie.modules import Deskewer, Striper
from hw.ucie.packer import GroupPacker
from hw.ucie.sideband_link import SidebandPair
from hw.ucie.sideband_serial import SidebandReceiver, SidebandTransmitter
from hw.ucie.transaction import Route
from hw.ucie.unpacker import GroupUnpacker
from hw.ucie.write_sender import WriteSender
from tests.hw.hbm.relay_bench import checked

BLOCKS = {
    "page walk": lambda machine: PageWalk(
        machine, die=1, depth=8, descriptor=descriptor_layout(machine)
    ),
    "pending pages": lambda machine: PendingPages(
        machine, die=0, depth=8, descriptor=write_layout(machine, links=2)
    ),
    "delay queue": lambda machine: DelayQueue(page_layout(machine), depth=2, delay_bits=20),
    "read issue": lambda machine: ReadIssue(machine, die=1),
    "read epochs": lambda machine: ReadEpochs(dies=machine.geometry.dies),
    "subarray state": SubarrayState,
    "array operations": ArrayOperations,
    "write admission": lambda machine: WriteAdmission(machine, die=1, links=2),
    "write acceptance": lambda machine: WriteAcceptance(machine, links=2),
    "write tracker": lambda machine: WriteTracker(machine, links=2),
    "write ingress": WriteIngress,
    "block table": BlockTable,
    "block port": BlockPort,
    "die controller": lambda machine: DieController(machine, links=2),
    "wave gate": WaveGate,
    "path gate": PathGate,
    "region drain": RegionDrain,
    "TSV lane": lambda machine: TsvLane(machine, write_clocks=6),
    "TSV transfer": lambda machine: TsvTransfer(machine, links=2),
    "TSV transfer, one link": lambda machine: TsvTransfer(machine, links=1),
    "transfer regions": TransferRegions,
    "drain": lambda machine: DrainEngine(machine, route=Route.RELAY, start=3),
    "relay admission": lambda machine: RelayAdmission(
        chunk_pages=machine.relay_chunk_pages, regions=2, max_pages=4096, idle_clocks=128
    ),
    "request decoder": RequestDecoder,
    "control": Control,
    "HBF base die": HbfBaseDie,
    "HBF base die, Direct": lambda machine: HbfBaseDie(machine, relay=False),
    "HBF base die, Relay": lambda machine: HbfBaseDie(machine, direct=False),
    "relay buffer": RelayBuffer,
    "relay buffer, check bits": lambda machine: RelayBuffer(checked(machine)),
    "relay chunks": lambda machine: RelayChunks(pages=8, credits=16),
    "relay control": lambda machine: RelayControl(pages=8, credits=16, fill_clocks=2),
    "relay receiver": lambda machine: RelayReceiver(pages=8),
    "relay regions": RelayRegions,
    "relay reader": lambda machine: RelayReader(pages=8),
    "HBM base die": HbmBaseDie,
    "HBM controller": lambda machine: HbmController(stack("formal")),
    "local port": lambda machine: LocalPort(machine, stack("formal")),
    "controller share": lambda machine: ControllerShare(stack("formal")),
    "link B arbiter": LinkBArbiter,
    "writeback": lambda machine: Writeback(machine, stack("formal")),
    "write sender": WriteSender,
    "write sender, staged": lambda machine: WriteSender(machine, staged=True),
    "CRC": lambda machine: Crc16(pipeline=2),
    "credit giver": lambda machine: CreditGiver(depths=(32, 8, 64)),
    "credit giver, least": lambda machine: CreditGiver(depths=(1,), period=1, refresh=None),
    "credit taker": lambda machine: CreditTaker(depths=(32, 8, 64)),
    "flit encoder": lambda machine: FlitEncoder(flit_format=STANDARD, flits=1, pipeline=2),
    "flit decoder": lambda machine: FlitDecoder(flit_format=STANDARD, flits=1, pipeline=2),
    "adapter": lambda machine: D2DAdapter(flit_format=STANDARD, flits=2, payload_bits=3840),
    "group packer": lambda machine: GroupPacker(lanes=8, slots=5),
    "group unpacker": lambda machine: GroupUnpacker(lanes=8, slots=5),
    "sideband pair": lambda machine: SidebandPair(),
    "sideband pair, one tag": lambda machine: SidebandPair(tags=1, credits=1, width=8, timeout=2),
    "sideband transmitter": lambda machine: SidebandTransmitter(width=8),
    "sideband receiver": lambda machine: SidebandReceiver(width=8),
    "striper": lambda machine: Striper(modules=4, lanes=6, group_bytes=96),
    "deskewer": lambda machine: Deskewer(modules=4, lanes=6, group_bytes=96, max_skew=3),
    "link state": lambda machine: LinkState(
        modules=4, training_clocks=100, timeout=1000, residency=2000
    ),
    "flit link": lambda machine: UcieLink(
        shape=link_shape(machine),
        cycles=wire_cycles(machine),
        forward=(Channel(name="request", depth=4),),
        backward=(Channel(name="data", depth=8, lanes=machine.lanes),),
    ),
    "router": lambda machine: RequestRouter(machine, pairs=2, direct=True, relay=True),
    "reassembly": Reassembly,
    "GPU I/O die with HBM": lambda machine: GpuIoDie(
        machine, pairs=2, direct=True, relay=True, hbm=stack("formal"), policy=Alternate
    ),
    "GPU I/O die": lambda machine: GpuIoDie(machine, pairs=2, direct=True, relay=True),
}


def ports(component: wiring.Component) -> dict[str, int]:
    """Width of every port by its dotted name."""
    widths = {}
    for path, _, value in component.signature.flatten(component):
        widths[".".join(map(str, path))] = len(Value.cast(value))
    return widths


@pytest.mark.parametrize("block", BLOCKS)
def test_block_converts(block):
    component = BLOCKS[block](preset("formal"))
    assert min(ports(component).values()) >= 1
    rtlil.convert(component, platform=MacroPlatform())


@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_package_has_the_ports_of_its_paths(topology, pairs):
    which = dataclasses.replace(TOPOLOGIES[topology], pairs=pairs)
    widths = ports(Package(preset("mini"), which))
    assert min(widths.values()) >= 1
    for name, present in (("direct", which.direct), ("relay", which.relay)):
        streams = {port.split(".")[1] for port in widths if port.startswith(f"{name}_o.")}
        assert streams == {str(pair) for pair in range(pairs if present else 0)}
        assert any(port.startswith(f"{name}_done") for port in widths) == present


@pytest.mark.parametrize(
    ("topology", "machine", "pairs"),
    [("dash", "mini", 2), ("relay-only", "formal", 1), ("direct-only", "formal", 1)],
)
def test_package_converts_with_the_dies_and_links_of_its_paths(topology, machine, pairs):
    which = dataclasses.replace(TOPOLOGIES[topology], pairs=pairs)
    text = rtlil.convert(Package(preset(machine), which), platform=MacroPlatform())
    for pair in range(2):
        assert (f"\nmodule \\top.hbf{pair}\n" in text) == (pair < pairs)
        assert (f"\nmodule \\top.hbm{pair}\n" in text) == (pair < pairs and which.relay)
        assert (f"\nmodule \\top.link_a{pair}\n" in text) == (pair < pairs and which.direct)


def test_a_combinational_cycle_would_be_seen():
    """The converter is the judge above, so it must object to a cycle."""
    m, a, b = Module(), Signal(), Signal()
    m.d.comb += [a.eq(~b), b.eq(a)]
    with pytest.raises(Exception, match="ombinational cycle"):
        rtlil.convert(m, ports=[a, b])


def test_base_die_needs_a_path():
    with pytest.raises(ValueError, match="link C"):
        HbfBaseDie(preset("mini"), direct=False, relay=False)
