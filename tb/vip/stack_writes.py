"""Judge of the writes, trims and releases of one stack, in plain Python.

What happens to blocks is told by the order in which the base die asks its block tables; what must
come of it is said by :class:`perfmodel.memory.blocks.BlockLedger`.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NoReturn

from hw.hbf.block_layouts import BlockOperation
from hw.params import Machine
from hw.ucie.transaction import Operation, Owner, Status
from perfmodel.memory.blocks import Block, BlockLedger, Verdict
from tb.vip.page_contents import ANYTHING, BLANK, GARBAGE, Change, PageContents
from tb.vip.requests import WriteRequest
from tb.vip.write_ranges import Transaction, WriteRanges


class WriteError(AssertionError):
    """A write ended otherwise than it must, or did not end."""


@dataclass(frozen=True)
class Asked:
    """An operation on the block table of a die, whose answer is still to come."""

    kind: BlockOperation
    block: Block
    page: int  # of the stack
    verdict: Verdict
    of: Transaction | None


@dataclass
class StackWrites:
    """Judge of one stack.

    Attributes:
        ranges: Requests that hold their pages in the tracker.
        results: Requests that have ended, with their status, since the last look.
        counts: Events, and statuses by last and status.
    """

    machine: Machine
    pair: int
    contents: PageContents
    open: dict[tuple[str, int], Transaction] = field(default_factory=dict)
    ranges: WriteRanges = field(default_factory=WriteRanges)
    results: list[tuple[Transaction, Status]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    clock: int = 0
    oldest_read: int = 0

    def __post_init__(self) -> None:
        self.ledger = BlockLedger(self.machine.geometry)
        self._asked: dict[int, deque[Asked]] = {}
        # By die and subarray: the page under way, the erase that runs, and for whom.
        self._admitted: dict[tuple[int, int], tuple[Transaction, int]] = {}
        self._erasing: dict[tuple[int, int], list[Change]] = {}
        self._collecting: set[tuple[int, int]] = set()
        self._programmed: dict[tuple[int, int], tuple[Transaction, int, Change]] = {}
        self._worked: dict[tuple[int, int], Block] = {}  # of the last PROGRAM or ERASE
        self._failing: dict[tuple[int, int], str] = {}  # what failed, until the table is told

    # Requests -------------------------------------------------------------------------------------

    def taken_up(self, port: str, header: dict[str, int]) -> None:
        """The tracker has accepted a request."""
        t = self.open.get((port, header["tag"]))
        if t is None or t.taken_up is not None:
            self._fail(f"{port}: request {header['tag']} was taken up, but is not waiting")
        if (status := self.refusal(t.request)) is not Status.OK:
            self._fail(f"{port}: request {t.tag} was taken up, not refused with {status.name}")
        if (other := self.ranges.over(t)) is not None:
            self._fail(f"{port}: request {t.tag} was taken up over {other.port} {other.tag}")
        # Reads that are accepted up to the next clock, the first in which it waits, are older.
        t.taken_up = self.clock + 1
        self.ranges.held.append(t)
        if t.request.operation == Operation.WRITE and not t.exposed:
            for page in t.request.range:
                self.contents.taken_up(page, t.taken_up)

    def retired(self, first: int, end: int) -> None:
        """The tracker has let go of pages ``first`` to ``end - 1`` of the stack."""
        t = self.ranges.retire(first, end, self.clock)
        if t is None:
            self._fail(f"stack {self.pair}: pages {first} to {end - 1} retired, nobody holds them")
        for of, page in self._admitted.values():
            if of is t:
                self._fail(f"stack {self.pair}: {t.port} {t.tag} retired, page {page} is under way")

    def expose(self, port: str) -> None:
        """The link of a port is being reset in this clock."""
        for (name, _), t in self.open.items():
            if name == port and not t.exposed:
                t.exposed = True
                self._abandon(t)

    def _abandon(self, t: Transaction) -> None:
        """Its pages may be written or not: no read need wait for them any more."""
        if t.taken_up is not None and t.request.operation == Operation.WRITE:
            for page in t.request.range:
                if page - t.request.first not in t.status:
                    self.contents.finished(page, t.taken_up)

    def refusal(self, request: WriteRequest) -> Status:
        """What the request itself is refused with."""
        pages = self.machine.geometry.stack_pages
        if not 1 <= request.pages <= 4096 or request.first + request.pages > pages:
            return Status.BAD_ADDRESS
        owned = request.owner in (Owner.WEIGHT, Owner.KV)
        if request.operation in (Operation.TRIM, Operation.RELEASE):
            return Status.OK
        if request.operation == Operation.WRITE and owned:
            return Status.OK
        return Status.ILLEGAL_OWNER

    def done(self, port: str, operation: int, tag: int, page: int, status: int, last: int) -> None:
        """A completion came out of a port."""
        t = self.open.get((port, tag))
        where = f"stack {self.pair}, {port}: request {tag}"
        if t is None:
            self._fail(f"{where} ended, but is not outstanding")
        if operation != t.request.operation:
            self._fail(f"{where} ended as operation {operation}")
        self.counts[f"{'last' if last else 'page'}_{Status(status).name}"] += 1
        if not last:
            self._page_done(where, t, page, Status(status))
            return
        if status != Status.LINK_RESET or not t.exposed:
            self._last(where, t, Status(status))
        del self.open[port, tag]
        self.results.append((t, Status(status)))

    def _page_done(self, where: str, t: Transaction, page: int, status: Status) -> None:
        want = t.status.get(page)
        if want is None or status is not want or want is Status.OK:
            said = "nothing" if want is None else want.name
            self._fail(f"{where}: page {page} ended with {status.name}, the ledger says {said}")
        if page in dict(t.reported):
            self._fail(f"{where}: page {page} was reported twice")
        t.reported.append((page, status))

    def _last(self, where: str, t: Transaction, status: Status) -> None:
        if t.taken_up is None:
            want = self.refusal(t.request)
            if want is Status.OK:
                want = Status.OVERLAP
                if not self.ranges.in_the_way(t):
                    self._fail(f"{where} was refused with {status.name}, but overlaps nothing")
            if status is not want:
                self._fail(f"{where} was refused with {status.name}, not {want.name}")
            return
        if not t.whole:
            left = t.request.pages - len(t.status)
            self._fail(f"{where} ended with {left} pages to go")
        if t.retired_at is None:
            self._fail(f"{where} ended and still holds its pages")
        failing = {page for page, status in t.status.items() if status is not Status.OK}
        if failing != set(dict(t.reported)):
            self._fail(f"{where} ended without a word on pages {failing - set(dict(t.reported))}")
        want = t.reported[0][1] if t.reported else Status.OK
        if status is not want:
            self._fail(f"{where} ended with {status.name}, its first failure was {want.name}")
        if t.request.operation == Operation.WRITE:
            self._check_fetches(where, t)

    def _check_fetches(self, where: str, t: Transaction) -> None:
        for page in range(t.request.pages):
            times = {t.fetched[page, beat] for beat in range(4)}
            refused = t.status[page] not in (Status.OK, Status.PROGRAM_FAILED)
            if len(times) > 1 or max(times) > 1 or (t.status[page] is Status.OK and times != {1}):
                self._fail(f"{where}: beats of page {page} were fetched {sorted(times)} times")
            if refused and times != {0}:
                self._fail(f"{where}: page {page} was refused and fetched all the same")

    # Block table ----------------------------------------------------------------------------------

    def asks(
        self, die: int, kind: BlockOperation, subarray: int, block: int, page: int, owner: int
    ) -> None:
        """A die asks its block table."""
        g = self.machine.geometry
        at = Block(die=die, subarray=subarray, block=block)
        row = block * g.pages_per_block + page
        number = (row * g.subarrays_per_die + subarray) * g.dies + die
        place, of = (die, subarray), None
        match kind:
            case BlockOperation.ADMIT | BlockOperation.TRIM | BlockOperation.RELEASE:
                of = self._asker(kind, number)
                if kind is BlockOperation.ADMIT:
                    if owner != of.request.owner:
                        self._fail(f"stack {self.pair}: page {number} asked for owner {owner}")
                    relocated = of.request.relocated
                    verdict = self.ledger.admit(at, page, Owner(owner), relocated=relocated)
                    if verdict.status is Status.OK:
                        self._admitted[place] = of, number
                elif kind is BlockOperation.TRIM:
                    verdict = self.ledger.trim(at, page)
                else:
                    verdict = self.ledger.release(at)
                if kind is not BlockOperation.ADMIT or verdict.status is not Status.OK:
                    self._end(of, number, verdict.status)
            case BlockOperation.COLLECT:
                verdict = self.ledger.collect(at)
                if verdict.erase:
                    self._collecting.add(place)
                else:
                    self.counts["collection_refused"] += 1
            case BlockOperation.ERASED:
                self._check_worked(kind, at)
                verdict = self.ledger.erased(at)
            case BlockOperation.FAILED:
                if not self._page_cut(place):
                    self._check_worked(kind, at)
                    self._page_failed(place)
                verdict = self.ledger.failed(at)
            case _:
                self._fail(f"stack {self.pair}: unexpected {kind.name}")
        asked = Asked(kind, at, number, verdict, of)
        self._asked.setdefault(die, deque()).append(asked)

    def _asker(self, kind: BlockOperation, number: int) -> Transaction:
        operation = {
            BlockOperation.ADMIT: Operation.WRITE,
            BlockOperation.TRIM: Operation.TRIM,
            BlockOperation.RELEASE: Operation.RELEASE,
        }[kind]
        askers = [
            t
            for t in self.ranges.held
            if number in t.request.range and number - t.request.first not in t.status
            if t.request.operation == operation
        ]
        if askers:
            return askers[0]
        self._fail(f"stack {self.pair}: {kind.name} of page {number}, which nobody asked for")

    def answered(self, die: int, kind: BlockOperation, status: int, erase: bool) -> None:
        """The block table of a die answers; of sensed pages and questions nothing is said."""
        waiting = self._asked.get(die)
        if not waiting or waiting[0].kind is not kind:
            self._fail(f"stack {self.pair}, die {die}: answer to {kind.name}, which was not asked")
        asked = waiting.popleft()
        if (Status(status), erase) != (asked.verdict.status, asked.verdict.erase):
            want = f"{asked.verdict.status.name}, erase {asked.verdict.erase}"
            self._fail(
                f"stack {self.pair}: {kind.name} of {asked.block}, page {asked.page}: "
                f"{Status(status).name}, erase {erase}; the ledger says {want}"
            )

    def _end(self, t: Transaction, number: int, status: Status) -> None:
        page = number - t.request.first
        if page in t.status:
            self._fail(f"stack {self.pair}: page {number} of {t.port} {t.tag} ended twice")
        t.status[page] = status
        if t.request.operation == Operation.WRITE and t.taken_up is not None and not t.exposed:
            self.contents.finished(number, t.taken_up)

    # Array ----------------------------------------------------------------------------------------

    def sensed(self, die: int, subarray: int, row: int) -> None:
        block = row // self.machine.geometry.pages_per_block
        self.ledger.sensed(Block(die=die, subarray=subarray, block=block))

    def programs(self, die: int, subarray: int, row: int, fails: bool) -> None:
        """PROGRAM of a page."""
        place, number = (die, subarray), self._number(die, subarray, row)
        t, page = self._admitted.get(place, (None, -1))
        if t is None or page != number:
            self._fail(f"stack {self.pair}: PROGRAM of page {number}, which was not admitted")
        content = GARBAGE if fails else t.request.version
        change = Change(self.clock, content, t.taken_up, covers=True)
        self._programmed[place] = t, number, change
        self._work_on(die, subarray, row)
        self.contents.change(number, change, self.oldest_read)
        self.counts["programs"] += 1

    def erases(self, die: int, subarray: int, row: int, fails: bool) -> None:
        """ERASE of a block, for an admitted page 0 or in the background."""
        g, place = self.machine.geometry, (die, subarray)
        start = row // g.pages_per_block * g.pages_per_block
        content = GARBAGE if fails else BLANK
        cause, pages = None, range(0)
        if place not in self._collecting:
            t, page = self._admitted.get(place, (None, -1))
            if t is None or page != self._number(die, subarray, start):
                self._fail(f"stack {self.pair}: ERASE of row {row}, which nobody asked for")
            cause, pages = t.taken_up, t.request.range
        changes = []
        for each in range(start, start + g.pages_per_block):
            number = self._number(die, subarray, each)
            change = Change(self.clock, content, cause, covers=number in pages)
            self.contents.change(number, change, self.oldest_read)
            changes.append(change)
        self._erasing[place] = changes
        self._work_on(die, subarray, row)

    def _work_on(self, die: int, subarray: int, row: int) -> None:
        block = row // self.machine.geometry.pages_per_block
        self._worked[die, subarray] = Block(die=die, subarray=subarray, block=block)

    def _check_worked(self, kind: BlockOperation, at: Block) -> None:
        worked = self._worked.get((at.die, at.subarray))
        if at != worked:
            self._fail(f"stack {self.pair}: {kind.name} of {at}, but the array worked on {worked}")

    def array_done(self, die: int, subarray: int, fail: bool) -> None:
        """A STATUS has found the subarray ready again."""
        place = die, subarray
        if place in self._erasing:
            collects = place in self._collecting
            for change in self._erasing.pop(place):
                change.ends = self.clock
            self.counts["erase_failures" if fail else "erases"] += 1
            self.counts["collected"] += collects and not fail
            if collects:
                self.counts["collection_failed" if fail else "collection_erased"] += 1
            self._collecting.discard(place)
            if fail:
                self._failing[place] = "collection" if collects else "erase"
            return
        t, number, change = self._programmed[place]
        change.ends = self.clock
        if fail:
            self._failing[place] = "program"
            self.counts["programs_failed"] += 1
            return
        # It may turn out to be poisoned: then the table is told so.
        del self._admitted[place]
        self._end(t, number, Status.OK)
        self.counts["pages_programmed"] += 1
        self.counts["pages_relocated"] += t.request.relocated

    def _page_cut(self, place: tuple[int, int]) -> bool:
        """Whether the page that fails was admitted and never arrived, its link being reset."""
        t, number = self._admitted.get(place, (None, -1))
        if t is None or not t.exposed or place in self._failing:
            return False
        worked, at, _ = self._programmed.get(place, (None, -1, None))
        if worked is t and at == number:
            return False
        del self._admitted[place]
        self._end(t, number, Status.PROGRAM_FAILED)
        self.counts["cut_pages"] += 1
        self.counts["program_failures"] += 1
        return True

    def _page_failed(self, place: tuple[int, int]) -> None:
        """The die tells its table that a program or an erase has failed, or that a page is bad."""
        what = self._failing.pop(place, "poison")
        if what == "collection":
            return
        if what != "poison":
            t, number = self._admitted.pop(place)
            self.counts["program_failures"] += what == "program"
            self._end(t, number, Status.PROGRAM_FAILED)
            return
        t, number, change = self._programmed[place]
        page = number - t.request.first
        if t.status.get(page) is not Status.OK:
            self._fail(f"stack {self.pair}: page {number} fails, but nothing was wrong with it")
        t.status[page] = Status.PROGRAM_FAILED
        change.content = ANYTHING
        self.counts["poisoned_pages"] += 1
        self.counts["program_failures"] += 1
        self.counts["pages_programmed"] -= 1
        self.counts["pages_relocated"] -= t.request.relocated

    def _number(self, die: int, subarray: int, row: int) -> int:
        g = self.machine.geometry
        return (row * g.subarrays_per_die + subarray) * g.dies + die

    def _fail(self, what: str) -> NoReturn:
        raise WriteError(f"clock {self.clock}: {what}")
