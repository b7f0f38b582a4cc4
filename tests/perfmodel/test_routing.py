"""How many experts rows touch: against enumeration, closed forms and draws."""

import itertools
from collections import Counter

import numpy as np
import pytest

from hw.errors import InputError
from perfmodel.models.routing import touched_experts
from perfmodel.serving.passes import PassModel
from perfmodel.system import build_system
from tests.perfmodel import reference


@pytest.mark.parametrize(
    ("experts", "top_k", "rows"), [(4, 1, 4), (4, 2, 3), (5, 2, 3), (5, 4, 2), (3, 3, 2), (6, 3, 2)]
)
def test_iid_is_the_count_of_all_choices(experts, top_k, rows):
    choices = list(itertools.combinations(range(experts), top_k))
    counts = Counter(
        len(set(itertools.chain(*drawn))) for drawn in itertools.product(choices, repeat=rows)
    )
    found = touched_experts("iid", experts, top_k)(rows)
    assert dict(found) == pytest.approx({n: c / len(choices) ** rows for n, c in counts.items()})


@pytest.mark.parametrize("rows", [1, 4, 16, 37, 200, 8192])
def test_iid_of_qwen3_has_the_known_mean(rows):
    found = touched_experts("iid", 128, 8)(rows)
    assert sum(chance for _, chance in found) == pytest.approx(1, rel=1e-12)
    mean = sum(count * chance for count, chance in found)
    assert mean == pytest.approx(128 * (1 - (120 / 128) ** rows), rel=1e-12)


def test_iid_equals_inclusion_and_exclusion():
    found = dict(touched_experts("iid", 16, 3)(9))
    exact = dict(reference.touched_at_random(16, 3, 9))
    assert {n: exact[n] for n in found} == pytest.approx(found, rel=1e-9)


def test_balanced_touches_as_many_as_it_can():
    balanced = touched_experts("balanced", 128, 8)
    assert [balanced(rows) for rows in (1, 4, 16, 17)] == [
        ((8, 1.0),),
        ((32, 1.0),),
        ((128, 1.0),),
        ((128, 1.0),),
    ]


def test_time_and_bytes_of_a_pass_are_means_over_draws(make_system):
    """Layers of Qwen3 with drawn experts, each delivered for itself; three of its deviations."""
    system = make_system(routing="iid")
    rows, draws, seed = 5, 4000, 7
    random = np.random.default_rng(seed)
    drawn = random.random((draws, rows, 128)).argsort(axis=2)[:, :, :8].reshape(draws, -1)
    counts = np.array([len(set(line)) for line in drawn.tolist()])
    size = system.model.stored_bytes(system.model.expert)
    # Half of the experts on each route of 3.2 TB/s, an odd one whole.
    seconds = (counts + 1) // 2 * size / 3.2e12
    both = {name: PassModel(make_system(routing=name)).rows(rows) for name in ("iid", "balanced")}
    gap_s = (both["iid"].seconds - both["balanced"].seconds) / 94
    error_s = 3 * seconds.std() / draws**0.5
    assert gap_s == pytest.approx(seconds.mean() - 20 * size / 3.2e12, abs=error_s), f"seed {seed}"
    moved = both["iid"].traffic.hbf_read - both["balanced"].traffic.hbf_read
    error = 3 * counts.std() / draws**0.5 * size
    assert moved / 94 == pytest.approx((counts.mean() - 40) * size, abs=error), f"seed {seed}"


def test_the_mean_time_is_not_the_time_of_the_mean(make_system):
    """An odd expert costs a whole one: means of counts below would be too fast."""
    system = make_system(routing="iid")
    size = system.model.stored_bytes(system.model.expert)
    expected = (
        sum(c * -(-n // 2) for n, c in reference.touched_at_random(128, 8, 2)) * size / 3.2e12
    )
    smooth = 128 * (1 - (120 / 128) ** 2) / 2 * size / 3.2e12
    balanced = PassModel(make_system()).rows(2).seconds - 94 * 8 * size / 3.2e12
    found = (PassModel(system).rows(2).seconds - balanced) / 94
    assert found == pytest.approx(expected, rel=1e-9)
    assert found > 1.005 * smooth


def test_unknown_routing():
    with pytest.raises(InputError, match="routing is 'zipf': must be balanced, iid"):
        build_system(model="grok-1", topology_name="dash", timing="link-limited", routing="zipf")
