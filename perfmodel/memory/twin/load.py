"""How busy the busiest resource of a trace was."""

from collections.abc import Sequence

import numpy as np

from hw.address_map import AddressMap
from perfmodel.memory.twin.pacer import FRAME, ONE, rate_register
from perfmodel.memory.twin.play import Times
from perfmodel.memory.twin.trace import UNIT_BYTES, Trace

SATURATED = 0.9


def loads(trace: Trace, times: Sequence[Times]) -> dict[str, float]:
    """Share of the run in which each resource was busy, by name.

    The run lasts from the first acceptance to the last completion. ``link`` is the busier path,
    ``tsv`` the lane of the busiest die, ``array`` the busiest subarray.

    Args:
        trace: What was played.
        times: What became of each read, with its path.
    """
    machine, g = trace.machine, trace.machine.geometry
    at = AddressMap(g)
    beat_units = machine.link.beat_bytes // UNIT_BYTES
    page_clocks = FRAME * ONE / rate_register(machine.link_beats_per_clock)
    beat_clocks = ONE / rate_register(machine.tsv_beats_per_clock_per_die)
    array = np.zeros(g.wave_pages)  # clocks in which a subarray cannot sense another page
    beats, moved = np.zeros(g.dies, np.int64), np.zeros(g.dies, np.int64)
    pages = [0, 0]
    for read, time in zip(trace.reads, times, strict=True):
        columns = at.column(np.arange(read.first, read.first + read.pages))
        wanted = FRAME
        if read.units:
            wanted = (read.offset + read.units - 1) // beat_units - read.offset // beat_units + 1
        held = 0 if machine.nand.cache_read else int(wanted * beat_clocks) - 1
        np.add.at(array, columns, machine.t_read_cycles + held)
        np.add.at(beats, columns % g.dies, wanted)
        np.add.at(moved, columns % g.dies, 1)
        pages[time.path or 0] += read.pages

    span = max(t.done for t in times) - min(t.accepted for t in times)
    lanes = beats * beat_clocks + moved * machine.nand_cycles["t_ccs"]
    return {
        "link": max(pages) * page_clocks / span,
        "tsv": float(lanes.max()) / span,
        "array": float(array.max()) / span,
    }
