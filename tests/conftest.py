"""What all tests share: the simulators and the profile of Hypothesis."""

import os

import pytest
from hypothesis import settings

from hw.errors import InputError
from tb.simulator import Simulator, require

# The same examples in every run, and no deadline: simulations share the cores of a laptop.
settings.register_profile("pagewave", derandomize=True, deadline=None)
settings.load_profile("pagewave")


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
