"""One turn of a session on its way through the engine."""

from dataclasses import dataclass

from perfmodel.tiers import Entry


@dataclass(slots=True, eq=False)
class Request:
    """A turn, from becoming eligible to its last token.

    Prefill gives the first token of the answer; each decode step writes the KV of the last token
    and gives the next. The KV of the very last token is never written.

    Attributes:
        turn: Its number in the trace.
        eligible_order: Rank among all turns that became eligible.
        written: Answer tokens whose KV was written.
        given: Answer tokens that were given.
        uncomputed: Tokens of its context still to be computed.
        mark: While it decodes, the decode step up to which ``entry`` and ``written`` are current.
        stamp: Changes when it starts or stops decoding, so that old ends are recognised.
    """

    turn: int
    entry: Entry
    prompt: int
    output: int
    eligible_s: float
    eligible_order: int
    admitted_before: bool = False
    written: int = 0
    given: int = 0
    uncomputed: int = 0
    decoding: bool = False
    mark: int = 0
    stamp: int = 0
    admission: int = 0
    first_token_s: float = 0.0

    @property
    def context(self) -> int:
        """Tokens that its context has, computed or not, as of ``mark``."""
        return self.prompt + self.written

    def __lt__(self, other: "Request") -> bool:
        return self.turn < other.turn
