"""The package on links of flits: nothing is lost, and rates are those of links that only delay.

All of it is slow, for each topology is a build of minutes. The random bench of every run has flits,
too: `test_link_resets.py`.
"""

import dataclasses
from functools import cache

import pytest

from hw.presets import preset, topology
from tb.package_runs import play_package, random_run
from tb.play import design, play
from tb.reads import ReadRun
from tb.simulator import build
from tb.verdict import wrongs
from tb.writes import kv_writes

MINI = preset("mini")
DIRECT, RELAY, DUAL = "direct", "relay", "dual"

pytestmark = pytest.mark.slow


@cache
def played(flits, route="direct", name="compact", waves=8, **options):
    links = dataclasses.replace(topology(name), flits=flits)
    what = ReadRun(machine=MINI, topology=links, route=route, waves=waves, **options)
    return play(build(design(MINI, links)), what)


@pytest.mark.parametrize("route", [DIRECT, RELAY, DUAL])
def test_reads_bring_every_beat(verilator, route):
    assert wrongs(played(True, route)) == []


@pytest.mark.parametrize("port", ["write", "writeback"])
def test_writes_of_either_side_are_read_back(verilator, port):
    writes = kv_writes(MINI, waves=1, planes=range(MINI.geometry.planes), port=port)
    result = played(True, DUAL, waves=1, writes=writes, writes_first=True)
    assert wrongs(result) == [] and result.stale is False


@pytest.mark.parametrize("stall", [(240, 0), (0, 240), (200, 200)])
def test_slow_consumers_lose_nothing(verilator, stall):
    assert wrongs(played(True, DUAL, stall=stall)) == []


@pytest.mark.parametrize(("route", "slower"), [(DIRECT, 0.002), (DUAL, 0.01), (RELAY, 0.02)])
def test_rates_are_those_of_links_that_only_delay(verilator, route, slower):
    """A relay chunk of this small machine lasts 655 clocks, so each clock of its grant shows."""
    thin, full = (played(flits, route, waves=16).steady_bytes_per_s for flits in (False, True))
    assert full > (1 - slower) * thin


def test_first_byte_comes_later_by_the_blocks_of_the_links(verilator):
    """Packer, adapter and unpacker of one way take the request along, those of the other data.

    They are 12 clocks instead of 6 each way; frames of four clocks leave a few clocks open.
    """
    thin, full = (played(flits).first_byte_ns for flits in (False, True))
    assert 4 <= full - thin <= 9


@pytest.mark.parametrize("route", [DIRECT, RELAY, DUAL])
@pytest.mark.parametrize("name", ["dash", "relay-only", "direct-only"])
def test_every_topology(verilator, name, route):
    links = topology(name)
    if not (links.direct or route == RELAY) or not (links.relay or route == DIRECT):
        pytest.skip(f"{name} has no {route}")
    thin, full = (played(flits, route, name, waves=16) for flits in (False, True))
    assert wrongs(full) == []
    assert full.steady_bytes_per_s > 0.98 * thin.steady_bytes_per_s


@pytest.mark.parametrize("seed", range(200, 208))
def test_random_reads_and_writes(verilator, seed):
    """Of the bench that looks at every port, with failures and bit errors."""
    what = random_run(seed, flits=True, reads=150, writes=150, program_failures=0.05,
                      erase_failures=0.05, injections=20)  # fmt: skip
    print(f"seed {seed}: {what}")
    assert len(play_package(what)["completions"]) == 150
