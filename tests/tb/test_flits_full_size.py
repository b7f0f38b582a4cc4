"""At full size, the steady rates on links of flits are those of links that only delay, to 1 %."""

import dataclasses
from functools import cache

import pytest

from hw.presets import preset, topology
from tb.play import design, play
from tb.reads import ReadRun
from tb.simulator import build
from tb.verdict import wrongs

PAPER = preset("paper")
WAVES = 8
ROUTES = {
    "compact": ("direct", "relay", "dual"),
    "dash": ("direct", "relay", "dual"),
    "direct-only": ("direct",),
    "relay-only": ("relay",),
}

pytestmark = pytest.mark.slow


@cache
def played(name, route, flits):
    links = dataclasses.replace(topology(name), flits=flits)
    what = ReadRun(machine=PAPER, topology=links, route=route, waves=WAVES)
    return play(build(design(PAPER, links)), what)


@pytest.mark.parametrize(
    ("name", "route"), [(name, route) for name, routes in ROUTES.items() for route in routes]
)
def test_rate_of_flits_is_that_of_links_that_only_delay(verilator, name, route):
    thin, full = (played(name, route, flits) for flits in (False, True))
    assert wrongs(thin) == wrongs(full) == []
    rates = [result.steady_bytes_per_s / 1e12 for result in (thin, full)]
    firsts = [result.first_byte_ns for result in (thin, full)]
    print(f"{name} {route}: {rates[0]:.4f} and {rates[1]:.4f} TB/s, {firsts} ns to the first byte")
    assert rates[1] == pytest.approx(rates[0], rel=0.01)
