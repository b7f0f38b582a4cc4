"""Cost of the combined weight by hand arithmetic."""

import pytest

from hw.presets import preset, topology
from perfmodel.lookahead import cost, routed_layer
from perfmodel.memory import Delivery, load_timing


def priced(model, top="dash"):
    timing = load_timing("link-limited", preset("paper"))
    return cost(routed_layer(model), Delivery(topology(top), timing))


def test_qwen3_by_hand():
    price = priced("qwen3-235b-a22b")
    # 64 heads of 128 by 128 experts in FP32; 94 layers.
    assert price.combined_bytes == 4 * 8192 * 128 == 4_194_304
    assert price.model_bytes == 94 * 4_194_304
    assert price.reread_bytes == 2 * 4096 * 128
    assert price.token_flops == 2 * 8192 * 128 + 2 * 4096 * 128 + 4096 + 128
    # Two HBM stacks behind 1.6 TB/s each, or all four links.
    assert price.read_hbm_s == pytest.approx((4_194_304 + 1_048_576) / 3.2e12)
    assert price.read_both_s == pytest.approx(4_194_304 / 6.4e12 + 1_048_576 / 3.2e12)
    assert price.first_byte_s == pytest.approx(3e-6)
    # The projection takes 67.1 MB / 6.4 TB/s = 10.5 us: longer than the latency.
    assert price.hidden_s == pytest.approx(3e-6)
    assert price.net_hbm_s == pytest.approx(3e-6 - 1.6384e-6)


def test_operations_of_folding_are_those_of_two_products():
    price = priced("mixtral-8x22b")
    assert price.fold_flops == 6144 * 8 + 2 * 6144 * 6144 * 8


def test_many_experts_behind_a_wide_attention_cost_more_than_they_hide():
    price = priced("deepseek-v2")
    assert price.combined_bytes == 4 * 128 * 128 * 160
    assert price.net_hbm_s < 0 < price.net_both_s


def test_compact_package_reads_at_half_the_rate():
    assert priced("qwen3-235b-a22b", "compact").read_hbm_s == pytest.approx(
        2 * priced("qwen3-235b-a22b").read_hbm_s
    )
