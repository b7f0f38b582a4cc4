"""All invariants in every step of random small runs; skipping equal to stepping."""

import math
from dataclasses import fields

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from perfmodel.agents.architecture import Composition, Movement
from perfmodel.agents.checked import InvariantError
from perfmodel.agents.counters import Counters
from perfmodel.scheduler import Admission, Order

TOKENS = st.integers(1, 60)
TURN = st.tuples(st.sampled_from([0.0, 1e-4, 1e-3, 0.01, 0.5]), TOKENS, st.integers(0, 30))
SESSION = st.lists(TURN, min_size=1, max_size=5)


@st.composite
def runs(draw):
    """Sessions that mostly append, a machine that holds the longest of them, and a policy."""
    sessions = []
    for turns in draw(st.lists(SESSION, min_size=1, max_size=7)):
        context, session = 0, []
        for gap_s, new, output in turns:
            prompt = new if draw(st.integers(0, 9)) == 0 else context + new
            session.append((gap_s, prompt, output))
            context = prompt + output
        sessions.append(session)
    longest = max(prompt + output for session in sessions for _, prompt, output in session)
    hbf = draw(st.sampled_from([0, 0, 40, 300]))
    hbm = draw(st.integers(max(5, longest - hbf), 2 * longest + 10))
    sizes = (hbm, hbf, draw(st.sampled_from([0, 30, 200])), draw(st.sampled_from([0, 50, 5000])))
    options = {
        "composition": draw(st.sampled_from(Composition)),
        "movement": draw(st.sampled_from(Movement)),
        "first_access_s": draw(st.sampled_from([0.0, 3e-6])),
    }
    policy = Admission(
        order=draw(st.sampled_from(Order)),
        headroom=draw(st.sampled_from([0.0, 0.1, 0.5, 0.999, 1.0])),
        budget=draw(st.sampled_from([1, 7, 16, 64, 10**6])),
        max_running=draw(st.sampled_from([1, 3, 512])),
    )
    return sessions, sizes, options, policy, draw(st.sampled_from([1, 8, None]))


def assert_equal(one, other, *, relative):
    """Equal counts, times up to a relative difference."""
    assert one.ledger == other.ledger
    for each in fields(Counters):
        a, b = getattr(one, each.name), getattr(other, each.name)
        if isinstance(a, float):
            assert math.isclose(a, b, rel_tol=relative, abs_tol=1e-15), (each.name, a, b)
        else:
            assert a == b, (each.name, a, b)


@settings(max_examples=150, phases=(Phase.explicit, Phase.generate))
@given(run=runs())
def test_invariants_hold_in_every_step_and_skipping_changes_nothing(
    run, make_machine, make_sessions, serve
):
    sessions, sizes, options, policy, granule = run
    machine, trace = make_machine(*sizes, **options), make_sessions(sessions)
    stepped = serve(machine, trace, policy, granule=granule, skip=False)
    skipped = serve(machine, trace, policy, granule=granule)
    assert_equal(stepped.counters, skipped.counters, relative=1e-12)
    assert math.isclose(stepped.clock.now, skipped.clock.now, rel_tol=1e-12)
    again = serve(machine, trace, policy, granule=granule, checked=False)
    assert_equal(skipped.counters, again.counters, relative=0.0)


def test_skipping_skips(make_machine, make_sessions, serve, monkeypatch):
    trace = make_sessions([[(0.0, 400, 300)], [(0.0, 500, 200)]])
    machine = make_machine(5000)
    calls = []
    original = type(machine).gemm_s
    monkeypatch.setattr(
        type(machine), "gemm_s", lambda *arguments: calls.append(1) or original(*arguments)
    )
    stepped = serve(machine, trace, Admission(budget=16), skip=False, checked=False)
    alone, calls[:] = len(calls), []
    skipped = serve(machine, trace, Admission(budget=16), checked=False)
    assert alone == stepped.counters.steps == skipped.counters.steps
    assert len(calls) * 10 < alone


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("entries add up", lambda e: e.store.entries[0].tokens.__setitem__(0, 3)),
        ("the ledger adds up", lambda e: e.store.ledger.add(1, 4, 2)),
        ("contexts add up", lambda e: setattr(e.batch, "reserved", e.batch.reserved + 1)),
        ("unlocked entries can", lambda e: e.store.lru[0]._heap.clear()),
        ("parts add up", lambda e: setattr(e.counters, "idle_s", 9.0)),
        ("answers are those", lambda e: setattr(e.counters, "given_tokens", 0)),
        ("every turn is completed", lambda e: e._ended.clear()),
        ("prefill computes", lambda e: setattr(e.counters, "recomputed_tokens", 1)),
    ],
)
def test_a_violation_is_found(name, damage, make_machine, make_sessions, serve):
    engine = serve(make_machine(200), make_sessions([[(0.0, 20, 5)], [(0.0, 30, 4)]]))
    damage(engine)
    with pytest.raises(InvariantError, match=name):
        engine.check_state()
        engine.check_end()


def test_a_locked_victim_is_found(make_machine, make_sessions, serve):
    engine = serve(make_machine(200), make_sessions([[(0.0, 20, 5)]]))
    entry = engine.store.entries[0]
    entry.locked = True
    with pytest.raises(InvariantError, match="no victim"):
        engine.store._sink(entry, 0, 1)
