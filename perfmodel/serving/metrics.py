"""Serving metrics with the names and definitions of vLLM's ``bench serve`` result file.

For a completed request, with all times from its arrival:

- ``ttft``: time to first token;
- ``e2el``: time to the last token;
- ``tpot``: ``(e2el - ttft) / (output_len - 1)``, for requests with more than one output token;
- ``itl``: the single gaps between its tokens, pooled over all requests.

The first requests may be left out as warm-up: they load the machine and are not counted. Time
then begins with the arrival of the last of them, so that throughput is that of the others.

Standard deviations are those of the population, percentiles interpolate linearly (NumPy's
default). Without any value a statistic is 0.0, as in vLLM.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from hw.errors import InputError
from perfmodel.serving.engine import Outcome

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
PERCENTILES = (90, 95, 99)


def weighted_percentile(values: Floats, weights: Ints, percent: float) -> float:
    """The percentile of a list that holds each value ``weight`` times; equals NumPy's.

    ``values`` must be in ascending order.
    """
    last = np.cumsum(weights) - 1  # position of the last copy of each value
    place = percent / 100 * float(last[-1])
    low = int(place)
    at = np.searchsorted(last, [low, min(low + 1, int(last[-1]))])
    below, above = float(values[at[0]]), float(values[at[1]])
    share = place - low
    if share >= 0.5:
        return above - (above - below) * (1 - share)
    return below + (above - below) * share


def summary(name: str, seconds: Floats, weights: Ints | None = None) -> dict[str, float]:
    """Mean, median, standard deviation and percentiles in milliseconds, vLLM's field names."""
    if weights is None:
        weights = np.ones(len(seconds), np.int64)
    if not len(seconds):
        fields = ["mean", "median", "std", *(f"p{percent}" for percent in PERCENTILES)]
        return {f"{field}_{name}_ms": 0.0 for field in fields}
    order = np.argsort(seconds, kind="stable")
    values, weights = 1e3 * seconds[order], weights[order]
    count = float(weights.sum())
    mean = float((values * weights).sum()) / count
    variance = float(((values - mean) ** 2 * weights).sum()) / count
    result = {
        f"mean_{name}_ms": mean,
        f"median_{name}_ms": weighted_percentile(values, weights, 50),
        f"std_{name}_ms": variance**0.5,
    }
    for percent in PERCENTILES:
        result[f"p{percent}_{name}_ms"] = weighted_percentile(values, weights, percent)
    return result


def metrics(outcome: Outcome, warmup: int = 0) -> dict[str, Any]:
    """The metrics of one run without its first ``warmup`` requests, JSON-ready.

    ``rejected`` is by reason. ``iterations``, ``exposed_program_s`` and ``bytes`` (by path and
    tier) are those of the whole run.

    Raises:
        InputError: the warm-up leaves no request.
    """
    if not 0 <= warmup < len(outcome.requests):
        raise InputError(
            f"warmup is {warmup}: must be 0 to {len(outcome.requests) - 1}, less than the requests"
        )
    arrival_s, input_len, output_len = lengths(outcome)
    done = ~np.isnan(outcome.finish_s)
    done[:warmup] = False
    completed = int(done.sum())
    ttft_s = (outcome.first_token_s - arrival_s)[done]
    e2el_s = (outcome.finish_s - arrival_s)[done]
    outputs = output_len[done]
    several = outputs > 1
    tpot_s = (e2el_s - ttft_s)[several] / (outputs[several] - 1)
    begin_s = float(arrival_s[warmup - 1]) if warmup else 0.0
    duration_s = float(outcome.finish_s[done].max()) - begin_s if completed else 0.0
    total_in, total_out = int(input_len[done].sum()), int(outputs.sum())
    rejected = Counter(why for index, why in outcome.rejected.items() if index >= warmup)

    def rate(amount: int) -> float:
        return amount / duration_s if duration_s else 0.0

    return {
        "completed": completed,
        "failed": rejected.total(),
        "rejected": dict(sorted(rejected.items())),
        "duration": duration_s,
        "total_input_tokens": total_in,
        "total_output_tokens": total_out,
        "request_throughput": rate(completed),
        "output_throughput": rate(total_out),
        "total_token_throughput": rate(total_in + total_out),
        **summary("ttft", ttft_s),
        **summary("tpot", tpot_s),
        **summary("itl", *gaps(outcome, done)),
        **summary("e2el", e2el_s),
        "iterations": outcome.iterations,
        "exposed_program_s": outcome.exposed_program_s,
        "bytes": outcome.traffic.as_dict(),
    }


def gaps(outcome: Outcome, chosen: Bools) -> tuple[Floats, Ints]:
    """Gaps between tokens of the chosen requests, and how many tokens had each.

    A request gets a token at every decode step after its first token, up to its last. Its first
    gap is its own; all others are those between steps, shared by every request in decode.
    """
    first_s, finish_s = outcome.first_token_s[chosen], outcome.finish_s[chosen]
    steps = outcome.step_s
    begin = np.searchsorted(steps, first_s, side="right")
    end = np.searchsorted(steps, finish_s, side="right")
    decoding = end > begin
    begin, end, first_s = begin[decoding], end[decoding], first_s[decoding]
    changes = np.zeros(len(steps) + 1, np.int64)
    np.add.at(changes, begin + 1, 1)
    np.add.at(changes, end, -1)
    between = np.cumsum(changes)[1 : len(steps)]
    shared = between > 0
    gap_s = np.concatenate([steps[begin] - first_s, np.diff(steps)[shared]])
    return gap_s, np.concatenate([np.ones(len(begin), np.int64), between[shared]])


def lengths(outcome: Outcome) -> tuple[Floats, Ints, Ints]:
    """Arrival times, input lengths and output lengths of all requests."""
    requests = outcome.requests
    return (
        np.array([request.arrival_s for request in requests]),
        np.array([request.input_len for request in requests], np.int64),
        np.array([request.output_len for request in requests], np.int64),
    )
