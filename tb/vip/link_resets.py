"""Asks for resets of links at random times, and tells the judges what they may cost."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hw.links import links_of
from hw.params import Topology
from hw.ucie.transaction import Route
from tb.coverage.points import Coverage
from tb.vip.scoreboard import Scoreboard

PAUSES = (0, 30, 100, 400, 1500)  # clocks between the end of a reset and the next one

# By link: the reads and the port of writes that a reset of it may end.
CUTS = {
    "link_a": (Route.DIRECT, "write"),
    "link_b": (Route.RELAY, None),
    "link_c": (Route.RELAY, "writeback"),
}


@dataclass
class Under:
    """A link that is being reset."""

    pair: int
    link: int
    fell: list[int] = field(default_factory=lambda: [0, 0])  # both ends have lost it


class LinkResets:
    """Resets the links of a package ``count`` times, now and then two of them at once."""

    def __init__(
        self,
        dut: Any,
        topology: Topology,
        count: int,
        random: Random,
        coverage: Coverage | None = None,
    ) -> None:
        self._names = [link.name for link in links_of(topology)]
        self._pairs = range(topology.pairs)
        self._ask = [getattr(dut, f"link_reset__{pair}") for pair in self._pairs]
        self._lost = [
            [
                [getattr(getattr(dut, f"{name}{pair}"), end).die__lost for end in ("near", "far")]
                for name in self._names
            ]
            for pair in self._pairs
        ]
        self._random, self._pause = random, random.choice(PAUSES)
        self._under: list[Under] = []
        self._coverage = coverage
        self.left, self.done = count, dict.fromkeys(self._names, 0)
        for ask in self._ask:
            ask.value = 0

    @property
    def idle(self) -> bool:
        return not self.left and not self._under

    def clock(self, scoreboard: Scoreboard) -> None:
        for ask in self._ask:
            ask.value = 0
        for under in list(self._under):
            self._expose(scoreboard, under)
            lost = [int(end.value) for end in self._lost[under.pair][under.link]]
            under.fell = [now or before for now, before in zip(lost, under.fell, strict=True)]
            if all(under.fell) and not any(lost):
                self._under.remove(under)
                self.done[self._names[under.link]] += 1
                self._pause = self._random.choice(PAUSES)
        if self._pause:
            self._pause -= 1
        elif self.left and (not self._under or self._random.random() < 0.02):
            self._begin(scoreboard)

    def _begin(self, scoreboard: Scoreboard) -> None:
        pair, link = self._random.choice(self._pairs), self._random.randrange(len(self._names))
        if any((u.pair, u.link) == (pair, link) for u in self._under):
            return
        self.left -= 1
        self._ask[pair].value = 1 << link
        self._under.append(under := Under(pair, link))
        if self._coverage is not None:
            self._cover(self._coverage, scoreboard, under)
        self._expose(scoreboard, under)

    def _cover(self, coverage: Coverage, scoreboard: Scoreboard, under: Under) -> None:
        name = self._names[under.link]
        route, port = CUTS[name]
        reads = any(read.route is route for read in scoreboard.reads)
        opened = scoreboard.writes.stacks[under.pair].open
        writes = any(at == port for at, _ in opened)
        met = {(0, 0): "nothing", (1, 0): "reads", (0, 1): "writes", (1, 1): "both"}
        coverage.points["reset_meets"].hit(f"{name}/{met[reads, writes]}")

    def _expose(self, scoreboard: Scoreboard, under: Under) -> None:
        route, port = CUTS[self._names[under.link]]
        scoreboard.expose(route, under.pair)
        if port is not None:
            scoreboard.writes.stacks[under.pair].expose(port)
