"""Metrics recomputed from the requests with vLLM's definitions, token by token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.memory import Traffic
from perfmodel.serving import Outcome, Request, metrics, poisson, simulate
from perfmodel.serving.metrics import gaps, weighted_percentile


def statistics(name, seconds):
    ms = 1e3 * np.array(seconds)
    values = {"mean": ms.mean(), "median": np.median(ms), "std": ms.std()}
    values |= {f"p{p}": np.percentile(ms, p) for p in (90, 95, 99)}
    return {f"{key}_{name}_ms": value for key, value in values.items()}


def test_definitions(make_system):
    load = poisson(requests=30, rate=3.0, input_len=900, output_len=40, seed=2)
    load = [*load[:-1], Request(load[-1].arrival_s, 300, 1)]
    outcome = simulate(make_system(), load)
    found = metrics(outcome)

    ttft, tpot, e2el = [], [], []
    for request, first, finish in zip(load, outcome.first_token_s, outcome.finish_s, strict=True):
        latency = finish - request.arrival_s
        ttft.append(first - request.arrival_s)
        e2el.append(latency)
        if request.output_len > 1:
            tpot.append((latency - ttft[-1]) / (request.output_len - 1))
    between = np.repeat(*gaps(outcome, np.ones(30, bool)))
    assert len(between) == sum(request.output_len - 1 for request in load)
    expected = statistics("ttft", ttft) | statistics("tpot", tpot)
    expected |= statistics("e2el", e2el) | statistics("itl", between)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-9)

    duration = outcome.finish_s.max()
    inputs, outputs = 29 * 900 + 300, 29 * 40 + 1
    assert (found["completed"], found["failed"], found["rejected"]) == (30, 0, {})
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (inputs, outputs)
    assert found["duration"] == duration
    assert found["request_throughput"] == pytest.approx(30 / duration)
    assert found["output_throughput"] == pytest.approx(outputs / duration)
    assert found["total_token_throughput"] == pytest.approx((inputs + outputs) / duration)


@given(
    st.lists(st.tuples(st.floats(0, 1e3), st.integers(1, 9)), min_size=1, max_size=30),
    st.sampled_from([0, 1, 50, 90, 99, 99.9, 100]),
)
def test_weighted_percentile_is_that_of_the_repeated_values(pairs, percent):
    values, weights = map(np.array, zip(*sorted(pairs), strict=True))
    expected = np.percentile(np.repeat(values, weights), percent)
    assert weighted_percentile(values, weights, percent) == pytest.approx(expected, rel=1e-12)


def test_nothing_completed_is_all_zero_and_counted_as_failed(make_system):
    found = metrics(simulate(make_system(), [Request(0.0, 50_000, 5)]))
    assert (found["completed"], found["failed"], found["duration"]) == (0, 1, 0.0)
    assert found["mean_ttft_ms"] == found["p99_itl_ms"] == found["request_throughput"] == 0.0


def test_bytes_are_given_by_path_and_by_tier():
    traffic = Traffic(direct=1, relay=2, hbm_local=4, hbf_write=8, hbm_write=16, writeback=32)
    outcome = Outcome([], *(np.zeros(0),) * 2, {}, np.zeros(0), 0, 0.0, traffic)
    assert outcome.traffic.as_dict() == {
        "paths": {
            "direct": 1,
            "relay": 2,
            "hbm_local": 4,
            "hbf_write": 8,
            "hbm_write": 16,
            "writeback": 32,
        },
        "tiers": {"hbf_read": 3, "hbf_written": 40, "hbm_read": 36, "hbm_written": 16},
    }
