"""Serving over load: the same requests on several topologies, under several policies.

The saturation rate of each topology and policy is measured with a backlog. A load is a fraction of
one of them: that of RelayOnly under Mixed (DASH paper, section VI-E). Every seed is one Poisson
stream, replayed unchanged on every topology and under every policy.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

from hw.errors import InputError
from perfmodel.serving.arithmetic import rests_on
from perfmodel.serving.confidence import estimate
from perfmodel.serving.passes import PassModel
from perfmodel.serving.run import serve
from perfmodel.serving.schedule import POLICIES, Mixed, Policy, Schedule, Serial
from perfmodel.serving.workload import Workload
from perfmodel.system import System

REFERENCE = "relay-only"
LATENCIES = ("ttft", "tpot", "itl", "e2el")
STATISTICS = ("mean", "median", "p90", "p95", "p99")
METRICS = (
    "request_throughput",
    "output_throughput",
    *(f"{statistic}_{latency}_ms" for latency, statistic in product(LATENCIES, STATISTICS)),
)
COMPARED = ("p90_ttft_ms", "p90_tpot_ms", "p90_e2el_ms")


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is run.

    Attributes:
        loads: fractions of the saturation rate of RelayOnly under Mixed.
        seeds: one Poisson stream each.
        policies: under which the streams are served; backlogs are run under all there are.
        limits: of every pass, whatever its policy.

    Raises:
        InputError: a list is empty or has a value twice, or a load is not above zero.
    """

    workload: Workload = field(default_factory=Workload)
    loads: tuple[float, ...] = (0.5, 0.75, 0.9)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    policies: tuple[Policy, ...] = (Mixed(),)
    limits: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        names = [policy.name for policy in self.policies]
        for name, values in (("load", self.loads), ("seeds", self.seeds), ("policy", names)):
            if not values:
                raise InputError(f"{name}: there is none: give at least one")
            if len(set(values)) < len(values):
                raise InputError(f"{name} is {', '.join(map(str, values))}: one is there twice")
        for load in self.loads:
            if not 0 < load <= 10:
                raise InputError(f"load is {load}: must be a fraction above 0, at most 10")

    def runs(self, topologies: int) -> int:
        """Streams served on so many topologies."""
        return topologies * len(self.policies) * len(self.loads) * len(self.seeds)

    def schedule(self, policy: Policy) -> Schedule:
        return replace(self.limits, policy=policy)


Row = dict[str, Any]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """Flat rows, JSON-ready.

    Attributes:
        labels: where the numbers come from, and the settings.
        capacity: of each topology and policy the saturation rate, and that over RelayOnly's under
            the same policy, and over the same topology's under Serial.
        runs: metrics of each policy, load, topology and seed.
        summary: mean of each metric over the seeds, and half width of its 95 % interval.
        reductions: by how many per cent the first topology is below each other, in pairs of the
            same stream: mean, half width, least and most over the seeds.
    """

    labels: Row
    capacity: list[Row]
    runs: list[Row]
    summary: list[Row]
    reductions: list[Row]

    def as_dict(self) -> Row:
        return asdict(self)


def run_study(
    systems: Sequence[System], study: Study, progress: Progress | None = None
) -> StudyResult:
    """Run a study on systems that differ in their topology alone.

    Args:
        systems: the first is compared with all others.
        study: what to run.
        progress: is told streams served and all streams; backlogs come before and are not told.

    Raises:
        InputError: a topology is there twice, or a system cannot serve the workload.
    """
    names = [system.topology.name for system in systems]
    if len(set(names)) < len(names):
        raise InputError(f"topology is {', '.join(names)}: one is there twice")
    passes = {name: PassModel(system) for name, system in zip(names, systems, strict=True)}
    if REFERENCE not in passes:
        passes[REFERENCE] = PassModel(systems[0].on(REFERENCE))
    rates: dict[tuple[str, str], float] = {}
    for name, policy in product(passes, POLICIES.values()):
        schedule = study.schedule(policy)
        rates[name, policy.name] = study.workload.backlogged_rate(passes[name], schedule)
    unit = rates[REFERENCE, Mixed().name]

    runs: list[Row] = []
    for policy, load, seed in product(study.policies, study.loads, study.seeds):
        stream = study.workload.stream(load * unit, seed)
        for name in names:
            values = serve(
                passes[name].system,
                stream,
                study.schedule(policy),
                warmup=study.workload.warmup,
                passes=passes[name],
            ).values
            case = {"policy": policy.name, "load": load, "topology": name, "seed": seed}
            runs.append(case | {metric: values[metric] for metric in METRICS})
            if progress:
                progress(len(runs), study.runs(len(names)))
    return StudyResult(
        labels=_labels(systems, study, unit) | {"kernels": _kernels(passes.values())},
        capacity=list(_capacity(rates, names)),
        runs=runs,
        summary=list(_summary(runs)),
        reductions=list(_reductions(runs, names)),
    )


def _labels(systems: Sequence[System], study: Study, unit: float) -> Row:
    labels = {name: value for name, value in systems[0].labels().items() if name != "topology"}
    limits = study.limits.as_dict()
    del limits["policy"]
    settings = asdict(study.workload) | limits | {"seeds": list(study.seeds)}
    return labels | settings | {"load_1_requests_per_s": unit}


def _kernels(passes: Iterable[PassModel]) -> list[Row]:
    return rests_on(pair for model in passes for pair in model.arithmetic.answers.items())


def _capacity(rates: dict[tuple[str, str], float], names: list[str]) -> Iterator[Row]:
    for policy, name in product(POLICIES, names):
        rate = rates[name, policy]
        yield {
            "policy": policy,
            "topology": name,
            "requests_per_s": rate,
            "over_relay_only": rate / rates[REFERENCE, policy],
            "over_serial": rate / rates[name, Serial().name],
        }


def _summary(runs: list[Row]) -> Iterator[Row]:
    for case, rows in _grouped(runs, ("policy", "load", "topology")):
        for metric in METRICS:
            found = estimate([row[metric] for row in rows])
            yield case | {"metric": metric, "mean": found.mean, "half_width": found.half_width}


def _reductions(runs: list[Row], names: list[str]) -> Iterator[Row]:
    for case, rows in _grouped(runs, ("policy", "load")):
        by_name = {name: [row for row in rows if row["topology"] == name] for name in names}
        for other, metric in product(names[1:], COMPARED):
            pairs = zip(by_name[names[0]], by_name[other], strict=True)
            percent = [100 * (1 - ours[metric] / theirs[metric]) for ours, theirs in pairs]
            found = estimate(percent)
            yield case | {
                "topology": names[0],
                "against": other,
                "metric": metric,
                "mean_pct": found.mean,
                "half_width_pct": found.half_width,
                "least_pct": min(percent),
                "most_pct": max(percent),
            }


def _grouped(runs: list[Row], keys: tuple[str, ...]) -> Iterator[tuple[Row, list[Row]]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in runs:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    for values, rows in groups.items():
        yield dict(zip(keys, values, strict=True)), rows
