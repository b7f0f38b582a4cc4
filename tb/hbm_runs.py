"""Runs of the HBM controller in a simulator, and what they show."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from amaranth.lib import data

from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import ACCESS_BYTES, BURSTS, HbmStack
from hw.hbm.dram.layouts import RowCommand, column_layout, row_layout
from hw.hbm.dram.pseudo_channel import COUNTERS
from hw.sram.macro import VERILOG_MODELS, MacroPlatform
from tb.hbm_channels import HbmChannels
from tb.hbm_memory import OUTPUTS, HbmMemory
from tb.simulator import Build, Design, Simulator, build, run
from tb.vip.dram_checker import DramChecker, Violation
from tb.vip.hbm_traffic import Pattern

LINGER = 64


@dataclass(frozen=True, kw_only=True)
class ChannelRun:
    """Traffic of each pseudo-channel of :class:`tb.hbm_channels.HbmChannels`.

    Attributes:
        window: Reads that are under way in a channel at most.
        together: Reads and writes advance together.
        record: Clocks whose commands the checker sees, from the first one on.
    """

    reads: int = 0
    writes: int = 0
    pattern: int = Pattern.SEQUENTIAL
    window: int = 64
    together: bool = True
    flip: int = 0
    record: int = 0
    seed: int = 1
    timeout: int = 100_000


@dataclass(frozen=True, kw_only=True)
class ChannelResult:
    """Sums over the channels.

    Attributes:
        bytes_per_s: From the first column command to the last, of the channels that ran.
        of_peak: The same as a share of the rate of their pins.
        violations: Of the recorded commands.
    """

    counters: dict[str, int]
    returned: int
    written: int
    errors: int
    clocks: int
    bytes_per_s: float
    of_peak: float
    recorded: int
    violations: tuple[Violation, ...]
    wall_s: float


def channel_build(
    stack: HbmStack, channels: int, simulator: Simulator = Simulator.VERILATOR
) -> Build:
    """The simulation of some of the pseudo-channels of a stack."""
    design = Design(
        component=HbmChannels,
        params={"stack": stack, "channels": channels},
        platform=MacroPlatform(),
        sources=VERILOG_MODELS,
    )
    return build(design, simulator)


def play_channels(simulation: Build, what: ChannelRun) -> ChannelResult:
    stack = simulation.design.params["stack"]
    channels = simulation.design.params["channels"]
    assert isinstance(stack, HbmStack) and isinstance(channels, int)
    inputs = {k: v for k, v in asdict(what).items() if k not in ("record", "seed", "timeout")}
    inputs |= {"pattern": Pattern(what.pattern).value, "together": int(what.together)}
    plan = {
        "inputs": inputs,
        "until": {"returned": channels * what.reads, "written": channels * what.writes},
        "outputs": [*("clock", "returned", "written", "errors", "begin", "end"), *COUNTERS],
        "record": what.record,
        "linger": LINGER,
        "timeout": what.timeout,
        "clock_hz": stack.clock_hz,
    }
    env = {"PAGEWAVE_PLAN": json.dumps(plan)}
    result = run(simulation, "tb.benches.hbm", seed=what.seed, env=env)
    report = json.loads((result.directory / "report.json").read_text())
    clocks = report["end"] - report["begin"]
    rate = _rate(stack, report)
    recorded, violations = check(stack, channels, result.directory / "commands.txt")
    return ChannelResult(
        counters={name: report[name] for name in COUNTERS},
        returned=report["returned"],
        written=report["written"],
        errors=report["errors"],
        clocks=clocks,
        bytes_per_s=rate,
        of_peak=rate / (channels * stack.channel_peak_bytes_per_s),
        recorded=recorded,
        violations=violations,
        wall_s=report["wall_s"],
    )


def check(stack: HbmStack, channels: int, file: Path) -> tuple[int, tuple[Violation, ...]]:
    """Checks recorded commands; returns how many there were and what they broke."""
    one = data.StructLayout({"row": row_layout(stack), "column": column_layout(stack)})
    phases = clocks_of(stack).phases
    checkers = [DramChecker(stack, phases) for _ in range(channels)]
    mask = (1 << one.size) - 1
    row_valid = 1 << 0
    column_valid = 1 << one["column"].offset
    lines = file.read_text().split()
    for clock, line in enumerate(lines):
        word = int(line, 16)
        for checker in checkers:
            bits, word = word & mask, word >> one.size
            if bits & row_valid:
                row = one.from_bits(bits).row
                bank = row.bank
                match row.command:
                    case RowCommand.ACTIVATE:
                        checker.activate(clock, bank, row.row)
                    case RowCommand.PRECHARGE:
                        checker.precharge(clock, bank)
                    case RowCommand.REFRESH:
                        checker.refresh(clock, bank)
            if bits & column_valid:
                column = one.from_bits(bits).column
                checker.column(clock, column.phase, column.bank, write=bool(column.write))
    for checker in checkers:
        checker.end(len(lines))
    broken = [violation for checker in checkers for violation in checker.violations]
    return sum(checker.commands for checker in checkers), tuple(broken)


@dataclass(frozen=True, kw_only=True)
class StackRun:
    """Requests to :class:`tb.hbm_memory.HbmMemory`; shares are of 256.

    Attributes:
        requests, length: How many, of how many accesses of 64 bytes each.
        write_share, bad_share: Requests that write, and that reach beyond the stack.
        stall, late: Clocks in which nothing is taken, and in which no beat of a write is offered.
        record: Clocks whose commands the checker sees, from the first one on.
    """

    requests: int
    length: int
    pattern: int = Pattern.SEQUENTIAL
    write_share: int = 0
    bad_share: int = 0
    stall: int = 0
    late: int = 0
    flip: int = 0
    record: int = 0
    seed: int = 1
    timeout: int = 100_000


@dataclass(frozen=True, kw_only=True)
class StackResult:
    """What a controller did; rates as in :class:`ChannelResult`.

    Attributes:
        ended: Requests that are whole, done or refused.
        read, written: Accesses.
    """

    counters: dict[str, int]
    ended: int
    read: int
    written: int
    errors: int
    clocks: int
    bytes_per_s: float
    of_peak: float
    recorded: int
    violations: tuple[Violation, ...]
    wall_s: float


def stack_build(stack: HbmStack, simulator: Simulator = Simulator.VERILATOR) -> Build:
    """The simulation of the whole controller."""
    design = Design(
        component=HbmMemory,
        params={"stack": stack},
        platform=MacroPlatform(),
        sources=VERILOG_MODELS,
    )
    return build(design, simulator)


def play_stack(simulation: Build, what: StackRun) -> StackResult:
    stack = simulation.design.params["stack"]
    assert isinstance(stack, HbmStack)
    fields = ("length", "write_share", "bad_share", "stall", "late", "flip")
    plan = {
        "inputs": {
            "total": what.requests,
            "pattern": Pattern(what.pattern).value,
            **{name: getattr(what, name) for name in fields},
        },
        "until": {"ended": what.requests},
        "outputs": [*OUTPUTS, "clock", "begin", "end", *COUNTERS],
        "record": what.record,
        "linger": LINGER,
        "timeout": what.timeout,
        "clock_hz": stack.clock_hz,
    }
    env = {"PAGEWAVE_PLAN": json.dumps(plan)}
    result = run(simulation, "tb.benches.hbm", seed=what.seed, env=env)
    report = json.loads((result.directory / "report.json").read_text())
    channels = stack.organization.pseudo_channels
    rate = _rate(stack, report)
    recorded, violations = check(stack, channels, result.directory / "commands.txt")
    return StackResult(
        counters={name: report[name] for name in COUNTERS},
        ended=report["ended"],
        read=report["accesses_read"],
        written=report["accesses_written"],
        errors=report["errors"],
        clocks=report["end"] - report["begin"],
        bytes_per_s=rate,
        of_peak=rate / stack.peak_bytes_per_s,
        recorded=recorded,
        violations=violations,
        wall_s=report["wall_s"],
    )


def _rate(stack: HbmStack, report: dict[str, int]) -> float:
    """Bytes a second from the first burst to the last, which lasts as long as all others."""
    bursts = report["read_bursts"] + report["write_bursts"]
    seconds = (report["end"] - report["begin"]) / stack.clock_hz
    return bursts * ACCESS_BYTES / BURSTS / (seconds + float(stack.timing.burst_ns) * 1e-9)
