"""Runs a cocotb test module against a build and tells how it went."""

import itertools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from cocotb_tools import config

from tb.simulator.builds import Build
from tb.simulator.directories import default_directory
from tb.simulator.tools import Simulator, cocotb_environment, executable
from tb.simulator.verilog import TOP

_LOG_LINES = 30
# The only files whose failed assertions are explained. To rewrite the assertions of all imported
# files costs seconds of each run, where Python may not keep what it compiles.
_OWN_BENCHES = "tb/*.py tests/*.py"


@dataclass(frozen=True)
class Result:
    """A run in which every test passed.

    Attributes:
        tests: Names of the tests that ran.
        seed: Seed of the run; each test derives its own from it and its name.
        directory: Where the run left its log, its results and what the bench wrote.
        waves: The waveform (VCD), if one was asked for.
        sim_time_ns: Simulated time of all tests together, in nanoseconds.
        wall_s: Real time of all tests together, in seconds.
    """

    tests: tuple[str, ...]
    seed: int
    directory: Path
    waves: Path | None
    sim_time_ns: float
    wall_s: float

    @property
    def log(self) -> Path:
        return self.directory / "log.txt"

    @property
    def results_xml(self) -> Path:
        return self.directory / "results.xml"


class BenchFailed(AssertionError):
    """A test failed, none ran, or the simulator broke off.

    The message names the failed tests, the seed and the command that repeats the run.
    """


def default_seed() -> int:
    """Seed of runs that are given none: the environment's ``SEED``, otherwise 1."""
    return int(os.environ.get("SEED", "1"))


def run(
    build: Build,
    module: str,
    *,
    test: str | None = None,
    seed: int | None = None,
    plusargs: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    waves: Path | None = None,
    directory: Path | None = None,
) -> Result:
    """Run the cocotb tests of ``module`` against ``build``.

    Args:
        build: The simulation.
        module: Importable name of the test module, such as ``tb.benches.read``.
        test: Name of the only test to run, with all its parametrisations; by default all tests
            of the module.
        seed: Seed of everything random; :func:`default_seed` if left out.
        plusargs: Passed to the simulation, each with its leading ``+``.
        env: Variables added to the environment, such as the parameters of a bench.
        waves: File to write a waveform to, as VCD. Verilator's holds no signal of 64 bits or
            more; Icarus's holds all. If left out, the environment's ``WAVES_DIR`` makes every
            run write one there.
        directory: Emptied and used as the working directory of the run; by default one under
            ``build/runs``, named after module, test, seed, simulator and pytest's test, which no
            other thread or process uses as long as this one lives.

    Raises:
        BenchFailed: a test failed, none ran, or the simulator broke off.
    """
    seed = default_seed() if seed is None else seed
    directory = directory or default_directory(build, module, test, seed)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    directory = directory.resolve()
    if waves is None and (waves_directory := os.environ.get("WAVES_DIR")):
        waves = Path(waves_directory) / f"{directory.name}.vcd"
    if waves is not None:
        if not build.traced:
            raise ValueError(f"the build of {build.design.name} has no waves: set Design.traced")
        waves = waves.resolve()
        waves.parent.mkdir(parents=True, exist_ok=True)

    command = [*_command(build, waves), *plusargs]
    environment = cocotb_environment() | {
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_RESULTS_FILE": str(directory / "results.xml"),
        "COCOTB_REWRITE_ASSERTION_FILES": _OWN_BENCHES,
        "COCOTB_TEST_MODULES": module,
        "COCOTB_TOPLEVEL": TOP,
        # Verilator applies a write after the edge at which a bench makes it, so cocotb need not
        # hold it back. Icarus lets such a write slip in before the registers see the edge.
        "COCOTB_TRUST_INERTIAL_WRITES": str(int(build.simulator is Simulator.VERILATOR)),
        **(env or {}),
    }
    if test is not None:
        environment["COCOTB_TEST_FILTER"] = rf"\.{re.escape(test)}(/|$)"
    again = _write_rerun(directory, command, environment)

    with (directory / "log.txt").open("w") as log:
        status = subprocess.run(
            command, cwd=directory, env=os.environ | environment, stdout=log, stderr=log
        ).returncode
    return _judge(directory, status, seed, waves, again)


def _command(build: Build, waves: Path | None) -> list[str]:
    match build.simulator:
        case Simulator.VERILATOR:
            trace = [] if waves is None else ["--trace", "--trace-file", str(waves)]
            return [str(build.directory / TOP), *trace]
        case Simulator.ICARUS:
            trace = [] if waves is None else [f"+waves={waves}"]
            vpi = ["-m", str(config.lib_entry("vpi", "icarus"))]
            return [str(executable("vvp")), *vpi, str(build.directory / "sim.vvp"), *trace]


def _write_rerun(directory: Path, command: list[str], environment: Mapping[str, str]) -> Path:
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    script = directory / "rerun.sh"
    lines = ["# Repeats this run.", f"cd {shlex.quote(str(directory))}", *exports]
    script.write_text("\n".join([*lines, shlex.join(command)]) + "\n")
    return script


def _judge(directory: Path, status: int, seed: int, waves: Path | None, again: Path) -> Result:
    # The simulator's exit status does not tell failed tests, so the results are read.
    results = directory / "results.xml"
    cases = list(ElementTree.parse(results).iter("testcase")) if results.exists() else []
    ran = [case for case in cases if case.find("skipped") is None]
    problems = [
        f"{case.get('name')}: {_reason(failure)}"
        for case in ran
        for failure in itertools.chain(case.iter("failure"), case.iter("error"))
    ]
    if not ran:
        problems.append("no test ran")
    if status != 0:
        problems.append(f"the simulator exited with status {status}")
    if problems:
        tail = (directory / "log.txt").read_text(errors="replace").splitlines()[-_LOG_LINES:]
        raise BenchFailed("\n".join([*problems, f"seed {seed}, repeat: bash {again}", *tail]))
    return Result(
        tests=tuple(case.get("name", "") for case in ran),
        seed=seed,
        directory=directory,
        waves=waves,
        sim_time_ns=sum(_sim_time_ns(case) for case in ran),
        wall_s=sum(float(case.get("time", 0)) for case in ran),
    )


def _reason(failure: ElementTree.Element) -> str:
    message = failure.get("message", "").splitlines()
    return f"{failure.get('type')}: {message[0] if message else 'see the log'}"


def _sim_time_ns(case: ElementTree.Element) -> float:
    return sum(
        float(prop.get("value", "nan"))
        for prop in case.iter("property")
        if prop.get("name") == "sim_time_duration"
    )
