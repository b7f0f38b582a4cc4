"""Streams of experts: alone, one after the other, and random sets under each placement.

The experts are those of Qwen3-235B-A22B over two stacks, 2.25 page waves in each; on a smaller
machine they are as many waves. One stack pair is simulated, since pairs work alike.
"""

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hw.address_map import AddressMap
from hw.params import Machine, Topology
from hw.presets import preset, topology
from perfmodel.memory.striping import (
    POLICIES,
    as_given,
    dealt,
    expert_pages,
    lay_out,
    losses,
    random_sets,
    read_bound,
)
from perfmodel.models import load_model
from tb.experts import Assignment, ExpertResult, ExpertRun, stream
from tb.play import design
from tb.simulator import Build, build

EXPERTS = 128  # of a layer; fewer where a machine does not hold them under every policy
STREAM = 32  # consecutive experts
PICKED = (8, 32)  # of the 128 of a layer
MODEL_SETS = 10_000
WORKERS = 2  # simulations at a time
LEAST_STEADY = 0.97
DEALT = ("shelved", "two-choice")  # policies whose tails may be read in another order
FULL_SIZE = preset("paper")

Progress = Callable[[str], None]
Rows = list[tuple[str, ...]]
TextTable = tuple[str, tuple[str, ...], Rows]  # title, columns, rows


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run by name.

    Attributes:
        policy: Of placement.
        picked: Experts, in the order of reading.
        deal: Whether they are read as :func:`perfmodel.memory.striping.dealt` says instead.
        set_seed: Of a random set; ``None`` for consecutive experts.
    """

    policy: str
    picked: tuple[int, ...]
    assignment: Assignment
    deal: bool = False
    set_seed: int | None = None

    @property
    def name(self) -> str:
        kind = "consecutive" if self.set_seed is None else f"random (seed {self.set_seed})"
        order = ", dealt" if self.deal else ""
        return f"{len(self.picked)} {kind}, {self.policy}{order}, {self.assignment.value}"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A case, what it showed, and the bound of its load on the subarrays."""

    case: Case
    result: ExpertResult
    bound_clocks: float
    balanced_clocks: float

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.case.name,
            "policy": self.case.policy,
            "picked": list(self.case.picked),
            "dealt": self.case.deal,
            "set_seed": self.case.set_seed,
            "bound_clocks": self.bound_clocks,
            "balanced_clocks": self.balanced_clocks,
            **self.result.as_json(),
        }


@dataclass(frozen=True, kw_only=True)
class Modelled:
    """Loss of random sets by the load model, in percent of the balanced rate."""

    policy: str
    count: int
    mean_pct: float
    worst_of_20_pct: float
    spare_pct: float


