# amaranth: UnusedElaboratable=no
"""Beats in banks: every lane comes back, from as many banks as its bytes need."""

import random
import re
from typing import Any

import pytest
from amaranth.back import rtlil

from hw.sram.beat import BeatSram1r1w, BeatSram1rw
from hw.sram.macro import MacroPlatform
from tests.hw.pysim import simulate

SHAPES = [(8, 8), (8, 16), (8, 64), (6, 24)]


@pytest.mark.parametrize(("lanes", "bank_bytes"), SHAPES)
def test_single_port_keeps_lanes_apart(lanes: int, bank_bytes: int) -> None:
    sram = BeatSram1rw(lanes=lanes, depth=4, bank_bytes=bank_bytes)
    rng = random.Random(1)

    async def bench(ctx: Any) -> None:
        rows = [[rng.getrandbits(64) for _ in range(lanes)] for _ in range(4)]
        ctx.set(sram.en, 1)
        ctx.set(sram.we, 1)
        for row, beat in enumerate(rows):
            ctx.set(sram.addr, row)
            for lane, word in zip(sram.d, beat, strict=True):
                ctx.set(lane, word)
            await ctx.tick()
        ctx.set(sram.we, 0)
        for row, beat in enumerate(rows):
            ctx.set(sram.addr, row)
            await ctx.tick()
            assert [ctx.get(lane) for lane in sram.q] == beat

    simulate(sram, bench, clocks=20)


@pytest.mark.parametrize(("lanes", "bank_bytes"), SHAPES)
def test_two_port_keeps_lanes_apart_and_reads_old_data(lanes: int, bank_bytes: int) -> None:
    sram = BeatSram1r1w(lanes=lanes, depth=4, bank_bytes=bank_bytes)
    rng = random.Random(2)

    async def bench(ctx: Any) -> None:
        stored: dict[int, list[int]] = {}
        ctx.set(sram.w_en, 1)
        ctx.set(sram.r_en, 1)
        for clock in range(40):
            # All rows in turn, then only the last one, which is read while it is written.
            row = min(clock, 3) if clock < 20 else rng.randrange(4)
            beat = [rng.getrandbits(64) for _ in range(lanes)]
            ctx.set(sram.w_addr, row)
            ctx.set(sram.r_addr, row)
            for lane, word in zip(sram.w_data, beat, strict=True):
                ctx.set(lane, word)
            await ctx.tick()
            if row in stored:
                assert [ctx.get(lane) for lane in sram.r_data] == stored[row], clock
            stored[row] = beat

    simulate(sram, bench, clocks=50)


@pytest.mark.parametrize("component", [BeatSram1rw, BeatSram1r1w])
@pytest.mark.parametrize(
    ("lanes", "bank_bytes", "banks"), [(8, 8, 8), (8, 16, 4), (8, 64, 1), (6, 24, 2)]
)
def test_a_bank_is_one_macro(component: type, lanes: int, bank_bytes: int, banks: int) -> None:
    sram = component(lanes=lanes, depth=4, bank_bytes=bank_bytes)
    assert sram.banks == banks
    text = rtlil.convert(sram, platform=MacroPlatform(), emit_src=False)
    widths = re.findall(r"parameter (?:signed )?\\WIDTH (\d+)", text)
    assert widths == [str(8 * bank_bytes)] * banks
    assert len(re.findall(r"cell \\sram_1r1?w ", text)) == banks


@pytest.mark.parametrize("component", [BeatSram1rw, BeatSram1r1w])
@pytest.mark.parametrize(("lanes", "bank_bytes"), [(8, 12), (8, 24), (4, 64), (8, 0), (8, -16)])
def test_bank_that_does_not_divide_the_beat_is_refused(
    component: type, lanes: int, bank_bytes: int
) -> None:
    message = f"a bank of {bank_bytes} bytes must hold a divisor of {lanes} lanes"
    with pytest.raises(ValueError, match=message):
        component(lanes=lanes, depth=4, bank_bytes=bank_bytes)
