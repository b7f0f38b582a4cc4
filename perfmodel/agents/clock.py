"""A clock that loses nothing in many small steps."""


class Clock:
    """Time as the sum of what was added, compensated (Kahan): millions of steps and the closed form
    of all of them differ by rounding of one addition.
    """

    __slots__ = ("_low", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._low = 0.0

    def after(self, seconds: float) -> float:
        """What ``now`` would be after ``add``."""
        return self.now + (seconds + self._low)

    def add(self, seconds: float) -> None:
        part = seconds + self._low
        total = self.now + part
        self._low = part - (total - self.now)
        self.now = total

    def jump(self, now: float) -> None:
        """Wait until a time that is not before ``now``."""
        self.now, self._low = now, 0.0
