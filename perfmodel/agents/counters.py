"""What an engine counts: tokens, reads and seconds."""

from dataclasses import dataclass, field, fields

from perfmodel.tiers import Ledger


@dataclass
class Counters:
    """Sums over a run; of several engines they add up.

    Attributes:
        input_tokens, hit_device_tokens, hit_host_tokens: At the first admission of each turn.
        computed_tokens: Prompt tokens that hits left to be computed, at first admission.
        recomputed_tokens: Tokens computed again because a preempted turn had lost them.
        prefill_tokens: Tokens that prefill steps computed.
        given_tokens: Answer tokens.
        decode_tokens: Those of them that a decode step gave.
        pairs: Query-key pairs of prefill.
        read_hbm_tokens, read_hbf_tokens: KV that attention read, in prefill and in decode.
        decode_read_tokens: Those of them that decode steps read.
        outputs: Rows of steps that went through the output head.
        steps, turns, preemptions: Numbers of them.
        *_s: Parts of the clock; ``movement_s`` is what movement adds to it.
        ttft_sum_s, ttft_turns, tpot_sum_s, tpot_turns: Latencies, from becoming eligible; TPOT of a
            turn is the mean over the tokens after its first.
    """

    input_tokens: int = 0
    hit_device_tokens: int = 0
    hit_host_tokens: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0
    prefill_tokens: int = 0
    given_tokens: int = 0
    decode_tokens: int = 0
    pairs: int = 0
    read_hbm_tokens: int = 0
    read_hbf_tokens: int = 0
    decode_read_tokens: int = 0
    outputs: int = 0
    steps: int = 0
    turns: int = 0
    preemptions: int = 0
    gemm_s: float = 0.0
    collectives_s: float = 0.0
    prefill_attention_s: float = 0.0
    decode_attention_s: float = 0.0
    movement_s: float = 0.0
    idle_s: float = 0.0
    ttft_sum_s: float = 0.0
    ttft_turns: int = 0
    tpot_sum_s: float = 0.0
    tpot_turns: int = 0
    ledger: Ledger = field(default_factory=Ledger)

    TIMES = (
        "gemm_s",
        "collectives_s",
        "prefill_attention_s",
        "decode_attention_s",
        "movement_s",
        "idle_s",
    )

    @property
    def clock_s(self) -> float:
        """Sum of the parts."""
        return float(sum(getattr(self, name) for name in self.TIMES))

    @property
    def read_tokens(self) -> int:
        return self.read_hbm_tokens + self.read_hbf_tokens

    def plus(self, other: "Counters") -> "Counters":
        """Both together."""
        sums = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in fields(self)
            if each.name != "ledger"
        }
        return Counters(**sums, ledger=self.ledger.plus(other.ledger))
