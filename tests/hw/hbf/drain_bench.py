"""Bench of one drain engine: plays SRAM, labels and fill, and records all that happens."""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from hw.hbf.drain import DrainEngine
from hw.sram.regions import READ_CLOCKS
from hw.ucie.transaction import Route
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

DIES = 4
Slot = tuple[int, int]  # subarray, region


def stored(region: int, row: int, group: int) -> int:
    """What the transfer regions hold in that place."""
    return (region << 4 | row) << 2 | group


def poisoned(region: int, row: int, group: int) -> bool:
    """Whether it cannot be corrected."""
    return stored(region, row, group) % 5 == 0


@dataclass(frozen=True)
class Filled:
    """A page that is in SRAM."""

    clock: int
    die: int
    slot: Slot
    label: tuple[int, int]  # tag, page
    beats: tuple[int, int]  # the first and the last that are wanted


@dataclass
class Trace:
    """What a drain did, by clock."""

    fills: list[Filled] = field(default_factory=list)
    admitted: list[bool] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    dropping: list[bool] = field(default_factory=list)
    chunk_end: list[bool] = field(default_factory=list)
    drains: list[int] = field(default_factory=list)
    sent: list[tuple[int, int]] = field(default_factory=list)  # clock, beats
    reads: dict[int, tuple[int, int]] = field(default_factory=dict)  # region, row
    frees: list[tuple[int, int, Slot]] = field(default_factory=list)
    beats: dict[int, tuple[Any, int]] = field(default_factory=dict)  # header, content


def drained(
    route: Route,
    start: int,
    *,
    rate: int,
    fill: float,
    admit: float,
    seed: int,
    clocks: int,
    partial: float = 0.0,
    whole_regions: bool = False,
    hold: float = 0.0,
    drop: float = 0.0,
) -> Trace:
    """Fill every free slot with chance ``fill`` a clock, admit with chance ``admit``.

    A share ``partial`` of the pages is wanted in part; with ``whole_regions`` a region drains only
    for some of the time. The link holds up pages with chance ``hold`` a clock, and with chance
    ``drop`` a clock it is lost or comes back.
    """
    dut, trace, pick = DrainEngine(TINY, route=route, start=start), Trace(), random.Random(seed)
    free = [[(s, r) for s in range(4) for r in range(2)] for _ in range(DIES)]
    ports = list(dut.ready)
    labels: dict[tuple[int, Slot], tuple[int, int]] = {}

    async def bench(ctx):
        ctx = Quiet(ctx)
        asked: Slot | None = None  # in the clock before
        reads: deque[tuple[int, int, int] | None] = deque([None] * READ_CLOCKS, READ_CLOCKS)
        ctx.set(dut.rate, rate)
        for clock in range(clocks):
            now = clock % 4
            ctx.set(dut.now, now)
            trace.admitted.append(pick.random() < admit)
            trace.chunk_end.append(pick.random() < 0.3)
            ctx.set(dut.admit, trace.admitted[-1])
            trace.held.append(bool(hold) and pick.random() < hold)
            ctx.set(dut.port.hold, trace.held[-1])
            before = bool(trace.dropping) and trace.dropping[-1]
            trace.dropping.append(before ^ (bool(drop) and pick.random() < drop))
            ctx.set(dut.drop, trace.dropping[-1])
            ctx.set(dut.chunk_end, trace.chunk_end[-1])
            trace.drains.append(1 + clock // 50 % 3 if whole_regions else 3)
            ctx.set(dut.drains, trace.drains[-1])
            for d in range(DIES):
                fills = bool(free[d]) and pick.random() < fill
                ready: dict[str, Any] = {"valid": fills}
                if fills:
                    slot = free[d].pop(pick.randrange(len(free[d])))
                    first, last = 0, 3
                    if pick.random() < partial:
                        first, last = sorted(pick.choices(range(4), k=2))
                    ready["page"] = {
                        "slot": {"subarray": slot[0], "region": slot[1]},
                        "first_beat": first,
                        "last_beat": last,
                    }
                    labels[d, slot] = (pick.randrange(4096), pick.randrange(4096))
                    trace.fills.append(Filled(clock, d, slot, labels[d, slot], (first, last)))
                ctx.set(ports[d], ready)
                tag, page = labels[d, asked] if asked and (d, asked) in labels else (0, 0)
                ctx.set(dut.label[d], {"tag": tag, "page": page})
            read = reads[0]
            set_lanes(ctx, dut, stored(*read) if read else 0xDEAD)
            ctx.set(dut.poison, poisoned(*read) if read else True)

            if ctx.get(dut.sent):
                trace.sent.append((clock, ctx.get(dut.beats)))
            asked = None
            reads.append(None)
            if ctx.get(dut.read_en):
                trace.reads[clock] = ctx.get(dut.read_region), ctx.get(dut.read_row)
                reads[-1] = (*trace.reads[clock], (now - start) % 4)
            if ctx.get(dut.label_en):
                asked = ctx.get(dut.label_slot.subarray), ctx.get(dut.label_slot.region)
            for d in range(DIES):
                event = ctx.get(dut.free[d])
                if event.valid:
                    slot = (event.slot.subarray, event.slot.region)
                    trace.frees.append((clock, d, slot))
                    free[d].append(slot)
            if ctx.get(dut.port.valid):
                trace.beats[clock] = ctx.get(dut.port.header), get_lanes(ctx, dut.port)
            await ctx.tick()

    simulate(dut, bench, clocks=clocks + 1)
    return trace
