"""Streams of experts: alone, one after the other, and random sets under each placement.

The experts are those of Qwen3-235B-A22B over two stacks, 2.25 page waves in each; on a smaller
machine they are as many waves. One stack pair is simulated, since pairs work alike.
"""

import dataclasses
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hw.address_map import AddressMap
from hw.params import Machine
from hw.presets import preset
from perfmodel.memory.striping import (
    POLICIES,
    as_given,
    dealt,
    expert_pages,
    lay_out,
    random_sets,
    read_bound,
)
from perfmodel.models import load_model
from tb.experts import Assignment, ExpertRun, stream
from tb.measurements.expert_tables import Case, Seen, experts_of, model, tables
from tb.measurements.report import Measurement
from tb.measurements.runs import ONE_PAIR, WORKERS, Progress
from tb.play import design
from tb.simulator import Build, build

STREAM = 32  # consecutive experts
PICKED = (8, 32)  # of the 128 of a layer
MODEL_SETS = 10_000
LEAST_STEADY = 0.97
DEALT = ("shelved", "two-choice")  # policies whose tails may be read in another order
FULL_SIZE = preset("paper")


def measure(machine: Machine, seed: int, progress: Progress) -> Measurement:
    """Sixteen streams, and a random set of each size under each policy.

    A miss is a stream whose steady rate lies below 97 % of its bound.

    Args:
        machine: A preset, its registers set.
        seed: Of the random sets.
        progress: Takes a line whenever a run is over.

    Raises:
        InputError: no simulator.
        BenchFailed: a run broke off.
        RuntimeError: data was wrong or NAND rules were broken.
    """
    waves = (
        expert_pages(load_model("qwen3-235b-a22b"), FULL_SIZE, 2) / FULL_SIZE.geometry.wave_pages
    )
    pages = round(waves * machine.geometry.wave_pages)
    experts = experts_of(machine, pages)
    modelled = model(machine, pages, PICKED, MODEL_SETS, seed)
    seen = play_all(machine, pages, cases(seed, experts=experts), progress)
    return Measurement(
        name="experts",
        presets=(machine.name,),
        seed=seed,
        rows=(
            *({"kind": "run", "pages": pages, **s.as_json()} for s in seen),
            *({"kind": "load model", **dataclasses.asdict(m)} for m in modelled),
        ),
        tables=tables(machine, experts, seen, modelled),
        misses=tuple(miss for s in seen if (miss := _miss(s))),
    )


def cases(seed: int, *, experts: int) -> list[Case]:
    """The runs: streams of consecutive experts, then random sets under each policy."""
    one_after_other = [
        Case(policy="packed", picked=tuple(range(n)), assignment=assignment)
        for n in (1, 2, PICKED[0], STREAM)
        for assignment in Assignment
    ]
    random = []
    for count in PICKED:
        picked = tuple(random_sets(experts, count, 1, seed)[0].tolist())
        for policy in POLICIES:
            case = Case(
                policy=policy, picked=picked, assignment=Assignment.ALTERNATE, set_seed=seed
            )
            random.append(case)
            if policy in DEALT:
                random.append(dataclasses.replace(case, deal=True))
    return one_after_other + random


def play_all(machine: Machine, pages: int, todo: Sequence[Case], progress: Progress) -> list[Seen]:
    """Play every case, two at a time, and return them in order."""
    progress(f"{machine.name}: building the simulator if it is new ...")
    simulation = build(design(machine, ONE_PAIR))
    seen = []
    with (
        tempfile.TemporaryDirectory(prefix="pagewave-") as scratch,
        ThreadPoolExecutor(WORKERS) as workers,
    ):
        jobs = [
            workers.submit(play, simulation, machine, pages, case, Path(scratch) / str(k))
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
    return seen


def play(
    simulation: Build, machine: Machine, pages: int, case: Case, directory: Path | None = None
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
            topology=ONE_PAIR,
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


def _miss(seen: Seen) -> str:
    steady, bound = seen.result.steady_bytes_per_s, seen.result.bound_bytes_per_s
    if seen.case.set_seed is not None or steady is None or steady >= LEAST_STEADY * bound:
        return ""
    return f"{seen.case.name}: {100 * steady / bound:.1f} % of its bound, not 97"