@dataclass(frozen=True, kw_only=True)
class ExpertsMeasured:
    """Everything that the experiment found."""

    machine: Machine
    seed: int
    pages: int
    experts: int
    streams: tuple[Seen, ...]
    sets: tuple[Seen, ...]
    modelled: tuple[Modelled, ...]

    @property
    def misses(self) -> tuple[str, ...]:
        """A line for each stream that lies too far below its bound."""
        found = []
        for seen in self.streams:
            steady = seen.result.steady_bytes_per_s
            if steady is not None and steady < LEAST_STEADY * seen.result.bound_bytes_per_s:
                part = 100 * steady / seen.result.bound_bytes_per_s
                found.append(f"{seen.case.name}: {part:.1f} % of its bound, not 97")
        return tuple(found)

    def as_json(self) -> dict[str, object]:
        return {
            "experiment": "experts",
            "preset": self.machine.name,
            "seed": self.seed,
            "pages": self.pages,
            "experts": self.experts,
            "streams": [seen.as_json() for seen in self.streams],
            "sets": [seen.as_json() for seen in self.sets],
            "modelled": [dataclasses.asdict(row) for row in self.modelled],
            "misses": list(self.misses),
        }

    @property
    def tables(self) -> list[TextTable]:
        """What is shown, as text."""
        return [self._stream_table(), self._bubble_table(), self._set_table(), self._model_table()]

    def markdown(self) -> str:
        blocks = []
        for title, columns, rows in self.tables:
            ruler = ["---", *["---:"] * (len(columns) - 1)]
            lines = [f"| {' | '.join(line)} |" for line in (columns, ruler, *rows)]
            blocks.append("\n".join([f"{title}:", "", *lines]))
        return "\n\n".join(blocks)

    def _stream_table(self) -> TextTable:
        columns = ("experts", "path", "first byte us", "first whole us", "all whole us",
                   "steady TB/s", "of bound")  # fmt: skip
        rows: Rows = []
        for seen in self.streams:
            result = seen.result
            begin = result.reads.accepted
            steady = result.steady_bytes_per_s
            rows.append(
                (
                    f"{len(seen.case.picked)}",
                    seen.case.assignment.value,
                    self._us(min(a.first_beat for a in result.arrivals) - begin),
                    self._us(min(a.done for a in result.arrivals) - begin),
                    self._us(result.clocks),
                    "" if steady is None else f"{steady / 1e12:.3f}",
                    "" if steady is None else f"{100 * steady / result.bound_bytes_per_s:.1f} %",
                )
            )
        return "Consecutive experts, packed", columns, rows

    def _bubble_table(self) -> TextTable:
        columns = ("experts", "path", "bubble clocks, median", "largest", "between completions us",
                   "longest us", "lowest rate over one tR TB/s")  # fmt: skip
        rows: Rows = []
        for seen in self.streams:
            result = seen.result
            bubbles, spacing = sorted(result.bubbles), sorted(result.spacing)
            if not bubbles:
                continue
            lowest = result.lowest_bytes_per_s
            rows.append(
                (
                    f"{len(seen.case.picked)}",
                    seen.case.assignment.value,
                    f"{bubbles[len(bubbles) // 2]:,}",
                    f"{bubbles[-1]:,}",
                    self._us(sum(spacing) / len(spacing)),
                    self._us(spacing[-1]),
                    "" if lowest is None else f"{lowest / 1e12:.3f}",
                )
            )
        return "Between consecutive experts of a path", columns, rows

    def _set_table(self) -> TextTable:
        base = {(len(seen.case.picked), seen.case.assignment): seen.result for seen in self.streams}
        columns = (
            *("experts", "policy", "set", "all sensed us", "all whole us"),
            *("loss by load", "loss, sensed", "loss, whole"),
        )
        rows: Rows = []
        for seen in self.sets:
            case, result = seen.case, seen.result
            consecutive = base[len(case.picked), case.assignment]
            rows.append(
                (
                    f"{len(case.picked)}",
                    case.policy + (", dealt" if case.deal else ""),
                    f"{case.set_seed}",
                    self._us(result.sensing_clocks),
                    self._us(result.clocks),
                    f"{100 * (1 - seen.balanced_clocks / seen.bound_clocks):.1f} %",
                    f"{100 * (1 - consecutive.sensing_clocks / result.sensing_clocks):.1f} %",
                    f"{100 * (1 - consecutive.clocks / result.clocks):.1f} %",
                )
            )
        return (
            f"Random experts of {self.experts} over both paths, against as many consecutive ones",
            columns,
            rows,
        )

    def _model_table(self) -> TextTable:
        columns = (
            "policy",
            *(f"{n} of {self.experts}: mean, 95th" for n in PICKED),
            "space beyond",
        )
        rows: Rows = []
        for policy in dict.fromkeys(row.policy for row in self.modelled):
            of_policy = {row.count: row for row in self.modelled if row.policy == policy}
            cells = [
                f"{of_policy[n].mean_pct:.1f} %, {of_policy[n].worst_of_20_pct:.1f} %"
                for n in PICKED
            ]
            rows.append((policy, *cells, f"{of_policy[PICKED[0]].spare_pct:.1f} %"))
        return f"Loss by load over {MODEL_SETS:,} random sets, both paths", columns, rows

    def _us(self, clocks: float) -> str:
        return f"{clocks / self.machine.clock_hz * 1e6:,.2f}"


