"""Laws of batching under every policy: nothing lost, no limit passed, chunks and turns kept."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.errors import InputError
from perfmodel.serving import (
    POLICIES,
    Mixed,
    Request,
    Schedule,
    Serial,
    generate,
    policy_named,
    simulate,
)
from perfmodel.serving.metrics import gaps
from perfmodel.serving.passes import PassModel
from perfmodel.serving.schedule import Part

POLICY = st.sampled_from(list(POLICIES.values()))
LOADS = st.lists(
    st.tuples(st.floats(0, 3e-3), st.integers(1, 900), st.integers(1, 30)), min_size=1, max_size=12
)


class Recorder(PassModel):
    """Keeps what every stretch worked on, and its answer."""

    def __init__(self, system):
        super().__init__(system)
        self.seen, self.stretches = [], []

    def stretch(self, batch, passes=1, spilled_bytes=0):
        self.seen.append((batch, passes))
        self.stretches.append(super().stretch(batch, passes, spilled_bytes))
        return self.stretches[-1]


@settings(deadline=None, max_examples=60)
@given(POLICY, LOADS, st.integers(1, 9), st.integers(0, 60), st.integers(1, 200))
def test_laws(tiny_system, policy, load, max_batch, room, chunk):
    at, requests = 0.0, []
    for gap, input_len, output_len in load:
        at += gap
        requests.append(Request(at, input_len, output_len))
    schedule = Schedule(
        policy=policy, max_batch=max_batch, token_budget=max_batch + 1 + room, chunk=chunk
    )
    recorder = Recorder(tiny_system)
    outcome = simulate(tiny_system, requests, schedule, passes=recorder)
    batches = [batch for batch, _ in recorder.seen]

    # Every prompt token is processed once, every pair of a causal prompt is computed once.
    assert sum(b.prefill_rows for b in batches) == sum(r.input_len for r in requests)
    causal = sum(r.input_len * (r.input_len + 1) // 2 for r in requests)
    assert sum(b.prefill_pairs for b in batches) == causal
    # Every output token beside the first has its gap, and the first is sampled in a prompt's end.
    gap_s, weight = gaps(outcome, np.ones(len(requests), bool))
    assert weight.sum() == sum(r.output_len - 1 for r in requests)
    assert sum(b.samples - b.decode_rows for b in batches) == len(requests)
    assert (gap_s > 0).all()

    for batch in batches:
        assert batch.decode_rows + batch.prefill_rows <= schedule.token_budget
        assert batch.decode_rows <= max_batch
        assert batch.prefill_rows <= chunk * (max_batch - batch.decode_rows)
        if policy == Serial():
            assert not (batch.decode_rows and batch.prefill_rows)

    arrivals = np.array([r.arrival_s for r in requests])
    assert (arrivals < outcome.first_token_s).all()
    assert (outcome.first_token_s <= outcome.finish_s).all()
    assert (np.diff(outcome.step_s) > 0).all()
    # First come, first served: of equal length, who comes first is done first.
    done = {}
    for index, request in enumerate(requests):
        key = request.input_len
        assert outcome.first_token_s[index] >= done.get(key, 0.0)
        done[key] = outcome.first_token_s[index]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda policy: policy.name)
@pytest.mark.parametrize(("chunk", "budget"), [(1, 8), (7, 8), (100, 8), (50, 64), (64, 1000)])
def test_a_lone_prompt_takes_as_many_passes_as_it_has_chunks(tiny_system, policy, chunk, budget):
    schedule = Schedule(policy=policy, max_batch=4, token_budget=budget, chunk=chunk)
    outcome = simulate(tiny_system, [Request(0.0, 200, 5)], schedule)
    assert outcome.iterations == -(-200 // min(chunk, budget)) + 4


def test_one_chunk_of_each_prompt_shares_a_pass(tiny_system):
    """Three prompts of two chunks: two passes, not six."""
    recorder = Recorder(tiny_system)
    schedule = Schedule(max_batch=4, token_budget=400, chunk=100)
    simulate(tiny_system, [Request(0.0, 200, 1)] * 3, schedule, passes=recorder)
    assert [batch.prefill_rows for batch, _ in recorder.seen] == [300, 300]
    assert [batch.samples for batch, _ in recorder.seen] == [0, 3]


def test_decode_rows_come_first_out_of_the_budget(tiny_system):
    """Five rows decode, so that of a budget of 20 a new prompt gets 15; also in Serial."""
    for policy in POLICIES.values():
        recorder = Recorder(tiny_system)
        schedule = Schedule(policy=policy, max_batch=6, token_budget=20, chunk=20)
        load = [Request(0.0, 4, 50)] * 5 + [Request(1e-9, 60, 1)]
        simulate(tiny_system, load, schedule, passes=recorder)
        prompts = [b.prefill_rows for b, _ in recorder.seen if b.prefill_rows]
        assert prompts == [20, 15, 15, 15, 15]


def test_serial_takes_turns_and_mixed_does_not(tiny_system):
    load = [Request(0.0, 50, 100), Request(1e-6, 400, 1)]
    kinds = {}
    for policy in POLICIES.values():
        recorder = Recorder(tiny_system)
        simulate(tiny_system, load, Schedule(policy=policy, chunk=50), passes=recorder)
        kinds[policy.name] = "".join(
            "m" if b.decode_rows and b.prefill_rows else "d" if b.decode_rows else "p"
            for b, _ in recorder.seen
        )
    assert kinds["mixed"].startswith("p" + "m" * 8 + "d")
    assert kinds["serial"].startswith("p" + "dp" * 8 + "d")


def test_a_pass_without_decode_reads_no_decode_kv(tiny_system, repackaged):
    """Beside a decoding request whose KV has left HBM, prefill moves what it moves on its own."""
    system = repackaged(tiny_system, wave_bytes=8192, decode_kv_budget_bytes=40_000)
    schedule = Schedule(policy=Serial())
    long = Request(0.0, 50, 200)
    late = simulate(system, [long], schedule).step_s[150]
    recorder, alone = Recorder(system), Recorder(system)
    outcome = simulate(system, [long, Request(late, 80, 1)], schedule, passes=recorder)
    simulate(system, [Request(0.0, 80, 1)], schedule, passes=alone)
    (between,) = (n for n, (batch, _) in enumerate(recorder.seen) if batch.prefill_rows == 80)
    assert recorder.seen[between][0] == alone.seen[0][0]
    assert recorder.stretches[between - 1].spilled_bytes[-1] > 0
    ours, own = recorder.stretches[between], alone.stretches[0]
    assert ours.seconds == own.seconds
    assert ours.traffic(1) == own.traffic(1)
    # And what had moved stays where it is.
    assert outcome.traffic.writeback == simulate(system, [long], schedule).traffic.writeback


def test_without_prompts_policies_do_not_differ(tiny_system):
    """All prompts fit one pass, so that only decode follows."""
    load = [Request(0.0, 20, n) for n in (1, 5, 9)]
    found = [simulate(tiny_system, load, Schedule(policy=p)).finish_s for p in POLICIES.values()]
    assert np.array_equal(*found)


def test_any_policy_can_be_plugged_in(tiny_system):
    """Prefill before decode, as long as there are prompts: no decode step before the last."""

    @dataclasses.dataclass(frozen=True)
    class PrefillFirst:
        name: str = "prefill-first"

        def parts(self, decoded_last):
            return Part.PREFILL

    load = [Request(0.0, 50, 9), Request(1e-6, 400, 3)]
    outcome = simulate(tiny_system, load, Schedule(policy=PrefillFirst(), chunk=50))
    assert outcome.step_s[0] > outcome.first_token_s.max()
    assert len(outcome.step_s) == 8


def test_passes_can_be_shared_by_runs_of_their_system_alone(make_system, tiny_system):
    passes = PassModel(tiny_system)
    load = [Request(0.0, 100, 5)]
    first, second = (simulate(tiny_system, load, passes=passes).finish_s for _ in range(2))
    assert first == second == simulate(tiny_system, load).finish_s
    with pytest.raises(ValueError, match="passes are of another system"):
        simulate(make_system("tiny"), load, passes=passes)


def test_default_schedule_is_that_of_the_paper():
    assert Schedule().as_dict() == {
        "policy": "mixed",
        "max_batch": 32,
        "token_budget": 8192,
        "chunk": 512,
    }


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_batch": 0}, "max-batch is 0: must be 1 to 8191"),
        ({"max_batch": 8192}, "max-batch is 8192: must be 1 to 8191"),
        ({"max_batch": 4, "token_budget": 4}, "max-batch is 4: must be 1 to 3"),
        ({"chunk": 0}, "chunk is 0: must be at least 1"),
    ],
)
def test_limits_are_checked(limits, message):
    with pytest.raises(InputError, match=message):
        Schedule(**limits)


def test_unknown_policy():
    assert policy_named("mixed") == Mixed()
    with pytest.raises(InputError, match="policy 'fifo' is unknown: choose mixed, serial"):
        policy_named("fifo")


def test_a_backlog_of_single_requests_is_served_at_the_rate_of_a_fixed_batch(tiny_system):
    """With one request at a time, the rate is one over the time of a batch of one."""
    from perfmodel.serving import Workload

    work = Workload(input_len=100, output_len=20, warmup=2, measured=5)
    found = work.backlogged_rate(PassModel(tiny_system), Schedule(max_batch=1, token_budget=512))
    alone = generate(tiny_system, batch=1, input_len=100, output_len=20)
    assert found == pytest.approx(1 / alone.e2e_s, rel=1e-9)
