"""Read runs: what to ask of the RTL, and what came of it.

This side runs outside the simulator; :mod:`tb.benches.read` plays the plan inside.
"""

import dataclasses
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from hw.errors import InputError
from hw.gpu.router import Choice
from hw.hbf.layouts import MAX_PAGES
from hw.params import PRESETS, Machine, Sensing, Topology
from hw.sram.macro import VERILOG_MODELS, MacroPlatform
from hw.ucie.pacer import RATE_ONE
from tb.read_system import ReadSystem
from tb.simulator import Build, Design, Simulator, build, run
from tb.views import write_views

ROUTES = ("direct", "relay", "dual", "auto")
REQUESTS_PER_WAVE = 4  # two MiB of each stack at full size
WINDOW_WAVES = 3  # outstanding on a path: sensing, filling, draining
IDLE_CYCLES = 64  # after reset, before the first request


@dataclass(frozen=True, kw_only=True)
class ReadRun:
    """A run of reads over one route.

    Attributes:
        machine: A preset, its registers set for this run.
        topology: Links and stack pairs.
        route: ``direct`` or ``relay`` for all requests; ``dual`` for Direct and Relay in turn,
            divided so that both finish together; ``auto`` for the router's own choice, the path
            with less outstanding.
        waves: Page waves to read from every stack.
        request_pages: Pages of each stack that one request asks for.
        scatter: Requests start at random pages instead of following each other.
        seed: Of the addresses.
        stall: Of 256 clocks, how many the consumers are not ready, per path.
        corrupt: Flip a bit of every beat the NAND returns.
    """

    machine: Machine
    topology: Topology
    route: str
    waves: int
    request_pages: int = 0
    scatter: bool = False
    seed: int = 1
    stall: tuple[int, int] = (0, 0)
    corrupt: bool = False

    def __post_init__(self) -> None:
        if self.route not in ROUTES:
            raise InputError(f"route {self.route!r} is unknown: choose {', '.join(ROUTES)}")
        have = {"direct": self.topology.direct, "relay": self.topology.relay}
        missing = [name for name, there in have.items() if not there]
        if missing and self.route in (*missing, "dual", "auto"):
            raise InputError(
                f"route {self.route!r} needs the {missing[0]} path, which topology "
                f"{self.topology.name!r} does not have"
            )
        rows = self.machine.geometry.rows
        if not 1 <= self.waves <= rows:
            raise InputError(f"waves is {self.waves!r}: must be 1 to {rows}, what a stack holds")
        if not self.request_pages:
            default = max(1, self.machine.geometry.wave_pages // REQUESTS_PER_WAVE)
            object.__setattr__(self, "request_pages", default)
        if not 1 <= self.request_pages <= MAX_PAGES:
            raise InputError(f"request_pages is {self.request_pages!r}: must be 1 to {MAX_PAGES}")

    @property
    def wave_bytes(self) -> int:
        """Bytes of one page wave over all stacks."""
        return self.machine.geometry.wave_bytes * self.topology.pairs

    def requests(self) -> list[tuple[int, int, Choice]]:
        """First page, pages and path of each request, in order."""
        g = self.machine.geometry
        pick = random.Random(f"reads/{self.seed}")
        left = self.waves * g.wave_pages
        sizes = [self.request_pages] * (left // self.request_pages)
        if left % self.request_pages:
            sizes.append(left % self.request_pages)
        if self.scatter:
            starts = [pick.randrange(g.stack_pages - size + 1) for size in sizes]
        else:
            first = pick.randrange(g.rows - self.waves + 1) * g.wave_pages
            starts = list(range(first, first + left, self.request_pages))
        return list(zip(starts, sizes, self._choices(len(sizes)), strict=True))

    def _choices(self, count: int) -> list[Choice]:
        if self.route != "dual":
            one = {"direct": Choice.DIRECT, "relay": Choice.RELAY, "auto": Choice.LEAST_LOADED}
            return [one[self.route]] * count
        direct, relay = Choice.DIRECT, Choice.RELAY
        choices = [relay if k % 2 else direct for k in range(count)]
        # Store and forward makes Relay one chunk later than Direct. Half a chunk that changes over
        # at the end makes both finish together.
        late = round(self.machine.relay_chunk_pages / 2 / self.request_pages)
        relayed = [k for k, choice in enumerate(choices) if choice == relay]
        for k in relayed[1:][-late:] if late else []:
            choices[k] = direct
        return choices

    def plan(self) -> dict:
        """What the bench needs to know, as JSON-ready values."""
        machine, g = self.machine, self.machine.geometry
        return {
            "clock_hz": machine.clock_hz,
            "registers": {
                "t_read": machine.t_read_cycles,
                "tsv_rate": round(machine.tsv_beats_per_clock_per_die * RATE_ONE),
                "link_rate": round(machine.link_beats_per_clock * RATE_ONE),
                "cache_read": int(machine.nand.cache_read),
                "lockstep": int(machine.nand.sensing is Sensing.LOCKSTEP),
            },
            "window": WINDOW_WAVES * g.wave_pages * self.topology.pairs,
            "stall": self.stall,
            "corrupt": int(self.corrupt),
            "requests": self.requests(),
            "preset": machine.name,
            "timeout_cycles": self._timeout_cycles(),
            "idle_cycles": IDLE_CYCLES,
        }

    def _timeout_cycles(self) -> int:
        machine = self.machine
        # As if nothing overlapped, sensing took its time for every wave, and consumers were slow.
        slowest = min(machine.link.usable_bytes_per_s, machine.tsv.bytes_per_s)
        wave = machine.geometry.wave_bytes / slowest * machine.clock_hz
        slow = 256 / (256 - max(self.stall))
        senses = sum(
            -(-pages // machine.geometry.wave_pages) + 1 for _, pages, _ in self.requests()
        )
        return int(20_000 + 4 * slow * wave * (self.waves + 2) + senses * machine.t_read_cycles)


@dataclass(frozen=True, kw_only=True)
class ReadResult:
    """What a read run measured. Stamps are clocks since reset.

    Attributes:
        bytes: Received at the GPU side, over all paths and pairs.
        accepted, first_beat, last_beat: Stamps of the first request and of the data.
        wave_ends: Stamp of the end of each page wave.
        data_errors: Beats with a wrong byte or with poison, or missing or unasked beats.
        violations: Broken NAND rules.
    """

    run: ReadRun
    bytes: int
    bytes_direct: int
    bytes_relay: int
    cycles: int
    accepted: int
    first_beat: int
    last_beat: int
    wave_ends: tuple[int, ...]
    senses: int
    data_errors: int
    violations: int
    poisoned: int
    wall_s: float
    waveform: Path | None = field(default=None, compare=False)

    @property
    def clock_hz(self) -> float:
        return self.run.machine.clock_hz

    @property
    def first_byte_ns(self) -> float:
        """From acceptance of the first request to its first data beat at the GPU side."""
        return (self.first_beat - self.accepted) / self.clock_hz * 1e9

    @property
    def steady_bytes_per_s(self) -> float | None:
        """From the end of the first wave to the end of the last; ``None`` for a single wave."""
        if len(self.wave_ends) < 2:
            return None
        seconds = (self.wave_ends[-1] - self.wave_ends[0]) / self.clock_hz
        return (len(self.wave_ends) - 1) * self.run.wave_bytes / seconds

    def as_json(self) -> dict:
        """The fields of ``pagewave simulate --json``."""
        return {
            "topology": self.run.topology.name,
            "preset": self.run.machine.name,
            "route": self.run.route,
            "pairs": self.run.topology.pairs,
            "waves": self.run.waves,
            "seed": self.run.seed,
            "bytes": self.bytes,
            "bytes_direct": self.bytes_direct,
            "bytes_relay": self.bytes_relay,
            "cycles": self.cycles,
            "clock_hz": self.clock_hz,
            "first_byte_ns": self.first_byte_ns,
            "steady_bytes_per_s": self.steady_bytes_per_s,
            "data_errors": self.data_errors,
            "nand_violations": self.violations,
            "senses": self.senses,
            "wall_s": self.wall_s,
            "cycles_per_wall_s": self.cycles / self.wall_s,
        }


def design(machine: Machine, topology: Topology) -> Design:
    """The simulation of a read system; registers of ``machine`` do not matter to it."""
    return Design(
        component=ReadSystem,
        params={"machine": PRESETS[machine.name], "topology": topology},
        platform=MacroPlatform(),
        sources=VERILOG_MODELS,
    )


def read(
    what: ReadRun,
    *,
    simulator: Simulator = Simulator.VERILATOR,
    waves: Path | None = None,
    directory: Path | None = None,
) -> ReadResult:
    """Run ``what`` on the RTL, building the simulation if there is none yet.

    Args:
        what: The run.
        simulator: Verilator, or Icarus for small presets.
        waves: File for a waveform (VCD), beside which its views for GTKWave and Surfer are put.
        directory: Working directory of the run, emptied first.

    Raises:
        InputError: the simulator is missing.
        BenchFailed: the run broke off, for instance because data stopped coming.
    """
    return play(build(design(what.machine, what.topology), simulator), what, waves, directory)


def play(
    simulation: Build, what: ReadRun, waves: Path | None = None, directory: Path | None = None
) -> ReadResult:
    """Run ``what`` on a simulation of its :func:`design`."""
    result = run(
        simulation,
        "tb.benches.read",
        seed=what.seed,
        env={"PAGEWAVE_PLAN": json.dumps(what.plan())},
        waves=waves,
        directory=directory,
    )
    if result.waves is not None:
        write_views(result.waves)
    report = json.loads((result.directory / "report.json").read_text())
    beat_bytes = what.machine.link.beat_bytes
    beats = report["beats_direct"] + report["beats_relay"]
    return ReadResult(
        run=what,
        bytes=beats * beat_bytes,
        bytes_direct=report["beats_direct"] * beat_bytes,
        bytes_relay=report["beats_relay"] * beat_bytes,
        cycles=report["clock"],
        accepted=report["accepted"],
        first_beat=report["first_beat"],
        last_beat=report["last_beat"],
        wave_ends=tuple(report["wave_ends"]),
        senses=report["senses"],
        data_errors=report["errors"] + _misdelivered(what, beats, report["address_sum"]),
        violations=report["violations"],
        poisoned=report["poisoned"],
        wall_s=report["wall_s"],
        waveform=result.waves,
    )


def _misdelivered(what: ReadRun, beats: int, address_sum: int) -> int:
    """Beats missing or too many; one if the count is right but the addresses are not."""
    per_page = what.machine.page_beats
    want_beats, want_sum = 0, 0
    for first, pages, _ in what.requests():
        count = pages * per_page
        want_beats += count * what.topology.pairs
        start = first * per_page
        want_sum += (count * start + count * (count - 1) // 2) * what.topology.pairs
    if beats != want_beats:
        return abs(beats - want_beats)
    return int(address_sum != want_sum % 2**64)


def with_pairs(topology: Topology, pairs: int) -> Topology:
    """The same links with another number of stack pairs."""
    return dataclasses.replace(topology, pairs=pairs)
