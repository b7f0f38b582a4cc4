"""Credits of a link for beats, whose consumer takes each as it comes."""

from collections import deque

from perfmodel.memory.twin.pacer import FRAME


class BeatCredits:
    """``hw.ucie.credit.CreditCounter``: beats that the receiver has room for.

    A page may leave with credit for a whole frame. Credits come back at clocks that are known when
    the page leaves, and are counted only once they are needed.
    """

    __slots__ = ("_back", "_count")

    def __init__(self, beats: int) -> None:
        self._count = beats
        self._back: deque[int] = deque()

    def ready(self, clock: int) -> int:
        """The first clock from ``clock`` on with credit for a frame; all uses lie before it."""
        if self._count < FRAME:
            while self._back and self._back[0] <= clock:
                self._back.popleft()
                self._count += 1
            if self._count < FRAME:
                return self._back[FRAME - self._count - 1]
        return clock

    def use(self, back: list[int]) -> None:
        """Spend a credit for each beat; ``back`` are the clocks from which it counts again."""
        self._count -= len(back)
        self._back.extend(back)
