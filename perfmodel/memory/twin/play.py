"""Plays a trace on the twin."""

from dataclasses import dataclass, field

from perfmodel.memory.twin.events import Events
from perfmodel.memory.twin.receiver import Receiver
from perfmodel.memory.twin.router import RequestRouter
from perfmodel.memory.twin.stack import Stack
from perfmodel.memory.twin.trace import Path, Trace


@dataclass(frozen=True, kw_only=True)
class Times:
    """What became of one read, in clocks.

    Attributes:
        accepted: Taken by the router.
        first_beat, last_beat: Taken at the GPU side.
        done: Reported whole.
        path: Which it took, if that is known; not looked at by comparisons.
    """

    accepted: int
    first_beat: int
    last_beat: int
    done: int
    path: Path | None = field(default=None, compare=False)


def play(trace: Trace, *, start: int = 0) -> tuple[Times, ...]:
    """Play ``trace``, its first read being offered in clock ``start``.

    The fixed slots of SRAM and links count from clock 0. All pairs of a package hold the same
    stripes and are asked for the same pages in the same clocks, so that they do the same in every
    clock: one is played, for all.
    """
    events = Events()
    receiver = Receiver(events)
    stack = Stack(trace.machine, events, receiver, drain_whole_region=trace.drain_whole_region)
    router = RequestRouter(trace, events, receiver, stack.request)
    router.begin(start)
    events.run(start)
    unfinished = len(trace.reads) - sum(transfer.done > 0 for transfer in router.transfers)
    if unfinished:
        raise RuntimeError(f"{unfinished} of {len(trace.reads)} reads never ended: a deadlock")
    return tuple(
        Times(
            accepted=transfer.accepted,
            first_beat=transfer.first_in,
            last_beat=transfer.last_in,
            done=transfer.done,
            path=transfer.path,
        )
        for transfer in router.transfers
    )
