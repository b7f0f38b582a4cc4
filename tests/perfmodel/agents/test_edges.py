"""Edge cases of serving agents, all under the checks of every step."""

import dataclasses

import pytest

from hw.errors import InputError
from perfmodel.agents import Setup, WeightTier, architecture_named, serve_agents
from perfmodel.agents.architecture import Composition, Movement
from perfmodel.models.dense import load_dense_model
from perfmodel.scheduler import Admission, Order
from perfmodel.tiers import NOWHERE, Tier

LONG = [[(0.0, 50, 40), (0.01, 100, 30)], [(0.0, 60, 20), (0.0, 90, 50)], [(0.0, 70, 10)]]


def test_a_context_larger_than_the_device_is_refused_before_the_run(
    make_machine, make_sessions, serve
):
    trace = make_sessions([[(0.0, 10, 2)], [(0.0, 90, 12)]])
    with pytest.raises(InputError, match=r"turn 1 has a context of 101 tokens.* hold 100 tokens"):
        serve(make_machine(100), trace)
    with pytest.raises(InputError, match="hold 100 tokens"):
        serve(make_machine(60, 40), trace)
    assert serve(make_machine(101), trace).counters.turns == 2


def test_with_hbf_a_context_larger_than_hbm_completes(make_machine, make_sessions, serve):
    engine = serve(make_machine(40, 300), make_sessions(LONG))
    assert engine.counters.ledger.written(Tier.HBF) > 0
    assert engine.counters.read_hbf_tokens > 0


def test_absent_hbf_changes_nothing(make_machine, make_sessions, serve):
    trace = make_sessions(LONG)
    runs = [serve(make_machine(160, 0, 50, 500, composition=how), trace) for how in Composition]
    assert runs[0].counters == runs[1].counters
    assert runs[0].clock.now == runs[1].clock.now
    h3 = dataclasses.replace(architecture_named("h3"), hbf_stacks=0, name="hbm-only")
    outcomes = [
        serve_agents(trace, Setup(model=load_dense_model("qwen3-32b"), architecture=arch))
        for arch in (architecture_named("hbm-only"), h3, architecture_named("8+0"))
    ]
    assert outcomes[0].counters == outcomes[1].counters == outcomes[2].counters
    assert outcomes[0].energy() == outcomes[1].energy()


def test_turns_without_answer_and_of_one_token(make_machine, make_sessions, serve):
    trace = make_sessions([[(0.0, 10, 0), (0.0, 20, 1), (0.0, 30, 0)], [(0.0, 5, 1)]])
    counters = serve(make_machine(200), trace).counters
    assert (counters.turns, counters.given_tokens, counters.tpot_turns) == (4, 2, 0)
    assert counters.decode_tokens == 0


def test_a_prompt_that_is_cached_whole_computes_its_last_token_again(
    make_machine, make_sessions, serve
):
    counters = serve(make_machine(200), make_sessions([[(0.0, 10, 0), (0.0, 10, 3)]])).counters
    assert (counters.hit_device_tokens, counters.computed_tokens) == (9, 11)
    assert counters.ledger.moved[Tier.HBM][NOWHERE] == 1  # no second copy


def test_a_rewritten_history_is_dropped(make_machine, make_sessions, serve):
    counters = serve(make_machine(200), make_sessions([[(0.0, 50, 5), (0.0, 20, 5)]])).counters
    assert counters.hit_device_tokens == 0
    assert counters.ledger.discarded == 54


@pytest.mark.parametrize("budget", [1, 16, 10**6])
def test_any_budget_completes(budget, make_machine, make_sessions, serve):
    counters = serve(make_machine(200), make_sessions(LONG), Admission(budget=budget)).counters
    assert counters.prefill_tokens == counters.computed_tokens + counters.recomputed_tokens


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 0}, "budget is 0: must be at least 1"),
        ({"max_running": 0}, "max_running is 0: must be at least 1"),
        ({"headroom": 1.5}, "headroom is 1.5: must be 0 to 1"),
        ({"headroom": float("nan")}, "headroom is nan"),
    ],
)
def test_policies_out_of_range_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        Admission(**changes)


@pytest.mark.parametrize("headroom", [0.999, 1.0])
def test_full_headroom_runs_one_request_at_a_time(headroom, make_machine, make_sessions, serve):
    trace = make_sessions([[(0.0, 50, 9)], [(0.0, 50, 9)], [(0.0, 50, 9)]])
    alone = serve(make_machine(400), trace, Admission(headroom=headroom))
    together = serve(make_machine(400), trace, Admission(headroom=0.0))
    assert alone.counters.steps == 3 * 9
    assert together.clock.now < alone.clock.now


