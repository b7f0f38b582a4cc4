"""What all tests share: the simulators, the profile of Hypothesis, the list of proofs."""

import gc
import os

import pytest
from hypothesis import settings

from hw.errors import InputError
from tb.simulator import Simulator, require

# The same examples in every run, and no deadline: simulations share the cores of a laptop.
settings.register_profile("pagewave", derandomize=True, deadline=None)
settings.load_profile("pagewave")

# Amaranth's objects, a million for a base die, live as long as their design: looked at every 700
# objects by the collector of cycles, they take a quarter longer to make.
gc.set_threshold(500_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that simulate, which take longest: at the end no process waits long."""
    needs = {"verilator", "icarus", "simulator"}
    simulating = {item.path for item in items if needs & set(getattr(item, "fixturenames", ()))}
    items.sort(key=lambda item: item.path not in simulating)


def pytest_collection_finish() -> None:
    """Leave what has been imported and collected out of each further collection."""
    gc.freeze()


def _require(simulator: Simulator) -> Simulator:
    try:
        require(simulator)
    except InputError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    return simulator


@pytest.fixture(params=list(Simulator), ids=str)
def simulator(request: pytest.FixtureRequest) -> Simulator:
    """Each simulator in turn; skipped where one is missing, which fails in CI."""
    return _require(request.param)


@pytest.fixture(scope="session")
def verilator() -> Simulator:
    """Verilator, the one for anything long."""
    return _require(Simulator.VERILATOR)


@pytest.fixture(scope="session")
def icarus() -> Simulator:
    """Icarus, the one that shows unknown values."""
    return _require(Simulator.ICARUS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the proofs of a run, from whichever process they ran in."""
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    proofs = [
        value
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for name, value in report.user_properties
        if name == "proof"
    ]
    if not proofs:
        return
    terminalreporter.section("formal proofs")
    width = max(len(proof["name"]) for proof in proofs)
    for proof in sorted(proofs, key=lambda proof: proof["name"]):
        terminalreporter.write_line(
            f"{proof['name']:{width}}  {proof['mode']:5}  depth {proof['depth']:3}  "
            f"{proof['properties']:2} properties  {proof['seconds']:6.1f} s"
        )
