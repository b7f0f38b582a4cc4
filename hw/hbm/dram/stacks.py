"""The HBM stacks that exist, by name.

Sources. Times in nanoseconds are those of the ``HBM3_6.4Gbps`` preset of Ramulator 2
(github.com/CMU-SAFARI/ramulator2, ``dram/hbm3``), cycles of 0.625 ns; JEDEC's own tables are not
public. 6.4 Gb/s pins and 819.2 GB/s: JESD238. 9.2 Gb/s pins and 1,177.6 GB/s: Micron's HBM3E
product brief; nobody has published core times of HBM3E, so those of HBM3 stand for them, while
everything that is a multiple of the burst follows the pins.
"""

import dataclasses

from hw.errors import InputError
from hw.hbm.dram.description import (
    DramOrganization,
    DramScheduling,
    DramTiming,
    HbmStack,
)

HBM3_6400 = DramTiming(
    pin_gbit_per_s=6.4,
    cl_ns=12.5,
    cwl_ns=6.25,
    rcd_read_ns=19.375,
    rcd_write_ns=9.375,
    rp_ns=16.25,
    ras_ns=28.125,
    rc_ns=45.0,
    wr_ns=20.625,
    rtp_ns=5.625,
    rrd_s_ns=2.5,
    rrd_l_ns=3.125,
    faw_ns=15.0,
    wtr_s_ns=4.375,
    wtr_l_ns=6.25,
    rtw_ns=12.5,
    rfc_ns=200.0,
    rrefd_ns=5.0,
    refi_ns=3900.0,
    activate_bus_ns=0.9375,  # 1.5 cycles
)
# The clock of 9.2 Gb/s pins has 0.4348 ns.
HBM3E_9200 = dataclasses.replace(HBM3_6400, pin_gbit_per_s=9.2, activate_bus_ns=0.6523)

STACKS = {
    s.name: s
    for s in (
        HbmStack(name="hbm3e-9200", timing=HBM3E_9200),
        HbmStack(name="hbm3-6400", timing=HBM3_6400),
        # Two pseudo-channels of 16 banks with the times of `hbm3e-9200` and queues of four.
        HbmStack(
            name="mini",
            timing=dataclasses.replace(HBM3E_9200, rfc_ns=50.0, refi_ns=975.0),
            organization=DramOrganization(pseudo_channels=2, stack_ids=1, rows=64),
            scheduling=DramScheduling(
                reads=4, writes=4, patience_clocks=200, postponed=4, beats=16, requests=4
            ),
            beat_bytes=64,
        ),
        # The least that still has every mechanism, its times of a few clocks.
        HbmStack(
            name="formal",
            timing=DramTiming(
                pin_gbit_per_s=9.2,
                cl_ns=1.5,
                cwl_ns=1.0,
                rcd_read_ns=1.5,
                rcd_write_ns=1.0,
                rp_ns=1.0,
                ras_ns=2.5,
                rc_ns=4.0,
                wr_ns=1.0,
                rtp_ns=1.0,
                rrd_s_ns=1.0,
                rrd_l_ns=1.5,
                faw_ns=5.0,
                wtr_s_ns=0.5,
                wtr_l_ns=1.0,
                rtw_ns=2.0,
                rfc_ns=4.0,
                rrefd_ns=1.0,
                refi_ns=40.0,
                activate_bus_ns=1.0,
            ),
            organization=DramOrganization(
                pseudo_channels=2, stack_ids=1, bank_groups=2, banks=1, rows=2, row_bytes=128
            ),
            scheduling=DramScheduling(
                reads=2, writes=2, patience_clocks=20, idle_clocks=2, postponed=2, beats=2,
                requests=2,
            ),
            beat_bytes=64,
        ),
    )
}  # fmt: skip


def stack(name: str) -> HbmStack:
    """The stack of that name.

    Raises:
        InputError: there is no such stack.
    """
    try:
        return STACKS[name]
    except KeyError:
        raise InputError(f"stack {name!r} is unknown: choose {', '.join(STACKS)}") from None
