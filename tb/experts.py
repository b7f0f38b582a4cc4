"""Streams of experts on the RTL: when each is whole, and how well one follows the other."""

import enum
import itertools
from dataclasses import dataclass
from pathlib import Path

from hw.address_map import Run
from hw.errors import InputError
from hw.gpu.router import Choice
from hw.hbf.layouts import MAX_PAGES
from hw.params import Machine, Topology
from tb.play import play
from tb.read_result import ReadResult
from tb.reads import ReadRun
from tb.simulator import Build

SAMPLES_PER_SENSE = 16


class Assignment(enum.Enum):
    """Which path an expert takes: one for all, each in turn, or the router's choice.

    The router chooses for a descriptor, the path with fewer pages outstanding; an expert of several
    descriptors may then come over both.
    """

    DIRECT = "direct"
    RELAY = "relay"
    ALTERNATE = "alternate"
    LEAST = "least"

    @property
    def paths(self) -> int:
        return 1 if self in (Assignment.DIRECT, Assignment.RELAY) else 2

    def choice(self, expert: int) -> Choice:
        match self:
            case Assignment.DIRECT:
                return Choice.DIRECT
            case Assignment.RELAY:
                return Choice.RELAY
            case Assignment.ALTERNATE:
                return Choice.RELAY if expert % 2 else Choice.DIRECT
        return Choice.LEAST_LOADED


