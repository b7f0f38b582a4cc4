"""The package under random reads and writes, against NAND and host in plain Python."""

import re
from functools import cache

import pytest

from tb.coverage.report import merge
from tb.package_runs import PAIRS, PackageRun, play_package, random_run
from tb.simulator import BenchFailed, Simulator
from tb.vip.stack import FAULTS

SLOW_LINKS = {"link_rate": 20_000, "t_read": 1, "lockstep": 0, "drain_whole_region": 0}

DYING = {
    "reads": 40,
    "writes": 200,
    "mix": {"lives": 0.8, "wrong": 0.05, "blocks": 12},
    "erase_failures": 0.5,
    "registers": {"collect_enable": 1},
}

# Registers, failures and traffic follow from the seed; together they reach every goal.
STANDARD = {seed: {"reads": 150, "writes": 150} for seed in range(1, 9)} | {
    # Blocks that die and whose erase often fails; collection may be off meanwhile.
    9: DYING,
    32: DYING | {"switch_collection": True},
    # Long reads over links that are slow.
    10: {
        "reads": 60,
        "writes": 40,
        "mix": {"most_pages": 60, "small": 0.1},
        "registers": SLOW_LINKS,
    },
    # The same with planes that are busy for long: all gates shut at once.
    11: {
        "reads": 120,
        "writes": 40,
        "mix": {"most_pages": 60, "small": 0.1},
        "registers": SLOW_LINKS | {"t_plane_busy": 20},
    },
}


@cache
def standard(seed):
    return play_package(random_run(seed, **STANDARD[seed]))


def writes_of(report):
    """Last completions of stack 0."""
    counts = report["writes"][0]
    return sum(times for name, times in counts.items() if name.startswith("last_"))


@pytest.mark.parametrize("seed", STANDARD)
def test_random_reads_and_writes(verilator, seed):
    report = standard(seed)
    assert len(report["completions"]) == STANDARD[seed]["reads"]
    assert writes_of(report) == STANDARD[seed]["writes"]


def test_standard_seeds_reach_every_goal(verilator):
    coverage = merge([standard(seed)["directory"] for seed in STANDARD], "package")
    assert not coverage.missed, f"goals missed:\n{coverage.table()}"


@pytest.mark.parametrize("name", PAIRS)
def test_every_topology(icarus, name):
    what = random_run(20, topology=name, reads=24, writes=24)
    report = play_package(what, icarus)
    assert len(report["completions"]) == 24
    assert writes_of(report) == 24
    assert {pair for _, pair, _ in report["beats"]} == set(range(PAIRS[name]))
    paths = {"direct-only": {0}, "relay-only": {1}}.get(name, {0, 1})
    assert {route for route, _, _ in report["beats"]} == paths


def test_relay_regions_with_check_bits(icarus):
    what = random_run(22, topology="relay-only", machine="checked", reads=24, writes=24)
    report = play_package(what, icarus)
    assert len(report["completions"]) == 24 and {route for route, _, _ in report["beats"]} == {1}


def test_both_simulators_do_the_same_at_once(verilator, icarus):
    what = random_run(21, reads=20, writes=20)
    fast, exact = (play_package(what, simulator) for simulator in (verilator, icarus))
    del fast["directory"], exact["directory"]
    assert fast == exact  # the beats in their order, commands, and the clocks that it took
    assert len(fast["beats"]) > 100


def test_seed_decides_what_is_asked(verilator):
    runs = (PackageRun(seed=seed, reads=10, writes=10, coverage=False) for seed in (7, 7, 8))
    first, again, other = map(play_package, runs)
    assert first == again
    assert first["beats"] != other["beats"]


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_the_nand_is_found(verilator, fault):
    match = "of page .* holds" if fault == "forget" else "wrong data in beat"
    times = {"t_program": 40, "t_erase": 60, "t_suspend": 5, "poll_clocks": 5}
    what = PackageRun(seed=5, reads=80, writes=80, registers=times, fault=fault, coverage=False)
    with pytest.raises(BenchFailed, match=match) as caught:
        play_package(what)
    assert re.search(r"^seed 5, repeat: bash /\S*/rerun\.sh$", str(caught.value), re.M)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_long_random_runs_lose_and_corrupt_nothing(verilator, seed):
    """Together more than 10,000 transactions, with failures and bit errors in each run."""
    what = random_run(
        seed,
        reads=300,
        writes=300,
        program_failures=0.05,
        erase_failures=0.05,
        injections=60,
    )
    print(f"seed {seed}: {what}")
    report = play_package(what, Simulator.VERILATOR)
    assert len(report["completions"]) == 300
    assert writes_of(report) == 300
