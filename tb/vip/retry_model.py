"""Retry in plain Python: what a sender sends again, what a receiver lets up and answers.

Written from the text in docs/ucie.md, without the RTL. Groups and flits are counted from zero and
without end; sequence numbers 1 to 255 appear only where they are sent: the last of ``n`` flits has
the number that is ``n`` modulo 255. At most 127 flits are unacknowledged, so a number says which
count is meant.
"""

import enum
from collections import deque

from hw.ucie.flit_header import MAX_SEQUENCE

MAX_UNACKNOWLEDGED = 127
TIMEOUT_FLITS = 375


def sequence_after(flits: int) -> int:
    """The sequence number of the last of ``flits`` flits; of none it is 255."""
    return (flits - 1) % MAX_SEQUENCE + 1


def count_of(sequence: int, low: int, high: int) -> int | None:
    """How many flits a number acknowledges: the count from ``low`` to ``high`` that has it."""
    count = low + (sequence - low) % MAX_SEQUENCE
    return count if count <= high else None


class ReplaySender:
    """Keeps what is not acknowledged and sends it again, oldest first, before anything new."""

    def __init__(
        self, *, flits: int, rows: int | None = None, timeout_flits: int = TIMEOUT_FLITS
    ) -> None:
        self._flits, self._timeout = flits, timeout_flits
        self._rows = MAX_UNACKNOWLEDGED // flits if rows is None else rows
        self._kept: deque[bytes] = deque()
        self._waited = 0  # flit times
        self.acknowledged = self.position = 0  # groups
        self.replays = 0

    @property
    def sent(self) -> int:
        """Groups that were ever sent."""
        return self.acknowledged + len(self._kept)

    @property
    def idle(self) -> bool:
        return not self._kept

    @property
    def accepts(self) -> bool:
        """A new group may be sent now."""
        return self.position == self.sent and len(self._kept) < self._rows

    def answered(self, sequence: int, *, nak: bool) -> None:
        """An answer has come; one that is no news is ignored."""
        flits = self._flits
        count = count_of(sequence, self.acknowledged * flits, self.sent * flits)
        if count is None:
            return
        while self.acknowledged < count // flits:
            self._kept.popleft()
            self.acknowledged += 1
            self._waited = 0
        self.position = max(self.position, self.acknowledged)
        if nak:
            self._again()

    def tick(self) -> None:
        """The time of a group passes. Call it before ``accepts`` and ``group``."""
        if self._kept:
            self._waited += self._flits
            if self._waited > self._timeout:
                self._again()

    def group(self, payload: bytes | None = None) -> tuple[int, bytes] | None:
        """What goes out in this clock: sequence number and payload, or ``None`` for a NOP.

        ``payload`` is a new one, which only goes while ``accepts``.
        """
        if payload is not None:
            if not self.accepts:
                raise ValueError("a new group while an old one must be sent")
            self._kept.append(payload)
        if self.position == self.sent:
            return None
        number = self.position
        self.position += 1
        return sequence_after(number * self._flits + 1), self._kept[number - self.acknowledged]

    def _again(self) -> None:
        self.replays += self.position > self.acknowledged
        self.position, self._waited = self.acknowledged, 0


class Outcome(enum.Enum):
    """What becomes of a group that comes."""

    TAKEN = enum.auto()  # goes up
    LOST = enum.auto()  # a Nak must follow
    LOST_AGAIN = enum.auto()  # a Nak may follow: a later pass has lost its head, too
    NOTHING = enum.auto()  # NOP, old, or behind a group for which a Nak was asked


class ReplayReceiver:
    """Lets each group up once and in order."""

    def __init__(self, *, flits: int) -> None:
        self._flits = flits
        self.taken = 0  # groups
        self._asked = self._owed = False
        self._furthest = 0  # of a pass, the last group that came early

    def group(self, bad: bool, sequence: int | None) -> Outcome:
        """A group has come; without ``sequence`` it is a NOP."""
        if bad:
            return self._lost(Outcome.LOST)
        if sequence is None:
            return Outcome.NOTHING
        ahead = (sequence - sequence_after(self.taken * self._flits + 1)) % MAX_SEQUENCE
        if ahead == 0:
            self.taken += 1
            self._asked = self._owed = False
            self._furthest = 0
            return Outcome.TAKEN
        if ahead > MAX_UNACKNOWLEDGED:
            return Outcome.NOTHING
        # Numbers rise within a pass: where they do not, a new pass has begun.
        again, self._furthest = ahead <= self._furthest, ahead
        if not self._asked:
            outcome = self._lost(Outcome.LOST)
            self._furthest = ahead
            return outcome
        return self._lost(Outcome.LOST_AGAIN) if again else Outcome.NOTHING

    def answer(self) -> tuple[bool, int]:
        """Nak or not, and the number of the last flit that went up. Call it when it is sent."""
        nak, self._owed = self._owed, False
        return nak, sequence_after(self.taken * self._flits)

    def _lost(self, outcome: Outcome) -> Outcome:
        if self._asked and outcome is Outcome.LOST:
            return Outcome.NOTHING
        if outcome is Outcome.LOST:
            self._furthest = 0
        self._asked = self._owed = True
        return outcome
