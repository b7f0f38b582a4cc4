"""What programs cost a read stream: on other planes, on all planes, with and without suspend."""

import dataclasses
from dataclasses import dataclass

from hw.address_map import AddressMap
from hw.gpu.router import Choice
from hw.hbf.layouts import MAX_PAGES
from hw.params import Machine
from tb.measurements.report import Measurement, Table
from tb.measurements.runs import ONE_PAIR, Progress, play_all
from tb.read_result import ReadResult
from tb.reads import ReadRun
from tb.settings import Modes
from tb.writes import kv_writes

READ_WAVES = 48  # of all planes: longer than a program takes, in `paper` 144 us
EIGHTH = 8


@dataclass(frozen=True, kw_only=True)
class Case:
    """Reads of some planes, and a page wave that is programmed into some planes beside them.

    Attributes:
        name: For readers.
        reads: Planes of the reads; writes: planes of the writes, ``None`` for no write.
        baseline: Name of the case that has the same reads alone.
    """

    name: str
    reads: range
    writes: range | None = None
    modes: Modes = dataclasses.field(default_factory=Modes)
    baseline: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A case that was run, with that of its baseline."""

    case: Case
    result: ReadResult
    alone: ReadResult

    @property
    def read_us(self) -> float:
        return self.result.delivered.ns / 1e3

    @property
    def slow_down_pct(self) -> float:
        """How much longer the same reads take than alone."""
        return 100 * (self.result.delivered.ns / self.alone.delivered.ns - 1)

    @property
    def written_bytes(self) -> int:
        machine = self.result.run.machine
        return self.result.writes.programs * machine.geometry.page_bytes

    @property
    def tsv_us(self) -> float:
        """Time that the write data really takes on the TSVs."""
        return self.written_bytes / self.result.run.machine.tsv.bytes_per_s * 1e6

    @property
    def write_us(self) -> float:
        """From the first request to the last answer of a write; zero without writes."""
        if not self.result.writes.answered:
            return 0.0
        clocks = self.result.writes.end - self.result.writes.begin
        return clocks / self.result.clock_hz * 1e6

    def as_json(self) -> dict[str, object]:
        return {
            "case": self.case.name,
            "baseline": self.case.baseline,
            "preset": self.result.run.machine.name,
            "read_bytes": self.result.bytes,
            "written_bytes": self.written_bytes,
            "read_us": self.read_us,
            "alone_us": self.alone.delivered.ns / 1e3,
            "slow_down_pct": self.slow_down_pct,
            "tsv_us": self.tsv_us,
            "write_us": self.write_us,
            "suspends": self.result.counters["suspends"],
        }


def cases(machine: Machine) -> list[Case]:
    """Baselines first."""
    planes = machine.geometry.planes
    everywhere, half = range(planes), range(planes // 2)
    eighth, rest = range(planes // EIGHTH), range(planes // EIGHTH, planes)
    suspend = Modes(suspend=True)
    return [
        Case(name="half of the planes, alone", reads=half),
        Case(name="all planes, alone", reads=everywhere),
        Case(name="seven eighths, alone", reads=rest),
        Case(
            name="half, programs on the other half",
            reads=half,
            writes=range(planes // 2, planes),
            baseline="half of the planes, alone",
        ),
        Case(
            name="all, programs on all, no suspend",
            reads=everywhere,
            writes=everywhere,
            baseline="all planes, alone",
        ),
        Case(
            name="all, programs on all, suspend",
            reads=everywhere,
            writes=everywhere,
            modes=suspend,
            baseline="all planes, alone",
        ),
        Case(
            name="seven eighths, programs on an eighth",
            reads=rest,
            writes=eighth,
            baseline="seven eighths, alone",
        ),
    ]


def run_of(machine: Machine, case: Case, seed: int) -> ReadRun:
    """The reads take all of ``READ_WAVES`` rows of their planes; the writes one page wave."""
    g = machine.geometry
    at = AddressMap(g)
    first = g.pages_per_block * (1 + seed % (g.blocks_per_subarray - 1))
    rows = range(first, first + READ_WAVES)
    reads = at.split(at.plane_runs(case.reads, rows), MAX_PAGES // 8)
    paths = (Choice.DIRECT, Choice.RELAY)
    return ReadRun(
        machine=machine,
        topology=ONE_PAIR,
        listed=tuple((r.first, r.pages, paths[k % 2]) for k, r in enumerate(reads)),
        seed=seed,
        writes=() if case.writes is None else kv_writes(machine, waves=1, planes=case.writes),
        modes=case.modes,
    )


def measure(machine: Machine, seed: int, progress: Progress) -> Measurement:
    """Run all cases on ``machine``."""
    wanted = cases(machine)
    results = play_all([(case.name, run_of(machine, case, seed)) for case in wanted], progress)
    by_name = {case.name: result for case, result in zip(wanted, results, strict=True)}
    outcomes = [
        Outcome(case=case, result=by_name[case.name], alone=by_name[case.baseline or case.name])
        for case in wanted
    ]
    return Measurement(
        name="programs",
        presets=(machine.name,),
        seed=seed,
        rows=tuple(outcome.as_json() for outcome in outcomes),
        tables=(_table(machine, outcomes),),
        misses=tuple(missed(outcomes)),
    )


def missed(outcomes: list[Outcome]) -> list[str]:
    """Programs on other planes may cost reads no more than their time on the TSVs."""
    return [
        f"{o.case.name}: {o.read_us:.2f} us instead of {o.alone.delivered.ns / 1e3:.2f} us, and "
        f"the writes take {o.tsv_us:.2f} us of the TSVs"
        for o in outcomes
        if o.case.writes is not None
        and set(o.case.writes).isdisjoint(o.case.reads)
        and o.read_us - o.alone.delivered.ns / 1e3 > o.tsv_us
    ]


def _table(machine: Machine, outcomes: list[Outcome]) -> Table:
    mib = machine.geometry.wave_bytes / 2**20
    return Table(
        title=f"Reads over both paths beside one page wave ({mib:.4g} MiB) of programs, "
        f"`{machine.name}`",
        columns=(
            "reads and programs", "reads", "rate", "slow-down", "TSV time of the writes",
            "writes done after", "suspends",
        ),
        rows=tuple(
            (
                o.case.name,
                f"{o.read_us:,.2f} us",
                f"{o.result.delivered.bytes_per_s / 1e9:,.1f} GB/s",
                f"**{o.slow_down_pct:+.2f} %**" if o.case.baseline else "",
                f"{o.tsv_us:,.2f} us" if o.case.writes is not None else "",
                f"{o.write_us:,.1f} us" if o.case.writes is not None else "",
                f"{o.result.counters['suspends']:,}" if o.case.modes.suspend else "",
            )
            for o in outcomes
        ),
    )  # fmt: skip
