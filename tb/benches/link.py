"""Plays a plan against :class:`tb.link_pair.LinkPair` and reports its counters.

Sources, sinks, noise and counters are RTL; Python wakes for the events of the plan and now and then
to see whether all has come.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles

from tb.link_pair import ENDS
from tb.simulator.clock import start_clock

LOOK_CLOCKS = 256  # between two looks at the counters
# Credits are told again now and then, and are under way until they are acknowledged.
QUIET_CLOCKS = 4_096


@cocotb.test()
async def link(dut) -> None:
    plan = json.loads(os.environ["PAGEWAVE_PLAN"])
    for name, values in plan["inputs"].items():
        set_input(dut, name, values)
    begun = time.perf_counter()
    await start_clock(dut, hz=plan["clock_hz"])
    now = 0
    for clock, values in plan["events"]:
        await ClockCycles(dut.clk, clock - now)
        now = clock
        for name, value in values.items():
            set_input(dut, name, value)
    while now < plan["timeout"] and not over(dut, plan):
        await ClockCycles(dut.clk, LOOK_CLOCKS)
        now += LOOK_CLOCKS
    await ClockCycles(dut.clk, LOOK_CLOCKS)
    for _ in range(QUIET_CLOCKS):
        if all(by_end(dut, "at_rest")):
            break
        await ClockCycles(dut.clk, 1)
    report = {
        "clock": int(dut.clock.value),
        "wall_s": time.perf_counter() - begun,
        **{name: by_end(dut, name) for name in plan["counters"]},
    }
    Path("report.json").write_text(json.dumps(report))


def set_input(dut: Any, name: str, values: Any) -> None:
    """An input of the pair, or one value for each end."""
    if isinstance(values, int):
        getattr(dut, name).value = values
        return
    for end, value in enumerate(values):
        getattr(dut, f"{name}__{end}").value = value


def by_end(dut: Any, name: str) -> list[int]:
    return [int(getattr(dut, f"{name}__{end}").value) for end in range(ENDS)]


def over(dut: Any, plan: dict) -> bool:
    """All has come, or was skipped for ever."""
    for what in ("beats", "messages"):
        counts = zip(
            by_end(dut, f"{what}_taken"),
            by_end(dut, f"{what}_skipped"),
            plan["inputs"][what],
            strict=True,
        )
        if any(taken + skipped < total for taken, skipped, total in counts):
            return False
    return True
