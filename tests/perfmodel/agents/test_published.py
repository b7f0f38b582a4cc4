"""What the serving paper's prose fixes exactly, and the arithmetic of energy and endurance."""

import dataclasses
import math

import pytest

from hw.errors import InputError
from perfmodel.agents import Endurance, Energy, Prices, Setup, architecture_named, serve_agents
from perfmodel.models.dense import load_dense_model
from perfmodel.models.shape import gated_mlp
from perfmodel.tiers import Tier
from perfmodel.workload import extend, replicate, synthetic_agentic

QWEN, LLAMA = load_dense_model("qwen3-32b"), load_dense_model("llama-3.1-405b")
YEAR_S = 365.25 * 24 * 3600


def rate_behind(years, capacity_bytes):
    """HBF write rate of a lifetime, found by bisection on the model."""
    low, high = 1e6, 1e12
    for _ in range(80):
        middle = (low + high) / 2
        longer = Endurance().lifetime_years(capacity_bytes, middle, 1.0) > years
        low, high = (middle, high) if longer else (low, middle)
    return low


def test_kv_bytes_and_weights_of_the_models():
    assert (QWEN.kv_token_bytes, LLAMA.kv_token_bytes) == (262_144, 516_096)
    assert QWEN.stored_bytes == 65_524_246_528  # of the published checkpoint
    assert LLAMA.stored_bytes == 2 * 405_853_388_800


def test_capacities_of_the_architectures():
    assert architecture_named("h3").hbf_bytes == 3 * 10**12
    assert architecture_named("4+4").hbf_bytes == 1500 * 10**9
    assert architecture_named("hbm-only").hbm_bytes == 192 * 10**9


def test_write_rates_behind_the_lifetime():
    assert rate_behind(14.82, architecture_named("h3").hbf_bytes) == pytest.approx(641e6, rel=2e-3)
    assert rate_behind(14.82, architecture_named("4+4").hbf_bytes) == pytest.approx(321e6, rel=2e-3)


def test_writes_that_the_ratios_of_life_and_time_imply():
    life, time = 14.82 / 1.21, 1 - 0.231
    one = Endurance().lifetime_years(1e12, 1e15, 1.0)
    written = 1e15 * time / life
    assert Endurance().lifetime_years(1e12, written, time) / one == pytest.approx(life)
    assert 100 * (time / life - 1) == pytest.approx(-93.7, abs=0.05)


def test_means_of_the_longer_trace():
    trace = synthetic_agentic(sessions=767, seed=3)
    assert trace.turns == 24_880
    assert trace.input_tokens.mean() == pytest.approx(22_558, rel=0.01)
    assert extend(trace, 5).input_tokens.mean() == pytest.approx(89_125, rel=0.01)
    assert 22_558 + 2 * 33_283.5 == 89_125


def test_gpu_space_that_a_split_of_experts_leaves():
    expert = 2 * 75 * sum(matrix.params for matrix in gated_mlp(6144, 2048))
    assert expert / 1e9 == pytest.approx(5.66, abs=0.005)
    copies = 192 * expert / 8
    others = 192e9 - 23.90e9 - copies
    assert others / 1e9 == pytest.approx(32.2, abs=0.1)  # left for weights that are no experts


def test_relative_energies_and_times_of_glm():
    h3 = 1 - 0.2109
    assert h3 * 1.3278 == pytest.approx(1.048, abs=5e-4)  # weights in HBF: above HBM-only
    split = h3 * 1.0835
    assert split == pytest.approx(0.855, abs=5e-4)
    assert split / (1 - 0.2450) == pytest.approx(1.132, abs=1e-3)
    assert pytest.approx(1.37) == 21.09 - 19.72


def test_energy_of_a_prefill_token_and_of_those_that_were_avoided():
    flops = 2 * LLAMA.gemm_params
    joules = flops * Prices().flop_pj * 1e-12
    assert 0.12 < joules < 0.15  # with attention 0.143 to 0.150
    with_attention = joules + LLAMA.pair_flops * 22_558 / 2 * Prices().flop_pj * 1e-12
    assert 0.130 < with_attention < 0.150


# Endurance and energy ---------------------------------------------------------------------------


def test_lifetime_is_capacity_times_cycles_over_rate():
    years = Endurance().lifetime_years(3e12, 2e12, 4.0)
    assert math.isclose(years, 3e12 * 100_000 / 0.5e12 / YEAR_S, rel_tol=1e-12)
    worn = Endurance(cycles=50_000, write_amplification=2.0, utilisation=0.5)
    assert math.isclose(worn.lifetime_years(3e12, 2e12, 4.0), years / 8, rel_tol=1e-12)
    assert Endurance().lifetime_years(3e12, 0, 4.0) is None


@pytest.mark.parametrize(
    "changes", [{"cycles": 0}, {"write_amplification": 0.5}, {"utilisation": 1.5}]
)
def test_endurance_out_of_range_is_named(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        Endurance(**changes)


@pytest.fixture(scope="module")
def outcome():
    trace = replicate(synthetic_agentic(seed=1), 400)
    small = dataclasses.replace(architecture_named("4+4"), hbf_stack_bytes=10**10)
    return serve_agents(trace, Setup(model=QWEN, architecture=small))


def test_energy_parts_add_up_and_are_linear_in_their_price(outcome):
    once = outcome.energy()
    assert isinstance(once, Energy)
    assert once.total_j == pytest.approx(sum(dataclasses.asdict(once).values()))
    assert once.kv_read_hbf_j > 0
    for price in dataclasses.fields(Prices):
        doubled = {price.name: 2 * getattr(Prices(), price.name)}
        removed = {price.name: 0.0}
        more = outcome.energy(dataclasses.replace(Prices(), **doubled)).total_j
        less = outcome.energy(dataclasses.replace(Prices(), **removed)).total_j
        assert more - once.total_j == pytest.approx(once.total_j - less, rel=1e-9, abs=1e-6)
    read = once.kv_read_hbf_j
    four = outcome.energy(Prices().with_hbf_reads(4.0))
    assert four.kv_read_hbf_j == pytest.approx(2 * read)
    assert four.total_j - once.total_j == pytest.approx(read)


def test_energy_is_traffic_times_price(outcome):
    counters = outcome.counters
    found = outcome.energy()
    assert found.weights_j == pytest.approx(counters.steps * QWEN.read_bytes * 8 * 3.9e-12)
    written = outcome.written_bytes(Tier.HBF)
    assert written > 0
    assert found.kv_write_hbf_j == pytest.approx(written * 8 * 100e-12)


def test_equal_seeds_give_equal_runs(outcome):
    trace = replicate(synthetic_agentic(seed=1), 400)
    again = serve_agents(trace, outcome.setup)
    assert again.values() == outcome.values()


def test_replicas_share_sessions_and_the_host():
    trace = replicate(synthetic_agentic(seed=1), 300)
    setup = Setup(model=QWEN, architecture=architecture_named("hbm-only"))
    both = serve_agents(trace, dataclasses.replace(setup, replicas=2, checked=True))
    one = serve_agents(trace, setup)
    assert both.counters.turns == one.counters.turns == 300
    assert both.counters.given_tokens == one.counters.given_tokens
    assert both.clock_s < one.clock_s
    assert both.machine.kv_bytes[3] == one.machine.kv_bytes[3] // 2
    with pytest.raises(InputError, match="replicas is 1000: must be 1 to"):
        serve_agents(trace, dataclasses.replace(setup, replicas=1000))
