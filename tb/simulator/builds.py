"""Builds simulations, each distinct one once.

A build is kept under a hash of its Verilog, the extra sources, the simulator and the flags, so an
edit in ``hw/`` that leaves a design's Verilog as it was costs a conversion and no compilation.
"""

import importlib.metadata
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from cocotb_tools import config

from tb.simulator.cache import digest, populate
from tb.simulator.tools import (
    CACHE,
    Simulator,
    build_environment,
    call,
    executable,
    require,
    verilator_root,
    version,
)
from tb.simulator.verilog import TOP, Design, Verilog, export

# Data lanes stay out of Verilator's waves: they are 99 % of the volume. What is left costs nothing
# measurable while no wave is written.
MAX_TRACED_BITS = 63

_TIMESCALE = "1ns/1ps"
_JOBS = 2
_VERILATE = (
    *("--cc", "--exe", "--vpi", "--no-timing", "--timescale", _TIMESCALE),
    *("--top-module", TOP, "--prefix", "Vtop", "-o", TOP),
    *("-O3", "--x-assign", "fast", "--x-initial", "fast"),
)
_COMPILE = (
    *("OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2"),
    # The wheel's makefile was not configured: without this, precompiled headers are taken for
    # linker input.
    "CFG_CXXFLAGS_PCH_I=-include",
)
# Yosys leaves the extension of operands to the language.
_HARMLESS = ("WIDTHEXPAND", "WIDTHTRUNC")
_MAIN = config.share_dir / "lib" / "verilator" / "verilator.cpp"

_DECLARATION = re.compile(r"\s*(?:input|output|inout|wire|reg)\s+(?:\[(\d+):0\]\s+)?(\S+)")
_MODULE = re.compile(r"module \\?(\S+?) ?\(")
_INSTANCE = re.compile(r"  \\?(\S+) +\\?(\S+) +\($")

_ICARUS_WAVES = f"""\
`timescale {_TIMESCALE}
module waves;
  reg [8*4096-1:0] file;
  initial if ($value$plusargs("waves=%s", file)) begin
    $dumpfile(file);
    $dumpvars(0, {TOP});
  end
endmodule
"""


@dataclass(frozen=True)
class Build:
    """A simulation that is ready to run.

    Attributes:
        design: What it simulates.
        simulator: What it runs on.
        directory: Where it is kept; read-only to its users.
        fresh: Whether it was made by this call, not found.
        traced: Whether it can write waves.
    """

    design: Design
    simulator: Simulator
    directory: Path
    fresh: bool
    traced: bool


def build(
    design: Design, simulator: Simulator = Simulator.VERILATOR, *, cache: Path = CACHE
) -> Build:
    """A simulation of ``design``, taken from ``cache`` if it is there.

    Args:
        design: What to simulate.
        simulator: What it shall run on.
        cache: Where builds are kept.

    Raises:
        InputError: the simulator is missing; the message says how to get it.
        ToolError: a tool failed.
    """
    require(simulator)
    verilog = export(design, cache=cache)
    recipe: tuple[object, ...]
    traced = design.traced or simulator is Simulator.ICARUS or bool(os.environ.get("WAVES_DIR"))
    match simulator:
        case Simulator.VERILATOR:
            control = "\n".join(_control(design, verilog, traced=traced)) + "\n"
            flags = (*_VERILATE, "--trace-vcd") if traced else _VERILATE
            recipe = (flags, _COMPILE, control)

            def make(directory: Path) -> None:
                _verilate(design, verilog, flags, control, directory, cache / "runtime")

        case Simulator.ICARUS:
            recipe = (_ICARUS_WAVES,)

            def make(directory: Path) -> None:
                _compile_icarus(design, verilog, directory)

    cocotb = (importlib.metadata.version("cocotb"), str(config.libs_dir))
    key = digest(version(simulator), cocotb, recipe, verilog.file, *design.sources)
    directory = cache / simulator / f"{design.name}-{key}"
    fresh = populate(directory, make)
    return Build(design, simulator, directory, fresh, traced)


def _compile_icarus(design: Design, verilog: Verilog, directory: Path) -> None:
    (directory / "waves.v").write_text(_ICARUS_WAVES)
    # Amaranth's Verilog has no timescale of its own.
    (directory / "command.f").write_text(f"+timescale+{_TIMESCALE}\n")
    flags = ("-g2012", "-o", "sim.vvp", "-f", "command.f", "-s", TOP, "-s", "waves")
    sources: list[str | Path] = [verilog.file, *design.sources, "waves.v"]
    call([executable("iverilog"), *flags, *sources], cwd=directory)


