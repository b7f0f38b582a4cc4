"""How benches start the clock and let time pass, without waking Python for every edge."""

from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer


async def start_clock(dut: Any, *, hz: float = 2e9) -> Clock:
    """Start ``dut.clk``, reset the design, and return just after the edge that ends the reset.

    Every other input must have been driven before. The clock is driven natively, at several
    hundred thousand cycles a second; it is the Python that waits for edges that costs time.

    Args:
        dut: The design; has ports ``clk`` and ``rst``, as every Amaranth component.
        hz: Frequency; its period must be an even number of picoseconds.
    """
    dut.rst.value = 1
    clock = Clock(dut.clk, round(1e12 / hz), unit="ps", impl="gpi")
    clock.start()
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    return clock


async def idle(clock: Clock, cycles: int) -> None:
    """Let ``cycles`` (at least 1) clocks pass and return at the rising edge that ends them.

    Must be called just after a rising edge. Costs two wake-ups of Python, not one for each clock.
    """
    # Aim between two edges, so that no order of events within a time step matters.
    period_ps = int(clock.period)
    await Timer(period_ps * cycles - period_ps * 3 // 4, unit="ps")
    await RisingEdge(clock.signal)
