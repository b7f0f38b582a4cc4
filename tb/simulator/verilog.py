"""Turns an Amaranth component into Verilog, once for each distinct design.

Conversion takes seconds for a small component and half a minute for a full-size one, so its
result is kept under a key over everything that shapes it: the component, its parameters, the RTL
sources and the tools.
"""

import ast
import dataclasses
import enum
import hashlib
import importlib.metadata
import inspect
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring
from filelock import FileLock

from hw.params import Machine
from tb.simulator.tools import CACHE, REPOSITORY, call

TOP = "top"

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
    """

    component: type[wiring.Component]
    params: Mapping[str, object] = field(default_factory=dict)
    platform: object = None
    sources: tuple[Path, ...] = ()

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
        ToolError: Yosys failed.
    """
    directory = cache / "verilog" / f"{design.name}-{_key(design)}"
    populate(directory, lambda fresh: _convert(design, fresh))
    return Verilog(directory / "top.v", tuple(json.loads((directory / "ports.json").read_text())))


def _convert(design: Design, directory: Path) -> None:
    text = rtlil.convert(
        design.component(**design.params), name=TOP, platform=design.platform, emit_src=False
    )
    module = text[text.index(f"module \\{TOP}\n") :]
    ports = _PORT.findall(module[: module.index("\nend\n")])
    for width, name in ports:
        if width == "0":
            raise ValueError(f"port {name} of {design.name} has no bits")
    (directory / "top.il").write_text(text)
    call([sys.executable, "-c", _YOSYS, *_PASSES], cwd=directory)
    (directory / "top.il").unlink()
    (directory / "ports.json").write_text(json.dumps([name for _, name in ports]))


def populate(directory: Path, make: Callable[[Path], None]) -> bool:
    """Have ``make`` fill ``directory``, unless it is there; tell whether it was made now.

    ``make`` works in a scratch directory that is renamed when it is complete, so that a directory
    of that name is whole or absent. Processes that want the same one wait for each other.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(directory.with_name(f"{directory.name}.lock")):
        if directory.exists():
            return False
        scratch = Path(tempfile.mkdtemp(prefix=".", dir=directory.parent))
        try:
            make(scratch)
            scratch.rename(directory)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return True


def digest(*parts: object) -> str:
    """Short hash over values that :func:`json.dumps` takes, and files, whose bytes count."""
    hasher = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            hasher.update(part.read_bytes())
        else:
            hasher.update(json.dumps(part, sort_keys=True, default=_plain).encode())
        hasher.update(b"\0")
    return hasher.hexdigest()[:16]


def _key(design: Design) -> str:
    component = design.component
    tools = [importlib.metadata.version(name) for name in ("amaranth", "pyosys")]
    qualified = f"{component.__module__}.{component.__qualname__}"
    platform = design.platform and (type(design.platform).__qualname__, vars(design.platform))
    identity = (tools, _PASSES, qualified, design.params, platform)
    return digest(identity, *sorted(_imports(Path(inspect.getfile(component)))))


def _imports(start: Path) -> set[Path]:
    """Source files of this repository that ``start`` imports, itself and imports of imports too."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_bytes())):
            match node:
                case ast.Import():
                    names = [alias.name for alias in node.names]
                case ast.ImportFrom(module=str(module), level=0):
                    names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
                case _:
                    continue
            waiting.extend(filter(None, map(_own_source, names)))
    return found


def _own_source(module: str) -> Path | None:
    """File of ``module``, or None if that is no module or not one of this repository."""
    path = REPOSITORY.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return file
    return None


def _plain(value: object) -> object:
    match value:
        case Machine():
            return value.fingerprint
        case enum.Enum():
            return f"{type(value).__qualname__}.{value.name}"
        case type():
            return f"{value.__module__}.{value.__qualname__}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    raise TypeError(f"a design parameter of type {type(value).__name__} cannot be part of a key")
