"""Placement of experts: what lies where, and the load model against counting page by page."""

import itertools
import random

import numpy as np
import pytest

from hw.address_map import AddressMap, Run
from hw.errors import InputError
from hw.params import Sensing
from hw.presets import preset
from perfmodel.memory.striping import (
    POLICIES,
    Layout,
    StoredExpert,
    as_given,
    choose_copies,
    dealt,
    expert_pages,
    lay_out,
    losses,
    random_sets,
    read_bound,
    runs_of,
)
from perfmodel.models import load_model

MINI, PAPER = preset("mini"), preset("paper")
AT = AddressMap(MINI.geometry)
WAVE = 128
SIZES = [288, 128, 256, 100, 200, 37, 336]  # 288 is 2.25 waves, as an expert of Qwen3 at full size


def pages(runs):
    return [p for first, n in runs for p in range(first, first + n)]


def test_expert_of_qwen3_is_36_mib():
    model = load_model("qwen3-235b-a22b")
    assert model.expert_bytes == 3 * 4096 * 1536 * 2 == 36 * 2**20
    assert expert_pages(model, PAPER, 2) == 4608
    assert expert_pages(model, PAPER, 2) / PAPER.geometry.wave_pages == 2.25


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_page_has_two_experts_and_all_lie_in_the_rows(policy, size):
    layout = lay_out(policy, AT, experts=20, pages=size, first_row=7)
    taken = []
    for expert in layout.experts:
        for copy in range(max(1, len(expert.tails))):
            assert sum(run.pages for run in expert.runs(copy)) == size
        taken += pages((*expert.body, *expert.tails))
    assert len(set(taken)) == len(taken)
    assert min(taken) >= 7 * WAVE and max(taken) < (7 + layout.rows) * WAVE
    assert layout.spare == pytest.approx(layout.rows * WAVE / (20 * size) - 1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", POLICIES)
def test_any_expert_is_spread_as_evenly_as_can_be(policy, size):
    """A page more on one subarray than on another, never two (DASH section V-A2)."""
    for expert in lay_out(policy, AT, experts=20, pages=size).experts:
        for copy in range(max(1, len(expert.tails))):
            columns = np.bincount(np.array(pages(expert.runs(copy))) % WAVE, minlength=WAVE)
            assert columns.max() - columns.min() <= 1


def test_spare_of_the_policies():
    spare = {policy: lay_out(policy, AT, experts=40, pages=288).spare for policy in POLICIES}
    assert spare["packed"] == spare["shelved"] == 0
    assert spare["aligned"] == pytest.approx(3 / 2.25 - 1)
    assert spare["two-choice"] == pytest.approx(0.25 / 2.25)  # a second copy of every tail


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", POLICIES)
def test_loss_is_what_counting_pages_of_subarrays_gives(policy, seed):
    layout = lay_out(policy, AT, experts=40, pages=288)
    picks = random_sets(40, 8, 5, seed)
    for picked, loss in zip(picks.tolist(), losses(layout, MINI, picks, 2), strict=True):
        asked = [0] * WAVE
        for runs in runs_of(layout, picked):
            for page in pages(runs):
                asked[page % WAVE] += 1
        assert sum(asked) == 8 * 288
        # Both paths: the array is what limits, so time is the most asked subarray's.
        assert loss == pytest.approx(1 - 18 / max(asked))


def test_all_from_plane_zero_lose_a_quarter_whatever_is_picked():
    layout = lay_out("aligned", AT, experts=40, pages=288)
    for count in (1, 8, 32):
        assert losses(layout, MINI, random_sets(40, count, 20, 1), 2) == pytest.approx(0.25)


def test_consecutive_packed_experts_lose_nothing():
    layout = lay_out("packed", AT, experts=40, pages=288)
    for first in range(0, 33, 4):
        assert losses(layout, MINI, np.array([range(first, first + 8)]), 2)[0] == 0


def test_one_path_waits_for_its_link_only():
    layout = lay_out("aligned", AT, experts=40, pages=288)
    assert (losses(layout, MINI, random_sets(40, 8, 20, 1), 1) == 0).all()


@pytest.mark.parametrize("seed", range(10))
def test_copies_are_chosen_as_well_as_trying_all_choices(seed):
    pick = random.Random(seed)
    layout = lay_out("two-choice", AT, experts=48, pages=288)
    picked = pick.sample(range(48), 9)

    def most(copies):
        runs = [r for k, c in zip(picked, copies, strict=True) for r in layout.experts[k].runs(c)]
        return AT.load(runs).max()

    best = min(map(most, itertools.product((0, 1), repeat=9)))
    assert most(choose_copies(layout, picked)) == best


def test_copies_that_need_a_chain_of_changes():
    """Two at A: neither can leave but by way of B, whose own has to go to C."""
    a, b, c = Run(0, 32), Run(32, 32), Run(64, 32)
    stored = [((), (a,)), ((), (a, b)), ((), (b, c))]
    layout = Layout(
        policy="made up", map=AT, experts=tuple(StoredExpert(*e) for e in stored), rows=1
    )
    assert choose_copies(layout, [0, 1, 2]) == [0, 1, 1]


@pytest.mark.parametrize("policy", POLICIES)
def test_pairs_of_places_are_all_used(policy):
    layout = lay_out(policy, AT, experts=48, pages=288)
    places = [frozenset(t.first % WAVE for t in e.tails) for e in layout.experts]
    if policy == "two-choice":  # each pair of four places as often as any other
        assert {places.count(pair) for pair in set(places)} == {8}
        assert len(set(places)) == 6


@pytest.mark.parametrize("paths", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_dealt_tails_of_a_path_fill_waves(seed, paths):
    layout = lay_out("two-choice", AT, experts=48, pages=288)
    picked = random_sets(48, 16, 1, seed)[0].tolist()
    reading = dealt(layout, picked, paths)
    assert reading.group == 4
    assert sorted(reading.experts) == sorted(picked)
    given = as_given(layout, picked)
    assert dict(zip(reading.experts, reading.runs, strict=True)) == dict(
        zip(given.experts, given.runs, strict=True)
    )
    for path in range(paths):  # experts take the paths in turn
        places = [runs[-1].first % WAVE for runs in reading.runs[path::paths]]
        full = [places[k : k + 4] for k in range(0, len(places) // 4 * 4, 4)]
        assert all(sorted(of_group) == [0, 32, 64, 96] for of_group in full[:-1]), f"seed {seed}"


def test_bound_names_what_limits():
    even = np.full(WAVE, 3)
    bound = read_bound(MINI, even, 2)
    assert bound.sense_s == pytest.approx(3 * 187.5e-9)
    assert bound.tsv_s == pytest.approx(3 * WAVE * 256 / 200e9)
    assert bound.link_s == pytest.approx(3 * WAVE * 256 / 200e9)
    assert (bound.seconds, bound.loss) == (bound.sense_s, 0)
    one_die = even.copy()
    one_die[::4] += 20  # pages of die 0
    slow = read_bound(MINI.with_registers(t_read_us=0.001), one_die, 2)
    assert slow.seconds == slow.tsv_s == pytest.approx(32 * 23 * 256 / 50e9)
    bare = read_bound(MINI.with_registers(cache_read=False), even, 2)
    assert bare.sense_s == pytest.approx(3 * (187.5e-9 + 256 / 50e9))


def test_random_sets_are_different_experts_and_repeat():
    sets = random_sets(128, 8, 500, 3)
    assert sets.shape == (500, 8)
    assert all(len(set(row)) == 8 for row in sets.tolist())
    assert np.array_equal(sets, random_sets(128, 8, 500, 3))
    assert not np.array_equal(sets, random_sets(128, 8, 500, 4))
    counts = np.bincount(random_sets(128, 8, 4000, 3).ravel(), minlength=128)
    assert counts.mean() == 250 and counts.std() < 25  # 15.3 for equally likely ones


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: lay_out("best", AT, experts=1, pages=1),
            "policy 'best' is unknown: choose packed",
        ),
        (lambda: lay_out("packed", AT, experts=0, pages=1), "experts is 0"),
        (lambda: lay_out("packed", AT, experts=1, pages=-4), "pages is -4"),
        (lambda: lay_out("aligned", AT, experts=100, pages=288), "first_row is 0: 100 experts"),
        (lambda: lay_out("packed", AT, experts=1, pages=1, first_row=256), "first_row is 256"),
        (lambda: random_sets(8, 9, 1, 1), "count is 9: must be 1 to 8"),
        (
            lambda: read_bound(MINI.with_registers(sensing=Sensing.LOCKSTEP), np.ones(128), 2),
            "sensing is 'lockstep'",
        ),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
