"""What each page of a stack may hold for a read, given when the base die took up reads and writes.

A read sees what was there when it was taken up: writes that were taken up before it are seen whole,
writes after it are not seen at all. Only an erase that no write of the page itself asked for, that
is of another page of its block or in the background, comes at any time for a read.
"""

from dataclasses import dataclass, field

from tb.vip.content import VERSION_MASK, beat_lanes, blank_lanes, garbage_lanes

BLANK, GARBAGE, ANYTHING = -1, -2, -3  # what a page holds, beside versions
WRONG = -4  # what no page ever holds


class ContentError(AssertionError):
    """A page was read that the host must not see."""


def content_of(stack: int, number: int, lanes: list[int]) -> int:
    """What the page is of which ``lanes`` are beat ``number``."""
    count = len(lanes)
    version = lanes[0] & VERSION_MASK
    if lanes == beat_lanes(stack, number, count, version):
        return version
    if lanes == blank_lanes(count):
        return BLANK
    if lanes == garbage_lanes(stack, number, count):
        return GARBAGE
    return WRONG


def name(content: int) -> str:
    names = {BLANK: "blank", GARBAGE: "garbage", ANYTHING: "anything", WRONG: "nothing known"}
    return names.get(content, f"version {content}")


@dataclass
class Change:
    """A page gets another content.

    Attributes:
        clock: When the NAND was told.
        cause: Clock in which the write was taken up that asked for it; ``None``: in the background.
        covers: That write is of this page.
        ends: Clock in which the host side knows that it is done.
    """

    clock: int
    content: int
    cause: int | None
    covers: bool
    ends: int | None = None


@dataclass
class _Page:
    settled: int = 0
    changes: list[Change] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)  # clocks in which unfinished ones were taken up


@dataclass
class PageContents:
    """Contents of the pages of one stack; tell every event in its clock.

    Attributes:
        torn: Erases may be suspended, so that their pages are read half erased.
    """

    torn: bool = True
    pages: dict[int, _Page] = field(default_factory=dict)

    def taken_up(self, page: int, clock: int) -> None:
        """A write of ``page`` was taken up."""
        self._page(page).writes.append(clock)

    def finished(self, page: int, clock: int) -> None:
        """The write of ``page`` that was taken up in ``clock`` is done with it."""
        self._page(page).writes.remove(clock)

    def change(self, page: int, change: Change, oldest: int) -> None:
        """``oldest`` is the clock in which the oldest outstanding read was taken up."""
        at = self._page(page)
        at.changes.append(change)
        while len(at.changes) > 1 and self._is_past(at.changes[0], oldest):
            at.settled = at.changes.pop(0).content

    def allowed(self, page: int, taken_up: int) -> set[int]:
        """What a read may give that was taken up in clock ``taken_up`` and arrives now.

        Raises:
            ContentError: it came before a write was finished that it has to wait for.
        """
        at = self._page(page)
        if any(clock < taken_up for clock in at.writes):
            raise ContentError(f"page {page} overtook a write that was taken up before it")
        possible = {at.settled}
        for change in at.changes:
            if change.cause is not None and change.cause >= taken_up:
                continue
            if change.covers or (change.ends is not None and change.ends < taken_up):
                possible = {change.content}
            else:
                possible |= {change.content, GARBAGE} if self.torn else {change.content}
        return possible

    def latest(self, page: int) -> int:
        """What the page holds when all that runs is over."""
        at = self._page(page)
        return at.changes[-1].content if at.changes else at.settled

    def _page(self, page: int) -> _Page:
        return self.pages.setdefault(page, _Page())

    @staticmethod
    def _is_past(change: Change, oldest: int) -> bool:
        caused = change.cause is None or change.cause < oldest
        return caused and change.ends is not None and change.ends < oldest
