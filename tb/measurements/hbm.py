"""Rates of the HBM controller, each beside what the DRAM allows and what a plain model finds."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from hw.hbm.dram.address import HbmAddressMap, Place
from hw.hbm.dram.description import ACCESS_BYTES, HbmStack
from hw.hbm.dram.stacks import stack
from hw.params import Machine
from tb.hbm_reference import ReferenceChannel, random_places
from tb.hbm_runs import (
    ChannelResult,
    ChannelRun,
    StackResult,
    StackRun,
    channel_build,
    play_channels,
    play_stack,
    stack_build,
)
from tb.measurements.report import Measurement, Table
from tb.measurements.runs import Progress
from tb.vip.hbm_traffic import Pattern

FULL_SIZE = ("hbm3e-9200", "hbm3-6400")
WINDOWS = (1, 8, 32, 64)
READS = 600  # of a run that the plain model repeats
LEAST_SEQUENTIAL = 0.9  # of the peak
# Whole stack: 4 KiB requests, 2 MiB in all.
STACK_RUNS = {
    "sequential reads": StackRun(requests=512, length=64, record=1024),
    "sequential writes": StackRun(requests=512, length=64, write_share=256),
    "sequential, half of the requests writes": StackRun(requests=512, length=64, write_share=128),
    "random 4 KiB reads": StackRun(requests=512, length=64, pattern=Pattern.RANDOM),
    "random 64 B reads, one request a clock": StackRun(
        requests=4000, length=1, pattern=Pattern.RANDOM
    ),
}


def activate_bound(stack: HbmStack) -> float:
    """Bytes a second of a pseudo-channel if each ACTIVATE brings one access: four in tFAW."""
    t, o = stack.timing, stack.organization
    each_ns = max(t.faw_ns / 4, t.rrd_s_ns, t.rc_ns / o.bank_count)
    return min(ACCESS_BYTES / each_ns * 1e9, stack.channel_peak_bytes_per_s)


@dataclass(frozen=True, kw_only=True)
class _Channel:
    """A run of one pseudo-channel, and what the plain model makes of its stream."""

    name: str
    window: int
    result: ChannelResult
    reference: float | None
    bound: float | None


def measure(machine: Machine, seed: int, progress: Progress) -> Measurement:
    """Whole stacks, and one pseudo-channel by queue depth.

    A miss is a sequential stream below 90 % of the peak, a wrong access or a broken DRAM rule.

    Args:
        machine: ``mini`` has a stack of that name; others are measured at full size.
        seed: Does not matter: streams are the same in every run.
        progress: Takes a line whenever a run is over.
    """
    names = ("mini",) if machine.name == "mini" else FULL_SIZE
    whole: list[tuple[HbmStack, str, StackResult]] = []
    single: list[tuple[HbmStack, _Channel]] = []
    for name in names:
        which = stack(name)
        progress(f"{name}: building the simulators if they are new ...")
        simulation = stack_build(which)
        for title, run in STACK_RUNS.items():
            whole.append((which, title, play_stack(simulation, run)))
            progress(f"{name}, {title}: {100 * whole[-1][2].of_peak:.1f} % of the peak")
        single += [(which, found) for found in _channels(which, progress)]
    return Measurement(
        name="hbm",
        presets=(),
        seed=seed,
        rows=tuple(_json(which, title, result) for which, title, result in whole)
        + tuple(
            _json(which, found.name, found.result)
            | {"window": found.window, "reference": found.reference, "bound": found.bound}
            for which, found in single
        ),
        tables=(_stack_table(whole), _channel_table(single)),
        misses=tuple(_misses(whole, single)),
    )


def _channels(which: HbmStack, progress: Progress) -> list[_Channel]:
    simulation = channel_build(which, 1)
    at, found = HbmAddressMap(which), []
    for pattern, title in (
        (Pattern.SEQUENTIAL, "sequential reads"), (Pattern.RANDOM, "random 64 B reads"),
    ):  # fmt: skip
        for window in WINDOWS:
            run = ChannelRun(reads=READS, pattern=pattern, window=window, record=1024)
            places: Iterable[Place]
            if pattern is Pattern.RANDOM:
                places = itertools.islice(random_places(which, 0, 1), READS)
                bound = activate_bound(which)
            else:
                places = (at.place(k << at.channel_bits) for k in range(READS))
                bound = which.channel_peak_bytes_per_s
            reference = ReferenceChannel(which, window).bytes_per_s(places)
            result = play_channels(simulation, run)
            found.append(
                _Channel(name=title, window=window, result=result, reference=reference, bound=bound)
            )
            progress(f"{which.name}, {title}, {window} under way: {result.bytes_per_s / 1e9:.2f}")
    for title, run in (
        ("reads and writes, sequential", ChannelRun(reads=4000, writes=4000)),
        ("reads and writes, random", ChannelRun(reads=2000, writes=2000, pattern=Pattern.RANDOM)),
    ):
        result = play_channels(simulation, run)
        found.append(
            _Channel(name=title, window=run.window, result=result, reference=None, bound=None)
        )
    run = ChannelRun(reads=100, pattern=Pattern.ONE_BANK)
    found.append(
        _Channel(
            name="reads of one bank, a row each",
            window=run.window,
            result=play_channels(simulation, run),
            reference=None,
            bound=ACCESS_BYTES / which.timing.rc_ns * 1e9,
        )
    )
    return found


def _json(which: HbmStack, title: str, result: StackResult | ChannelResult) -> dict[str, object]:
    return {
        "stack": which.name,
        "stack_fingerprint": which.fingerprint,
        "run": title,
        "bytes_per_s": result.bytes_per_s,
        "of_peak": result.of_peak,
        "clocks": result.clocks,
        "checked_commands": result.recorded,
        "violations": [str(violation) for violation in result.violations],
        "errors": result.errors,
        "counters": result.counters,
    }


def _misses(whole, single):
    for which, title, result in whole:
        streams = title in ("sequential reads", "sequential writes") and which.name in FULL_SIZE
        if streams and result.of_peak < LEAST_SEQUENTIAL:
            yield f"{which.name}, {title}: {100 * result.of_peak:.1f} % of the peak, not 90"
    for which, title, result in (
        *whole, *((which, found.name, found.result) for which, found in single),
    ):  # fmt: skip
        if result.errors:
            yield f"{which.name}, {title}: {result.errors} wrong accesses"
        for violation in result.violations[:1]:
            yield f"{which.name}, {title}: {violation}"


def _hit_rate(counters) -> str:
    kinds = {
        what: sum(counters[f"{way}_{what}"] for way in ("read", "write"))
        for what in ("hits", "misses", "conflicts")
    }
    total = sum(kinds.values())
    return f"{100 * kinds['hits'] / total:.1f} %" if total else ""


def _stack_table(whole) -> Table:
    return Table(
        title="Whole stacks, GB/s from the first burst to the last",
        columns=("stack", "requests", "peak", "measured", "of peak", "row hits"),
        rows=tuple(
            (
                which.name,
                title,
                f"{which.peak_bytes_per_s / 1e9:,.1f}",
                f"{result.bytes_per_s / 1e9:,.1f}",
                f"{100 * result.of_peak:.1f} %",
                _hit_rate(result.counters),
            )
            for which, title, result in whole
        ),
        left=2,
    )


def _channel_table(single) -> Table:
    return Table(
        title="One pseudo-channel, GB/s; under way are reads that have not come back",
        columns=(
            *("stack", "accesses", "under way", "closed form", "plain model", "measured"),
            *("of peak", "row hits"),
        ),
        rows=tuple(
            (
                which.name,
                found.name,
                f"{found.window}",
                "" if found.bound is None else f"{found.bound / 1e9:.2f}",
                "" if found.reference is None else f"{found.reference / 1e9:.2f}",
                f"{found.result.bytes_per_s / 1e9:.2f}",
                f"{100 * found.result.of_peak:.1f} %",
                _hit_rate(found.result.counters),
            )
            for which, found in single
        ),
        left=2,
    )