def experts_of(machine: Machine, pages: int) -> int:
    """Experts of a layer on this machine: 128, or as many as every policy has room for."""
    rows = -(-pages // machine.geometry.wave_pages) + 1
    return min(EXPERTS, machine.geometry.rows // rows)


def model(machine: Machine, pages: int, seed: int, sets: int = MODEL_SETS) -> tuple[Modelled, ...]:
    """The load model over random sets, each policy; both paths, as one never senses too slowly."""
    at, experts = AddressMap(machine.geometry), experts_of(machine, pages)
    found = []
    for policy in POLICIES:
        layout = lay_out(policy, at, experts=experts, pages=pages)
        for count in PICKED:
            loss = losses(layout, machine, random_sets(experts, count, sets, seed), 2)
            found.append(
                Modelled(
                    policy=policy,
                    count=count,
                    mean_pct=100 * float(loss.mean()),
                    worst_of_20_pct=100 * float(sorted(loss)[int(0.95 * len(loss))]),
                    spare_pct=100 * layout.spare,
                )
            )
    return tuple(found)


def cases(
    seed: int, *, experts: int, sets: int, chosen: tuple[str, ...] = tuple(POLICIES)
) -> list[Case]:
    """The runs: streams of consecutive experts, then ``sets`` random sets under each policy."""
    one_after_other = [
        Case(policy="packed", picked=tuple(range(n)), assignment=assignment)
        for n in (1, 2, PICKED[0], STREAM)
        for assignment in Assignment
    ]
    random = []
    for count in PICKED:
        for k in range(sets):
            picked = tuple(random_sets(experts, count, 1, seed + k)[0].tolist())
            for policy in chosen:
                case = Case(
                    policy=policy,
                    picked=picked,
                    assignment=Assignment.ALTERNATE,
                    set_seed=seed + k,
                )
                random.append(case)
                if policy in DEALT:
                    random.append(dataclasses.replace(case, deal=True))
    return one_after_other + random


def play(
    simulation: Build,
    machine: Machine,
    links: Topology,
    pages: int,
    case: Case,
    directory: Path | None = None,
) -> Seen:
    """Run one case on the RTL.

    Raises:
        RuntimeError: data was wrong or NAND rules were broken.
    """
    at = AddressMap(machine.geometry)
    layout = lay_out(case.policy, at, experts=experts_of(machine, pages), pages=pages)
    if case.deal:
        reading = dealt(layout, case.picked, case.assignment.paths)
    else:
        reading = as_given(layout, case.picked)
    result = stream(
        simulation,
        ExpertRun(
            machine=machine,
            topology=links,
            experts=reading.runs,
            assignment=case.assignment,
            group=reading.group,
        ),
        directory,
    )
    if result.wrong:
        raise RuntimeError(f"{case.name}: {result.wrong} wrong beats or broken NAND rules")
    load = at.load([run for of_expert in reading.runs for run in of_expert])
    bound = read_bound(machine, load, case.assignment.paths)
    return Seen(
        case=case,
        result=result,
        bound_clocks=bound.seconds * machine.clock_hz,
        balanced_clocks=bound.balanced_s * machine.clock_hz,
    )


def run(
    machine: Machine,
    seed: int = 1,
    progress: Progress = lambda _: None,
    *,
    sets: int = 1,
    chosen: tuple[str, ...] = tuple(POLICIES),
) -> ExpertsMeasured:
    """The whole experiment: 16 streams, and the random sets of :func:`cases`.

    Args:
        machine: A preset, its registers set.
        seed: Of the random sets.
        progress: Takes a line whenever a run is over.
        sets: Random sets of each size.
        chosen: Policies to measure; the load model has all.

    Raises:
        InputError: no simulator, or a machine too small for 128 experts.
        BenchFailed: a run broke off.
        RuntimeError: data was wrong or NAND rules were broken.
    """
    waves = (
        expert_pages(load_model("qwen3-235b-a22b"), FULL_SIZE, 2) / FULL_SIZE.geometry.wave_pages
    )
    pages = round(waves * machine.geometry.wave_pages)
    links = topology("compact")
    modelled = model(machine, pages, seed)
    progress(f"{machine.name}: building the simulator if it is new ...")
    simulation = build(design(machine, links))
    experts = experts_of(machine, pages)
    todo = cases(seed, experts=experts, sets=sets, chosen=chosen)
    seen = []
    with (
        tempfile.TemporaryDirectory(prefix="pagewave-") as scratch,
        ThreadPoolExecutor(WORKERS) as workers,
    ):
        jobs = [
            workers.submit(play, simulation, machine, links, pages, case, Path(scratch) / str(k))
            for k, case in enumerate(todo)
        ]
        try:
            for number, (case, job) in enumerate(zip(todo, jobs, strict=True), start=1):
                seen.append(job.result())
                clocks = seen[-1].result.clocks
                progress(f"{number:2} of {len(todo)}: {case.name}: {clocks:,} clocks")
        except BaseException:
            workers.shutdown(cancel_futures=True)
            raise
    return ExpertsMeasured(
        machine=machine,
        seed=seed,
        pages=pages,
        experts=experts,
        streams=tuple(s for s in seen if s.case.set_seed is None),
        sets=tuple(s for s in seen if s.case.set_seed is not None),
        modelled=modelled,
    )


def show(measured: ExpertsMeasured, console: Console) -> None:
    """Print all tables."""
    for title, columns, rows in measured.tables:
        table = Table(title=title)
        for k, column in enumerate(columns):
            table.add_column(column, justify="right" if k else "left")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def main() -> None:
    """``python -m tb.measurements.experts [PRESET [FOLDER]]``."""
    name, folder = (*sys.argv[1:], *("mini", "build/measurements")[len(sys.argv) - 1 :])[:2]
    console = Console(width=130)
    err = Console(stderr=True)
    measured = run(preset(name), progress=lambda line: err.print(line, highlight=False))
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    (out / "experts.json").write_text(json.dumps(measured.as_json(), indent=2) + "\n")
    (out / "experts.md").write_text(measured.markdown() + "\n")
    show(measured, console)
    for miss in measured.misses:
        err.print(miss)


if __name__ == "__main__":
    main()
