"""How long HBF lasts under the writes of a run.

    lifetime = capacity * cycles * utilisation / (amplification * write rate)

The form is that of the DASH paper; the equation of the serving study is not in its text, and a
capacity for KV times 100,000 cycles over the mean rate agrees with what it says. ``utilisation`` is
the part of all cycles that wear levelling makes use of, 1 when perfect.
"""

from dataclasses import dataclass

from hw.errors import InputError

YEAR_S = 365.25 * 86_400  # Julian


@dataclass(frozen=True, kw_only=True)
class Endurance:
    """Inputs of the lifetime.

    Attributes:
        cycles: Program and erase cycles of a block; 100,000 for SLC.
        write_amplification: Bytes programmed for a byte written.
        utilisation: Of all cycles.

    Raises:
        InputError: a value is out of range.
    """

    cycles: float = 100_000
    write_amplification: float = 1.0
    utilisation: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.cycles < 1e12:
            raise InputError(f"cycles is {self.cycles}: must be greater than zero, below 1e12")
        if not 1 <= self.write_amplification < 1e6:
            raise InputError(
                f"write_amplification is {self.write_amplification}: must be 1 up, below 1e6"
            )
        if not 0 < self.utilisation <= 1:
            raise InputError(f"utilisation is {self.utilisation}: must be above 0, at most 1")

    def lifetime_years(
        self, capacity_bytes: float, written_bytes: float, clock_s: float
    ) -> float | None:
        """Years at the mean rate of a run; None when nothing was written."""
        if not written_bytes:
            return None
        rate = self.write_amplification * written_bytes / clock_s
        return capacity_bytes * self.cycles * self.utilisation / rate / YEAR_S
