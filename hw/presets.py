"""The machines and topologies that exist, by name.

Fields that a preset does not give have the value of the paper's machine, :mod:`hw.params`. Logic
follows from the description alone: no RTL may look here.
"""

from hw.errors import named
from hw.params import (
    KIB,
    MIB,
    Credits,
    Geometry,
    Link,
    Machine,
    NandTiming,
    Sensing,
    Sram,
    Topology,
    Tsv,
)

TOPOLOGIES = {
    t.name: t
    for t in (
        Topology(name="dash", pairs=2, direct=True, relay=True),
        Topology(name="compact", pairs=1, direct=True, relay=True),
        Topology(name="relay-only", pairs=2, direct=False, relay=True),
        Topology(name="direct-only", pairs=2, direct=True, relay=False),
    )
}

RAW_LINK = Link(usable_bytes_per_s=Link().raw_bytes_per_s)

PRESETS = {
    m.name: m
    for m in (
        Machine(name="paper"),
        # A 16th of the beat and a 256th of the wave of `paper`: tR : fill : drain stays at
        # 3 : 2.62 : 5.24, the link pace at 25/32, and the relay chunk at half a wave.
        Machine(
            name="mini",
            geometry=Geometry(
                dies=4, planes=8, page_bytes=256, pages_per_block=16, blocks_per_subarray=16
            ),
            nand=NandTiming(
                t_read_ns=187.5, t_program_ns=6_250.0, t_erase_ns=62_500.0, t_suspend_ns=625.0
            ),
            tsv=Tsv(bytes_per_s=200e9),
            link=Link(lanes=6, usable_bytes_per_s=100e9, beat_bytes=64, flit_bytes=48),
            sram=Sram(hbf_region_bytes=32 * KIB, relay_region_bytes=16 * KIB, bank_bytes=16),
        ),
        # The least that still has every mechanism, for unit tests.
        Machine(
            name="formal",
            geometry=Geometry(
                dies=2, planes=2, subarrays=1, page_bytes=256, pages_per_block=2,
                blocks_per_subarray=2,
            ),
            nand=NandTiming(
                t_read_ns=6.0, t_program_ns=200.0, t_erase_ns=2_000.0, t_suspend_ns=20.0
            ),
            tsv=Tsv(bytes_per_s=200e9),
            link=Link(
                lanes=6, usable_bytes_per_s=100e9, beat_bytes=64, flit_bytes=48, one_way_cycles=2,
            ),
            sram=Sram(hbf_region_bytes=KIB, relay_region_bytes=KIB // 2, bank_bytes=16),
            credits=Credits(rx_beats=8, descriptors=2, writes=2),
        ),
        # Public models of HBF, so that figures of theirs can stand beside ours. A channel of theirs
        # is a die here, with the channel's rate on its TSV lane, and a bank is a subarray. They
        # publish no links behind the channels, so links run at their raw rate; blocks, rows and
        # relay chunks are ours.
        #
        # OpenHBX (github.com/gystar/OpenHBF, 4e6ef42): 16 channels of 256 banks; a page is sensed
        # in 4000 + 1 ns and holds its channel for 16 ns of transfer, 1 of arbitration, 1 of
        # propagation and 1 until the next may ask: 3449 GB/s in all, more than both links carry at
        # their usual rate.
        Machine(
            name="openhbx",
            geometry=Geometry(
                dies=16, planes=256, subarrays=1, pages_per_block=16, blocks_per_subarray=4
            ),
            nand=NandTiming(t_read_ns=4_001.0),
            tsv=Tsv(bytes_per_s=16 * 4 * KIB / 19e-9),
            link=RAW_LINK,
            sram=Sram(hbf_region_bytes=16 * MIB),
        ),
        # HBFSim (github.com/FlashLab-MBZUAI/HBFSim, e9ddd1c, docs/guides/design-space.md), grades 1
        # and 2: 8 channels of 48 GB/s or 16 of 96 GB/s, 16 banks each, tR 4 us. Grade 3 is grade 2
        # with 192 GB/s a channel, a register here.
        Machine(
            name="hbfsim-g1",
            geometry=Geometry(
                dies=8, planes=16, subarrays=1, pages_per_block=16, blocks_per_subarray=16
            ),
            nand=NandTiming(t_read_ns=4_000.0),
            tsv=Tsv(bytes_per_s=8 * 48e9),
            link=RAW_LINK,
            sram=Sram(hbf_region_bytes=512 * KIB, relay_region_bytes=256 * KIB),
        ),
        Machine(
            name="hbfsim-g2",
            geometry=Geometry(
                dies=16, planes=16, subarrays=1, pages_per_block=16, blocks_per_subarray=16
            ),
            nand=NandTiming(t_read_ns=4_000.0),
            tsv=Tsv(bytes_per_s=16 * 96e9),
            link=RAW_LINK,
            sram=Sram(hbf_region_bytes=MIB, relay_region_bytes=512 * KIB),
        ),
        # Ramulator 2.1 (c5b1c3a) with the HBF model of h3-hbf-sim
        # (github.com/Shivanshmittal023/h3-hbf-sim, 55fd005) at the wave of `paper`: 32 pseudo
        # channels of 32 GB/s, 64 planes each, one register a plane, so that sensing and transfer
        # of a plane never overlap.
        Machine(
            name="ramulator-hbf",
            geometry=Geometry(
                dies=32, planes=64, subarrays=1, pages_per_block=16, blocks_per_subarray=4
            ),
            nand=NandTiming(t_read_ns=3_000.0, sensing=Sensing.LOCKSTEP, cache_read=False),
            tsv=Tsv(bytes_per_s=32 * 32e9),
            link=RAW_LINK,
        ),
    )
}  # fmt: skip


def preset(name: str) -> Machine:
    """The machine of that name.

    Raises:
        InputError: there is no such preset.
    """
    return named("preset", name, PRESETS)


def topology(name: str) -> Topology:
    """The topology of that name.

    Raises:
        InputError: there is no such topology.
    """
    return named("topology", name, TOPOLOGIES)
