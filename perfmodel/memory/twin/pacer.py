"""Fractional pacing of frames, without looking at each frame."""

from fractions import Fraction

from hw.params import RATE_BITS

ONE = 1 << RATE_BITS
FRAME = 4  # clocks


class FramePacer:
    """``hw.ucie.pacer.FramePacer``: grants ``rate / 65536`` of the frames, one unused is kept.

    A link that has been idle for long holds its kept grant, which is how it begins.

    Attributes:
        granted: The first tick that is granted if none is used before.
    """

    __slots__ = ("_rate", "_saved", "_since", "granted", "phase")

    def __init__(self, rate: int, *, phase: int) -> None:
        """``phase`` is the clock modulo four in which the tick comes."""
        self._rate, self.phase = rate, phase
        self._saved, self._since = ONE, phase  # what is saved in the tick `since`
        self.granted = phase

    def tick(self, clock: int) -> int:
        """The first granted tick that is not before ``clock``."""
        clock = max(clock, self.granted)
        return clock + (self.phase - clock) % FRAME

    def use(self, tick: int) -> None:
        """Take the grant of ``tick``, one that is granted."""
        rate = self._rate
        saved = min(ONE, self._saved + (tick - self._since) // FRAME * rate)
        self._saved, self._since = min(ONE, saved + rate - ONE), tick + FRAME
        frames = max(0, -((self._saved - ONE) // rate) - 1)  # until saved + rate reaches one
        self.granted = tick + FRAME + FRAME * frames


def rate_register(beats_per_clock: Fraction) -> int:
    """A rate as the RTL keeps it: beats a clock in 1/65536."""
    return round(beats_per_clock * ONE)
