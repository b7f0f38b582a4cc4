"""Plays the read runs of an experiment, two at a time."""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from hw.params import Machine, Topology
from hw.presets import topology
from tb.play import design, play
from tb.read_result import ReadResult
from tb.reads import ReadRun, with_pairs
from tb.simulator import build

WORKERS = 2  # simulations at a time
# The links of `dash`, whose build calibration and demo use too. Pairs work alike.
ONE_PAIR: Topology = with_pairs(topology("dash"), 1)

Progress = Callable[[str], None]


def read_run(
    machine: Machine, route: str, waves: int, *, seed: int, request_pages: int = 0, pages: int = 0
) -> ReadRun:
    """A read run of one stack pair."""
    return ReadRun(
        machine=machine,
        topology=ONE_PAIR,
        route=route,
        waves=waves,
        request_pages=request_pages,
        pages=pages,
        seed=seed,
    )


def play_all(runs: Sequence[tuple[str, ReadRun]], progress: Progress) -> list[ReadResult]:
    """Play every run and return the results in order.

    Args:
        runs: Each with the name that progress shows.
        progress: Takes a line whenever a simulator is built or a run is over.

    Raises:
        InputError: no simulator.
        BenchFailed: a run broke off.
        RuntimeError: data was wrong or lost, or NAND rules were broken.
    """
    results: dict[int, ReadResult] = {}
    with (
        tempfile.TemporaryDirectory(prefix="pagewave-") as scratch,
        ThreadPoolExecutor(WORKERS) as workers,
    ):
        jobs: dict[int, Future[ReadResult]] = {}
        try:
            # The first machine runs while the simulator of the next is built.
            for preset_name in dict.fromkeys(run.machine.name for _, run in runs):
                of_preset = [
                    k for k, (_, run) in enumerate(runs) if run.machine.name == preset_name
                ]
                progress(f"{preset_name}: building the simulator if it is new ...")
                simulation = build(design(runs[of_preset[0]][1].machine, ONE_PAIR))
                for k in of_preset:
                    directory = Path(scratch) / str(k)
                    jobs[k] = workers.submit(play, simulation, runs[k][1], None, directory)
            for done, (k, job) in enumerate(jobs.items(), start=1):
                results[k] = _sound(runs[k][0], job.result())
                progress(f"{done:2} of {len(runs)}: {runs[k][0]}")
        except BaseException:
            workers.shutdown(cancel_futures=True)
            raise
    return [results[k] for k in range(len(runs))]


def _sound(name: str, result: ReadResult) -> ReadResult:
    if result.data_errors or result.violations:
        raise RuntimeError(
            f"{name}: {result.data_errors} data errors, {result.violations} NAND violations "
            f"{', '.join(result.broken_rules)}"
        )
    if result.fill.bytes != result.bytes:
        raise RuntimeError(f"{name}: {result.fill.bytes} B filled, {result.bytes} B delivered")
    return result
