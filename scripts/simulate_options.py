"""The options of ``pagewave simulate``, as they stand in its help."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hw.params import Sensing
from hw.presets import PRESETS, TOPOLOGIES
from scripts.run_options import DRAINS
from tb.reads import ROUTES
from tb.refusals import Refusal

# Panels of the help text.
READS, WRITES, NAND, FAULTS = "Reads", "Writes", "NAND times", "Faults"


def _option(panel: str, *names: str, what: str, **more: Any) -> Any:
    return typer.Option(*names, help=what, rich_help_panel=panel, **more)


def _one_of(values: Any) -> str:
    return ", ".join(getattr(value, "value", value) for value in values)


# The run -----------------------------------------------------------------------------------------

Topology = Annotated[
    str, typer.Option("--topology", help=f"Links of the package: {_one_of(TOPOLOGIES)}.")
]
Preset = Annotated[str, typer.Option("--preset", help=f"Machine: {_one_of(PRESETS)}.")]
Route = Annotated[
    str,
    typer.Option(
        help=f"Path of the reads: {_one_of(ROUTES)}. dual alternates and lets both paths finish "
        "together; auto leaves it to the router."
    ),
]
Waves = Annotated[int, typer.Option(help="Page waves to read from every HBF stack.")]
Flits = Annotated[
    bool,
    typer.Option(
        "--flits/--no-flits",
        help="Links carry flits of UCIe with retry and credits, not beats that are only delayed; "
        "takes longer.",
    ),
]
Sideband = Annotated[
    bool,
    typer.Option(
        "--sideband/--no-sideband",
        help="Registers are set and read over the serial sideband of UCIe, not at their ports.",
    ),
]
SidebandTimeoutUs = Annotated[
    float | None,
    typer.Option(
        help="Until an access over the sideband counts as lost, at least 1; 8000 by default. "
        "A new value is a new build."
    ),
]
Pairs = Annotated[int, typer.Option(help="HBM/HBF stack pairs, all alike.")]
Seed = Annotated[int, typer.Option(help="Seed of the addresses.")]
WavesOut = Annotated[
    Path | None,
    typer.Option(help="File for a waveform (VCD); saved views are left beside it."),
]
SimulatorName = Annotated[str, typer.Option(help="verilator, or icarus for small presets.")]
TsvTbps = Annotated[float | None, typer.Option(help="TSV rate of a stack, in TB/s.")]
LinkTbps = Annotated[float | None, typer.Option(help="Usable rate of each link, in TB/s.")]
Blocks = Annotated[
    list[str] | None,
    typer.Option(
        "--block",
        metavar="DIE:SUBARRAY:BLOCK",
        help="Ask the base die about an erase block when all is done; may be repeated.",
    ),
]

# Reads -------------------------------------------------------------------------------------------

ReadBytes = Annotated[
    int,
    _option(
        READS,
        what="Size of each read, in bytes: a multiple of 64 below a page is a small read, "
        "anywhere in its page; whole pages otherwise. 0 for a quarter of a wave.",
    ),
]
Scatter = Annotated[bool, _option(READS, "--scatter", what="Reads start at random pages.")]
ReadPlanes = Annotated[
    str | None, _option(READS, what="Reads keep to these planes.", metavar="FIRST:END")
]
Sense = Annotated[
    str | None, _option(READS, what=f"How subarrays start to sense: {_one_of(Sensing)}.")
]
CacheRead = Annotated[
    bool,
    _option(
        READS,
        "--cache-read/--no-cache-read",
        what="Whether a subarray senses on while its last page waits for the TSVs.",
    ),
]
Drain = Annotated[str, _option(READS, what=f"What leaves together: {_one_of(DRAINS)}.")]

RelayCutThrough = Annotated[
    bool, _option(READS, what="Relayed pages leave the HBM base die one by one, not by chunk.")
]
EarlyGrant = Annotated[
    int | None,
    _option(
        READS,
        what="A relay region is given back while at most so many of its pages are left.",
        metavar="PAGES",
    ),
]
RelayEcc = Annotated[bool, _option(READS, what="Relay regions have check bits, SECDED.")]

# Writes ------------------------------------------------------------------------------------------

WriteWaves = Annotated[
    int, _option(WRITES, what="Page waves to write, beside the reads or before them.")
]
WritePlanes = Annotated[
    str | None, _option(WRITES, what="Writes keep to these planes.", metavar="FIRST:END")
]
WriteFrom = Annotated[
    str, _option(WRITES, what="gpu: prefill writes over link A; hbm: writeback over link C.")
]
WritesFirst = Annotated[
    bool,
    _option(WRITES, "--writes-first", what="Read what was written, when all of it is."),
]
Rewrite = Annotated[
    bool,
    _option(
        WRITES,
        "--rewrite",
        what="Write all of it twice; the second time erases the blocks first.",
    ),
]
Trim = Annotated[
    bool,
    _option(
        WRITES,
        "--trim",
        what="Give the pages up in the end; full blocks are then erased in the background.",
    ),
]
Release = Annotated[
    bool,
    _option(
        WRITES,
        "--release",
        what="Take the owner from the blocks in the end; those with live KV pages refuse.",
    ),
]
WriteOwner = Annotated[str, _option(WRITES, what="Of the blocks: kv or weight.")]
Relocated = Annotated[
    bool, _option(WRITES, "--relocated", what="Writes move what was written before.")
]
Collect = Annotated[
    bool,
    _option(WRITES, "--collect/--no-collect", what="Erase dead blocks of KV in the background."),
]
HoldUntilProgrammed = Annotated[
    bool,
    _option(
        WRITES,
        "--hold-until-programmed",
        what="Written pages keep their SRAM until they are programmed.",
    ),
]
Suspend = Annotated[
    bool,
    _option(WRITES, "--suspend", what="Programs and erases are suspended for reads that wait."),
]
SuspendSliceUs = Annotated[
    float | None, _option(WRITES, what="Least time between suspends; needs --suspend.")
]

# NAND times --------------------------------------------------------------------------------------

TReadUs = Annotated[float | None, _option(NAND, what="tR: sensing, in microseconds.")]
TProgramUs = Annotated[float | None, _option(NAND, what="tPROG, in microseconds.")]
TEraseUs = Annotated[float | None, _option(NAND, what="tBERS, in microseconds.")]
TSuspendUs = Annotated[float | None, _option(NAND, what="SUSPEND to its effect, in microseconds.")]
TLatchNs = Annotated[float | None, _option(NAND, what="tRCBSY: data to cache register.")]
TWbNs = Annotated[float | None, _option(NAND, what="tWB: PROGRAM or ERASE to STATUS.")]
TRrNs = Annotated[float | None, _option(NAND, what="tRR: cache register to its first beat.")]
TAdlNs = Annotated[float | None, _option(NAND, what="tADL: LOAD to its first beat.")]
TCcsNs = Annotated[float | None, _option(NAND, what="tCCS: between subarrays on a TSV lane.")]
TPlaneBusyNs = Annotated[float | None, _option(NAND, what="tPLxBSY: between commands to a plane.")]

# Faults ------------------------------------------------------------------------------------------

_CLOCKS = {"min": 0, "max": 255}
Stall = Annotated[
    int,
    _option(FAULTS, what="Of 256 clocks, how many the consumers are not ready.", **_CLOCKS),
]
StallDirect = Annotated[
    int | None, _option(FAULTS, what="The same of the Direct path alone.", **_CLOCKS)
]
StallRelay = Annotated[
    int | None, _option(FAULTS, what="The same of the Relay path alone.", **_CLOCKS)
]
FailPrograms = Annotated[
    int, _option(FAULTS, what="Of 256 programs, how many fail on average, 0 to 256.")
]
FailProgramAt = Annotated[
    int, _option(FAULTS, what="Number of the one program that fails; 0 for none.")
]
FailErases = Annotated[
    int, _option(FAULTS, what="Of 256 erases, how many fail on average, 0 to 256.")
]
EccBeats = Annotated[
    int, _option(FAULTS, what="Of the beats stored first, how many get wrong bits.")
]
EccBits = Annotated[
    str | None,
    _option(
        FAULTS,
        what="Which bit of a word, 0 to 71; two make it uncorrectable. Bit 0 by default.",
        metavar="BIT[,BIT]",
    ),
]
EccWord = Annotated[
    int | None,
    _option(
        FAULTS,
        what="Which word of the beats, 0 to 127 in paper, 0 to 7 in mini. Word 0 by default.",
    ),
]
Refuse = Annotated[
    list[str] | None,
    _option(
        FAULTS,
        "--refuse",
        what="Also ask for something that must be refused, and check its status: "
        f"{_one_of(Refusal)}; may be repeated.",
        metavar="WHAT",
    ),
]
