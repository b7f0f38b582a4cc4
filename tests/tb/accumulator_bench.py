"""Bench for :class:`tests.tb.accumulator.Accumulator`."""

import json
import random
from pathlib import Path

import cocotb
from cocotb.triggers import RisingEdge

from tb.simulator.clock import idle, start_clock


@cocotb.test(timeout_time=1, timeout_unit="us")
async def adds(dut):
    """Sums 1 to 10, one a clock; leaves the values seen at each edge in ``samples.json``."""
    dut.i__valid.value, dut.i__payload.value = 0, 0
    await start_clock(dut)
    dut.i__valid.value = 1
    samples = []
    for x in range(1, 11):
        dut.i__payload.value = x
        await RisingEdge(dut.clk)
        samples.append(dut.total.value.to_unsigned())
    dut.i__valid.value = 0
    await RisingEdge(dut.clk)
    assert dut.total.value == 55
    assert dut.history.value == 0x030405060708090A
    Path("samples.json").write_text(json.dumps(samples))


@cocotb.test(timeout_time=1, timeout_unit="us")
async def idles(dut):
    """Counts the clocks that ``idle`` lets pass."""
    dut.i__valid.value, dut.i__payload.value = 1, 1
    clock = await start_clock(dut)
    before = dut.total.value.to_unsigned()
    for cycles in (1, 2, 7):
        await idle(clock, cycles)
        now = dut.total.value.to_unsigned()
        assert now - before == cycles
        before = now


@cocotb.test(timeout_time=1, timeout_unit="us")
async def draws(dut):
    """Leaves a random number in ``draw.json``."""
    dut.i__valid.value, dut.i__payload.value = 0, 0
    await start_clock(dut)
    Path("draw.json").write_text(json.dumps(random.getrandbits(64)))
