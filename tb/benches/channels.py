"""Plays a :class:`tb.channel_runs.ChannelRun` against an HBF base die."""

import json
import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.channel_probe import HbfProbe
from tb.channel_runs import MACHINE, ChannelRun
from tb.simulator.clock import start_clock


class Handles:
    """Ports of a design in cocotb; writes only what changes."""

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self._handles: dict[str, Any] = {}
        self._values: dict[str, int] = {}

    def _handle(self, name: str) -> Any:
        if name not in self._handles:
            self._handles[name] = getattr(self._dut, name)
        return self._handles[name]

    def get(self, name: str) -> int:
        return int(self._handle(name).value)

    def set(self, name: str, value: int) -> None:
        if self._values.get(name) != value:
            self._values[name] = value
            self._handle(name).value = value


@cocotb.test()
async def channels(dut) -> None:
    what = ChannelRun(**json.loads(os.environ["PAGEWAVE_PLAN"]))
    probe = HbfProbe(Handles(dut), MACHINE, late=what.late, blocked=what.blocked, seed=what.seed)
    await start_clock(dut)
    edge = RisingEdge(dut.clk)
    for _ in range(what.clocks):
        probe.clock()
        await edge
    report = {
        "still": sorted(probe.stand_still(what.still)),
        "passed": {
            **{port: sender.sent for port, sender in probe.senders.items()},
            **{port: receiver.came for port, receiver in probe.receivers.items()},
        },
    }
    Path("report.json").write_text(json.dumps(report))
