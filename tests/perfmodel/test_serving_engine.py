"""The serving loop against the slow reference, and laws that hold whatever the timing."""

import numpy as np
import pytest

from hw.errors import InputError
from perfmodel.serving import POLICIES, Request, Schedule, Serial, metrics, poisson, simulate
from perfmodel.serving.metrics import gaps as gaps_of
from tests.perfmodel import reference_loop

LOAD = [
    Request(0.0, 700, 30),
    Request(0.0, 64, 1),
    Request(0.0005, 900, 40),
    Request(0.001, 5000, 10),  # beyond the context: rejected
    Request(0.0011, 2500, 25),
    Request(0.0012, 10, 200),
    Request(0.02, 300, 60),
    Request(0.021, 300, 60),
    Request(5.0, 40, 3),
]


@pytest.mark.parametrize("top", ["dash", "compact", "relay-only", "direct-only"])
@pytest.mark.parametrize(
    ("gpu", "rates"), [("h100-pcie", "link-limited"), ("h100-sxm", "measured")]
)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda policy: policy.name)
@pytest.mark.parametrize(("max_batch", "chunk"), [(3, 512), (64, 512), (64, 100)])
def test_equals_the_reference_loop(
    make_system, repackaged, measured, top, gpu, rates, policy, max_batch, chunk
):
    timing = measured if rates == "measured" else None
    # Balanced and random routing take turns, so that each meets every topology.
    routing = "iid" if (gpu == "h100-sxm") == (policy == Serial()) else "balanced"
    system = make_system("tiny", top, timing, gpu, routing=routing)
    # Small waves and a small budget make decode KV spill within this short load.
    system = repackaged(system, wave_bytes=8192, decode_kv_budget_bytes=40_000)
    limits = {"max_batch": max_batch, "token_budget": 512, "chunk": chunk}
    outcome = simulate(system, LOAD, Schedule(policy=policy, **limits))
    serial = policy == Serial()
    first, finish, gaps, moved = reference_loop.serve(system, LOAD, serial=serial, **limits)

    assert list(outcome.rejected) == [3]
    for index in range(len(LOAD)):
        if index == 3:
            assert np.isnan(outcome.finish_s[index])
            continue
        assert outcome.first_token_s[index] == pytest.approx(first[index], rel=1e-9)
        assert outcome.finish_s[index] == pytest.approx(finish[index], rel=1e-9)
    expanded = np.repeat(*gaps_of(outcome, ~np.isnan(outcome.finish_s)))
    np.testing.assert_allclose(np.sort(expanded), np.sort(gaps), rtol=1e-9)
    tiers = outcome.traffic.as_dict()["tiers"]
    assert tiers["hbm_written"] == moved.hbm_written
    assert tiers["hbf_written"] == moved.hbf_written
    # What is in both memories may come from either: only the sum is fixed.
    attention = system.model.attention
    replicated = system.model.layers * system.model.stored_bytes(attention.qkv + attention.output)
    assert tiers["hbf_read"] + tiers["hbm_read"] == (
        moved.hbf_read + moved.hbm_read + outcome.iterations * replicated
    )
    assert outcome.traffic.writeback > 0


def test_littles_law_of_decoding(make_system):
    """Token gaps, weighted by rows, sum up to the time that requests spend decoding."""
    load = poisson(requests=40, rate=2.0, input_len=600, output_len=50, seed=3)
    outcome = simulate(make_system(), load)
    in_decode = np.nansum(outcome.finish_s - outcome.first_token_s)
    gap_s, weight = gaps_of(outcome, np.ones(40, bool))
    assert (gap_s * weight).sum() == pytest.approx(in_decode, rel=1e-12)
    assert weight.sum() == 40 * 49


def test_bit_deterministic(make_system):
    load = poisson(requests=30, rate=1.0, input_len=800, output_len=40, seed=11)
    first, second = (metrics(simulate(make_system(), load)) for _ in range(2))
    assert first == second
    assert load == poisson(requests=30, rate=1.0, input_len=800, output_len=40, seed=11)
    assert load != poisson(requests=30, rate=1.0, input_len=800, output_len=40, seed=12)


def test_dash_is_never_slower_than_either_single_path(make_system):
    load = poisson(requests=25, rate=1.0, input_len=1500, output_len=60, seed=5)
    mean = {}
    for top in ("dash", "relay-only", "direct-only"):
        mean[top] = metrics(simulate(make_system(top=top), load))["mean_e2el_ms"]
    assert mean["dash"] <= min(mean["relay-only"], mean["direct-only"])


def test_a_lone_request_is_served_as_a_fixed_batch(make_system):
    from perfmodel.serving import generate

    system = make_system()
    outcome = simulate(system, [Request(2.5, 1024, 128)], Schedule(chunk=1024))
    fixed = generate(system, batch=1, input_len=1024, output_len=128)
    assert outcome.first_token_s[0] - 2.5 == pytest.approx(fixed.prefill_s, rel=1e-12)
    assert outcome.finish_s[0] - 2.5 == pytest.approx(fixed.e2e_s, rel=1e-12)
    assert outcome.traffic == fixed.traffic
    assert outcome.iterations == 128


def test_context_rejection_has_its_reason(make_system):
    outcome = simulate(make_system(), [Request(0.0, 40_000, 961), Request(0.0, 40_000, 960)])
    values = metrics(outcome)
    assert (values["completed"], values["failed"]) == (1, 1)
    assert values["rejected"] == {"input + output exceeds the context of 40960 tokens": 1}


def test_requests_wait_for_kv_room(make_system, repackaged):
    """With room for one request at a time, the second starts when the first ends."""
    system = make_system("tiny")
    sizes = system.placement
    room = 500 * sizes.kv_token_bytes + sizes.wave_bytes
    system = repackaged(
        system,
        hbf_bytes=sizes.hbf_weight_bytes + room,
        decode_kv_budget_bytes=100 * sizes.kv_token_bytes,
    )
    outcome = simulate(system, [Request(0.0, 500, 100), Request(0.0, 500, 100)])
    assert outcome.first_token_s[1] > outcome.finish_s[0]
    refused = simulate(system, [Request(0.0, 501, 100)])
    assert refused.rejected == {0: "input + output exceeds the KV room of 600 tokens"}


def test_no_request_is_an_error(make_system):
    with pytest.raises(InputError, match="requests: there are none"):
        simulate(make_system(), [])


def test_requests_out_of_order_are_an_error(make_system):
    with pytest.raises(InputError, match="requests: arrival_s goes back"):
        simulate(make_system(), LOAD[::-1])


def test_progress_ends_at_all_requests(make_system):
    seen = []
    simulate(make_system("tiny"), LOAD, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(LOAD), len(LOAD))
    assert seen == sorted(seen)
