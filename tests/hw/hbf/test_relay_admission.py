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


@pytest.mark.parametrize("seed", range(4))
def test_a_lost_link_cuts_the_chunk_and_costs_no_credit(seed):
    """The buffer ends the chunk that was cut; the link returns what was sent when it is up again.

    From the clock of the loss on pages leave without a chunk; the first page after it opens one.
    """
    pick = random.Random(seed)
    print(f"seed {seed}")
    chunk_pages = (2, 3, 4, 8)[seed]
    dut = RelayAdmission(chunk_pages=chunk_pages, regions=2, max_pages=16, idle_clocks=IDLE)
    seen = {"cut": 0, "dropped": 0, "as it opens": 0, "without credit": 0}

    async def bench(ctx):
        ctx = Quiet(ctx)
        free, spent = 2, 0  # regions: that may be opened; opened since the link came up
        in_chunk = outstanding = idle = 0
        lost_for = 0  # clocks still to come
        for clock in range(6000):
            say = f"clock {clock}"
            if not lost_for and pick.random() < 0.01:
                lost_for = pick.randint(33, 60)
            lost = lost_for > 0
            asks = not lost and outstanding < 40 and pick.random() < 0.05
            requested = pick.choice((1, 1, 3, 5, 16)) if asks else 0
            waiting = outstanding > 0 and pick.random() < 0.6
            # Regions come back one by one, and not from a link that is lost.
            grant = not lost and spent > (in_chunk > 0) and pick.random() < 0.1
            ctx.set(dut.lost, lost)
            ctx.set(dut.waiting, waiting)
            admit = ctx.get(dut.admit)
            sent = waiting and (lost or admit) and pick.random() < 0.7
            ctx.set(dut.requested, requested)
            ctx.set(dut.sent, sent)
            ctx.set(dut.grant, grant)

            assert ctx.get(dut.regions) == free, say
            seen["without credit"] += lost and sent and not free
            close = ctx.get(dut.close)
            if lost:
                assert not close, say
                seen["cut"] += in_chunk > 0
                seen["dropped"] += sent
                seen["as it opens"] += sent and not in_chunk and lost_for > 33
                in_chunk = idle = 0
            else:
                assert admit == (in_chunk > 0 or free > 0), say
                assert close == (in_chunk > 0 and idle == IDLE - 1 and not waiting), say
                idle = 0 if waiting or close or not in_chunk else idle + 1
                if sent:
                    free, spent = free - (in_chunk == 0), spent + (in_chunk == 0)
                    in_chunk += 1
                    ends = in_chunk == chunk_pages or outstanding == 1
                    assert ctx.get(dut.chunk_end) == ends, say
                    in_chunk = 0 if ends else in_chunk
                elif close:
                    in_chunk = 0
            free, spent = free + grant, spent - grant
            outstanding += requested - sent
            lost_for -= lost
            await ctx.tick()

    simulate(dut, bench, clocks=7000)
    assert min(seen.values()) > 1, seen


@pytest.mark.parametrize(("name", "value"), [("chunk_pages", 1), ("idle_clocks", 7)])
def test_refuses_what_it_cannot_do(name, value):
    right = {"chunk_pages": 2, "regions": 2, "max_pages": 16, "idle_clocks": 8}
    RelayAdmission(**right)
    with pytest.raises(ValueError, match=f"{name.split('_')[0]}.* not {value}"):
        RelayAdmission(**right | {name: value})
