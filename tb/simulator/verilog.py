"""Turns an Amaranth component into Verilog, once for each distinct design.

Conversion takes seconds for a small component and half a minute for a full-size one, so its
result is kept under a key over everything that shapes it: the component, its parameters, the RTL
sources and the tools.
"""

import ast
import copy
import importlib.metadata
import inspect
import json
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from hw.shared import ModuleCollector
from tb.simulator.cache import digest, populate
from tb.simulator.tools import CACHE, REPOSITORY, ToolError, call

TOP = "top"
_STARTED = time.time()

# Clock-enable inference (opt_dff) halves simulation time. Muxes as trees keep Yosys from writing
# wide functions, which Verilator handles badly. Without -norom, constant tables become memories.
_PASSES = (
    "read_rtlil top.il",
    "proc -norom",
    "opt_clean",
    "pmuxtree",
    "opt_dff -simple-dffe",
    "opt_clean",
    "write_verilog -noattr -norename top.v",
)
# A separate process, since Yosys ends the process that it runs in when it meets an error.
_YOSYS = """\
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""
_PORT = re.compile(r"^  wire width (\d+) (?:input|output|inout) \d+ (?:signed)? *\\(\S+)$", re.M)


@dataclass(frozen=True, kw_only=True)
class Design:
    """What to simulate: a component class and what it is constructed with.

    The component is constructed only when no earlier result can be used. Run-time registers
    belong into the bench, not into ``params``: a sweep over them then needs a single build.

    Attributes:
        component: The class; its source file and all that this imports are part of the key.
        params: Keyword arguments of its constructor: machines, dataclasses, enums, JSON values.
        platform: Passed to Amaranth's conversion, so that wrappers can place macro instances.
        sources: Verilog beside the generated one, such as models of SRAM macros.
        probes: Signals below the top that benches read, each its path of instances and its name,
            parted by dots; Verilator would optimise them away.
        traced: Verilator compiles in what waves need, over a quarter of a build's time, so that one
            build serves runs with and without waves; else only where ``WAVES_DIR`` is set.
    """

    component: type[wiring.Component]
    params: Mapping[str, object] = field(default_factory=dict)
    platform: object = None
    sources: tuple[Path, ...] = ()
    probes: tuple[str, ...] = ()
    traced: bool = False

    @property
    def name(self) -> str:
        return self.component.__name__


@dataclass(frozen=True)
class Verilog:
    """The generated Verilog of a design, module ``top``, and the names of its ports."""

    file: Path
    ports: tuple[str, ...]


def export(design: Design, *, cache: Path = CACHE) -> Verilog:
    """The Verilog of ``design``, converted only if it is not in ``cache`` yet.

    Raises:
        ValueError: a port has no bits; Verilog would make it two bits wide.
        ToolError: Yosys failed, or a source was edited since this process has read it: what it
            would convert is then not what the key stands for.
    """
    directory = cache / "verilog" / f"{design.name}-{_key(design)}"
    populate(directory, lambda fresh: _convert(design, fresh))
    return Verilog(directory / "top.v", tuple(json.loads((directory / "ports.json").read_text())))


def imports(start: Path) -> set[Path]:
    """Source files of this repository that ``start`` imports, itself and imports of imports too.

    Register maps beside an imported file belong to it.
    """
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        if file.suffix == ".rdl":
            continue
        waiting.extend(file.parent.glob("*.rdl"))
        waiting.extend(_imported_by(file))
    return found


@cache
def _imported_by(file: Path) -> tuple[Path, ...]:
    """Sources that ``file`` itself imports.

    A process reads them once, since each run needs them for its key: a source that is edited
    meanwhile is not converted anyway.
    """
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Import():
                names += [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module), level=0):
                names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return tuple(filter(None, map(_own_source, names)))


def _convert(design: Design, directory: Path) -> None:
    for file in imports(Path(inspect.getfile(design.component))):
        if file.stat().st_mtime > _STARTED:
            raise ToolError(f"{file} was edited while this process ran: start it again")
    platform = copy.deepcopy(design.platform)  # it may collect modules
    text = rtlil.convert(
        design.component(**design.params), name=TOP, platform=platform, emit_src=False
    )
    if isinstance(platform, ModuleCollector):
        text += "".join(platform.modules.values())
    module = text[text.index(f"module \\{TOP}\n") :]
    ports = _PORT.findall(module[: module.index("\nend\n")])
    for width, name in ports:
        if width == "0":
            raise ValueError(f"port {name} of {design.name} has no bits")
    (directory / "top.il").write_text(text)
    call([sys.executable, "-c", _YOSYS, *_PASSES], cwd=directory)
    (directory / "top.il").unlink()
    (directory / "ports.json").write_text(json.dumps([name for _, name in ports]))


def _key(design: Design) -> str:
    component = design.component
    tools = [importlib.metadata.version(name) for name in ("amaranth", "pyosys")]
    qualified = f"{component.__module__}.{component.__qualname__}"
    platform = design.platform and (type(design.platform).__qualname__, vars(design.platform))
    identity = (tools, _PASSES, qualified, design.params, platform)
    return digest(identity, *sorted(imports(Path(inspect.getfile(component)))))


def _own_source(module: str) -> Path | None:
    """File of ``module``, or None if that is no module or not one of this repository."""
    path = REPOSITORY.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return file
    return None
