"""Resets of links under random reads and writes: all that was under way ends, once, and no more.

The judges of the package bench know what each reset may cost. At the end of each run all page slots
are free, and memory, block tables and counters are what the judges say.
"""

from functools import cache

import pytest

from hw.errors import InputError
from hw.ucie.transaction import Status
from tb.coverage.report import merge
from tb.package_runs import PAIRS, PackageRun, play_package, random_run
from tb.simulator import Simulator

# Together they reach every goal that is about resets.
SEEDS = range(301, 307)
LINK_RESET = Status.LINK_RESET.name


@cache
def played(seed, name="compact", simulator=Simulator.VERILATOR, **changes):
    settings = {"reads": 150, "writes": 150, "link_resets": 30} | changes
    what = random_run(seed, topology=name, flits=True, **settings)
    print(f"seed {seed}: {what}")
    report = play_package(what, simulator)
    assert sum(report["resets"].values()) == what.link_resets
    assert len(report["completions"]) == what.reads
    for counts in report["writes"]:
        assert sum(n for name, n in counts.items() if name.startswith("last_")) == what.writes
    return report


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_under_way_ends(verilator, seed):
    counts = played(seed)["writes"][0]
    assert counts[f"last_{LINK_RESET}"] and counts["cut_pages"]


def test_the_seeds_reach_every_goal_of_resets(verilator):
    coverage = merge([played(seed)["directory"] for seed in SEEDS], "link_resets", resets=True)
    of_resets = {name: missed for name, missed in coverage.missed.items() if "reset" in name}
    assert not of_resets, coverage.table()
    assert coverage.points["slot_steps"].bins["cut"]


def test_both_simulators_do_the_same(verilator, icarus):
    few = {"reads": 20, "writes": 20, "link_resets": 6}
    reports = [played(310, simulator=simulator, **few) for simulator in (verilator, icarus)]
    for report in reports:
        del report["directory"]
    assert reports[0] == reports[1]


def test_links_that_only_delay_have_no_reset():
    with pytest.raises(InputError, match="link_resets is 1: needs links that carry flits"):
        PackageRun(link_resets=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(320, 330))
@pytest.mark.parametrize("name", PAIRS)
def test_every_topology(verilator, name, seed):
    played(seed, name, reads=200, writes=200, link_resets=60)
