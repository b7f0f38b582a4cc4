"""Runs of a link by itself: what to send through which noise, and what came.

This side runs outside the simulator; :mod:`tb.benches.link` plays the plan inside.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from hw.sram.macro import VERILOG_MODELS, MacroPlatform
from hw.ucie.flit import LATENCY_OPTIMISED, FlitFormat, latency_optimised
from hw.ucie.link_shape import LinkShape
from tb.link_pair import LinkPair
from tb.simulator import Build, Design, Simulator, build, run
from tb.ucie_pair import UciePair
from tb.vip.flit_channel import DICE_BITS, Noise

CLOCK_HZ = 2e9
ONE_WAY_CYCLES = 6
PACED = 25 * 2**16 // 32  # of 65536
ALL = 2**16

Both = tuple[int, int]  # by the end that sends


def full_size(flit_format: FlitFormat = LATENCY_OPTIMISED) -> LinkShape:
    """Four modules of 64 lanes at 64 GT/s: four flits of 256 bytes and a beat of 1024 a clock."""
    return LinkShape(flit_format=flit_format, flits=4, lanes=128)


def small() -> LinkShape:
    """A 16th of that: beats of 64 bytes, two flits of 48, modules of six lanes."""
    return LinkShape(flit_format=latency_optimised(48), flits=2, lanes=8, module_lanes=6)


@dataclass(frozen=True, kw_only=True)
class LinkRun:
    """A run of :class:`tb.link_pair.LinkPair`; pairs of values are by the end that sends.

    Attributes:
        beats, rate: How many, and how many of them in 65536 clocks.
        messages, share: How many, and in how many of 256 clocks at most one is sent.
        stall: Of 256 clocks, how many the sinks are not ready.
        still: 1 for a sink of beats that takes nothing, 2 for one of messages, 3 for both.
        errors: Probability that a flit is struck.
        noise: How it is struck.
        cycles: Clocks of channel each way, 2 to 31.
        steady_from: Number of the beat whose arrival begins the steady part.
        events: Clocks, in order, and inputs of the pair that change then.
    """

    beats: Both = (0, 0)
    rate: Both = (ALL, ALL)
    messages: Both = (0, 0)
    share: Both = (256, 256)
    stall: Both = (0, 0)
    still: Both = (0, 0)
    errors: tuple[float, float] = (0.0, 0.0)
    noise: Both = (Noise.FLIPS, Noise.FLIPS)
    cycles: int = ONE_WAY_CYCLES
    steady_from: int = 0
    seed: int = 1
    timeout: int = 100_000
    events: tuple[tuple[int, dict[str, Any]], ...] = field(default=())

    pair: ClassVar[type[LinkPair]] = LinkPair

    def plan(self) -> dict:
        """What the bench needs to know, as JSON-ready values."""
        inputs = {
            **{name: getattr(self, name) for name in ("beats", "rate", "messages", "share")},
            "stall": self.stall,
            "still": self.still,
            "error_rate": [round(errors * 2**DICE_BITS) for errors in self.errors],
            "steady_from": self.steady_from,
            **self.controls(),
        }
        return {
            "inputs": inputs,
            "events": self.events,
            "timeout": self.timeout,
            "clock_hz": CLOCK_HZ,
            "counters": self.pair.COUNTERS,
        }

    def controls(self) -> dict[str, Any]:
        """Inputs of the ends and the channels, to begin with."""
        none, all_ends = (0, 0), (1, 1)
        return {
            "noise": self.noise,
            "cycles": self.cycles,
            "active": all_ends,
            "interval": all_ends,
            "clear": none,
            "cut": none,
        }


@dataclass(frozen=True, kw_only=True)
class UcieRun(LinkRun):
    """A run of :class:`tb.ucie_pair.UciePair`; ``noise`` and ``cycles`` do not matter to it.

    Attributes:
        modules: Of the link.
    """

    modules: int = 4
    pair: ClassVar[type[LinkPair]] = UciePair

    def controls(self) -> dict[str, Any]:
        every = (1 << self.modules) - 1
        none = (0, 0)
        return {"alive": (every, every), "dead": none, "reset": none, "error": none}


@dataclass(frozen=True, kw_only=True)
class LinkResult:
    """Counters of a run, by the end that sends, as the pair of ends names them.

    The last four are those of :class:`tb.ucie_pair.UciePair`.
    """

    clock: int
    wall_s: float
    beats_taken: Both
    beats_errors: Both
    beats_skipped: Both
    messages_taken: Both
    messages_errors: Both
    messages_skipped: Both
    flits: Both
    struck: Both
    payload_groups: Both
    repeats: Both
    cancels: Both
    begin: Both
    end: Both
    steady: Both
    credits: Both
    at_rest: Both
    enabled: Both = (0, 0)
    epoch: Both = (0, 0)
    retrains: Both = (0, 0)
    state: Both = (0, 0)

    def as_json(self) -> dict:
        return asdict(self)


def link_build(
    shape: LinkShape,
    simulator: Simulator = Simulator.VERILATOR,
    *,
    pair: type[LinkPair] = LinkPair,
    **depths: int,
) -> Build:
    """The simulation of a pair of link ends."""
    design = Design(
        component=pair,
        params={"shape": shape, **depths},
        platform=MacroPlatform(),
        sources=VERILOG_MODELS,
    )
    return build(design, simulator)


def play_link(simulation: Build, what: LinkRun) -> LinkResult:
    result = run(
        simulation,
        "tb.benches.link",
        seed=what.seed,
        env={"PAGEWAVE_PLAN": json.dumps(what.plan())},
    )
    report: dict[str, Any] = json.loads((result.directory / "report.json").read_text())
    for name, value in report.items():
        if isinstance(value, list):
            report[name] = tuple(value)
    return LinkResult(**report)
