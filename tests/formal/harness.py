"""Proofs about components, by the Yosys and ABC that the ``pyosys`` wheel brings.

A property is an ``Assert`` with a name, a witness that its assumptions leave something is a
``Cover`` with a name. Amaranth's RTLIL becomes an AIGER model in Yosys; ABC's IC3 (``pdr``) finds
an inductive invariant, which it checks by itself, or a counterexample, which Yosys replays into a
waveform.
"""

import hashlib
import json
import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyosys
from amaranth.asserts import AnyConst, AnySeq
from amaranth.back import rtlil
from amaranth.hdl import Assume, Module, ResetSignal, Shape, Signal, Value
from amaranth.lib import wiring

REPOSITORY = Path(__file__).parents[2]
BUILD = REPOSITORY / "build" / "formal"
ABC = Path(pyosys.__file__).with_name("yosys-abc")
LIMIT_S = 200  # of processor time, so that a busy machine does not decide

Mode = Literal["prove", "bmc", "cover"]

# A separate process, since Yosys ends the process that it runs in when it meets an error.
_YOSYS = """\
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""
_TO_AIGER = (
    "read_rtlil properties.il",
    "hierarchy -check -top top",
    "proc -norom",
    "flatten -noscopeinfo",
    # The replay of a counterexample sets inputs only, so what is free becomes one.
    "expose -input t:$anyseq %x:+[Y] t:$anyseq %d",
    "opt_clean",
    "memory_map -formal",
    "write_rtlil flat.il",
    "setattr -unset keep",
    "formalff -clk2ff -ff2anyinit",
    "opt -full",
    "techmap",
    "simplemap",
    "dffunmap",
    "aigmap",
    "opt_clean",
    "write_aiger -I -B -zinit -no-startoffset -map top.aim -ywmap top.ywmap top.aig",
)
_TO_WAVES = (
    "read_rtlil flat.il",
    "sim -r top.aiw -map top.aim -clock clk -vcd counterexample.vcd",
)
_CHECK = re.compile(r"^  cell \$check (\S+)\n(.*?)^  end\n", re.M | re.S)


class Counterexample(AssertionError):
    """A property does not hold."""


class Unreached(AssertionError):
    """A cover is not reached within its depth: the assumptions leave too little."""


@dataclass(frozen=True)
class Proof:
    """One finished run, for the report."""

    name: str
    mode: Mode
    depth: int  # clocks; of a proof, the frames of IC3 up to its invariant
    properties: int
    seconds: float  # of processor time


finished: list[Proof] = []


class Properties(wiring.Component):
    """States properties of the blocks that it holds; its inputs are free, reset stays low.

    A subclass gives ``describe``, which adds the blocks under proof and all ``Assume``, ``Assert``
    and ``Cover`` to the module.
    """

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += Assume(~ResetSignal())
        self.describe(m)
        return m

    def describe(self, m: Module) -> None:
        raise NotImplementedError


def before(m: Module, value, *, init: int = 0) -> Signal:
    """``value`` of the clock before."""
    past = Signal.like(value, init=init, name=f"before_{getattr(value, 'name', 'value')}")
    m.d.sync += past.eq(value)
    return past


def constant(m: Module, name: str, shape) -> Signal:
    """Any value of ``shape``, the same in every clock."""
    signal = Signal(shape, name=name)
    m.d.comb += signal.eq(AnyConst(Shape.cast(shape)))
    return signal


def anything(m: Module, target) -> Value:
    """``target`` may have any value, another in each clock."""
    value = Value.cast(target)
    free = Signal(len(value), name="anything")
    m.d.comb += [free.eq(AnySeq(len(value))), value.eq(free)]
    return value


def prove(
    component: Properties, *, mode: Mode = "prove", depth: int = 60, label: str = ""
) -> Proof:
    """Proves the properties of ``component``, or reaches its covers.

    ``prove`` holds for runs of any length, ``bmc`` for runs of ``depth`` clocks; ``cover`` demands
    that each cover is reached within ``depth`` clocks.

    Raises:
        Counterexample: a property is violated; names it and its waveform.
        Unreached: a cover is not reached.
        RuntimeError: undecided within ``LIMIT_S``, or a tool failed.
    """
    begin = _seconds()
    text = rtlil.convert(component, name="top", platform="formal", emit_src=False)
    text, names = _choose(text, covers=mode == "cover")
    if not names:
        raise ValueError(f"{type(component).__name__} states nothing for mode {mode!r}")
    name = type(component).__name__ + (f" {label}" if label else "")
    key = hashlib.sha256(f"{mode} {depth}\n{text}".encode()).hexdigest()[:12]
    folder = BUILD / f"{type(component).__name__}-{mode}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "properties.il").write_text(text)
    _yosys(folder, "aiger", _TO_AIGER)
    if mode == "cover":
        _cover(folder, name, depth)
    else:
        depth = _hold(folder, name, mode, depth)
    proof = Proof(name, mode, depth, len(names), _seconds() - begin)
    finished.append(proof)
    return proof


def _choose(text: str, *, covers: bool) -> tuple[str, list[str]]:
    """Turns the wanted checks into cells that the AIGER writer knows and drops the others.

    A cover becomes the property that it never comes. Each is named after its message.
    """
    names: list[str] = []
    cells: set[tuple[int, str]] = set()

    def rewrite(match: re.Match[str]) -> str:
        cell, body = match.groups()
        flavor = re.search(r'FLAVOR "(\w+)"', body)[1]  # type: ignore[index]
        a, en = (re.search(rf"connect \\{p} (.+)\n", body)[1] for p in ("A", "EN"))  # type: ignore[index]
        if flavor == "assume":
            return f"  cell $assume {cell}\n    connect \\A {a}\n    connect \\EN {en}\n  end\n"
        if (flavor == "cover") != covers:
            return ""
        message = re.search(r'FORMAT "(.*)"', body)[1]  # type: ignore[index]
        label = message.replace(" ", "_") or f"unnamed{len(names)}"  # those of Amaranth's FIFOs
        module = text.rfind("\nmodule ", 0, match.start())
        while (module, label) in cells:  # stated of several parts of a module alike
            label += "+"
        cells.add((module, label))
        names.append(label)
        inverse = ""
        if covers:
            inverse = (
                f"  wire width 1 \\not:{label}\n  cell $logic_not \\invert:{label}\n"
                "    parameter \\A_SIGNED 0\n    parameter \\A_WIDTH 1\n"
                f"    parameter \\Y_WIDTH 1\n    connect \\A {a}\n    connect \\Y \\not:{label}\n"
                "  end\n"
            )
            a = f"\\not:{label}"
        body = f"    connect \\A {a}\n    connect \\EN {en}\n  end\n"
        return f"{inverse}  cell $assert \\{label}\n{body}"

    return _CHECK.sub(rewrite, text), names


def _hold(folder: Path, name: str, mode: Mode, depth: int) -> int:
    engine = "pdr -v" if mode == "prove" else f"bmc3 -v -F {depth}"
    steps = f"{engine}; write_cex -a top.aiw"
    output = _abc(folder, f"read_aiger top.aig; fold; strash; orpos; {steps}")
    if "was asserted in frame" in output:
        # ABC drops registers that do not matter, Yosys wants the start of all: they start at zero.
        header = (folder / "top.aig").read_bytes().split(b"\n", 1)[0].split()
        witness = (folder / "top.aiw").read_text().split("\n", 1)[1]
        (folder / "top.aiw").write_text("0" * int(header[3]) + "\n" + witness)
        log = _yosys(folder, "waves", _TO_WAVES)
        violated = sorted(set(re.findall(r"Assertion top\.(\S+) \(", log)))
        raise Counterexample(
            f"{name}: {', '.join(violated) or 'a property'} violated, "
            f"see {folder / 'counterexample.vcd'}"
        )
    if mode == "prove":
        checked = re.search(r"Verification of invariant .* was successful", output)
        if not checked or "Property proved" not in output:
            raise RuntimeError(f"{name}: undecided, see {folder / 'abc.log'}")
        return int((re.findall(r"^ *Invariant F\[(\d+)\]", output, re.M) or ["0"])[-1])
    if "No output asserted" not in output:
        raise RuntimeError(f"{name}: undecided, see {folder / 'abc.log'}")
    return depth


def _cover(folder: Path, name: str, depth: int) -> None:
    entries = json.loads((folder / "top.ywmap").read_text())["asserts"]
    covers = [entry[-1].removeprefix("\\") for entry in entries]
    missing = []
    for k, cover in enumerate(covers):
        cone = f"cone -O {k}; bmc3 -F {depth}"
        output = _abc(folder, f"read_aiger top.aig; fold; strash; {cone}")
        if "was asserted in frame" not in output:
            missing.append(cover)
    if missing:
        raise Unreached(f"{name}: {', '.join(missing)} not reached in {depth} clocks, see {folder}")


def _seconds() -> float:
    """Processor time of this process and its children so far."""
    uses = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def _yosys(folder: Path, step: str, passes: tuple[str, ...]) -> str:
    return _run(folder, step, [sys.executable, "-c", _YOSYS, *passes])


def _abc(folder: Path, script: str) -> str:
    return _run(folder, "abc", [str(ABC), "-c", script])


def _run(folder: Path, step: str, command: list[str]) -> str:
    log = folder / f"{step}.log"
    with log.open("w") as out:
        done = subprocess.run(
            command,
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S)),
        )
    if done.returncode < 0:
        raise RuntimeError(f"{command[0]} stopped, undecided within {LIMIT_S} s, see {log}")
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed, see {log}")
    return log.read_text()
