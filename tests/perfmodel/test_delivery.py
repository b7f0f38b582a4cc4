"""Delivery against exhaustive search, and the placement it rests on."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.errors import InputError
from hw.presets import TOPOLOGIES, preset, topology
from perfmodel.memory import Delivery, link_limited, place
from perfmodel.models import load_model
from perfmodel.system import build_system
from tests.perfmodel import reference
from tests.perfmodel.conftest import MEASURED

LINK_LIMITED = link_limited(preset("paper"))


def paths_of(delivery):
    timing = delivery.timing
    return {
        "rates": (delivery.direct_rate, delivery.relay_rate),
        "dual": delivery.hbf_rate,
        "gaps": (timing.direct.request_gap_s, timing.relay.request_gap_s),
        "starts": (timing.direct.first_byte_s, timing.relay.first_byte_s),
    }


@pytest.mark.parametrize("top", TOPOLOGIES)
@pytest.mark.parametrize("timing", [LINK_LIMITED, MEASURED], ids=lambda timing: timing.label)
@pytest.mark.parametrize("shared", [0, 20_000_000, 47_000_000])
def test_experts_are_assigned_as_well_as_any_assignment(top, timing, shared):
    delivery = Delivery(topology(top), timing)
    for count in range(1, 8):
        found = delivery.experts(count, 37_748_736, shared, hidden_s=0.0)
        items = [37_748_736] * count + ([shared] if shared else [])
        best = reference.best_assignment(items, **paths_of(delivery))
        assert found.seconds == pytest.approx(best, rel=1e-9)
        assert found.traffic.hbf_read == sum(items)
        assert found.direct_experts + found.relay_experts == len(items)


def test_paths_that_start_apart():
    slow = dataclasses.replace(MEASURED.relay, first_byte_s=9e-6)
    delivery = Delivery(topology("dash"), dataclasses.replace(MEASURED, relay=slow))
    for count in range(1, 7):
        found = delivery.experts(count, 1_000_000, 0, hidden_s=0.0)
        best = reference.best_assignment([1_000_000] * count, **paths_of(delivery))
        assert found.seconds == pytest.approx(best, rel=1e-9)


def test_hand_arithmetic():
    """32 experts of 36 MiB: 16 on each of two routes of 3.2 TB/s, after tR."""
    found = Delivery(topology("dash"), LINK_LIMITED).experts(32, 37_748_736, 0, hidden_s=0.0)
    assert found.transfer_s == pytest.approx(16 * 37_748_736 / 3.2e12)
    assert found.start_s == pytest.approx(3e-6)
    assert (found.direct_experts, found.relay_experts) == (16, 16)
    hidden = Delivery(topology("dash"), LINK_LIMITED).experts(32, 37_748_736, 0, hidden_s=2e-6)
    assert hidden.start_s == pytest.approx(1e-6)


def test_an_odd_expert_costs_a_whole_one():
    delivery = Delivery(topology("dash"), LINK_LIMITED)
    assert delivery.experts(5, 1000, 0, 0.0).transfer_s == pytest.approx(3000 / 3.2e12)


@settings(deadline=None)
@given(
    st.integers(0, 10**11),
    st.integers(0, 10**11),
    st.sampled_from(sorted(TOPOLOGIES)),
    st.sampled_from([LINK_LIMITED, MEASURED]),
)
def test_divisible_reads_meet_every_limit_and_one_exactly(hbf, hbm, top, timing):
    delivery = Delivery(topology(top), timing)
    seconds, direct = delivery.read(np.array([hbf]), np.array([hbm]))
    time, direct_bytes = float(seconds[0]), int(direct[0])
    relay_bytes = hbf - direct_bytes
    assert 0 <= direct_bytes <= hbf
    use = {
        "direct": direct_bytes - time * delivery.direct_rate,
        "relay": relay_bytes - time * delivery.relay_rate,
        "stack": hbf - time * delivery.hbf_rate,
        "link B": relay_bytes + hbm - time * delivery.link_b_rate,
        "HBM": hbm - time * delivery.hbm_rate,
    }
    assert max(use.values()) <= 1 + 1e-9 * (hbf + hbm)  # within a byte of rounding
    # Faster is impossible: with less time, some resource would be short even when all help.
    if hbf + hbm:
        less = 0.999 * time
        most_hbf = min(
            delivery.hbf_rate * less,
            delivery.direct_rate * less
            + min(delivery.relay_rate * less, delivery.link_b_rate * less - hbm),
        )
        assert most_hbf < hbf or hbm > delivery.hbm_rate * less


@pytest.mark.parametrize("top", TOPOLOGIES)
@pytest.mark.parametrize("timing", [LINK_LIMITED, MEASURED], ids=lambda timing: timing.label)
def test_replicas_are_read_from_both_as_fast_as_any_split(top, timing):
    delivery = Delivery(topology(top), timing)
    size = 10**9
    seconds, traffic = delivery.replicated(size)
    assert traffic.hbf_read + traffic.hbm_local == size
    shares = np.linspace(0, size, 20_001).astype(np.int64)
    best = delivery.read(shares, size - shares)[0].min()
    assert seconds == pytest.approx(best, rel=1e-3)
    assert seconds <= best * (1 + 1e-9)
    assert traffic.direct <= seconds * delivery.direct_rate + 1
    assert traffic.relay <= seconds * delivery.relay_rate + 1


def test_replica_rates_of_the_paper():
    """6.4 TB/s where both links reach the GPU on two pairs, 3.2 TB/s otherwise (link-limited)."""
    rates = {
        top: 10**12 / Delivery(topology(top), LINK_LIMITED).replicated(10**12)[0] / 1e12
        for top in TOPOLOGIES
    }
    assert rates == pytest.approx(
        {"dash": 6.4, "compact": 3.2, "relay-only": 3.2, "direct-only": 6.4}
    )


def test_a_dual_rate_below_that_of_one_path_does_no_harm():
    weak = dataclasses.replace(LINK_LIMITED, dual_bytes_per_s=1.5e12)
    dash, single = (Delivery(topology(top), weak) for top in ("dash", "direct-only"))
    for count in range(1, 9):
        found = dash.experts(count, 10**7, 0, 0.0).seconds
        assert found <= single.experts(count, 10**7, 0, 0.0).seconds * (1 + 1e-12)
    assert dash.from_hbf(10**9)[0] <= single.from_hbf(10**9)[0]


def test_more_of_anything_is_never_slower(faster_links):
    for top, count in itertools.product(TOPOLOGIES, range(1, 20)):
        slow = Delivery(topology(top), LINK_LIMITED).experts(count, 10**7, 0, 0.0)
        fast = Delivery(topology(top), faster_links).experts(count, 10**7, 0, 0.0)
        assert fast.seconds <= slow.seconds


def test_placement_of_qwen3_is_the_checkpoint():
    model = load_model("qwen3-235b-a22b")
    package = place(model, topology("dash"), preset("paper"))
    attention = 13_404_995_584
    assert package.hbf_weight_bytes + package.hbm_weight_bytes == model.total_bytes + attention
    assert package.hbm_weight_bytes == attention + 2 * 1_244_659_712 + 98_566_144 + 1_596_416
    assert package.decode_kv_budget_bytes == 48 * 10**9 - package.hbm_weight_bytes
    assert package.hbf_bytes == 2 * 512 * 2**30
    assert package.wave_bytes == 16 * 2**20


def test_shards_share_weights_and_grouped_heads():
    model = load_model("qwen3-235b-a22b")
    one, four, eight = (
        place(model, topology("dash"), preset("paper"), gpus=gpus) for gpus in (1, 4, 8)
    )
    assert four.hbf_weight_bytes == one.hbf_weight_bytes / 4
    assert four.kv_token_bytes == one.kv_token_bytes / 4
    assert eight.kv_token_bytes == four.kv_token_bytes  # four KV heads: two GPUs share each
    latent = load_model("deepseek-v2")
    kv = [place(latent, topology("dash"), preset("paper"), gpus=n).kv_token_bytes for n in (1, 8)]
    assert kv[0] == kv[1]


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("llama4-maverick", {"topology_name": "compact"}, "needs 797.3 GB of HBF"),
        ("deepseek-v3", {"topology_name": "compact"}, "topology 'compact' has 549.8 GB"),
        (
            "deepseek-v2",
            {"topology_name": "dash", "decode_kv_budget_bytes": 1000},
            "needs at least one page wave",
        ),
        ("deepseek-v2", {"topology_name": "dash", "tp": 3}, "tp is 3: must be 1 to 8 and divide"),
    ],
)
def test_what_does_not_fit_is_refused(model, options, message):
    with pytest.raises(InputError, match=message):
        build_system(model=model, **options)
    assert build_system(model="llama4-maverick", topology_name="compact", tp=2)
