"""Synthesizes a design into generic cells, with its hierarchy kept, and counts them.

Yosys does the work in processes of its own, since it ends the process that it runs in when it meets
an error. The first looks for latches and combinational loops, the second makes cells.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from hw.sram.macro import VERILOG_MODELS, MacroPlatform
from tb.simulator.tools import call

TOP = "top"

_YOSYS = """\
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""
_LATCHES = "t:$dlatch t:$adlatch t:$dlatchsr t:$sr t:$_DLATCH* t:$_SR_*"
# Without -norom, constant tables would become memories.
_EXAMINE = (
    f"hierarchy -check -top {TOP}",
    "proc -norom",
    "opt_clean",
    f"tee -q -o latches.txt select -list {_LATCHES}",
    "tee -q -o check.txt check",
    "write_rtlil examined.il",
    # Ways through a module are unknown to its neighbours: only a flat design shows all loops.
    "flatten -noscopeinfo",
    "tee -q -o check_flat.txt check",
)
_MAP = (
    "opt -nodffe -nosdff",
    "wreduce",
    "peepopt",
    "opt_clean",
    "alumacc",
    "opt",
    "tee -q -o memories.json stat -json",
    "memory_collect",
    "opt_clean",
    "opt -fast -full",
    "opt -undriven -fine",
    "techmap",
    "opt -fast",
    "write_rtlil mapped.il",
    "tee -q -o cells.json stat -json",
)

_GATE = re.compile(r"\$_(NOT|AND|NAND|OR|NOR|XOR|XNOR|ANDNOT|ORNOT|MUX|NMUX)_")
_FLIP_FLOP = re.compile(r"\$_(S|A|AL)?DFF(SR)?E?_\w+_")
_LATCH = re.compile(r"\$_(DLATCH(SR)?|SR)_\w+_")
_MODULE = re.compile(r"^module \\(\S+)$(.*?)^end$", re.M | re.S)
_MACRO = re.compile(r"^  cell \\(sram_\w+) \S+\n((?:    parameter .*\n)+)", re.M)
_PARAMETER = re.compile(r"^    parameter \\(\w+) (\d+)$", re.M)
_PROBLEMS = re.compile(r"^Found and reported (\d+) problems\.$", re.M)


class UnsynthesizableError(Exception):
    """The design holds a latch or a combinational loop; the message says where."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """What one module holds, without the modules inside it, or the sum over several.

    Attributes:
        flip_flops: Each keeps one bit; its clock enable and synchronous reset belong to it.
        latches: Each keeps one bit.
        gates: One-bit NOT, AND, OR, XOR and MUX cells and their inversions.
        memories: Memories of the RTL, such as queues.
        memory_bits: Their bits.
        macros: SRAM macros.
        macro_bits: Their bits.
    """

    flip_flops: int = 0
    latches: int = 0
    gates: int = 0
    memories: int = 0
    memory_bits: int = 0
    macros: int = 0
    macro_bits: int = 0

    def __add__(self, other: "Cells") -> "Cells":
        return Cells(**{name: getattr(other, name) + n for name, n in vars(self).items()})

    def __mul__(self, times: int) -> "Cells":
        return Cells(**{name: n * times for name, n in vars(self).items()})


@dataclass(frozen=True)
class Netlist:
    """Cells of each module, and how often each module places others, by their names."""

    cells: dict[str, Cells]
    places: dict[str, Counter[str]]


def convert(component: wiring.Component, file: Path) -> None:
    """Write ``component`` as RTLIL, as module ``top``; its SRAMs are instances of macros."""
    platform = MacroPlatform()
    text = rtlil.convert(component, name=TOP, platform=platform, emit_src=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "".join(platform.modules.values()))


def examine(sources: Sequence[Path], folder: Path) -> None:
    """Look for latches and combinational loops in module ``top`` of RTLIL or Verilog ``sources``.

    Leaves the design without processes, but with its hierarchy, as ``examined.il`` in ``folder``.

    Raises:
        UnsynthesizableError: there are some, or Yosys finds something else wrong, such as a wire
            with two drivers.
        ToolError: Yosys failed.
    """
    macros = " ".join(str(model) for model in VERILOG_MODELS)
    reads = [
        f"read_{'rtlil' if source.suffix == '.il' else 'verilog'} {source.resolve()}"
        for source in sources
    ]
    _yosys(folder, (f"read_verilog -lib {macros}", *reads, *_EXAMINE))
    latches = (folder / "latches.txt").read_text().split()
    if latches:
        raise UnsynthesizableError(f"latches: {', '.join(latches)}")
    for name in ("check.txt", "check_flat.txt"):
        text = (folder / name).read_text()
        found = _PROBLEMS.search(text)
        if found is None or found[1] != "0":
            raise UnsynthesizableError(text[text.find("Warning: ") :].strip())


def synthesize(folder: Path) -> Netlist:
    """The cells of what :func:`examine` has left in ``folder``.

    A module is optimised by itself. The netlist is left in ``folder`` as ``mapped.il``.

    Raises:
        ToolError: Yosys failed.
    """
    macros = " ".join(str(model) for model in VERILOG_MODELS)
    _yosys(folder, (f"read_verilog -lib {macros}", "read_rtlil examined.il", *_MAP))
    modules = json.loads((folder / "cells.json").read_text())["modules"]
    memories = json.loads((folder / "memories.json").read_text())["modules"]
    macro_bits = _macro_bits((folder / "examined.il").read_text())
    cells: dict[str, Cells] = {}
    places: dict[str, Counter[str]] = {}
    names = {name.removeprefix("\\"): name for name in modules}
    for name, key in names.items():
        kinds = {kind.removeprefix("\\"): n for kind, n in _kinds(modules[key]).items()}
        places[name] = Counter({kind: n for kind, n in kinds.items() if kind in names})
        bits = macro_bits.get(name, [])
        cells[name] = Cells(
            flip_flops=_sum(kinds, _FLIP_FLOP),
            latches=_sum(kinds, _LATCH),
            gates=_sum(kinds, _GATE),
            memories=kinds.get("$mem_v2", 0),
            memory_bits=memories[key]["num_memory_bits"],
            macros=len(bits),
            macro_bits=sum(bits),
        )
        counted = cells[name].memories + cells[name].macros + places[name].total()
        counted += cells[name].flip_flops + cells[name].latches + cells[name].gates
        if counted != sum(kinds.values()) or cells[name].memories != memories[key]["num_memories"]:
            raise RuntimeError(f"module {name} has cells that are not counted: {kinds}")
    return Netlist(cells, places)


def _yosys(folder: Path, passes: Iterable[str]) -> None:
    call([sys.executable, "-c", _YOSYS, *passes], cwd=folder)


def _kinds(module: dict) -> dict[str, int]:
    return {**module["num_cells_by_type"], **module.get("num_submodules_by_type", {})}


def _sum(kinds: dict[str, int], pattern: re.Pattern[str]) -> int:
    return sum(n for kind, n in kinds.items() if pattern.fullmatch(kind))


def _macro_bits(text: str) -> dict[str, list[int]]:
    """Bits of each SRAM macro that a module of RTLIL ``text`` places, by module."""
    found: dict[str, list[int]] = {}
    for name, body in _MODULE.findall(text):
        for _, parameters in _MACRO.findall(body):
            values = dict(_PARAMETER.findall(parameters))
            found.setdefault(name, []).append(int(values["WIDTH"]) * int(values["DEPTH"]))
    return found
