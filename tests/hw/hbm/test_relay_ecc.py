"""SECDED of the relay regions: errors planted in what is stored, seen in what leaves and told."""

import random

import pytest

from hw.hbm.relay import RelayBuffer
from hw.sram.secded import COLUMNS
from hw.ucie.transaction import MessageClass
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.hbm.relay_bench import checked
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

PAGES, BEATS = 3, 12


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("double", [False, True])
def test_one_wrong_bit_is_corrected_and_two_leave_with_poison(seed, double):
    """Of a chunk of three pages some beats get the error, of which one was wrong before."""
    pick = random.Random(f"{seed}/{double}")
    first, second = pick.sample(range(72), 2)
    word, struck = pick.randrange(TINY.lanes), pick.randrange(1, BEATS)
    dut, came = RelayBuffer(checked(TINY)), []

    async def bench(ctx):
        ctx = Quiet(ctx)
        inject, log = dut.ecc.inject, dut.ecc.log
        ctx.set(dut.rate, 65_536)
        for name, value in (
            ("beats", struck), ("word", word), ("first", first), ("second", second),
            ("double", double), ("arm", 1),
        ):  # fmt: skip
            ctx.set(getattr(inject, name), value)
        await ctx.tick()
        ctx.set(inject.arm, 0)
        for clock in range(60):
            ctx.set(dut.c_data.valid, clock < BEATS)
            if clock < BEATS:
                page, beat = divmod(clock, 4)
                header = {
                    "message_class": MessageClass.RELAY_DATA,
                    "page": page,
                    "beat": beat,
                    "page_end": beat == 3,
                    "chunk_end": clock == BEATS - 1,
                    "poison": clock == BEATS - 1,
                }
                ctx.set(dut.c_data.header, header)
                set_lanes(ctx, dut.c_data, clock)
            ctx.set(dut.b_data.credit, len(came) > 0 and clock % 2)
            if ctx.get(dut.b_data.valid):
                header = ctx.get(dut.b_data.header)
                wrong = double and len(came) < struck
                if not wrong:
                    assert get_lanes(ctx, dut.b_data) == len(came)
                came.append(header.poison)
            await ctx.tick()
        assert came == [(double and k < struck) or k == BEATS - 1 for k in range(BEATS)]
        assert not ctx.get(inject.armed)
        assert ctx.get(log.corrected) == (0 if double else struck)
        assert ctx.get(log.uncorrectable) == (struck if double else 0)
        told = ctx.get(log.first)
        assert (told.valid, told.uncorrectable, told.word) == (1, double, word)
        assert (told.place.region, told.place.group, told.place.row) == (0, 0, 0)
        syndrome = COLUMNS[first] ^ (COLUMNS[second] if double else 0)
        assert told.syndrome == syndrome
        ctx.set(log.clear, 1)
        await ctx.tick()
        ctx.set(log.clear, 0)
        await ctx.tick()
        assert not ctx.get(log.first.valid) and not ctx.get(log.corrected)

    simulate(dut, bench, clocks=80)
