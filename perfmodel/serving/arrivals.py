"""Where single requests come from: a Poisson load generator, or a trace."""

from dataclasses import dataclass
from pathlib import Path

from hw.errors import InputError
from perfmodel.workload import MOST_TOKENS, poisson_times_s, read_trace


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``arrival_s`` counts from the start of the run."""

    arrival_s: float
    input_len: int
    output_len: int


def poisson(
    *, requests: int, rate: float, input_len: int, output_len: int, seed: int
) -> list[Request]:
    """Equal requests that arrive as a Poisson process of ``rate`` requests a second.

    Raises:
        InputError: a number is not positive, or absurdly large.
    """
    for name, value in (
        ("requests", requests),
        ("input-len", input_len),
        ("output-len", output_len),
    ):
        if not 0 < value <= MOST_TOKENS:
            raise InputError(f"{name} is {value}: must be greater than zero, at most {MOST_TOKENS}")
    times_s = poisson_times_s(requests, rate=rate, seed=seed)
    return [Request(at_s, input_len, output_len) for at_s in times_s.tolist()]


def load_trace(path: str | Path, limit: int | None = None) -> list[Request]:
    """The first ``limit`` requests of a trace file, all of them by default.

    Raises:
        InputError: unreadable, of unknown format, a line is malformed, or the trace has sessions
            of several turns, whose arrivals depend on the answers; names file and line.
    """
    trace = read_trace(path, limit=limit, hashes=False)
    if trace.turns > trace.sessions:
        raise InputError(f"{path}: has sessions of several turns: must be single requests")
    if not trace.output_tokens.all():
        raise InputError(f"{path}: has requests without output: each must have at least 1 token")
    columns = (trace.start_s, trace.input_tokens, trace.output_tokens)
    return [Request(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
