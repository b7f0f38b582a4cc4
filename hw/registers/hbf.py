"""The register map of the HBF base die, and what a machine sets in it from reset on."""

from functools import cache
from pathlib import Path

from systemrdl.node import AddrmapNode

from hw.params import RATE_BITS, Machine, Sensing
from hw.registers.description import Description, describe, load

RDL = Path(__file__).parent / "hbf.rdl"

# Polls end a program late by half of this share of tPROG in the mean.
POLLS_A_PROGRAM = 128


def hbf_tree() -> AddrmapNode:
    """The map in the compiler's own tree, as generators of PeakRDL take it."""
    return load(RDL)


@cache
def hbf_description() -> Description:
    """The map as RTL and benches take it."""
    return describe(hbf_tree())


def hbf_resets(machine: Machine) -> dict[str, int]:
    """Reset values of all fields to which the map gives none."""
    g, cycles = machine.geometry, machine.nand_cycles
    widths = {field.name: field.width for field in hbf_description().fields}
    poll_clocks = max(1, cycles["t_program"] // POLLS_A_PROGRAM)
    return {
        "dies": g.dies,
        "planes": g.planes,
        "subarrays": g.subarrays,
        "pages_per_block": g.pages_per_block,
        "blocks_per_subarray": g.blocks_per_subarray,
        **cycles,
        "tsv_rate": round(machine.tsv_beats_per_clock_per_die * 2**RATE_BITS),
        "link_rate": round(machine.link_beats_per_clock * 2**RATE_BITS),
        "cache_read": int(machine.nand.cache_read),
        "lockstep": int(machine.nand.sensing is Sensing.LOCKSTEP),
        # A program then runs at least as long as its suspends take.
        "suspend_slice": cycles["t_suspend"],
        "poll_clocks": min(poll_clocks, 2 ** widths["poll_clocks"] - 1),
    }
