# amaranth: UnusedElaboratable=no
"""Relay credits at the HBF die against a ledger of regions and pages."""

import random

import pytest

from hw.hbf.relay_admission import RelayAdmission
from tests.hw.beats import Quiet
from tests.hw.pysim import simulate

IDLE = 12


@pytest.mark.parametrize("seed", range(5))
def test_pages_go_only_into_granted_regions_and_chunks_end_in_time(seed):
    pick = random.Random(seed)
    chunk_pages = (2, 3, 4, 8, 16)[seed]
    dut = RelayAdmission(chunk_pages=chunk_pages, regions=2, max_pages=16, idle_clocks=IDLE)
    ends = {"full": 0, "last": 0, "idle": 0}

    async def bench(ctx):
        ctx = Quiet(ctx)
        free, closed = 2, 0  # regions that the sender may open; chunks at the relay buffer
        in_chunk = 0  # pages in the open chunk
        outstanding = idle = 0
        load, asks = 0.5, 0.05
        for clock in range(4000):
            if clock % 200 == 0:
                load = pick.choice((0.02, 0.4, 0.9))
                asks = pick.choice((0.01, 0.05))
            say = f"clock {clock}, seed {seed}"
            requested = (
                pick.choice((1, 1, 3, 5, 16)) if outstanding < 40 and pick.random() < asks else 0
            )
            waiting = outstanding > 0 and pick.random() < load
            grant = closed > 0 and pick.random() < 0.2
            admit = ctx.get(dut.admit)
            sent = waiting and admit and pick.random() < 0.7
            ctx.set(dut.requested, requested)
            ctx.set(dut.waiting, waiting)
            ctx.set(dut.sent, sent)
            ctx.set(dut.grant, grant)

            assert admit == (in_chunk > 0 or free > 0), say
            assert ctx.get(dut.regions) == free, say
            # Every region is free, open or at the relay buffer.
            assert free + (in_chunk > 0) + closed == 2, say
            close = ctx.get(dut.close)
            assert close == (in_chunk > 0 and idle == IDLE - 1 and not waiting), say
            idle = 0 if waiting or close or not in_chunk else idle + 1
            if sent:
                free -= in_chunk == 0
                in_chunk += 1
                full, last = in_chunk == chunk_pages, outstanding == 1
                assert ctx.get(dut.chunk_end) == (full or last), say
                ends["full"] += full
                ends["last"] += last and not full
                if full or last:
                    in_chunk, closed = 0, closed + 1
            elif close:
                ends["idle"] += 1
                in_chunk, closed = 0, closed + 1
            outstanding += requested - sent
            free += grant
            closed -= grant
            await ctx.tick()

    simulate(dut, bench, clocks=5000)
    assert min(ends.values()) > 3, ends


@pytest.mark.parametrize(("name", "value"), [("chunk_pages", 1), ("idle_clocks", 7)])
def test_refuses_what_it_cannot_do(name, value):
    right = {"chunk_pages": 2, "regions": 2, "max_pages": 16, "idle_clocks": 8}
    RelayAdmission(**right)
    with pytest.raises(ValueError, match=f"{name.split('_')[0]}.* not {value}"):
        RelayAdmission(**right | {name: value})
