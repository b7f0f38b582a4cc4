"""Watches the retry of one end of a link: what it must never send, and what it owes in time.

The monitor knows what the end has put on its line, before any noise, and what has reached it,
after the noise. From both follows what it may send next.
"""

from collections import deque
from typing import NoReturn

from tb.vip.flit_model import Seen, flit_sequence
from tb.vip.retry_model import (
    MAX_UNACKNOWLEDGED,
    TIMEOUT_FLITS,
    Outcome,
    ReplayReceiver,
    count_of,
    sequence_after,
)


class RuleBroken(AssertionError):
    """An end has done what no end may do; says when and what."""


class RetryMonitor:
    """The rules of one end, called the watched one.

    - A group is whole: numbers, answers and CRCs are as :class:`tb.vip.flit_model.GroupModel` has
      them, a NOP is empty.
    - New groups are numbered one after the other. Old ones come again only as a pass from the
      oldest that is unacknowledged, after a Nak or ``timeout_flits`` flit times without news, and
      with the payload that they had. At most ``rows`` are unacknowledged.
    - A Nak is followed by such a pass within ``answer_clocks``, silence by one after the timeout.
    - An answer is of whole groups, never goes back, and tells of what came whole and in order: of
      nothing else, and of all of it within ``answer_clocks``.
    - Each loss is answered with one Nak within ``answer_clocks``, and no Nak comes without a loss.

    Times hold while the watched end sends a group in each clock; after a pause call ``resumed``.
    """

    def __init__(
        self,
        *,
        flits: int,
        rows: int | None = None,
        timeout_flits: int = TIMEOUT_FLITS,
        answer_clocks: int = 16,
    ) -> None:
        self._flits, self._answer_clocks = flits, answer_clocks
        self._rows = MAX_UNACKNOWLEDGED // flits if rows is None else rows
        self._timeout = -(-timeout_flits // flits)
        # As a receiver:
        self._receiver = ReplayReceiver(flits=flits)
        self._came = deque([(0, 0)])  # clock, groups that went up till then
        self._losses: deque[tuple[int, int, bool]] = deque()  # clock, groups, must be told
        self._told = 0  # flits
        # As a sender:
        self.sent = self.acknowledged = 0  # groups
        self._position = 0
        self._payloads: dict[int, bytes] = {}
        self._bases = deque([(0, 0)])  # clock, oldest unacknowledged from then on
        self._nak: tuple[int, int] | None = None  # clock, oldest unacknowledged: not obeyed yet
        self._cause = -(10**9)  # clock of the last Nak, or of news that came after the timeout
        self._since = 0  # of news, or of the last pass
        self.passes = 0

    @property
    def taken(self) -> int:
        """Groups that went up."""
        return self._receiver.taken

    def resumed(self, clock: int) -> None:
        """The watched end sends again; while it did not, it owed nothing."""
        self._losses = deque((clock, groups, False) for _, groups, _ in self._losses)
        self._came = deque([(clock, self._receiver.taken)])
        self._nak, self._since = None, clock

    def delivered(self, clock: int, seen: Seen) -> bool:
        """A group has come to the watched end; whether its payload goes up."""
        outcome = self._receiver.group(seen.bad, seen.sequence)
        if outcome is Outcome.TAKEN:
            self._came.append((clock, self._receiver.taken))
        elif outcome is not Outcome.NOTHING:
            self._losses.append((clock, self._receiver.taken, outcome is Outcome.LOST))
        if not seen.bad and seen.answer is not None:
            self._answered(clock, seen.answer, seen.nak)
        return outcome is Outcome.TAKEN

    def left(self, clock: int, seen: Seen) -> bytes | None:
        """The watched end has sent a group; its payload if that is new.

        Raises:
            RuleBroken: it may not.
        """
        if seen.bad:
            self._broken(clock, "a CRC is wrong where the group leaves")
        if seen.wrong:
            self._broken(clock, seen.wrong)
        if seen.answer is not None:
            self._check_answer(clock, seen.answer, seen.nak)
        payload = None
        if seen.sequence is not None:
            payload = self._check_group(clock, seen.sequence, seen.payload)
        self._check_owed(clock)
        return payload

    # As a sender ----------------------------------------------------------------------------------

    def _answered(self, clock: int, sequence: int, nak: bool) -> None:
        flits = self._flits
        count = count_of(sequence, self.acknowledged * flits, self.sent * flits)
        if count is None:
            return
        if count // flits > self.acknowledged:
            if clock - self._since >= self._timeout - 2:
                self._cause = clock
            self.acknowledged = count // flits
            self._bases.append((clock, self.acknowledged))
            self._since = clock
            for old in range(self.acknowledged - 2 * self._rows, self.acknowledged - self._rows):
                self._payloads.pop(old, None)
        if nak:
            # What the watched end has begun to send may not have left yet, so even if nothing that
            # was seen is unacknowledged this may be a cause.
            self._cause = clock
            if self.acknowledged < self.sent and (
                self._nak is None or self._nak[1] != self.acknowledged
            ):
                self._nak = clock, self.acknowledged

    def _check_group(self, clock: int, sequence: int, payload: bytes) -> bytes | None:
        number = self._number(clock, sequence)
        self._position = number + 1
        if self._nak is not None and number <= self._nak[1]:
            self._nak = None
        if number < self.sent:
            if payload != self._payloads[number]:
                self._broken(clock, f"group {number} is sent again with another payload")
            return None
        if self.acknowledged == self.sent:
            self._since = clock
        if number - self.acknowledged >= self._rows:
            self._broken(
                clock,
                f"group {number} is sent while {self._rows} groups from {self.acknowledged} on are "
                f"unacknowledged",
            )
        self.sent += 1
        self._payloads[number] = payload
        return payload

    def _number(self, clock: int, sequence: int) -> int:
        """The group with this sequence number that may come now."""
        if sequence == self._sequence(self._position):
            return self._position
        # What the watched end takes for the oldest may be some clocks old.
        while len(self._bases) > 1 and self._bases[1][0] < clock - self._answer_clocks:
            self._bases.popleft()
        for _, base in reversed(self._bases):
            if sequence != self._sequence(base) or base > self.sent:
                continue
            if base < self._position:
                self.passes += 1
                silent = clock - self._since
                if clock - self._cause > self._answer_clocks and silent < self._timeout - 2:
                    self._broken(
                        clock,
                        f"groups from {base} on are sent again without a Nak, {silent} clocks "
                        "after the last news",
                    )
                self._since = clock
            return base
        self._broken(
            clock,
            f"sequence number {sequence} where {self._sequence(self._position)} follows (group "
            f"{self._position}) and a pass begins with {self._sequence(self.acknowledged)} (group "
            f"{self.acknowledged})",
        )

    def _sequence(self, group: int) -> int:
        return flit_sequence(1, group * self._flits)

    # As a receiver --------------------------------------------------------------------------------

    def _check_answer(self, clock: int, sequence: int, nak: bool) -> None:
        flits, taken = self._flits, self._receiver.taken
        word = "Nak" if nak else "Ack"
        count = count_of(sequence, self._told, taken * flits)
        if count is None:
            self._broken(
                clock,
                f"{word} of {sequence}, but {taken} groups came whole and in order, up to "
                f"{sequence_after(taken * flits)}, and {sequence_after(self._told)} was told",
            )
        if count % flits:
            self._broken(clock, f"{word} of {sequence}, which is within a group")
        self._told = count
        if not nak:
            return
        for k, (_, groups, _) in enumerate(self._losses):
            if groups * flits == count:
                for _ in range(k + 1):
                    self._losses.popleft()
                return
        self._broken(clock, f"Nak of {sequence}, but nothing was lost behind it")

    def _check_owed(self, clock: int) -> None:
        """What had to be done by now."""
        due = clock - self._answer_clocks
        while len(self._came) > 1 and self._came[1][0] <= due:
            self._came.popleft()
        came, groups = self._came[0]
        if came <= due and self._told < groups * self._flits:
            self._broken(clock, f"group {groups - 1}, which came at {came}, is not acknowledged")
        while self._losses and self._losses[0][0] <= due:
            lost, _, must = self._losses.popleft()
            if must:
                self._broken(clock, f"no Nak for what was lost at {lost}")
        if self._nak is not None:
            came, base = self._nak
            if base < self.acknowledged:
                self._nak = None
            elif came <= due:
                self._broken(
                    clock,
                    f"the Nak that came at {came} is not obeyed: nothing from "
                    f"group {base} on is sent again",
                )
        late = clock - self._since - self._timeout
        if self.acknowledged < self.sent and late > self._answer_clocks:
            self._broken(
                clock, f"group {self.acknowledged} is not sent again, {late} clocks too late"
            )

    def _broken(self, clock: int, what: str) -> NoReturn:
        raise RuleBroken(f"clock {clock}: {what}")
