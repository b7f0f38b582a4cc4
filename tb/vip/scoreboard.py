"""What the GPU side may see of a package's reads, in plain Python.

Fed with what the ports of :class:`hw.package.Package` show, clock by clock; of what is inside it
knows only when each base die took up a read or a write, which is what orders them.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from amaranth.lib import data

from hw.gpu.router import Choice
from hw.params import Machine
from hw.ucie.transaction import ADDRESS_UNIT_BYTES, Header, MessageClass, Route, Status
from tb.coverage.points import Coverage
from tb.vip.page_contents import ANYTHING, WRONG, PageContents, content_of
from tb.vip.page_contents import name as content_name
from tb.vip.requests import ReadRequest
from tb.vip.stack_writes import StackWrites
from tb.vip.write_board import WriteBoard

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

    asked: ReadRequest
    tag: int
    route: Route
    beats: tuple[int, ...]  # of each page, that are wanted
    missing: list[set[int]]  # by pair, pages that have not come
    taken_up: list[int | None]  # by pair, clock in which the base die took it up
    status: Status = Status.OK  # that it must end with, if no link of it is reset
    slot: int | None = None  # that the router gave it
    exposed: set[int] = field(default_factory=set)  # pairs of which a link was reset meanwhile
    lost: bool = False  # and so it has ended
    poisoned: bool = False
    whole_at: int | None = None  # clock of the last beat


@dataclass
class Coming:
    """The page of which beats are coming, over one path from one stack."""

    read: Read
    page: int
    beats: list[int] = field(default_factory=list)
    contents: set[int] | None = None  # of which all its beats so far may be


@dataclass
class Scoreboard:
    """Judge of all reads of a package.

    Contract: call :meth:`begin_clock` once a clock, then tell what the ports show in that clock.
    Whatever is wrong raises :class:`ScoreboardError` at once; :meth:`finish` tells what is missing.

    Checked are every byte, the label of every beat, that the beats of a page do not part and are of
    one content, that the content is one that :class:`tb.vip.page_contents.PageContents` allows,
    that every page of every read comes exactly once from every stack over the read's path, that
    each read completes exactly once and after its last beat, that one which asks for nothing or for
    too much brings no beat and completes with its status, the choice of path for LEAST_LOADED,
    and the limits of window, transaction slots and buffers. A beat with poison may hold anything,
    and its read must be reported as poisoned; no other may. A read that is :meth:`exposed` to the
    reset of a link may end with LINK_RESET and pages missing that would have come over it.

    Attributes:
        window: Register of the router.
        writes: Judge of the writes.
        contents: By pair, what pages hold.
        pages_taken: By pair, whole pages that the consumers took.
        beats: Route, pair and number of each beat, in order of arrival.
        issued: By route and pair, pages of the reads that the base die took up.
        poisoned: By pair, beats that came with poison.
        coverage: Where reads are counted that a reset ended.
        lost: Paths of which the GPU I/O die has lost a link in this clock.
    """

    machine: Machine
    pairs: int
    routes: tuple[Route, ...]
    window: int
    beats: list[tuple[int, int, int]] = field(default_factory=list)
    completions: list[int] = field(default_factory=list)
    coverage: Coverage | None = None
    lost: set[Route] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._clock = 0
        self._reads: dict[tuple[Route, int], Read] = {}
        # In this clock the router still counts as it did before it.
        self._outstanding = dict.fromkeys(Route, 0)
        self._arrived: list[Route] = []
        sinks = [(route, pair) for route in self.routes for pair in range(self.pairs)]
        self._coming: dict[tuple[Route, int], Coming | None] = dict.fromkeys(sinks)
        self._to_take_up: dict[tuple[Route, int], deque[Read]] = {sink: deque() for sink in sinks}
        self.contents = [PageContents() for _ in range(self.pairs)]
        self.writes = WriteBoard(
            self.machine,
            [StackWrites(self.machine, pair, self.contents[pair]) for pair in range(self.pairs)],
        )
        self.issued = dict.fromkeys(((r, p) for r in Route for p in range(self.pairs)), 0)
        self.poisoned = [0] * self.pairs
        self._asked: list[Counter[int]] = [Counter() for _ in range(self.pairs)]
        self.pages_taken = [0] * self.pairs
        self._dropped = [0] * self.pairs  # pages of reads that a reset ended
        self._room = 2 * self.machine.geometry.wave_pages  # regions of the HBF base die
        for route in self.routes:
            self._room += self.machine.credits.rx_beats // BEATS
            if route is Route.RELAY:
                self._room += self.machine.sram.relay_regions * self.machine.relay_chunk_pages

    @property
    def tags(self) -> set[int]:
        """Tags of the reads that have not completed."""
        return {tag for _, tag in self._reads}

    @property
    def reads(self) -> Iterable[Read]:
        """Those that have not completed."""
        return self._reads.values()

    @property
    def outstanding(self) -> list[ReadRequest]:
        """Reads that have not completed."""
        return [read.asked for read in self._reads.values()]

    def begin_clock(self) -> None:
        self._clock += 1
        for pair, stack in enumerate(self.writes.stacks):
            known = [read.taken_up[pair] for read in self._reads.values()]
            stack.clock = self._clock
            stack.oldest_read = min((t for t in known if t is not None), default=self._clock)
        for route in self._arrived:
            self._outstanding[route] -= 1
        self._arrived.clear()
        for read in self._reads.values():
            if read.whole_at is not None and self._clock - read.whole_at > COMPLETION_CLOCKS:
                self._fail(f"read {read.tag} is whole and was not reported")

    def accepted(
        self, asked: ReadRequest, tag: int, took: Route | None = None, slot: int | None = None
    ) -> Route:
        """A read was accepted, and ``took`` this path and slot; returns the path."""
        route = self._route(asked.choice, took)
        if route in self.lost:
            self._fail(f"read {tag} was accepted while {route.name} has lost a link")
        if self._least_outstanding(route) >= self.window:
            self._fail(f"read {tag} was accepted with the window of {route.name} used up")
        slots = self.machine.credits.descriptors
        if sum(read.route is route for read in self._reads.values()) >= slots:
            self._fail(f"read {tag} was accepted without a free slot of {route.name}")
        read = Read(
            asked=asked,
            tag=tag,
            route=route,
            beats=self._beats(asked),
            missing=[set(range(asked.pages)) for _ in range(self.pairs)],
            taken_up=[None] * self.pairs,
            status=self.refusal(asked),
            slot=slot,
        )
        self._reads[route, tag] = read
        self._outstanding[route] += asked.pages * self.pairs
        if read.status is not Status.OK:
            return route
        for pair in range(self.pairs):
            waiting = self._to_take_up[route, pair]
            # The links are up, so what they lost before is taken up by now or never will be.
            self._to_take_up[route, pair] = deque([*(r for r in waiting if not r.lost), read])
        return route

    def expose(self, route: Route, pair: int) -> None:
        """A link of this path and pair is being reset in this clock."""
        for read in self._reads.values():
            if read.route is route:
                read.exposed.add(pair)

    def refusal(self, asked: ReadRequest) -> Status:
        """What a read must end with, by what it asks for."""
        units = self.machine.geometry.page_bytes // ADDRESS_UNIT_BYTES
        inside = asked.first + asked.pages <= self.machine.geometry.stack_pages
        piece = asked.offset + asked.units <= units
        return Status.OK if asked.pages and inside and piece else Status.BAD_ADDRESS

    def taken_up(self, route: Route, pair: int, slot: int | None = None) -> Read:
        """The base die took up the next read of a path; those of a path come in order.

        Reads that were exposed to a reset may be left out.
        """
        waiting = self._to_take_up[route, pair]
        while waiting and waiting[0].slot != slot is not None and pair in waiting[0].exposed:
            waiting.popleft()
        if not waiting or waiting[0].slot != slot is not None:
            self._fail(f"{route.name} of pair {pair}: a read was taken up that nobody asked for")
        read = waiting.popleft()
        read.taken_up[pair] = self._clock
        pages = range(read.asked.first, read.asked.first + read.asked.pages)
        self._asked[pair].update(pages)
        self._dropped[pair] += len(pages) * read.lost
        self.issued[route, pair] += len(pages)
        return read

    def beat(self, route: Route, pair: int, header: int, lanes: list[int]) -> None:
        """A beat was taken from a sink."""
        where = f"{route.name} of pair {pair}"
        tag, page, beat = (header_field(header, name) for name in ("tag", "page", "beat"))
        read = self._reads.get((route, tag))
        if read is None:
            self._fail(f"{where}: a beat of read {tag}, which is not outstanding there")
        if read.status is not Status.OK or page not in read.missing[pair]:
            self._fail(f"{where}: page {page} of read {tag} was not asked for or came before")
        number = (read.asked.first + page) * BEATS + beat
        self._check_label(where, route, header, number)
        self.beats.append((int(route), pair, number))
        coming = self._check_order(where, route, pair, read, page, beat)
        if header_field(header, "poison"):
            read.poisoned = True
            self.poisoned[pair] += 1
        else:
            self._check_content(where, pair, coming, number, lanes)
        ends = header_field(header, "page_end")
        if ends != (len(coming.beats) == len(read.beats)):
            self._fail(f"{where}: page_end of beat {number} is {ends}")
        if ends:
            self._coming[route, pair] = None
            self._page_done(read, route, pair, page)

    def done(self, route: Route, tag: int, poison: bool, status: int = Status.OK) -> None:
        """A read was reported to be over."""
        read = self._reads.pop((route, tag), None)
        if read is None:
            self._fail(f"{route.name}: read {tag} was reported, but is not outstanding")
        if status == Status.LINK_RESET and read.exposed:
            self._lost(route, read)
            return
        if status != read.status:
            self._fail(f"{route.name}: read {tag} ended with status {status}, not {read.status}")
        if read.status is not Status.OK:
            self._arrived += [route] * (read.asked.pages * self.pairs)
        elif read.whole_at is None:
            left = [len(pages) for pages in read.missing]
            self._fail(f"{route.name}: read {tag} was reported with pages missing: {left}")
        if poison != read.poisoned:
            not_ = "" if poison else "not "
            self._fail(f"{route.name}: read {tag} was {not_}reported as poisoned")
        self.completions.append(tag)

    def _lost(self, route: Route, read: Read) -> None:
        """A read has ended because a link was reset."""
        refused = read.status is not Status.OK
        left = [len(pages) for pages in read.missing]
        if not refused and not any(left[pair] for pair in read.exposed):
            self._fail(f"{route.name}: read {read.tag} was whole, and ended with LINK_RESET")
        if not refused and any(left[p] for p in range(self.pairs) if p not in read.exposed):
            self._fail(f"{route.name}: read {read.tag} ended before pairs that were not reset")
        if self.coverage is not None:
            some = any(n < read.asked.pages for n in left) and not refused
            came = "some pages" if some else "no page"
            self.coverage.points["reset_read"].hit(f"{route.name.lower()}/{came}")
        self._arrived += [route] * sum(left)
        read.lost = True
        for pair in range(self.pairs):
            if read.taken_up[pair] is not None:
                self._dropped[pair] += left[pair]
            coming = self._coming[route, pair]
            if coming is not None and coming.read is read:
                self._coming[route, pair] = None
        self.completions.append(read.tag)

    def sensed(self, pair: int, pages: int) -> None:
        """A stack has sensed ``pages`` pages so far: no more than the package has room for."""
        dropped = sum(len(r.missing[pair]) for r in self._reads.values() if pair in r.exposed)
        room = self._room + self._dropped[pair] + dropped
        if pages - self.pages_taken[pair] > room:
            self._fail(f"stack {pair}: more than {room} pages between NAND and consumer")

    def finish(self, read_out: list[Counter[int]]) -> None:
        """Nothing may be missing, and ``read_out`` of each stack must be what was asked for."""
        for read in self._reads.values():
            left = [len(pages) for pages in read.missing]
            self._fail(f"{read.route.name}: read {read.tag} never completed, missing: {left}")
        self.writes.finish()
        for pair, pages in enumerate(read_out):
            asked = self._asked[pair]
            if pages != asked:
                odd = sorted((pages - asked) + (asked - pages))
                self._fail(f"stack {pair} did not read out what was asked: pages {odd[:8]}")

    def _route(self, choice: Choice, took: Route | None) -> Route:
        """The path that a read must take, or ``took`` if it may."""
        routes = set(self._routes(choice))
        if took is None and len(routes) > 1:
            self._fail(f"the path of {choice.name} is open here: tell which one it took")
        if took is None:
            return routes.pop()
        if took not in routes:
            named = " or ".join(route.name for route in sorted(routes))
            self._fail(f"a read with {choice.name} took {took.name}, not {named}")
        return took

    def _routes(self, choice: Choice) -> list[Route]:
        """Those that the router may choose, by what is lost and what may be outstanding."""
        if choice is Choice.DIRECT:
            return [Route.DIRECT]
        if choice is Choice.RELAY:
            return [Route.RELAY]
        there = [route for route in self.routes if route not in self.lost] or list(self.routes)
        if len(there) == 1:
            return there
        most, least = self._outstanding, {r: self._least_outstanding(r) for r in Route}
        possible = []
        if most[Route.RELAY] >= least[Route.DIRECT]:
            possible.append(Route.DIRECT)
        if least[Route.RELAY] < most[Route.DIRECT]:
            possible.append(Route.RELAY)
        return possible

    def _least_outstanding(self, route: Route) -> int:
        """Without pages that will not come, of reads of which the end is not reported yet."""
        gone = 0
        for read in self._reads.values():
            if read.route is route and read.status is not Status.OK:
                gone += read.asked.pages * self.pairs
            elif read.route is route:
                gone += sum(len(read.missing[pair]) for pair in read.exposed)
        return self._outstanding[route] - gone

    def _check_label(self, where: str, route: Route, header: int, number: int) -> None:
        want = {
            "address": number * (self.machine.link.beat_bytes // ADDRESS_UNIT_BYTES),
            "message_class": MESSAGES[route],
            "route": route,
        }
        for name, value in want.items():
            have = header_field(header, name)
            if have != value:
                self._fail(f"{where}: {name} of beat {number} is {have}, not {int(value)}")

    def _beats(self, asked: ReadRequest) -> tuple[int, ...]:
        """Beats of a page that a read wants."""
        if not asked.units:
            return tuple(range(BEATS))
        units = self.machine.link.beat_bytes // ADDRESS_UNIT_BYTES
        last = asked.offset + asked.units - 1
        return tuple(range(asked.offset // units, last // units + 1))

    def _check_order(
        self, where: str, route: Route, pair: int, read: Read, page: int, beat: int
    ) -> Coming:
        coming = self._coming[route, pair]
        torn = coming is not None and pair in coming.read.exposed
        if coming is None or (torn and (read, page) != (coming.read, coming.page)):
            coming = self._coming[route, pair] = Coming(read, page)
        before = coming.beats
        # Whole pages wrap; of a piece the beats lie in the order of the same wrapping.
        follows = not before or len(read.beats) < BEATS or beat == (before[-1] + 1) % BEATS
        if (read, page) != (coming.read, coming.page) or not follows:
            self._fail(f"{where}: the beats of page {coming.page} of {coming.read.tag} part")
        if beat not in read.beats or beat in before:
            self._fail(f"{where}: beat {beat} of page {page} was not wanted or came before")
        before.append(beat)
        return coming

    def _check_content(
        self, where: str, pair: int, coming: Coming, number: int, lanes: list[int]
    ) -> None:
        read, page = coming.read, number // BEATS
        what = f"beat {number % BEATS} of page {coming.page} of read {read.tag} (page {page})"
        taken_up = read.taken_up[pair]
        if taken_up is None:
            self._fail(f"{where}: {what} came before its read was taken up")
        allowed = self.contents[pair].allowed(page, taken_up)
        if ANYTHING in allowed:
            return
        content = content_of(pair, number, lanes)
        if content == WRONG:
            self._fail(f"{where}: wrong data in {what}")
        if content not in allowed:
            names = ", ".join(map(content_name, sorted(allowed)))
            self._fail(f"{where}: {what} holds {content_name(content)}, not {names}")
        if coming.contents is not None and content not in coming.contents:
            names = ", ".join(map(content_name, coming.contents))
            self._fail(
                f"{where}: {what} holds {content_name(content)}, the beats before it {names}"
            )
        coming.contents = {content}

    def _page_done(self, read: Read, route: Route, pair: int, page: int) -> None:
        read.missing[pair].remove(page)
        self._arrived.append(route)
        self.pages_taken[pair] += 1
        if not any(read.missing):
            read.whole_at = self._clock

    def _fail(self, what: str) -> NoReturn:
        raise ScoreboardError(f"clock {self._clock}: {what}")
