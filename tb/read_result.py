"""What a run on the RTL measured."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hw.ucie.codes import Status
from tb.reads import BLOCK_PARTS, ReadRun


def by_name(statuses: dict[Status, int]) -> dict[str, int]:
    return {status.name: count for status, count in statuses.items()}


@dataclass(frozen=True, kw_only=True)
class Passage:
    """The data of a run as it passes one point. Stamps are clocks since reset.

    Attributes:
        bytes: What passed, over all stacks.
        wave_bytes: Of one page wave over all stacks.
        accepted: Stamp of the first request.
        first, last: Stamps of the data.
        wave_ends: Stamp of the end of each page wave.
    """

    bytes: int
    wave_bytes: int
    clock_hz: float
    accepted: int
    first: int
    last: int
    wave_ends: tuple[int, ...]

    @property
    def ns(self) -> float:
        """From acceptance of the first request to the last byte."""
        return (self.last - self.accepted) / self.clock_hz * 1e9

    @property
    def bytes_per_s(self) -> float:
        """Over the whole run, its first sense and its last transfer among it."""
        return self.bytes / self.ns * 1e9

    def steady_bytes_per_s(self, *, skip: int = 0) -> float | None:
        """Between the ends of two waves.

        Args:
            skip: Waves after the first and before the last that do not count either.

        Returns:
            The rate, or ``None`` if no whole wave is left.
        """
        ends = self.wave_ends[skip : len(self.wave_ends) - skip]
        if len(ends) < 2:
            return None
        seconds = (ends[-1] - ends[0]) / self.clock_hz
        return (len(ends) - 1) * self.wave_bytes / seconds

    def as_json(self) -> dict:
        return {
            "first_byte_ns": (self.first - self.accepted) / self.clock_hz * 1e9,
            "last_byte_ns": self.ns,
            "bytes_per_s": self.bytes_per_s,
            "steady_bytes_per_s": self.steady_bytes_per_s(),
        }


@dataclass(frozen=True, kw_only=True)
class Stamps:
    """When a request was accepted, its first and last beat came and it was reported whole."""

    accepted: int
    first_beat: int
    last_beat: int
    done: int


class Sample(NamedTuple):
    """How far a run was: beats that had come on each path, pages whose sense had begun."""

    clock: int
    beats_direct: int
    beats_relay: int
    senses: int


@dataclass(frozen=True, kw_only=True)
class WriteOutcome:
    """What became of the writes of a run, over all stacks.

    Attributes:
        answered: Transactions that have ended; statuses: how many with each status.
        page_failures: Pages that were answered with a status.
        begin, end: Stamps of the first request and of the last answer.
        programs, erases, program_failures, erase_failures: Commands of the NAND.
        wrong_beats: Beats that reached the NAND with a wrong byte.
    """

    answered: int
    statuses: dict[Status, int]
    page_failures: int
    begin: int
    end: int
    programs: int
    erases: int
    program_failures: int
    erase_failures: int
    wrong_beats: int

    @property
    def refused(self) -> int:
        """Transactions that ended with a status other than OK."""
        return sum(count for status, count in self.statuses.items() if status)

    def as_json(self) -> dict:
        return {
            **dataclasses.asdict(self),
            "refused": self.refused,
            "statuses": by_name(self.statuses),
        }


@dataclass(frozen=True, kw_only=True)
class ReadResult:
    """What a read run measured. Stamps are clocks since reset.

    Attributes:
        fill: The data at the TSV ports, on its way into the transfer regions.
        bytes: Received at the GPU side, over all paths and pairs.
        accepted, first_beat, last_beat: Stamps of the first request and of the data.
        wave_ends: Stamp of the end of each page wave.
        data_errors: Beats with a wrong byte or with poison, or missing or unasked beats.
        stale: Whether a page came in another version than the last one written; ``None`` if the
            run does not say which that is, see :func:`tb.delivery.stale`.
        violations: Broken NAND rules.
        requests: Stamps of each request, where none of the 4,096 tags was used twice.
        samples: What had come and begun by then.
        broken_rules: Names of the NAND rules that were broken.
        writes: What became of the writes.
        counters: Counters of the register map, summed over the stacks.
        shown: Status of the register map, by stack: wear, first error of the SRAM.
        corrected, uncorrected: Words of the SRAM.
        read_statuses: How many reads ended with each status.
        blocks: By stack, what the base die says of the erase blocks that the run asks about, see
            :func:`tb.vip.block_query.query_block`.
        set_up_clocks: What setting the registers took, of one stack after the other.
    """

    run: ReadRun
    fill: Passage
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
    stale: bool | None
    violations: int
    poisoned: int
    wall_s: float
    broken_rules: tuple[str, ...]
    writes: WriteOutcome
    counters: dict[str, int]
    shown: tuple[dict[str, int], ...]
    corrected: int
    uncorrected: int
    read_statuses: dict[Status, int]
    blocks: tuple[tuple[dict[str, int], ...], ...] = ()
    requests: tuple[Stamps, ...] = ()
    samples: tuple[Sample, ...] = ()
    set_up_clocks: int = 0
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
        return self.delivered.steady_bytes_per_s()

    @property
    def delivered(self) -> Passage:
        """The data at the GPU side."""
        return Passage(
            bytes=self.bytes,
            wave_bytes=self.run.wave_bytes,
            clock_hz=self.clock_hz,
            accepted=self.accepted,
            first=self.first_beat,
            last=self.last_beat,
            wave_ends=self.wave_ends,
        )

    @property
    def named_blocks(self) -> list[dict[str, int]]:
        """What was answered about each erase block, with its stack and its name."""
        return [
            {"stack": stack, **dict(zip(BLOCK_PARTS, asked, strict=True)), **answer}
            for stack, answers in enumerate(self.blocks)
            for asked, answer in zip(self.run.blocks, answers, strict=True)
        ]

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
            "set_up_clocks": self.set_up_clocks,
            "clock_hz": self.clock_hz,
            "first_byte_ns": self.first_byte_ns,
            "steady_bytes_per_s": self.steady_bytes_per_s,
            "fill": self.fill.as_json(),
            "delivered": self.delivered.as_json(),
            "data_errors": self.data_errors,
            "stale": self.stale,
            "nand_violations": self.violations,
            "broken_rules": list(self.broken_rules),
            "senses": self.senses,
            "writes": self.writes.as_json(),
            "read_statuses": by_name(self.read_statuses),
            "blocks": self.named_blocks,
            "counters": self.counters,
            "status": list(self.shown),
            "ecc_corrected": self.corrected,
            "ecc_uncorrected": self.uncorrected,
            "poisoned": self.poisoned,
            "wall_s": self.wall_s,
            "cycles_per_wall_s": self.cycles / self.wall_s,
        }