def _verilate(
    design: Design,
    verilog: Verilog,
    flags: tuple[str, ...],
    control: str,
    directory: Path,
    runtimes: Path,
) -> None:
    environment = build_environment()
    verilator = verilator_root() / "bin" / "verilator_bin"
    libraries = f"-Wl,-rpath,{config.libs_dir} -L{config.libs_dir} -lcocotbvpi_verilator"
    flags = (*flags, "--Mdir", ".", "-LDFLAGS", libraries)
    sources: list[str | Path] = ["control.vlt", _MAIN, verilog.file, *design.sources]
    (directory / "control.vlt").write_text(control)
    call([verilator, *flags, *sources], cwd=directory, env=environment)

    def make(*targets: str) -> None:
        command = (executable("make"), f"-j{_JOBS}", "-f", "Vtop.mk", *_COMPILE)
        call([*command, *targets], cwd=directory, env=environment)

    classes = (directory / "Vtop_classes.mk").read_text()
    objects = sorted({f"{name}.o" for name in re.findall(r"\bverilated\w*", classes)})

    def compile_runtime(library: Path) -> None:
        make(*objects)
        for name in objects:
            shutil.copy(directory / name, library)

    traced = "--trace-vcd" in flags
    runtime = runtimes / digest(version(Simulator.VERILATOR), objects, _COMPILE, traced)
    if not populate(runtime, compile_runtime):
        # The copies are younger than the makefile, so make takes them as they are.
        for name in objects:
            shutil.copy(runtime / name, directory)
    make(TOP)
    for path in directory.iterdir():
        if path.name not in {TOP, "control.vlt"}:
            path.unlink()


def _control(design: Design, verilog: Verilog, *, traced: bool) -> Iterator[str]:
    """Verilator's control file: ports are accessible, control signals traced if any, no more.

    It is part of the build's key, hence the wildcards for directories.
    """
    yield "`verilator_config"
    for rule in _HARMLESS:
        yield f'lint_off -rule {rule} -file "*/{verilog.file.name}"'
    for port in verilog.ports:
        # Everything accessible (--public-flat-rw) would block most optimisation: 3 x slower.
        # Verilator knows names with two underscores under an escape of its own.
        name = port.replace("__", "___05F")
        yield f'public_flat_rw -module "{TOP}" -var "{name}"'
    yield from _public(design, verilog)
    if not traced:
        return
    yield from _tracing_off(verilog.file)
    for source in design.sources:
        yield f'tracing_off -file "*/{source.name}"'


def _public(design: Design, verilog: Verilog) -> Iterator[str]:
    """Rules that keep the probes of a design; instances of a module share theirs."""
    modules: dict[str, dict[str, str]] = {}
    inside: dict[str, str] = {}
    for line in verilog.file.read_text().splitlines() if design.probes else ():
        if found := _MODULE.match(line):
            inside = modules.setdefault(found.group(1), {})
        elif found := _INSTANCE.match(line):
            inside[found.group(2)] = found.group(1)
    rules = set()
    for probe in design.probes:
        *scopes, name = probe.split(".")
        module = TOP
        for scope in scopes:
            module = modules[module][scope]
        # Verilator knows names with dots under an escape of its own.
        pattern = module.replace(".", "*")
        variable = name.replace("__", "___05F")
        rules.add(f'public_flat_rd -module "{pattern}" -var "{variable}"')
    yield from sorted(rules)


def _tracing_off(file: Path) -> Iterator[str]:
    """Rules that keep wide signals and the temporaries of Yosys (``$1``) out of waves."""

    def is_untraced(line: str) -> bool:
        found = _DECLARATION.match(line)
        if found is None:
            return False
        msb, name = found.groups()
        return int(msb or 0) >= MAX_TRACED_BITS or name.startswith("\\$")

    lines = enumerate(file.read_text().splitlines(), start=1)
    for untraced, group in groupby(lines, lambda line: is_untraced(line[1])):
        if untraced:
            numbers = [number for number, _ in group]
            yield f'tracing_off -file "*/{file.name}" -lines {numbers[0]}-{numbers[-1]}'
