"""How passes are made up: what a policy lets run together, and the limits of one pass.

The defaults are those of the DASH paper, section VI-E. Whatever the policy, a pass that takes
prompts leaves one token of its budget to every decoding request, in it or not, so that policies
differ in nothing but what runs together.
"""

import enum
from dataclasses import dataclass, field
from typing import Protocol

from hw.errors import InputError, named


class Part(enum.Flag):
    """What takes part in a pass."""

    DECODE = enum.auto()
    PREFILL = enum.auto()


class Policy(Protocol):
    """What runs next where both decode and prefill could."""

    @property
    def name(self) -> str: ...

    def parts(self, decoded_last: bool) -> Part:
        """Parts of the next pass; ``decoded_last`` tells whether the last one had decode rows."""


@dataclass(frozen=True)
class Mixed:
    """Decode rows and prompt chunks share every pass, and with it the experts it fetches."""

    name: str = "mixed"

    def parts(self, decoded_last: bool) -> Part:
        return Part.DECODE | Part.PREFILL


@dataclass(frozen=True)
class Serial:
    """Passes of decode and passes of prefill take turns; each fetches its own experts."""

    name: str = "serial"

    def parts(self, decoded_last: bool) -> Part:
        return Part.PREFILL if decoded_last else Part.DECODE


POLICIES: dict[str, Policy] = {policy.name: policy for policy in (Mixed(), Serial())}


def policy_named(name: str) -> Policy:
    """The policy of that name.

    Raises:
        InputError: there is none.
    """
    return named("policy", name, POLICIES)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A policy and its limits.

    Attributes:
        max_batch: requests that run at once, in prefill or decode.
        token_budget: tokens of one pass, counting one for each decoding request.
        chunk: prompt tokens of one request in one pass.

    Raises:
        InputError: a limit is out of range.
    """

    policy: Policy = field(default_factory=Mixed)
    max_batch: int = 32
    token_budget: int = 8192
    chunk: int = 512

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise InputError(f"chunk is {self.chunk}: must be at least 1")
        if not 1 <= self.max_batch < self.token_budget:
            raise InputError(
                f"max-batch is {self.max_batch}: must be 1 to {self.token_budget - 1}, so that a "
                f"pass of {self.token_budget} tokens has room for prompts"
            )

    def as_dict(self) -> dict[str, str | int]:
        """JSON-ready values."""
        return {
            "policy": self.policy.name,
            "max_batch": self.max_batch,
            "token_budget": self.token_budget,
            "chunk": self.chunk,
        }
