# amaranth: UnusedElaboratable=no
"""The wires of the modules: everything comes later, and nothing else happens to it."""

import random

import pytest

from hw.ucie.wires import ModuleWires
from tests.hw.pysim import simulate

MODULES, BYTES = 2, 3


@pytest.mark.parametrize("cycles", [2, 3, 7])
def test_words_come_after_their_time(cycles):
    wires = ModuleWires(modules=MODULES, word_bytes=BYTES, cycles=cycles)
    pick = random.Random(cycles)
    sent, came = [], []

    async def bench(ctx):
        for _ in range(60):
            words = [(pick.getrandbits(1), pick.getrandbits(8), pick.getrandbits(24))
                     for _ in range(MODULES)]  # fmt: skip
            for port, (valid, number, word) in zip(wires.i, words, strict=True):
                ctx.set(port.valid, valid)
                ctx.set(port.number, number)
                ctx.set(port.word, word)
            sent.append(words)
            came.append([
                (ctx.get(port.valid), ctx.get(port.number), ctx.get(port.word))
                for port in wires.o
            ])  # fmt: skip
            await ctx.tick()

    simulate(wires, bench, clocks=100)
    assert [[valid for valid, _, _ in words] for words in came[:cycles]] == [[0, 0]] * cycles
    for before, words in zip(sent, came[cycles:], strict=False):
        for (valid, *content), (arrived, *found) in zip(before, words, strict=True):
            assert arrived == valid and (not valid or found == content)


def test_a_delay_of_one_clock_is_refused():
    with pytest.raises(ValueError, match="cycles must be at least 2, not 1"):
        ModuleWires(modules=1, word_bytes=1, cycles=1)
