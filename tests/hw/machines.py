"""Machines for tests: small enough to try everything, large enough to have everything."""

import dataclasses

from hw.params import KIB, Credits, Geometry, Link, Machine, NandTiming, Sram, Tsv

# 4 dies of 4 subarrays with 16 rows: waves of 16 pages, 256 pages, relay chunks of 4 pages.
TINY = Machine(
    name="tiny",
    geometry=Geometry(
        dies=4, planes=2, subarrays=2, page_bytes=256, pages_per_block=4, blocks_per_subarray=4
    ),
    nand=NandTiming(t_read_ns=20.0),
    tsv=Tsv(bytes_per_s=200e9),
    link=Link(
        modules=1,
        lanes=16,
        usable_bytes_per_s=100e9,
        beat_bytes=64,
        flit_bytes=64,
        one_way_cycles=2,
    ),
    sram=Sram(hbf_region_bytes=4 * KIB, relay_region_bytes=KIB, bank_bytes=16),
    credits=Credits(rx_beats=8, descriptors=4),
)

# TINY with beats of 128 bytes, two accesses of an HBM stack.
WIDE = dataclasses.replace(
    TINY,
    name="wide",
    geometry=dataclasses.replace(TINY.geometry, page_bytes=512),
    link=dataclasses.replace(TINY.link, lanes=32, beat_bytes=128, flit_bytes=128),
    sram=Sram(hbf_region_bytes=8 * KIB, relay_region_bytes=2 * KIB, bank_bytes=32),
)
