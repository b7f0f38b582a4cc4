"""The load of ``pagewave serve``: a trace, or equal requests that arrive as a Poisson process."""

from dataclasses import dataclass, replace
from pathlib import Path

from hw.errors import InputError
from perfmodel.serving import Mixed, Request, Schedule, Workload, load_trace, poisson
from perfmodel.serving.passes import PassModel
from perfmodel.serving.study import REFERENCE
from perfmodel.system import System


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """The options as they were given.

    Raises:
        InputError: they are too many, too few, or contradict each other.
    """

    trace: Path | None
    limit: int | None
    requests: int | None
    rate: float | None
    load: float | None
    input_len: int | None
    output_len: int | None

    def __post_init__(self) -> None:
        if self.rate is not None and self.load is not None:
            raise InputError("--rate and --load: give one of them")
        if self.load is not None and not 0 < self.load <= 10:
            raise InputError(f"load is {self.load}: must be a fraction above 0, at most 10")
        pace = "--rate" if self.load is None else "--load"
        numbers = {
            "--requests": self.requests,
            pace: self.rate if self.load is None else self.load,
            "--input-len": self.input_len,
            "--output-len": self.output_len,
        }
        given = [flag for flag, value in numbers.items() if value is not None]
        if self.trace is not None and given:
            raise InputError(f"{given[0]} and --trace: give a trace or a Poisson load, not both")
        if self.trace is None and self.limit is not None:
            raise InputError(
                f"--limit is {self.limit}: only a --trace can be limited; use --requests"
            )
        if self.trace is None and len(given) < len(numbers):
            missing = next(flag for flag in numbers if flag not in given)
            raise InputError(
                f"{missing} is missing: give --trace FILE, or all of {', '.join(numbers)}"
            )

    def stream(self, system: System, schedule: Schedule, seed: int) -> tuple[list[Request], str]:
        """The requests, and in words what they are.

        Raises:
            InputError: the trace is malformed, a number out of range, or RelayOnly, against which
                a load is measured, does not hold the model.
        """
        if self.trace is not None:
            trace = load_trace(self.trace, self.limit)
            which = "all" if self.limit is None else "first"
            return trace, f"{which} {len(trace)} requests of {self.trace.name}"
        requests, input_len, output_len = self.requests, self.input_len, self.output_len
        assert requests is not None and input_len is not None and output_len is not None
        if self.load is None:
            rate, words = self.rate, ""
        else:
            work = Workload(input_len=input_len, output_len=output_len)
            reference = PassModel(system.on(REFERENCE))
            unit = work.backlogged_rate(reference, replace(schedule, policy=Mixed()))
            rate, words = self.load * unit, f", load {self.load:g}"
        assert rate is not None
        found = poisson(
            requests=requests, rate=rate, input_len=input_len, output_len=output_len, seed=seed
        )
        return found, f"{requests} requests, Poisson, {rate:g} a second{words}"
