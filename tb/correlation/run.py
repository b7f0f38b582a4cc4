"""Plays traces on both levels."""

from collections.abc import Callable, Iterable
from pathlib import Path

from perfmodel.memory.twin import play
from tb.correlation.compare import Compared
from tb.correlation.store import rtl_times
from tb.correlation.traces import trace_of

Progress = Callable[[str, Compared, bool], None]


def correlate(
    wanted: Iterable[str], folder: Path, progress: Progress | None = None
) -> list[Compared]:
    """Each named trace on RTL and twin.

    The twin begins in the clock in which the RTL accepts the first read; nothing else of the RTL's
    times reaches it.

    Args:
        wanted: Names of traces.
        folder: Where times of the RTL are kept between calls.
        progress: Called with each trace that is done, and whether the RTL was played for it.

    Raises:
        InputError: a name is no trace, or the simulator is missing.
        BenchFailed, RuntimeError: a run on the RTL went wrong.
    """
    done = []
    for name in wanted:
        trace = trace_of(name)
        rtl, played = rtl_times(trace, folder, name)
        twin = play(trace, start=rtl[0].accepted)
        compared = Compared(name=name, trace=trace, rtl=rtl, twin=twin)
        done.append(compared)
        if progress is not None:
            progress(name, compared, played)
    return done
