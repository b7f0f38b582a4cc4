"""Plays traffic on the HBM controller in hardware and reports its counters and its commands.

Python wakes in every clock only while commands are recorded.
"""

import json
import os
import time
from pathlib import Path

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from tb.simulator.clock import start_clock

LOOK_CLOCKS = 64


@cocotb.test()
async def hbm(dut) -> None:
    plan = json.loads(os.environ["PAGEWAVE_PLAN"])
    for name, value in plan["inputs"].items():
        getattr(dut, name).value = value
    begun = time.perf_counter()
    await start_clock(dut, hz=plan["clock_hz"])
    wanted = [(getattr(dut, name), value) for name, value in plan["until"].items()]
    commands, now = [], 0
    while now < plan["timeout"] and any(int(s.value) < value for s, value in wanted):
        if now < plan["record"]:
            for _ in range(LOOK_CLOCKS):
                await RisingEdge(dut.clk)
                commands.append(format(int(dut.commands.value), "x"))
        else:
            await ClockCycles(dut.clk, LOOK_CLOCKS)
        now += LOOK_CLOCKS
    await ClockCycles(dut.clk, plan["linger"])
    await ReadOnly()
    report = {
        "wall_s": time.perf_counter() - begun,
        **{name: int(getattr(dut, name).value) for name in plan["outputs"]},
    }
    Path("report.json").write_text(json.dumps(report))
    Path("commands.txt").write_text("\n".join(commands))
