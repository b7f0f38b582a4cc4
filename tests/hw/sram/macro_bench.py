"""Bench for :class:`tests.hw.sram.macros.MacroPair`: as a simulator runs it, against the model."""

import os

import cocotb
from cocotb.triggers import RisingEdge

from tb.simulator.clock import start_clock
from tests.hw.sram.macros import PairModel, accesses


@cocotb.test(timeout_time=1, timeout_unit="us")
async def as_the_model(dut):
    """Compares every output at every edge, but for those that nobody knows yet."""
    width, depth, seed = (int(os.environ[name]) for name in ("WIDTH", "DEPTH", "STIMULI"))
    model = PairModel()
    compared = 0
    inputs = list(accesses(seed, width=width, depth=depth, count=400))
    for name in inputs[0]:
        getattr(dut, name).value = 0
    await start_clock(dut)
    for clock, access in enumerate(inputs):
        for name, value in access.items():
            getattr(dut, name).value = value
        await RisingEdge(dut.clk)
        # What is seen at this edge follows from the accesses before it.
        for name, expected in (("single__q", model.q), ("dual__r_data", model.r_data)):
            if expected is not None:
                assert getattr(dut, name).value == expected, (name, clock)
                compared += 1
        model.clock(access)
    assert compared > 600
