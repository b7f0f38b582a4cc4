"""Fill-first banks: nothing is lost or mixed up, and their rates beside those of time slots."""

import random
from typing import Any

import pytest
from amaranth.hdl import Cat

from hw.presets import preset
from hw.sram.fill_first import FillFirstRegions
from tests.hw.pysim import simulate
from tests.hw.sram.bank_schemes import LOADS, measure

LOAD = {load.name: load for load in LOADS}


def test_a_fill_is_always_made_and_a_drain_when_it_is_ready() -> None:
    dut, rng = FillFirstRegions(preset("formal")), random.Random(5)
    turns = {"direct": 0, "relay": 0}

    async def bench(ctx: Any) -> None:
        stored: dict[tuple[int, int, int], int] = {}
        shown: dict[str, int | None] = {}
        last = "relay"  # Direct is first in turn
        for _ in range(600):
            for name, beat in shown.items():
                if beat is not None:
                    assert ctx.get(Cat(*getattr(dut, name).lanes)) == beat
            shown = {}
            written, asked = {}, {}
            for group in range(2):
                place = rng.getrandbits(1), group, rng.randrange(8)
                en, beat = rng.random() < 0.6, rng.getrandbits(512)
                port = dut.fill[group]
                ctx.set(port.en, en)
                ctx.set(port.region, place[0])
                ctx.set(port.row, place[2])
                ctx.set(Cat(*port.lanes), beat)
                if en:
                    written[place] = beat
            for name in turns:
                place = rng.getrandbits(1), rng.getrandbits(1), rng.randrange(8)
                port, en = getattr(dut, name), rng.random() < 0.8
                ctx.set(port.en, en)
                ctx.set(port.region, place[0])
                ctx.set(port.group, place[1])
                ctx.set(port.row, place[2])
                if en:
                    asked[name] = place
            busy = {place[:2] for place in written}
            free = {name: place for name, place in asked.items() if place[:2] not in busy}
            if len(free) == 2 and len({place[:2] for place in free.values()}) == 1:
                last = "relay" if last == "direct" else "direct"
                free = {last: free[last]}
                turns[last] += 1
            for name, place in asked.items():
                assert ctx.get(getattr(dut, name).ready) == (name in free)
                if name in free:
                    shown[name] = stored.get(place)
            stored.update(written)
            await ctx.tick()

    simulate(dut, bench, clocks=700)
    assert min(turns.values()) > 10


@pytest.mark.parametrize("name", [load.name for load in LOADS])
def test_time_slots_carry_every_load_that_is_offered(name: str) -> None:
    load, rates = LOAD[name], measure("slots", LOAD[name], clocks=640)
    # By the pages of 4 beats at both ends of the time measured, of 560 clocks.
    assert rates.fill == pytest.approx(float(load.fill), abs=0.02)
    if load.regions != "refill":  # there, what is drained was filled before
        assert rates.direct == pytest.approx(float(load.drain), abs=0.02)
        assert rates.relay == pytest.approx(float(load.drain), abs=0.02)
    assert rates.wait == 0


@pytest.mark.parametrize(
    ("name", "fill", "drains"),
    [
        ("full, regions apart", 25 / 16, 25 / 16),
        # One region makes two accesses a clock: the drains have what the fill leaves.
        ("full, one region", 25 / 16, 2 - 25 / 16),
        ("drains only", 0, 25 / 16),
        ("fill at two beats a clock, one region", 2, 0),
    ],
)
def test_fill_first_starves_drains_of_the_region_that_fills(
    name: str, fill: float, drains: float
) -> None:
    rates = measure("fill first", LOAD[name], clocks=640)
    assert rates.fill == pytest.approx(fill, abs=0.02)
    assert rates.direct + rates.relay == pytest.approx(drains, abs=0.03)
    assert rates.direct == pytest.approx(rates.relay, abs=0.03)
