"""Random requests of a host that mostly keeps the rules of erase blocks, and now and then not."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from hw.gpu.router import Choice
from hw.params import Machine
from hw.ucie.transaction import Operation, Owner
from tb.vip.requests import ReadRequest, WriteRequest

VERSIONS = 255
BAD_OPERATIONS = (0, 4, 9, 15)
BAD_OWNERS = (Owner.NONE, 3)


@dataclass
class Column:
    """What the host thinks of an erase block: stack pages of one die and subarray."""

    owner: int = Owner.NONE
    next_page: int = 0
    live: int = 0
    replay: bool = False


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Shares of what is asked: of reads, and of requests of the write ports.

    Attributes:
        reads, writes: How many in all, of all ports.
        most_pages: Of one read.
        blocks: So many blocks of each subarray are written to and mostly read from.
    """

    reads: int
    writes: int
    most_pages: int = 12
    blocks: int = 4
    small: float = 0.3
    bad_reads: float = 0.05
    near: float = 0.4
    wrong: float = 0.2
    lives: float = 0.15


@dataclass
class Traffic:
    """Requests of all ports of a package.

    Contract: ``read`` and ``write`` give the next request or ``None``; ``ended`` tells how one
    ended. ``near`` gives the requests that are under way, for others that shall meet them.
    """

    machine: Machine
    mix: Mix
    choices: tuple[Choice, ...]
    random: Random
    near: Callable[[], list[WriteRequest]]
    reads_left: int = 0
    writes_left: int = 0
    columns: dict[tuple[int, int], Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reads_left, self.writes_left = self.mix.reads, self.mix.writes
        self._version = 0
        # In order, and whether the one before it in the same blocks must have ended.
        self._planned: deque[tuple[WriteRequest, bool]] = deque()
        self._wave = self.machine.geometry.wave_pages
        self._recent: deque[WriteRequest] = deque(maxlen=8)

    @property
    def exhausted(self) -> bool:
        return not self.reads_left and not self.writes_left

    # Reads ----------------------------------------------------------------------------------------

    def read(self) -> ReadRequest | None:
        if not self.reads_left:
            return None
        self.reads_left -= 1
        random, choice = self.random, self.random.choice(self.choices)
        if random.random() < self.mix.bad_reads:
            return self._bad_read(choice)
        if random.random() < self.mix.small:
            units = self.machine.geometry.page_bytes // 64
            offset = random.randrange(units)
            most = units - offset if offset else units - 1
            first, _ = self._place(1)
            return ReadRequest(
                first=first, choice=choice, offset=offset, units=random.randint(1, most)
            )
        most = random.choice((1, 4, self.mix.most_pages))
        first, pages = self._place(random.randint(1, most))
        return ReadRequest(first=first, pages=pages, choice=choice)

    def _bad_read(self, choice: Choice) -> ReadRequest:
        """A read that must be refused: empty, past the end, or a piece of two pages."""
        random, all_pages = self.random, self.machine.geometry.stack_pages
        units = self.machine.geometry.page_bytes // 64
        match random.randrange(3):
            case 0:
                return ReadRequest(first=random.randrange(all_pages), pages=0, choice=choice)
            case 1:
                past = random.randint(1, self.mix.most_pages)
                return ReadRequest(first=all_pages - past, pages=past + 1, choice=choice)
        piece = {"offset": random.randrange(1, units), "units": units - 1}
        first = random.randrange(all_pages)
        return ReadRequest(first=first, choice=choice, **piece)  # at least a page and one unit

    def _place(self, pages: int) -> tuple[int, int]:
        """Where to read: at a request under way or one before, in what is written, or anywhere."""
        random, all_pages = self.random, self.machine.geometry.stack_pages
        met = [*self.near(), *self._recent]
        met = [request for request in met if 0 < request.pages <= self._wave * 4]
        if met and random.random() < self.mix.near:
            of = random.choice(met)
            first = random.randrange(of.first - pages + 1, of.first + of.pages)
        elif random.random() < 0.9:
            rows = self.mix.blocks * self.machine.geometry.pages_per_block
            first = random.randrange(rows * self._wave)
        else:
            first = random.choice((random.randrange(all_pages), all_pages - pages))
        first = max(0, min(first, all_pages - 1))
        return first, min(pages, all_pages - first)

    # Writes ---------------------------------------------------------------------------------------

    def write(self) -> WriteRequest | None:
        if not self.writes_left:
            return None
        self.writes_left -= 1
        request = self._write()
        self._recent.append(request)
        return request

    def _write(self) -> WriteRequest:
        random = self.random
        if self._planned and not self._meets(*self._planned[0]) and random.random() < 0.9:
            return self._planned.popleft()[0]
        roll = random.random()
        if roll < self.mix.wrong:
            return self._wrong()
        if roll < self.mix.wrong + self.mix.lives and not self._planned:
            self._plan_life()
        return self._next_page()

    def _meets(self, request: WriteRequest, blocks: bool) -> bool:
        """It shares a page, or with ``blocks`` a block, with one that is under way."""
        places = self._places(request, blocks)
        near = (r for r in self.near() if r.pages <= self._wave * 4)
        return any(places & self._places(other, blocks) for other in near)

    def _places(self, request: WriteRequest, blocks: bool) -> set[tuple[int, int]]:
        size = self.machine.geometry.pages_per_block if blocks else 1
        return {(page // self._wave // size, page % self._wave) for page in request.range}

    def _next_page(self) -> WriteRequest:
        """The next page of neighbouring blocks that are at the same page."""
        random, size = self.random, self.machine.geometry.pages_per_block
        block, x = random.randrange(self.mix.blocks), random.randrange(self._wave)
        column = self._column(block, x)
        again = column.replay or column.next_page == size
        page = 0 if again else column.next_page
        owner = column.owner
        # A block of weights is not given to KV, nor a block of live KV to weights.
        if page == 0 and (owner == Owner.NONE or (owner == Owner.KV and column.live == 0)):
            owner = Owner.KV if random.random() < 0.7 else Owner.WEIGHT
        most, pages = random.choice((1, 2, self._wave)), 1
        while pages < most and x + pages < self._wave:
            other = self._column(block, x + pages)
            if (0 if other.replay or other.next_page == size else other.next_page) != page:
                break
            pages += 1
        rows = 1
        if x == 0 and pages == self._wave and random.random() < 0.5:
            rows = random.randint(1, size - page)
        request = self._request(block, page, x, (rows - 1) * self._wave + pages, owner=owner)
        for k in range(pages):
            at = self._column(block, x + k)
            if page == 0:
                at.live = 0
            at.owner, at.next_page, at.replay = owner, page + rows, False
            at.live += rows * (owner == Owner.KV)
        return request

    def _plan_life(self) -> None:
        """A life of neighbouring KV blocks: written, trimmed, then released or written again."""
        random, size = self.random, self.machine.geometry.pages_per_block
        free = [
            (block, x)
            for block in range(self.mix.blocks)
            for x in range(self._wave)
            if self._column(block, x).owner != Owner.WEIGHT
        ]
        if not free:
            return
        block, x = random.choice(free)
        pages = 1
        while pages < 3 and (block, x + pages) in free:
            pages += 1
        written = random.choice((size, size, random.randint(1, size)))
        for operation in (Operation.WRITE, Operation.TRIM):
            for page in range(written):
                request = self._request(block, page, x, pages, operation=operation, owner=Owner.KV)
                self._planned.append((request, True))
        roll, live = random.random(), 0
        if roll < 0.2:
            release = self._request(block, 0, x, pages, operation=Operation.RELEASE)
            self._planned.append((release, True))
        elif roll < 0.6:
            # Written again at once, maybe before it is collected.
            again = self._request(block, 0, x, pages, owner=Owner.KV)
            self._planned.append((again, False))
            written = live = 1
        for k in range(pages):
            at = self._column(block, x + k)
            at.owner, at.next_page, at.live, at.replay = Owner.KV, written, live, not live

    def _wrong(self) -> WriteRequest:
        """Something that is probably refused."""
        random, all_pages = self.random, self.machine.geometry.stack_pages
        rows = self.mix.blocks * self.machine.geometry.pages_per_block
        first, pages = random.randrange(rows * self._wave), random.randint(1, 6)
        owner: int = random.choice((Owner.KV, Owner.WEIGHT))
        operation: int = Operation.WRITE
        match random.randrange(7):
            case 0:
                first = all_pages - random.randint(1, 3)
                pages = all_pages - first + random.choice((1, 7, 4090))
            case 1:
                pages = 0
            case 2:
                owner = random.choice(BAD_OWNERS)
            case 3:
                operation = random.choice(BAD_OPERATIONS)
            case 4 if met := [r for r in self.near() if 0 < r.pages <= self._wave * 4]:
                of = random.choice(met)
                first = random.randrange(of.first - pages + 1, of.first + of.pages)
                first = max(0, min(first, all_pages - pages))
            case 5:
                operation = random.choice((Operation.TRIM, Operation.RELEASE))
        request = WriteRequest(
            first=first, pages=pages, version=self._next(), operation=operation, owner=owner
        )
        if operation == Operation.WRITE:
            self._forget(request.range)
        return request

    def _request(self, block: int, page: int, x: int, pages: int, **fields) -> WriteRequest:
        row = block * self.machine.geometry.pages_per_block + page
        fields.setdefault("operation", Operation.WRITE)
        relocated = fields["operation"] == Operation.WRITE and self.random.random() < 0.2
        return WriteRequest(
            first=row * self._wave + x,
            pages=pages,
            version=self._next(),
            relocated=relocated,
            **fields,
        )

    def ended(self, request: WriteRequest, failed: Iterable[int]) -> None:
        """A request has ended in one stack; blocks of its pages that failed start again."""
        if request.operation == Operation.WRITE:
            for page in failed:
                self._forget(range(request.first + page, request.first + page + 1))

    def _forget(self, pages: range) -> None:
        """The host does not know how far the blocks of these pages are: it writes them again."""
        size = self.machine.geometry.pages_per_block
        for page in pages:
            row, x = divmod(page, self._wave)
            self._column(row // size, x).replay = True

    def _column(self, block: int, x: int) -> Column:
        return self.columns.setdefault((block, x), Column())

    def _next(self) -> int:
        self._version = self._version % VERSIONS + 1
        return self._version
