"""Plays a plan of reads against :class:`tb.read_system.ReadSystem` and reports counters.

Counting, checking and stamping are done in RTL; Python wakes per request, wave and completion.
"""

import json
import os
import time
from pathlib import Path

import cocotb
from cocotb.triggers import (
    ClockCycles,
    ReadOnly,
    RisingEdge,
    SimTimeoutError,
    ValueChange,
    with_timeout,
)

from hw.gpu.router import Choice, read_layout
from hw.params import preset
from tb.read_system import ReadSystem
from tb.simulator.clock import start_clock

COUNTERS = (*ReadSystem.STAMPS, *ReadSystem.COUNTERS)


@cocotb.test()
async def read(dut) -> None:
    plan = json.loads(os.environ["PAGEWAVE_PLAN"])
    for name, value in plan["registers"].items():
        getattr(dut, f"registers__{name}").value = value
    dut.window.value = plan["window"]
    dut.stall_direct.value, dut.stall_relay.value = plan["stall"]
    dut.corrupt.value = plan["corrupt"]
    dut.read__valid.value = 0
    dut.read__payload.value = 0

    begun = time.perf_counter()
    await start_clock(dut, hz=plan["clock_hz"])
    await ClockCycles(dut.clk, plan["idle_cycles"])

    wave_ends: list[int] = []
    cocotb.start_soon(follow(dut.waves, dut.wave_end, wave_ends))
    try:
        await with_timeout(
            read_all(dut, plan), plan["timeout_cycles"] * 1e9 / plan["clock_hz"], "ns"
        )
    except SimTimeoutError:
        counters = {name: int(getattr(dut, name).value) for name in COUNTERS}
        raise AssertionError(f"data stopped coming: {counters}") from None
    await ClockCycles(dut.clk, 8)

    report = {
        **{name: int(getattr(dut, name).value) for name in COUNTERS},
        "wave_ends": wave_ends,
        "wall_s": time.perf_counter() - begun,
    }
    Path("report.json").write_text(json.dumps(report))


async def read_all(dut, plan: dict) -> None:
    """Send every request as soon as it is accepted, then wait for the last completion."""
    layout = read_layout(preset(plan["preset"]))
    for tag, (first, pages, choice) in enumerate(plan["requests"]):
        payload = layout.const(
            {
                "first": first,
                "pages": pages,
                "tag": tag % 4096,
                "choice": Choice(choice),
            }
        )
        dut.read__payload.value = payload.as_bits()
        dut.read__valid.value = 1
        await RisingEdge(dut.clk)
        while not dut.read__ready.value:
            await RisingEdge(dut.read__ready)
            await RisingEdge(dut.clk)
    dut.read__valid.value = 0
    while int(dut.completed.value) < len(plan["requests"]):
        await ValueChange(dut.completed)


async def follow(event, stamp, into: list[int]) -> None:
    """Append ``stamp`` every time ``event`` changes."""
    while True:
        await ValueChange(event)
        await ReadOnly()  # both change at the same edge, in either order
        into.append(int(stamp.value))
