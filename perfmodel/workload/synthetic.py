"""Agent sessions with the published statistics of the HBF serving study's workload.

The study ("Characterizing High Bandwidth Flash for LLM Serving", section 3.3) replays the LMCache
agentic traces. What is published of their lengths:

- 767 sessions and 24,880 turns, at most 50 a session; inputs of mean 22,558 tokens, and of mean
  89,125 after five copies of each session are joined (the paper);
- outputs of mean 211.2 and median 102, up to 11,400; gaps of mean 2.08 s, median 0.71 s and 95 %
  below 3.7 s; first prompts of 8,500 to 10,000 tokens; sessions of 5 turns or more, some 30 % of
  them stopped by the limit of 50 (the data set, sammshen/lmcache-agentic-traces).

The two means fix the sum of prompts and, by ``extend``, how long final contexts are: ``22,558 + 2 f
= 89,125``, so that their mean over turns is ``f`` = 33,283.5. Everything else is drawn:

- turns of a session: lognormal, cut to fewest and most, its median such that the mean is right;
- first prompt: lognormal;
- output: lognormal, from mean and median, cut at the most;
- gap: lognormal, from its median and 95th percentile, and now and then a pause, exponential, which
  makes up the rest of the mean;
- tokens appended to the context between turns, as by tools: lognormal around ``a / k**c`` behind
  turn ``k``, cut at a multiple of it. ``a`` and ``c`` are solved for what was drawn, so that both
  means come out whatever the seed. A positive ``c`` says that sessions read most at their
  beginning.

Draws are stratified: of ``n`` draws, one is from each ``1/n`` of its distribution, in random order.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from hw.errors import InputError
from perfmodel.workload.trace import Floats, Ints, Trace, append_only_prefix

_Numbers = TypeVar("_Numbers", Ints, Floats)
_NORMAL = NormalDist()
_MOST_SESSIONS = 10**6
_STEEPEST = 8.0  # of the exponent of appended tokens, either way


@dataclass(frozen=True, kw_only=True)
class AgenticStatistics:
    """Statistics of agent sessions; the defaults are those above.

    Attributes:
        mean_turns: Mean turns of a session.
        fewest_turns: Fewest turns of a session.
        most_turns: Most turns of a session.
        turns_sigma: Of the lognormal; 0.8 lets 30 % of the sessions reach the most.
        mean_input_tokens: Mean input over all turns.
        mean_final_tokens: Mean over all turns of the context that their session leaves.
        first_input_tokens: Mean first prompt of a session.
        first_input_sigma: Of the lognormal; assumed.
        mean_output_tokens: Mean output.
        median_output_tokens: Median output.
        most_output_tokens: Longest output.
        appended_sigma: Of the lognormal; assumed: 1.8 in the agents that kv-cache-tester recorded.
        most_appended: Longest appended text, as a multiple of its mean; assumed, tools cut theirs.
        mean_gap_s: Mean gap.
        median_gap_s: Median gap.
        p95_gap_s: 95th percentile of gaps.
        pause_share: Share of gaps that are pauses; assumed.
    """

    mean_turns: float = 24_880 / 767
    fewest_turns: int = 5
    most_turns: int = 50
    turns_sigma: float = 0.8
    mean_input_tokens: float = 22_558.0
    mean_final_tokens: float = 33_283.5
    first_input_tokens: float = 9_250.0
    first_input_sigma: float = 0.35
    mean_output_tokens: float = 211.2
    median_output_tokens: float = 102.0
    most_output_tokens: int = 11_400
    appended_sigma: float = 1.5
    most_appended: float = 40.0
    mean_gap_s: float = 2.08
    median_gap_s: float = 0.71
    p95_gap_s: float = 3.7
    pause_share: float = 0.01

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < 1e9:
                raise InputError(f"{name} is {value}: must be greater than zero, below 1e9")
        for low, high in (
            ("fewest_turns", "mean_turns"),
            ("mean_turns", "most_turns"),
            ("median_output_tokens", "mean_output_tokens"),
            ("mean_output_tokens", "most_output_tokens"),
            ("median_gap_s", "p95_gap_s"),
        ):
            if not getattr(self, low) < getattr(self, high):
                raise InputError(
                    f"{low} is {getattr(self, low)}: must be below {high}, {getattr(self, high)}"
                )
        if not self.pause_share < 0.05:
            raise InputError(f"pause_share is {self.pause_share}: must be below 0.05")
        if not self.mean_pause_s > 0:
            raise InputError(
                f"mean_gap_s is {self.mean_gap_s}: must be above "
                f"{self.mean_gap_s - self._rest_s:g}, what gaps that are no pauses add to it"
            )

    @property
    def gap_sigma(self) -> float:
        """Of the lognormal of gaps that are no pauses; pauses are above the 95th percentile."""
        z = _NORMAL.inv_cdf(0.95 / (1 - self.pause_share))
        return math.log(self.p95_gap_s / self.median_gap_s) / z

    @property
    def mean_pause_s(self) -> float:
        """Mean pause, so that pauses and other gaps have the mean of all."""
        return self._rest_s / self.pause_share

    @property
    def _rest_s(self) -> float:
        """What pauses add to the mean of all gaps."""
        others_s = self.median_gap_s * math.exp(self.gap_sigma**2 / 2)
        return self.mean_gap_s - (1 - self.pause_share) * others_s


def synthetic_agentic(
    *, sessions: int = 767, seed: int, statistics: AgenticStatistics | None = None
) -> Trace:
    """A trace of agent sessions that arrive at time zero; equal for equal seeds.

    With 767 sessions it has exactly the 24,880 turns of the study.

    Args:
        sessions: Number of sessions.
        seed: Of all draws.
        statistics: What to meet; the study's by default.

    Raises:
        InputError: an argument is out of range, or no appended tokens give both means with
            what was drawn, as may happen with a handful of sessions.
    """
    if not 1 <= sessions <= _MOST_SESSIONS:
        raise InputError(f"sessions is {sessions}: must be 1 to {_MOST_SESSIONS}")
    if seed < 0:
        raise InputError(f"seed is {seed}: must not be negative")
    known = AgenticStatistics() if statistics is None else statistics
    random = np.random.default_rng(seed)
    lengths = _turns(known, _normal(random, sessions))
    first_turn = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    turns = int(first_turn[-1])
    session = np.repeat(np.arange(sessions), lengths)
    turn = np.arange(turns) - first_turn[session]

    first = _lognormal(known.first_input_tokens, known.first_input_sigma, _normal(random, sessions))
    outputs = _outputs(known, _normal(random, turns))
    noise = _lognormal(1.0, known.appended_sigma, _normal(random, turns))
    noise = np.minimum(noise, known.most_appended)
    answered = _running(outputs, first_turn) - outputs
    base = np.maximum(np.rint(first), 1).astype(np.int64)[session] + answered
    noise[turn == 0] = 0
    inputs = base + _appended(known, base, outputs, noise, first_turn, turn)
    gap_s = np.where(turn > 0, _gaps_s(known, random, turns), 0.0)
    return Trace(
        source=f"synthetic agentic sessions, seed {seed}",
        session_ids=tuple(f"{name}" for name in range(sessions)),
        first_turn=first_turn,
        start_s=np.zeros(sessions),
        gap_s=gap_s,
        input_tokens=inputs,
        prefix_tokens=append_only_prefix(inputs, outputs, turn == 0),
        output_tokens=outputs,
    )


def _turns(known: AgenticStatistics, normal: Floats) -> Ints:
    """Turns of each session, whose sum is the mean times the sessions."""

    def cut(log_median: float) -> Floats:
        turns = np.exp(log_median + known.turns_sigma * normal)
        return np.clip(turns, known.fewest_turns, known.most_turns)

    reach = 10 * known.turns_sigma
    low, high = math.log(known.fewest_turns) - reach, math.log(known.most_turns) + reach
    turns = cut(_bisect(lambda log_median: cut(log_median).mean(), known.mean_turns, low, high))
    # Rounding the sums keeps the mean and takes each number to a neighbour.
    sums = np.rint(np.concatenate((np.zeros(1), np.cumsum(turns)))).astype(np.int64)
    return sums[1:] - sums[:-1]


def _outputs(known: AgenticStatistics, normal: Floats) -> Ints:
    sigma = math.sqrt(2 * math.log(known.mean_output_tokens / known.median_output_tokens))
    outputs = np.rint(known.median_output_tokens * np.exp(sigma * normal))
    return np.clip(outputs, 1, known.most_output_tokens).astype(np.int64)


def _gaps_s(known: AgenticStatistics, random: np.random.Generator, count: int) -> Floats:
    others_s = known.median_gap_s * np.exp(known.gap_sigma * _normal(random, count))
    pauses_s = -known.mean_pause_s * np.log(_stratified(random, count))
    gaps_s = np.where(_stratified(random, count) < known.pause_share, pauses_s, others_s)
    milliseconds: Floats = np.rint(1000 * gaps_s)
    return milliseconds / 1000


def _appended(
    known: AgenticStatistics,
    base: Ints,
    outputs: Ints,
    noise: Floats,
    first_turn: Ints,
    turn: Ints,
) -> Ints:
    """Tokens appended before each turn, summed over its session so far."""
    last = first_turn[1:] - 1
    lengths = np.diff(first_turn)

    def shape(exponent: float) -> Floats:
        return _running(noise * np.maximum(turn, 1) ** -exponent, first_turn)

    def final_mean(values: Floats | Ints) -> float:
        return float((values[last] * lengths).sum() / lengths.sum())

    def ratio(exponent: float) -> float:
        sums = shape(exponent)
        return float(sums.mean()) / final_mean(sums)

    wanted_final = known.mean_final_tokens - final_mean(base + outputs)
    wanted = known.mean_input_tokens - float(base.mean())
    if not 0 < wanted < wanted_final or not ratio(-_STEEPEST) < wanted / wanted_final < ratio(
        _STEEPEST
    ):
        raise InputError(
            f"mean_input_tokens {known.mean_input_tokens:g} and mean_final_tokens "
            f"{known.mean_final_tokens:g}: cannot both be met by {len(last)} sessions as drawn"
        )
    sums = shape(_bisect(ratio, wanted / wanted_final, -_STEEPEST, _STEEPEST))
    return np.rint(sums * (wanted_final / final_mean(sums))).astype(np.int64)


def _running(values: _Numbers, first_turn: Ints) -> _Numbers:
    """Sums from the beginning of each session to each turn."""
    sums = np.cumsum(values)
    before = (sums - values)[first_turn[:-1]]
    return sums - np.repeat(before, np.diff(first_turn))


def _lognormal(mean: float, sigma: float, normal: Floats) -> Floats:
    return mean * np.exp(sigma * normal - sigma**2 / 2)


def _normal(random: np.random.Generator, count: int) -> Floats:
    return np.array([_NORMAL.inv_cdf(share) for share in _stratified(random, count).tolist()])


def _stratified(random: np.random.Generator, count: int) -> Floats:
    """Numbers between 0 and 1, one in each of ``count`` equal parts, in random order."""
    return np.clip((random.permutation(count) + random.random(count)) / count, 1e-12, 1 - 1e-12)


def _bisect(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where a function that does not fall reaches ``wanted``."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return (low + high) / 2
