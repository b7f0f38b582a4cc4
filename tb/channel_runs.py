"""Runs of an HBF base die with one channel blocked, in cocotb: which inputs stand still."""

import dataclasses
import json
from dataclasses import dataclass
from functools import cache

from hw.hbf.base_die import HbfBaseDie
from hw.params import NandTiming
from hw.sram.macro import VERILOG_MODELS, MacroPlatform
from tb.package_runs import SMALL
from tb.simulator import Build, Design, Simulator, build, run

# NAND that is fast beside the clocks of a run: then whatever stands still long waits for a channel.
MACHINE = dataclasses.replace(
    SMALL,
    nand=NandTiming(t_read_ns=6.0, t_program_ns=10.0, t_erase_ns=15.0, t_suspend_ns=1.0),
)


@dataclass(frozen=True, kw_only=True)
class ChannelRun:
    """One run.

    Attributes:
        blocked: Port that is blocked; none if empty.
        clocks: Of the run.
        late: Clock from which write data come.
        still: Clocks for which the die must have kept credits at the end.
    """

    blocked: str = ""
    clocks: int = 4_000
    late: int = 0
    still: int = 1_000
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class ChannelResult:
    """What was seen: inputs that stood still, and what passed each port."""

    still: frozenset[str]
    passed: dict[str, int]


@cache
def hbf_build(simulator: Simulator = Simulator.VERILATOR) -> Build:
    design = Design(
        component=HbfBaseDie,
        params={"machine": MACHINE},
        platform=MacroPlatform(),
        sources=VERILOG_MODELS,
    )
    return build(design, simulator)


def probe_hbf(what: ChannelRun) -> ChannelResult:
    result = run(
        hbf_build(),
        "tb.benches.channels",
        seed=what.seed,
        env={"PAGEWAVE_PLAN": json.dumps(dataclasses.asdict(what))},
    )
    report = json.loads((result.directory / "report.json").read_text())
    return ChannelResult(still=frozenset(report["still"]), passed=report["passed"])
