"""A write tracker between requesters, dies and links that the bench plays, with a plain model."""

import random
from collections import deque
from dataclasses import dataclass, field

from hw.hbf.layouts import MAX_PAGES
from hw.hbf.write_tracker import WriteTracker
from hw.ucie.transaction import MessageClass, Operation, Owner, Status
from tests.hw.beats import Quiet


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a requester asks, in address units."""

    tag: int
    address: int
    length: int
    operation: int = Operation.WRITE
    owner: int = Owner.KV
    relocated: int = 0


@dataclass(kw_only=True)
class Life:
    """An accepted request."""

    link: int
    request: Request
    first: int
    pages: int
    index: int | None = None
    finished: list[int] = field(default_factory=list)  # statuses, in order
    open_pages: set[int] = field(default_factory=set)
    orphan: bool = False

    @property
    def span(self) -> set[int]:
        return set(range(self.first, self.first + self.pages))


def page_span(machine, request: Request) -> set[int] | None:
    """The pages that a request covers, by counting units; None for a bad address."""
    per_page = machine.geometry.page_bytes // 64
    units = range(request.address, request.address + request.length)
    pages = {unit // per_page for unit in units}
    if not 1 <= len(pages) <= MAX_PAGES or max(pages) >= machine.geometry.stack_pages:
        return None
    return pages if len(pages) * per_page == len(units) else None


class TrackerBench:
    """Plays all neighbours clock by clock and checks every handshake.

    ``hold_events(life)`` keeps the dies from finishing pages of a request.
    """

    def __init__(self, ctx, tracker: WriteTracker, machine, *, links: int, seed: int = 0) -> None:
        self.ctx, self.tracker, self.machine = Quiet(ctx), tracker, machine
        self.links, self.rng = links, random.Random(seed)
        self.requests = [deque() for _ in range(links)]
        self.offered: list[Request | None] = [None] * links
        self.read_refusals = [deque() for _ in range(links)]
        self.taken: tuple[int, Request] | None = None  # judged in this clock
        self.lives: dict[int, Life] = {}  # outstanding, by index
        self.descriptors: deque[Life] = deque()  # accepted, not yet taken from o
        self.events = [deque() for _ in range(machine.geometry.dies)]
        self.grants = [deque() for _ in range(machine.geometry.dies)]
        self.granted: dict[tuple[int, int, int], tuple] = {}  # events that follow a GRANT
        self.expected: list[list[tuple]] = [[] for _ in range(links)]  # replies on their way
        self.replies: list[list[tuple]] = [[] for _ in range(links)]
        self.held = [0] * links  # reply credits that the requester has not given back
        self.statuses: dict[tuple[int, int], int] = {}  # last COMPLETION, by link and tag
        self.lost = [False] * links  # links that are being reset
        self.was_lost = [False] * links  # in the clock before
        self.gone: set[tuple[int, int]] = set()  # link and tag of requests lost with their link
        self.hold_events = lambda life: False
        self.fail_share = 0.0
        self.clocks = 0
        self.log: list[tuple] = []  # (clock, what, who)

    async def clock(self, *, ask=1.0, ready=1.0, give=1.0, finish=1.0) -> None:
        """One clock in which each neighbour acts with its probability; ``give`` may be a list."""
        ctx, tracker, rng = self.ctx, self.tracker, self.rng
        gives = give if isinstance(give, list) else [give] * self.links
        refused = [False] * self.links
        for k in range(self.links):
            ctx.set(tracker.lost, sum(lost << n for n, lost in enumerate(self.lost)))
            asks = self.offered[k] is None and self.requests[k] and not self.was_lost[k]
            if asks and rng.random() < ask:
                self.offered[k] = self.requests[k].popleft()
                ctx.set(tracker.i[k].payload, vars(self.offered[k]))
            ctx.set(tracker.i[k].valid, self.offered[k] is not None)
            refuses = bool(self.read_refusals[k]) and not self.lost[k]
            ctx.set(tracker.refused_read[k].valid, refuses)
            refused[k] = refuses
            if refuses:
                tag = self.read_refusals[k][0]
                ctx.set(tracker.refused_read[k].payload, {"tag": tag, "status": Status.BAD_ADDRESS})
            returns = self.held[k] > 0 and rng.random() < gives[k] and not self.lost[k]
            ctx.set(tracker.reply[k].credit, returns)
            self.held[k] -= returns
        o_ready = rng.random() < ready
        ctx.set(tracker.o.ready, o_ready)
        self._drive(tracker.event, self.events, finish)
        self._drive(tracker.grant, self.grants, finish)

        self._judge(o_ready)
        self._pages()
        self._replies()
        for k in range(self.links):
            if self.offered[k] is not None and ctx.get(tracker.i[k].ready):
                assert self.taken is None, "two requests in one clock"
                assert not self.lost[k], "a request of a lost link"
                self.taken = k, self.offered[k]
                self.offered[k] = None
            if refused[k] and ctx.get(tracker.refused_read[k].ready):
                tag = self.read_refusals[k].popleft()
                bad = Status.BAD_ADDRESS
                self.expected[k].append((MessageClass.READ_DATA, Operation.READ, tag, 0, bad, 0))
        self._lose()
        await ctx.tick()
        self.clocks += 1

    def _lose(self) -> None:
        """What lost links take with them, at the end of a clock.

        The link returns the credits of what was sent when it is up again.
        """
        for k in range(self.links):
            self.was_lost[k] = self.lost[k]
            if not self.lost[k]:
                continue
            if self.offered[k] is not None:
                self.gone.add((k, self.offered[k].tag))
                self.offered[k] = None
            self.gone |= {(k, tag) for tag in self.read_refusals[k]}
            self.read_refusals[k].clear()
            for message, _, tag, *_, last in self.expected[k]:
                if last or message == MessageClass.READ_DATA:
                    self.gone.add((k, tag))
            self.expected[k].clear()
            for place in [place for place in self.granted if place[0] == k]:
                die, event = self.granted.pop(place)  # its data will not come
                self.events[die].append(event)
            for life in self.lives.values():
                if life.link == k and not life.orphan:
                    life.orphan = True
                    self.gone.add((k, life.request.tag))
                    self._give_up(life)

    def _give_up(self, life: Life) -> None:
        """The dies grant nothing more of it."""
        for die, queue in enumerate(self.grants):
            for item in [item for item in queue if item[1] is life]:
                queue.remove(item)
                event = item[3]
                event[2]["status"] = Status.LINK_RESET
                self.events[die].append(event)

    def _drive(self, ports, queues, share: float) -> None:
        """Offer the oldest of each die's queue that is not held, and once offered keep it."""
        for port, queue in zip(ports, queues, strict=True):
            if queue and not queue[0][0] and self.rng.random() < share:
                item = next((item for item in queue if not self.hold_events(item[1])), None)
                if item:
                    queue.remove(item)
                    queue.appendleft(item)
                    item[0] = True
                    self.ctx.set(port.payload, {"index": item[1].index, **item[2]})
            self.ctx.set(port.valid, bool(queue and queue[0][0]))

    def _judge(self, o_ready: bool) -> None:
        """The request that was taken one clock ago, ranges and o."""
        ctx, tracker, machine = self.ctx, self.tracker, self.machine
        orphans = sum(1 << n for n, life in self.lives.items() if life.orphan)
        assert ctx.get(tracker.orphans) == orphans, f"clock {self.clocks}"
        ranges = {}
        for n, entry in enumerate(tracker.ranges):
            found = ctx.get(entry)
            if found.valid:
                ranges[n] = found.first, found.end
        assert ctx.get(tracker.o.valid) == bool(self.descriptors)
        if self.descriptors:
            life = self.descriptors[0]
            found = ctx.get(tracker.o.payload)
            if life.index is None:
                life.index = found.index
                assert life.index not in self.lives, "an entry was given twice"
                self.lives[life.index] = life
            want = life.request
            assert (found.first, found.pages, found.index) == (life.first, life.pages, life.index)
            assert (found.operation, found.owner, found.relocated) == (
                want.operation,
                want.owner,
                want.relocated,
            )
            if o_ready:
                self.descriptors.popleft()
                self._start(life)
        assert ranges == {n: (e.first, e.first + e.pages) for n, e in self.lives.items()}
        if self.taken is None:
            return
        (link, request), self.taken = self.taken, None
        span = page_span(machine, request)
        valid_owner = request.operation != Operation.WRITE or request.owner in (1, 2)
        if span is None:
            status = Status.BAD_ADDRESS
        elif request.operation not in (1, 2, 3) or not valid_owner:
            status = Status.ILLEGAL_OWNER
        elif any(span & life.span for life in self.lives.values()):
            status = Status.OVERLAP
        else:
            life = Life(link=link, request=request, first=min(span), pages=len(span))
            life.open_pages = set(range(life.pages))
            self.descriptors.append(life)
            return
        completion = (MessageClass.COMPLETION, request.operation, request.tag, 0, status, 1)
        self.expected[link].append(completion)

    def _start(self, life: Life) -> None:
        """The dies get a request: each page is granted if it is a write, and ends in one event."""
        for page in range(life.pages):
            die = (life.first + page) % self.machine.geometry.dies
            fails = self.rng.random() < self.fail_share
            status = self.rng.choice([Status.ORDER, Status.PROGRAM_FAILED]) if fails else Status.OK
            event = [False, life, {"page": page, "status": status}]
            if life.request.operation == Operation.WRITE and status != Status.ORDER:
                token = self.rng.getrandbits(16)
                self.grants[die].append([False, life, {"page": page, "token": token}])
            else:
                self.events[die].append(event)
                continue
            self.grants[die][-1].append(event)
        if life.orphan:
            self._give_up(life)

    def _pages(self) -> None:
        """Grants and events that the tracker takes in this clock, and entries that retire."""
        ctx, tracker = self.ctx, self.tracker
        retired = ctx.get(tracker.retired)
        for n in range(self.machine.credits.writes):
            if retired >> n & 1:
                life = self.lives.pop(n)
                assert not life.open_pages, "retired before all pages were finished"
                status = next((s for s in life.finished if s), Status.OK)
                request = life.request
                if not life.orphan:
                    self.expected[life.link].append(
                        (MessageClass.COMPLETION, request.operation, request.tag, 0, status, 1)
                    )
                self.log.append((self.clocks, "retired", n))
        for what, ports, queues in (
            ("grant", tracker.grant, self.grants),
            ("event", tracker.event, self.events),
        ):
            takes = 0
            for d, (port, queue) in enumerate(zip(ports, queues, strict=True)):
                if not (queue and queue[0][0] and ctx.get(port.ready)):
                    continue
                takes += 1
                self.log.append((self.clocks, what, d))
                _, life, fields, *after = queue.popleft()
                request, page = life.request, fields["page"]
                if what == "grant":
                    assert not life.orphan
                    self.granted[life.link, request.tag, page] = d, *after
                    reply = MessageClass.GRANT, request.operation, request.tag, page
                    self.expected[life.link].append((*reply, fields["token"]))
                    continue
                life.open_pages.remove(page)
                life.finished.append(fields["status"])
                if fields["status"] and not life.orphan:
                    reply = MessageClass.COMPLETION, request.operation, request.tag, page
                    self.expected[life.link].append((*reply, fields["status"], 0))
            assert takes <= 1

    def _replies(self) -> None:
        ctx = self.ctx
        for k, port in enumerate(self.tracker.reply):
            if not ctx.get(port.valid):
                continue
            assert not self.was_lost[k], f"clock {self.clocks}: link {k} is lost"
            self.held[k] += 1
            assert self.held[k] <= self.machine.credits.descriptors
            h = ctx.get(port.header)
            reply = h.message_class, h.operation, h.tag, h.page
            if h.message_class == MessageClass.GRANT:
                reply += (h.credit,)
                die, event = self.granted.pop((k, h.tag, h.page))
                self.events[die].append(event)  # no page ends before its data was asked for
            else:
                reply += h.status, h.chunk_end
                if h.chunk_end or h.message_class == MessageClass.READ_DATA:
                    rest = [r for r in self.expected[k] if r[1:3] == reply[1:3]]
                    assert rest == [reply], "the last answer must be the last message"
                    assert (k, h.tag) not in self.statuses
                    self.statuses[k, h.tag] = h.status
            self.expected[k].remove(reply)
            self.replies[k].append(reply)
            self.log.append((self.clocks, "reply", k))

    @property
    def idle(self) -> bool:
        return not (
            any(self.requests)
            or any(self.offered)
            or any(self.read_refusals)
            or self.taken
            or self.descriptors
            or self.lives
            or any(self.expected)
        )