def test_without_a_host_tokens_are_discarded_and_computed_again(make_machine, make_sessions, serve):
    trace = make_sessions(LONG)
    counters = serve(make_machine(140), trace, Admission(headroom=0.0)).counters
    assert counters.hit_host_tokens == counters.ledger.to_host == 0
    assert counters.computed_tokens > sum(trace.input_tokens - trace.prefix_tokens)


def test_without_dram_the_ssd_takes_what_leaves_and_a_full_one_discards(
    make_machine, make_sessions, serve
):
    trace, policy = make_sessions(LONG), Admission(headroom=0.0)
    moved = serve(make_machine(140, 0, 0, 5000), trace, policy).counters.ledger.moved
    assert moved[Tier.HBM][Tier.SSD] > 0
    assert moved[Tier.HBM][NOWHERE] == moved[Tier.SSD][NOWHERE] == 0
    full = serve(make_machine(140, 0, 10, 10), trace, policy).counters.ledger
    assert full.moved[Tier.DRAM][Tier.SSD] > 0
    assert full.between((Tier.DRAM, Tier.SSD), (NOWHERE,)) > 0


def test_decode_overflow_preempts_the_youngest_which_goes_on_later(
    make_machine, make_sessions, serve
):
    trace = make_sessions([[(0.0, 20, 60)], [(0.0, 20, 60)], [(0.0, 20, 60)]])
    counters = serve(make_machine(100), trace, Admission(headroom=0.0)).counters
    assert counters.preemptions > 0
    assert counters.recomputed_tokens > 0  # no host: its KV was lost
    assert counters.input_tokens == 60
    kept = serve(make_machine(100, 0, 500), trace, Admission(headroom=0.0)).counters
    assert kept.preemptions > 0 and kept.recomputed_tokens == 0


def test_a_device_without_pressure_moves_nothing_and_hits_the_same_under_all_policies(
    make_machine, make_sessions, serve
):
    trace = make_sessions(LONG)
    runs = [
        serve(make_machine(10**6, 100, 100), trace, Admission(order=order, headroom=headroom))
        for order in Order
        for headroom in (0.0, 0.1)
    ]
    # The last token of an answer has no KV.
    hits = int((trace.prefix_tokens - (trace.prefix_tokens > 0)).sum())
    for engine in runs:
        assert engine.counters.hit_device_tokens == hits
        assert engine.counters.movement_s == engine.counters.preemptions == 0
        assert engine.counters.ledger.written(Tier.HBF) == 0


def test_faster_hardware_is_never_slower_without_gaps(make_machine, make_sessions, serve):
    trace = make_sessions([[(0.0, 50, 40), (0.0, 100, 30)], [(0.0, 60, 20), (0.0, 90, 50)]])
    for movement in Movement:
        slow = serve(make_machine(150, 200, 50, 900, movement=movement), trace)
        machine = make_machine(150, 200, 50, 900, movement=movement)
        arch = machine.architecture
        rates = {
            name: 2 * getattr(arch, name)
            for name in ("hbm_bytes_per_s", "hbf_bytes_per_s", "hbf_write_bytes_per_s")
        }
        host = dataclasses.replace(
            arch.host,
            pcie_bytes_per_s=2 * arch.host.pcie_bytes_per_s,
            dram_channel_bytes_per_s=2 * arch.host.dram_channel_bytes_per_s,
            ssd_bytes_per_s=2 * arch.host.ssd_bytes_per_s,
        )
        fast = dataclasses.replace(
            machine, architecture=dataclasses.replace(arch, host=host, **rates)
        )
        assert serve(fast, trace).clock.now <= slow.clock.now


def test_exposed_access_time_costs_time(make_machine, make_sessions, serve):
    hidden = serve(make_machine(40, 300), make_sessions(LONG))
    exposed = serve(make_machine(40, 300, first_access_s=1e-3), make_sessions(LONG))
    assert exposed.clock.now > hidden.clock.now


def test_models_that_do_not_fit_are_named():
    model = load_dense_model("llama-3.1-405b")
    setup = Setup(model=model, architecture=architecture_named("hbm-only"))
    with pytest.raises(InputError, match=r"811\.\d GB of weights: HBM .* 192\.0 GB; use more"):
        _ = setup.machine
    in_hbf = dataclasses.replace(
        setup, weights=WeightTier.HBF, architecture=architecture_named("4+4")
    )
    assert in_hbf.machine.kv_bytes[Tier.HBF] == 4 * 375 * 10**9 - model.stored_bytes
    with pytest.raises(InputError, match="gpus is 3: must divide the 8 KV heads"):
        _ = dataclasses.replace(setup, gpus=3).machine
    with pytest.raises(InputError, match=r"architecture 'h4' is unknown: choose hbm-only, h3"):
        architecture_named("h4")
