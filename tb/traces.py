"""Traces of reads on the RTL: the same description that the twin plays."""

from dataclasses import dataclass

from hw.gpu.router import Choice
from perfmodel.memory.twin import Times, Trace
from tb.read_result import ReadResult
from tb.reads import ReadRun
from tb.settings import Modes


@dataclass(frozen=True, kw_only=True)
class TraceRun(ReadRun):
    """A run whose reads, their pieces, times and window are those of ``trace``."""

    trace: Trace

    def pieces(self) -> list[tuple[int, int]]:
        """Offset and length of each read in its page; a length of zero for whole pages."""
        return [(read.offset, read.units) for read in self.trace.reads]

    def plan(self) -> dict:
        return {
            **super().plan(),
            "window": self.trace.window_pages,
            "offered": [read.at for read in self.trace.reads],
        }

    def _timeout_cycles(self) -> int:
        return super()._timeout_cycles() + self.trace.reads[-1].at


def trace_run(trace: Trace) -> TraceRun:
    """The run that plays ``trace``."""
    return TraceRun(
        machine=trace.machine,
        topology=trace.topology,
        listed=tuple((read.first, read.pages, Choice(int(read.path))) for read in trace.reads),
        modes=Modes(drain_whole_region=trace.drain_whole_region),
        trace=trace,
    )


def times(result: ReadResult) -> tuple[Times, ...]:
    """The stamps of a run's reads.

    Raises:
        RuntimeError: a byte was wrong, a rule of the NAND was broken or a read ended otherwise
            than well, so that its time means nothing.
    """
    if result.data_errors or result.violations or result.poisoned:
        raise RuntimeError(
            f"{result.data_errors} wrong beats, {result.violations} broken NAND rules and "
            f"{result.poisoned} poisoned reads: the times of such a run mean nothing"
        )
    return tuple(
        Times(
            accepted=stamps.accepted,
            first_beat=stamps.first_beat,
            last_beat=stamps.last_beat,
            done=stamps.done,
        )
        for stamps in result.requests
    )
