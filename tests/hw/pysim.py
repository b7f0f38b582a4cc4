"""Runs a component in Amaranth's own simulator, within a time limit."""

from collections.abc import Awaitable, Callable
from typing import Any

from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator

Testbench = Callable[[Any], Awaitable[None]]


def simulate(design: Elaboratable, *benches: Testbench, clocks: int) -> None:
    """Run all ``benches`` to their end.

    Raises:
        TimeoutError: they need more than ``clocks`` clocks.
    """

    simulator = Simulator(design)
    simulator.add_clock(1e-9)
    for bench in benches:
        simulator.add_testbench(bench)
    for _ in range(2 * clocks):  # edges
        if not simulator.advance():
            return
    raise TimeoutError(f"still running after {clocks} clocks")
