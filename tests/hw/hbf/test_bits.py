"""Sets of subarrays as bit vectors: every position, and every set of a few lines."""

import pytest
from amaranth.hdl import ClockDomain, Module, Signal

from hw.hbf.bits import line, lowest
from tests.hw.pysim import simulate


@pytest.mark.parametrize(
    ("width", "bits"), [(1, 1), (1, 4), (2, 12), (3, 2), (5, 2), (5, 6), (8, 3)]
)
def test_a_line_is_that_of_its_position_or_none(width, bits):
    m, when, position, lines = Module(), Signal(), Signal(bits), Signal(width)
    m.d.comb += lines.eq(line(when, position, width))

    async def bench(ctx):
        for at in range(1 << bits):
            ctx.set(position, at)
            for on in (0, 1):
                ctx.set(when, on)
                assert ctx.get(lines) == (on << at) % (1 << width), (at, on)

    m.domains.sync = ClockDomain()  # the simulator wants a clock
    simulate(m, bench, clocks=1)


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_the_lowest_set_line_is_found(width):
    m, lines = Module(), Signal(width)
    position = lowest(m, lines)

    async def bench(ctx):
        for value in range(1 << width):
            ctx.set(lines, value)
            first = next((k for k in range(width) if value >> k & 1), 0)
            assert ctx.get(position) == first, bin(value)

    m.domains.sync = ClockDomain()  # the simulator wants a clock
    simulate(m, bench, clocks=1)
