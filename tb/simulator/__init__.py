"""Builds Amaranth components for a simulator and runs cocotb benches against them.

The tests, the calibration and the command line all simulate through here::

    design = Design(component=Queue, params={"machine": preset("mini"), "depth": 8})
    result = run(build(design, Simulator.VERILATOR), "tb.benches.queue", seed=7)

Import :mod:`tb.simulator.clock` inside benches only.
"""

from tb.simulator.builds import Build, build
from tb.simulator.runner import BenchFailed, Result, run
from tb.simulator.tools import Simulator, ToolError, require
from tb.simulator.verilog import Design, export

__all__ = [
    "BenchFailed",
    "Build",
    "Design",
    "Result",
    "Simulator",
    "ToolError",
    "build",
    "export",
    "require",
    "run",
]
