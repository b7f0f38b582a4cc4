"""Reads of one die controller against the rules of NAND, slots and paths."""

import itertools
import random

import pytest

from tests.hw.hbf.die_bench import DIRECT, RELAY, DieBench, reads_of
from tests.hw.pysim import simulate


def run(bench: DieBench, *, clocks: int, until=None) -> DieBench:
    async def drive(ctx):
        await bench.run(ctx, until=until or (lambda: bench.rules.done))

    simulate(bench.top(), drive, clocks=clocks)
    return bench


def both_paths(seed: int, count: int = 12) -> tuple[list[dict], list[dict]]:
    pick = random.Random(f"reads/{seed}")
    return tuple(
        reads_of(pick, p, count=count, sizes=(1, 1, 3, 4, 16, 40)) for p in (DIRECT, RELAY)
    )


@pytest.mark.parametrize("cache_read", [True, False])
@pytest.mark.parametrize(
    ("t_read", "lane", "drains"),
    [
        (1, 1.0, (1.0, 1.0)),  # sensing is never what is waited for
        (7, 0.1, (0.5, 0.5)),  # slow lane: cache registers stay occupied
        (3, 1.0, (0.02, 0.3)),  # slow drains: slots stay occupied
        (80, 1.0, (0.5, 0.5)),  # sensing is all that is waited for
    ],
)
def test_each_page_is_issued_once_by_the_rules(t_read, lane, drains, cache_read):
    bench = DieBench(
        both_paths(t_read), seed=t_read, t_read=t_read, lane=lane, drains=drains,
        cache_read=cache_read,
    )  # fmt: skip
    run(bench, clocks=30_000)
    assert sum(bench.rules.drained) == len(bench.rules.issued) > 40


def test_without_cache_read_a_subarray_waits_for_its_page_to_leave():
    """With all else fast, the time from SENSE to SENSE tells when a subarray may go again."""
    gaps = {}
    for cache_read in (True, False):
        reads = ([{"first": 1, "pages": 1, "tag": k} for k in range(15)], [])
        bench = DieBench(
            reads, seed=0, t_read=40, lane=0.2, drains=(1.0, 1.0), cache_read=cache_read
        )
        run(bench, clocks=10_000)
        times = [clock for clock, _ in bench.rules.issued]
        gaps[cache_read] = min(b - a for a, b in itertools.pairwise(times))
    assert 40 < gaps[True] <= 43
    assert gaps[False] >= 40 + 5  # and at least the five clocks of the page on its lane


def test_paths_alternate_when_both_have_a_page_at_every_subarray():
    # No wave is open until both paths have filled their places; then every clock has a choice.
    reads = ([{"first": 0, "pages": 64, "tag": 1}], [{"first": 128, "pages": 64, "tag": 2}])
    bench = DieBench(reads, seed=0, wave=lambda clock: (30 <= clock < 34, 0))
    run(bench, clocks=100, until=lambda: bench.clock == 60)
    paths = [page.owner for _, page in bench.rules.issued]
    assert [clock for clock, _ in bench.rules.issued] == [30, 31, 32, 33]
    assert paths in ([DIRECT, RELAY] * 2, [RELAY, DIRECT] * 2)


@pytest.mark.parametrize("cache_read", [True, False])
def test_loaded_paths_share_the_die_alike(cache_read):
    reads = tuple([{"first": p * 128, "pages": 128, "tag": k} for k in range(3)] for p in (0, 1))
    bench = DieBench(reads, seed=5, cache_read=cache_read, drains=(1.0, 1.0))
    run(bench, clocks=20_000, until=lambda: len(bench.rules.issued) >= 100)
    ahead = 0
    for _, page in bench.rules.issued:
        ahead += 1 if page.owner == DIRECT else -1
        assert abs(ahead) <= 4 + 1  # no more than a page a subarray


@pytest.mark.parametrize("drains", [(1.0, 1.0), (0.02, 0.05)])
def test_lockstep_issues_only_into_the_open_wave(drains):
    def wave(clock):
        return clock % 97 < 4, clock // 97 % 2

    # With slow drains some slots of the wave's region are still taken: they are left alone.
    bench = DieBench(both_paths(3, count=10), seed=3, wave=wave, drains=drains, lane=1.0)
    run(bench, clocks=30_000)
    assert all(clock % 97 < 4 for clock, _ in bench.rules.issued)
    assert all(page.region == clock // 97 % 2 for clock, page in bench.rules.issued)


@pytest.mark.parametrize("stalled", [DIRECT, RELAY])
def test_a_path_leaves_the_second_slot_to_the_other_that_waits_there(stalled):
    """Two waves, and both paths wait at every subarray before each of them."""
    reads = ([{"first": 0, "pages": 64, "tag": 1}], [{"first": 128, "pages": 64, "tag": 2}])
    drains = tuple(0.0 if path == stalled else 1.0 for path in (DIRECT, RELAY))

    def wave(clock):
        return 30 <= clock % 300 < 34, clock // 300

    bench = DieBench(reads, seed=0, wave=wave, drains=drains)
    run(bench, clocks=700, until=lambda: bench.clock == 600)
    first, second = bench.rules.issued[:4], bench.rules.issued[4:]
    held = {page.subarray for _, page in first if page.owner == stalled}
    assert len(held) == 2 and len(second) == 4
    assert all(page.owner != stalled for _, page in second if page.subarray in held)


@pytest.mark.parametrize("stalled", [DIRECT, RELAY])
def test_paths_go_on_after_one_of_them_stalled_for_long(stalled):
    drains = tuple(0.0 if path == stalled else 0.5 for path in (DIRECT, RELAY))
    bench = DieBench(both_paths(stalled, count=10), seed=stalled, drains=drains)

    async def drive(ctx):
        await bench.run(ctx, until=lambda: bench.clock == 2000)
        assert bench.rules.drained[stalled] == 0 < bench.rules.drained[1 - stalled]
        bench.drains = (0.5, 0.5)
        await bench.run(ctx, until=lambda: bench.rules.done)

    simulate(bench.top(), drive, clocks=6000)
