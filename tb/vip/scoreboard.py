"""What the GPU side may see of a package's reads, in plain Python.

Fed with what the ports of :class:`hw.package.Package` show, clock by clock, and ignorant of how the
package works inside.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

from amaranth.lib import data

from hw.gpu.router import Choice
from hw.params import Machine
from hw.ucie.transaction import ADDRESS_UNIT_BYTES, Header, MessageClass, Route
from tb.vip.content import beat_lanes

BEATS = 4  # of a page
COMPLETION_CLOCKS = 64  # within which a read is reported after its last beat was taken
MESSAGES = {Route.DIRECT: MessageClass.READ_DATA, Route.RELAY: MessageClass.RELAY_DATA}

_FIELDS = {name: (f.offset, (1 << f.width) - 1) for name, f in data.Layout.cast(Header)}


class ScoreboardError(AssertionError):
    """Data, labels, order or completions are not what was asked for."""


def header_field(bits: int, name: str) -> int:
    """One field of the bits of a :class:`hw.ucie.transaction.Header`."""
    offset, mask = _FIELDS[name]
    return bits >> offset & mask


@dataclass
class Read:
    """A read that was accepted, and what came of it."""

    first: int
    pages: int
    tag: int
    route: Route
    missing: list[set[int]]  # by pair, pages that have not come
    whole_at: int | None = None  # clock of the last beat


@dataclass
class Scoreboard:
    """Judge of all reads of a package.

    Contract: call :meth:`begin_clock` once a clock, then tell what the ports show in that clock.
    Whatever is wrong raises :class:`ScoreboardError` at once; :meth:`finish` tells what is missing.

    Checked are every byte, the label of every beat, that the beats of a page do not part, that
    every page of every read comes exactly once from every stack over the read's path, that each
    read completes exactly once and after its last beat, the choice of path for LEAST_LOADED, and
    the limits of window, transaction slots and buffers.

    Attributes:
        window: Register of the router.
        pages_taken: By pair, whole pages that the consumers took.
        beats: Route, pair and number of each beat, in order of arrival.
    """

    machine: Machine
    pairs: int
    routes: tuple[Route, ...]
    window: int
    beats: list[tuple[int, int, int]] = field(default_factory=list)
    completions: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._clock = 0
        self._reads: dict[tuple[Route, int], Read] = {}
        # In this clock the router still counts as it did before it.
        self._outstanding = dict.fromkeys(Route, 0)
        self._arrived: list[Route] = []
        sinks = [(route, pair) for route in self.routes for pair in range(self.pairs)]
        self._pages: dict[tuple[Route, int], tuple[int, int]] = dict.fromkeys(sinks, (-1, -1))
        self._position = dict.fromkeys(sinks, 0)
        self._next_beat = dict.fromkeys(sinks, 0)
        self._asked: Counter[int] = Counter()
        self.pages_taken = [0] * self.pairs
        self._room = 2 * self.machine.geometry.wave_pages  # regions of the HBF base die
        for route in self.routes:
            self._room += self.machine.credits.rx_beats // BEATS
            if route is Route.RELAY:
                self._room += self.machine.sram.relay_regions * self.machine.relay_chunk_pages

    @property
    def tags(self) -> set[int]:
        """Tags of the reads that have not completed."""
        return {tag for _, tag in self._reads}

    def begin_clock(self) -> None:
        self._clock += 1
        for route in self._arrived:
            self._outstanding[route] -= 1
        self._arrived.clear()
        for read in self._reads.values():
            if read.whole_at is not None and self._clock - read.whole_at > COMPLETION_CLOCKS:
                self._fail(f"read {read.tag} is whole and was not reported")

    def accepted(self, first: int, pages: int, tag: int, choice: Choice) -> Route:
        """A read was accepted; returns the path it must take."""
        route = self._route(choice)
        if self._outstanding[route] >= self.window:
            self._fail(f"read {tag} was accepted with the window of {route.name} used up")
        slots = self.machine.credits.descriptors
        if sum(read.route is route for read in self._reads.values()) >= slots:
            self._fail(f"read {tag} was accepted without a free slot of {route.name}")
        missing = [set(range(pages)) for _ in range(self.pairs)]
        self._reads[route, tag] = Read(first, pages, tag, route, missing)
        self._asked.update(range(first, first + pages))
        self._outstanding[route] += pages * self.pairs
        return route

    def beat(self, route: Route, pair: int, header: int, lanes: list[int]) -> None:
        """A beat was taken from a sink."""
        where = f"{route.name} of pair {pair}"
        tag, page, beat = (header_field(header, name) for name in ("tag", "page", "beat"))
        read = self._reads.get((route, tag))
        if read is None:
            self._fail(f"{where}: a beat of read {tag}, which is not outstanding there")
        if page not in read.missing[pair]:
            self._fail(f"{where}: page {page} of read {tag} was not asked for or came before")
        number = (read.first + page) * BEATS + beat
        self._check_label(where, route, header, number)
        if lanes != beat_lanes(pair, number, self.machine.lanes):
            self._fail(f"{where}: wrong data in beat {beat} of page {page} of read {tag}")
        self.beats.append((int(route), pair, number))
        self._check_order(where, route, pair, (tag, page), beat)
        if self._position[route, pair] == 0:
            self._page_done(read, route, pair, page)

    def done(self, route: Route, tag: int, poison: bool) -> None:
        """A read was reported to be whole."""
        read = self._reads.pop((route, tag), None)
        if read is None:
            self._fail(f"{route.name}: read {tag} was reported, but is not outstanding")
        if read.whole_at is None:
            left = [len(pages) for pages in read.missing]
            self._fail(f"{route.name}: read {tag} was reported with pages missing: {left}")
        if poison:
            self._fail(f"{route.name}: read {tag} was reported as poisoned")
        self.completions.append(tag)

    def sensed(self, pair: int, pages: int) -> None:
        """A stack has sensed ``pages`` pages so far: no more than the package has room for."""
        room = self._room
        if pages - self.pages_taken[pair] > room:
            self._fail(f"stack {pair}: more than {room} pages between NAND and consumer")

    def finish(self, read_out: list[Counter[int]]) -> None:
        """Nothing may be missing, and ``read_out`` of each stack must be what was asked for."""
        for read in self._reads.values():
            left = [len(pages) for pages in read.missing]
            self._fail(f"{read.route.name}: read {read.tag} never completed, missing: {left}")
        for pair, pages in enumerate(read_out):
            if pages != self._asked:
                odd = sorted((pages - self._asked) + (self._asked - pages))
                self._fail(f"stack {pair} did not read out what was asked: pages {odd[:8]}")

    def _route(self, choice: Choice) -> Route:
        if choice is Choice.DIRECT:
            return Route.DIRECT
        if choice is Choice.RELAY:
            return Route.RELAY
        if len(self.routes) == 1:
            return self.routes[0]
        lighter = self._outstanding[Route.RELAY] < self._outstanding[Route.DIRECT]
        return Route.RELAY if lighter else Route.DIRECT

    def _check_label(self, where: str, route: Route, header: int, number: int) -> None:
        want = {
            "address": number * (self.machine.link.beat_bytes // ADDRESS_UNIT_BYTES),
            "message_class": MESSAGES[route],
            "route": route,
            "poison": 0,
        }
        for name, value in want.items():
            have = header_field(header, name)
            if have != value:
                self._fail(f"{where}: {name} of beat {number} is {have}, not {int(value)}")

    def _check_order(
        self, where: str, route: Route, pair: int, page: tuple[int, int], beat: int
    ) -> None:
        sink = route, pair
        if self._position[sink] == 0:
            self._pages[sink], self._next_beat[sink] = page, beat
        if page != self._pages[sink] or beat != self._next_beat[sink]:
            self._fail(f"{where}: the beats of page {self._pages[sink]} part")
        self._position[sink] = (self._position[sink] + 1) % BEATS
        self._next_beat[sink] = (beat + 1) % BEATS

    def _page_done(self, read: Read, route: Route, pair: int, page: int) -> None:
        read.missing[pair].remove(page)
        self._arrived.append(route)
        self.pages_taken[pair] += 1
        if not any(read.missing):
            read.whole_at = self._clock

    def _fail(self, what: str) -> NoReturn:
        raise ScoreboardError(f"clock {self._clock}: {what}")
