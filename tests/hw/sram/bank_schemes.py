"""Fill and drain rates of the two bank schemes of the transfer regions, under the same load.

``python -m tests.hw.sram.bank_schemes`` prints the table.
"""

import random
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hw.params import Machine
from hw.sram.fill_first import FILL_FIRST_GROUPS, FillFirstRegions
from hw.sram.regions import GROUPS, TransferRegions
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SCHEMES = ("slots", "fill first")
PAGE_BEATS = 4


@dataclass(frozen=True)
class Load:
    """Beats a clock that are offered, and where.

    ``regions`` is "one" (fill and drains all work in one region), "apart" (the drains in the other
    region), "random" (each fill beat and drained page in any), or "refill": a region is filled only
    when it is wholly drained, and a page drained when it is wholly filled.
    """

    name: str
    fill: Fraction
    drain: Fraction
    regions: str


@dataclass(frozen=True)
class Rates:
    """Beats a clock that were moved, and the most clocks that a beat of a drain waited."""

    fill: float
    direct: float
    relay: float
    wait: int


FULL, DRAIN = Fraction(25, 16), Fraction(25, 32)
LOADS = (
    Load("full, regions apart", FULL, DRAIN, "apart"),
    Load("full, one region", FULL, DRAIN, "one"),
    Load("full, any region", FULL, DRAIN, "random"),
    Load("full, refill of a whole region", FULL, DRAIN, "refill"),
    Load("drains only", Fraction(0), DRAIN, "random"),
    Load("fill at two beats a clock, one region", Fraction(2), DRAIN, "one"),
)


class Traffic:
    """Which beats come next, for either scheme; positions are (region, page, beat)."""

    def __init__(self, load: Load, pages: int) -> None:
        self.load, self.pages = load, pages
        self.rng = random.Random(1)
        self.filled: deque[tuple[int, int]] = deque()
        self.left = [0, 0]  # pages of a region that are not drained
        self.fill_at, self.beats_of = (0, 0), 0
        self.drain_at = 0

    def next_fill(self) -> tuple[int, int, int] | None:
        """The next beat to fill: four of a page follow each other; None: there is no room."""
        region, page = self.fill_at
        beat = self.beats_of
        if self.load.regions == "refill" and page == beat == 0:
            if self.left[region]:
                return None
            self.left[region] = self.pages
        elif self.load.regions == "random":
            region = self.rng.getrandbits(1)
        self.beats_of = (beat + 1) % PAGE_BEATS
        if not self.beats_of:
            if self.load.regions == "refill":
                self.filled.append((region, page))
            page = (page + 1) % self.pages
            switch = self.load.regions == "refill" and not page
            self.fill_at = (self.fill_at[0] ^ switch, page)
        return region, page if self.beats_of else (page - 1) % self.pages, beat

    def next_page(self) -> tuple[int, int] | None:
        """The next page to drain, on any path."""
        if self.load.regions == "refill":
            return self.filled.popleft() if self.filled else None
        self.drain_at = (self.drain_at + 1) % self.pages
        region = {"one": 0, "apart": 1, "random": self.rng.getrandbits(1)}[self.load.regions]
        return region, self.drain_at

    def drained(self, region: int) -> None:
        self.left[region] -= 1


class Drain:
    """One path: a page at a time, paced."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.page: tuple[int, int] | None = None
        self.beat, self.budget, self.moved = 0, Fraction(0), 0
        self.since, self.wait = 0, 0

    def wants(self, clock: int, may_start: bool) -> tuple[int, int, int] | None:
        self.budget = min(self.budget + self.traffic.load.drain, Fraction(2 * PAGE_BEATS))
        if self.page is None and may_start and self.budget >= PAGE_BEATS:
            self.page = self.traffic.next_page()
            self.since = clock
            if self.page is not None:
                self.budget -= PAGE_BEATS
        return None if self.page is None else (*self.page, self.beat)

    def took(self, clock: int) -> None:
        assert self.page is not None
        self.moved += 1
        self.wait, self.since = max(self.wait, clock - self.since), clock + 1
        self.beat = (self.beat + 1) % PAGE_BEATS
        if not self.beat:
            self.traffic.drained(self.page[0])
            self.page = None


def measure(scheme: str, load: Load, *, machine: Machine = TINY, clocks: int = 1200) -> Rates:
    """Rates over ``clocks`` clocks, the first eighth of them left out."""
    slots = scheme == "slots"
    dut: Any = TransferRegions(machine) if slots else FillFirstRegions(machine)
    groups = GROUPS if slots else FILL_FIRST_GROUPS
    traffic = Traffic(load, machine.geometry.wave_pages)
    drains = {"direct": Drain(traffic), "relay": Drain(traffic)}
    start = clocks // 8
    filled, before = 0, {"direct": 0, "relay": 0}

    async def bench(ctx: Any) -> None:
        nonlocal filled
        ctx = Quiet(ctx)
        ports = {group: dut.fill[group] for group in range(groups)}
        paths = {name: getattr(dut, name) for name in drains}
        queues: list[deque] = [deque() for _ in range(groups)]
        budget = Fraction(0)
        for clock in range(clocks):
            now = clock % 4
            budget = min(budget + load.fill, Fraction(8))
            while budget >= 1 and min(len(queue) for queue in queues) < 4:
                beat = traffic.next_fill()
                if beat is None:
                    break
                queues[beat[2] % groups].append(beat)
                budget -= 1
            for group, port in ports.items():
                turn = not slots or (now - group) % 2 == 0
                ctx.set(port.en, bool(queues[group]) and turn)
                if queues[group] and turn:
                    region, page, beat = queues[group].popleft()
                    ctx.set(port.region, region)
                    ctx.set(port.row, page if slots else 2 * page + beat // 2)
                    filled += clock >= start
            taken = []
            for name, port in paths.items():
                # With slots a page starts in the clock of group 0.
                first = now == (1 if name == "direct" else 3)
                wanted = drains[name].wants(clock, first or not slots)
                ctx.set(port.en, wanted is not None)
                if wanted is not None:
                    region, page, beat = wanted
                    ctx.set(port.region, region)
                    ctx.set(port.row, page if slots else 2 * page + beat // 2)
                    if not slots:
                        ctx.set(port.group, beat % 2)
                    taken.append((name, port))
            for name, port in taken:
                if slots or ctx.get(port.ready):
                    drains[name].took(clock)
            if clock == start:
                before.update({name: drain.moved for name, drain in drains.items()})
            await ctx.tick()

    simulate(dut, bench, clocks=clocks + 2)
    span = clocks - start
    direct, relay = ((drains[name].moved - before[name]) / span for name in drains)
    return Rates(filled / span, direct, relay, max(drain.wait for drain in drains.values()))


def table() -> str:
    """All loads on both schemes; rates in beats a clock."""
    lines = [f"{'load':40}{'scheme':12}{'fill':>7}{'direct':>8}{'relay':>8}{'wait':>6}"]
    for load in LOADS:
        for scheme in SCHEMES:
            rates = measure(scheme, load)
            lines.append(
                f"{load.name:40}{scheme:12}{rates.fill:7.3f}{rates.direct:8.3f}"
                f"{rates.relay:8.3f}{rates.wait:6}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