@dataclass(frozen=True, kw_only=True)
class ExpertRun:
    """Reads of whole experts, all asked for as early as the router takes them.

    Attributes:
        machine, topology: As in :class:`tb.reads.ReadRun`.
        experts: The pages of each expert in every stack, in the order of reading.
        assignment: Which path each takes.
        group: Experts of a path that ask for all but their last run, one after the other, before
            they ask for that; see :class:`perfmodel.memory.striping.Reading`.
    """

    machine: Machine
    topology: Topology
    experts: tuple[tuple[Run, ...], ...]
    assignment: Assignment
    group: int = 1

    def __post_init__(self) -> None:
        if self.group < 1:
            raise InputError(f"group is {self.group!r}: must be at least one expert")
        if not self.experts:
            raise InputError("experts is empty: must be at least one expert")
        for k, runs in enumerate(self.experts):
            if not runs:
                raise InputError(f"experts[{k}] is {runs!r}: must be at least one run of pages")

    @property
    def descriptors(self) -> list[tuple[int, Run]]:
        """What is asked for: number of the expert, and pages no longer than a transaction."""
        runs: list[tuple[int, Run]] = []
        together = self.group * self.assignment.paths
        for begin in range(0, len(self.experts), together):
            group = list(enumerate(self.experts))[begin : begin + together]
            if self.group == 1:
                runs += [(k, run) for k, of_expert in group for run in of_expert]
            else:
                runs += [(k, run) for k, of_expert in group for run in of_expert[:-1]]
                runs += [(k, of_expert[-1]) for k, of_expert in group]
        return [
            (k, Run(at, min(MAX_PAGES, run.first + run.pages - at)))
            for k, run in runs
            for at in range(run.first, run.first + run.pages, MAX_PAGES)
        ]

    def read_run(self) -> ReadRun:
        """The run of reads that it comes to."""
        return ReadRun(
            machine=self.machine,
            topology=self.topology,
            listed=tuple((*run, self.assignment.choice(k)) for k, run in self.descriptors),
            sample_cycles=max(1, self.machine.t_read_cycles // SAMPLES_PER_SENSE),
        )


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One expert at the GPU. All numbers are clocks since reset."""

    accepted: int
    first_beat: int
    last_beat: int
    done: int


@dataclass(frozen=True, kw_only=True)
class ExpertResult:
    """What a stream of experts showed.

    Attributes:
        arrivals: Each expert, in the order of reading.
        reads: Of the same run: errors, samples, ends of page waves.
    """

    run: ExpertRun
    arrivals: tuple[Arrival, ...]
    reads: ReadResult

    @property
    def wrong(self) -> int:
        """Wrong beats, poisoned reads and broken NAND rules: must be zero."""
        return self.reads.data_errors + self.reads.violations + self.reads.poisoned

    @property
    def clocks(self) -> int:
        """From the first accepted request to the completion of the last expert."""
        return max(a.done for a in self.arrivals) - self.reads.accepted

    @property
    def sensing_clocks(self) -> int:
        """From the first accepted request until all pages are sensed, to a sample's length.

        What placement decides, without the ends of links and relay chunks.
        """
        pages = sum(run.pages for runs in self.run.experts for run in runs)
        total = pages * self.run.topology.pairs
        begun = next(s.clock for s in self.reads.samples if s.senses == total)
        return begun - self.reads.accepted + self.run.machine.t_read_cycles

    @property
    def bubbles(self) -> list[int]:
        """Clocks from the last beat of an expert to the first of the next one on its path.

        Negative where pages of the next come before the last page of this.
        """
        step = self.run.assignment.paths
        return [
            after.first_beat - before.last_beat
            for before, after in zip(self.arrivals, self.arrivals[step:], strict=False)
        ]

    @property
    def spacing(self) -> list[int]:
        """Clocks between completions, in the order in which experts complete."""
        ends = sorted(a.done for a in self.arrivals)
        return [after - before for before, after in itertools.pairwise(ends)]

    @property
    def bound_bytes_per_s(self) -> float:
        """Of an endless, evenly spread stream over all pairs."""
        run = self.run
        return run.machine.steady_bound_bytes_per_s(run.assignment.paths) * run.topology.pairs

    @property
    def steady_bytes_per_s(self) -> float | None:
        """From the end of the third wave to that of the last but three; ``None`` if too few."""
        ends = self.reads.wave_ends[2:-3]
        if len(ends) < 2:
            return None
        clocks = ends[-1] - ends[0]
        return (len(ends) - 1) * self.reads.run.wave_bytes / clocks * self.reads.clock_hz

    @property
    def lowest_bytes_per_s(self) -> float | None:
        """Least rate over one tR within the steady window; ``None`` if there is no such window."""
        ends = self.reads.wave_ends[2:-3]
        if len(ends) < 2:
            return None
        inside = [s for s in self.reads.samples if ends[0] <= s.clock <= ends[-1]]
        beat_bytes = self.run.machine.link.beat_bytes
        rates = [
            (b.beats_direct + b.beats_relay - a.beats_direct - a.beats_relay)
            * (beat_bytes / (b.clock - a.clock) * self.reads.clock_hz)
            for a, b in zip(inside, inside[SAMPLES_PER_SENSE:], strict=False)
        ]
        return min(rates, default=None)

    def as_json(self) -> dict:
        reads = self.reads
        return {
            "assignment": self.run.assignment.value,
            "experts": len(self.arrivals),
            "descriptors": len(reads.run.requests()),
            "bytes": reads.bytes,
            "bytes_direct": reads.bytes_direct,
            "bytes_relay": reads.bytes_relay,
            "clocks": self.clocks,
            "sensing_clocks": self.sensing_clocks,
            "clock_hz": reads.clock_hz,
            "accepted": reads.accepted,
            "first_beat": [a.first_beat for a in self.arrivals],
            "last_beat": [a.last_beat for a in self.arrivals],
            "done": [a.done for a in self.arrivals],
            "bubbles": self.bubbles,
            "steady_bytes_per_s": self.steady_bytes_per_s,
            "lowest_bytes_per_s": self.lowest_bytes_per_s,
            "bound_bytes_per_s": self.bound_bytes_per_s,
            "wrong": self.wrong,
        }


def stream(simulation: Build, what: ExpertRun, directory: Path | None = None) -> ExpertResult:
    """Play ``what`` on a simulation of its :func:`tb.reads.design`."""
    reads = play(simulation, what.read_run(), directory=directory)
    owners = [k for k, _ in what.descriptors]
    arrivals = []
    for k in range(len(what.experts)):
        parts = [s for owner, s in zip(owners, reads.requests, strict=True) if owner == k]
        arrivals.append(
            Arrival(
                accepted=min(part.accepted for part in parts),
                first_beat=min(part.first_beat for part in parts),
                last_beat=max(part.last_beat for part in parts),
                done=max(part.done for part in parts),
            )
        )
    return ExpertResult(run=what, arrivals=tuple(arrivals), reads=reads)
