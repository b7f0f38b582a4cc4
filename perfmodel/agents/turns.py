"""The turns of a trace as an engine takes them: plain numbers, one list each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hw.errors import InputError
from perfmodel.workload import Trace


@dataclass(frozen=True, kw_only=True)
class Turns:
    """Turns of the sessions that one replica serves.

    Attributes:
        session: Of each turn.
        prompt, prefix, output: Tokens of each turn, as in ``Trace``.
        gap_s: Of each turn.
        start_s: Of each session.
        first: First turn of each session.
        last: Whether a turn is its session's last.
    """

    session: Sequence[int]
    prompt: Sequence[int]
    prefix: Sequence[int]
    output: Sequence[int]
    gap_s: Sequence[float]
    start_s: Sequence[float]
    first: Sequence[int]
    last: Sequence[bool]

    @property
    def sessions(self) -> int:
        return len(self.start_s)

    @property
    def count(self) -> int:
        return len(self.prompt)

    def arrivals(self) -> list[tuple[float, int]]:
        """Time and number of the first turn of each session, as a heap."""
        return sorted(zip(self.start_s, self.first, strict=True))

    def following(self, turn: int, now: float) -> tuple[float, int] | None:
        """When the turn behind one that ends now becomes eligible, and its number."""
        if self.last[turn]:
            return None
        return now + self.gap_s[turn + 1], turn + 1

    def check_fit(self, device_capacity: int) -> None:
        """Refuse a turn whose context is larger than all device memory for KV.

        Raises:
            InputError: there is one.
        """
        for turn, (prompt, output) in enumerate(zip(self.prompt, self.output, strict=True)):
            need = prompt + max(output - 1, 0)
            if need > device_capacity:
                raise InputError(
                    f"turn {turn} has a context of {need} tokens: HBM and HBF hold "
                    f"{device_capacity} tokens of KV"
                )


def turns_of(trace: Trace, *, replica: int = 0, replicas: int = 1) -> Turns:
    """The sessions of one replica: routing is sticky, session ``s`` goes to ``s % replicas``.

    Raises:
        InputError: a number is out of range, or there are fewer sessions than replicas.
    """
    if not 0 <= replica < replicas <= trace.sessions:
        raise InputError(f"replicas is {replicas}: must be 1 to {trace.sessions}, the sessions")
    mine = trace.session_of_turn % replicas == replica
    lengths = trace.turns_of_session[replica::replicas]
    first = np.concatenate(([0], np.cumsum(lengths)))
    last = np.zeros(int(first[-1]), np.bool_)
    last[first[1:] - 1] = True
    return Turns(
        session=np.repeat(np.arange(len(lengths)), lengths).tolist(),
        prompt=trace.input_tokens[mine].tolist(),
        prefix=trace.prefix_tokens[mine].tolist(),
        output=trace.output_tokens[mine].tolist(),
        gap_s=trace.gap_s[mine].tolist(),
        start_s=trace.start_s[replica::replicas].tolist(),
        first=first[:-1].tolist(),
        last=last.tolist(),
    )
