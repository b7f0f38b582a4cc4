"""Equal requests of a study: as a Poisson stream, or all waiting at once."""

from dataclasses import dataclass

import numpy as np

from hw.errors import InputError
from perfmodel.serving.arrivals import Request, poisson
from perfmodel.serving.engine import simulate
from perfmodel.serving.passes import PassModel
from perfmodel.serving.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Requests of one size; the defaults are those of the DASH paper, section VI-E.

    Attributes:
        input_len, output_len: tokens of each request.
        warmup: requests that come first and are not measured.
        measured: requests after them.

    Raises:
        InputError: a number is out of range.
    """

    input_len: int = 4096
    output_len: int = 128
    warmup: int = 128
    measured: int = 1024

    def __post_init__(self) -> None:
        for name, least in (("input_len", 1), ("output_len", 1), ("warmup", 0), ("measured", 1)):
            value = getattr(self, name)
            if value < least:
                option = {"measured": "requests"}.get(name, name.replace("_", "-"))
                raise InputError(f"{option} is {value}: must be at least {least}")

    @property
    def requests(self) -> int:
        return self.warmup + self.measured

    def stream(self, rate: float, seed: int) -> list[Request]:
        """The requests as a Poisson process of ``rate`` requests a second.

        The same seed gives the same gaps in units of the mean gap, whatever the rate.
        """
        return poisson(
            requests=self.requests,
            rate=rate,
            input_len=self.input_len,
            output_len=self.output_len,
            seed=seed,
        )

    def backlogged_rate(self, passes: PassModel, schedule: Schedule) -> float:
        """Requests a second that a system completes while more are always waiting.

        All requests are there from the start, with a full batch more than are measured, so that
        the queue is not empty before the last measured one ends. The time is that between the
        ends of the last request of the warm-up and of the last measured one.

        Raises:
            InputError: the system cannot serve such a request; says why.
        """
        request = Request(0.0, self.input_len, self.output_len)
        load = [request] * (self.requests + schedule.max_batch)
        outcome = simulate(passes.system, load, schedule, passes=passes)
        if outcome.rejected:
            raise InputError(
                f"input-len is {self.input_len}, output-len {self.output_len}: "
                f"{outcome.rejected[0]}"
            )
        ends_s = np.sort(outcome.finish_s)
        begin_s = ends_s[self.warmup - 1] if self.warmup else 0.0
        return float(self.measured / (ends_s[self.requests - 1] - begin_s))
