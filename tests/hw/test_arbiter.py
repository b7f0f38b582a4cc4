# amaranth: UnusedElaboratable=no
"""Round-robin choice: all states of four lines, by enumeration."""

import itertools
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.arbiter import RoundRobin, select
from tests.hw.pysim import simulate

WIDTH = 4


def expected(request: int, last: int) -> int:
    """The first requested line after ``last``, going around; a plain search."""
    for step in range(1, WIDTH + 1):
        line = (last + step) % WIDTH
        if request >> line & 1:
            return 1 << line
    return 0


def test_grants_the_next_requested_line() -> None:
    # Every last line, then every request with and without take, then every request again.
    arbiter = RoundRobin(width=WIDTH)

    async def bench(ctx: Any) -> None:
        requests = range(1 << WIDTH)
        for last, first, take, second in itertools.product(
            range(WIDTH), requests, (0, 1), requests
        ):
            ctx.set(arbiter.take, 1)
            ctx.set(arbiter.request, 1 << last)
            await ctx.tick()
            turn = last
            for request in (first, second):
                ctx.set(arbiter.request, request)
                ctx.set(arbiter.take, take)
                grant = expected(request, turn)
                assert ctx.get(arbiter.grant) == grant, (last, first, take, second)
                if take and grant:
                    turn = grant.bit_length() - 1
                await ctx.tick()

    simulate(arbiter, bench, clocks=10_000)


def test_a_requesting_line_waits_at_most_width_takes() -> None:
    # The others do what they like: every sequence of three of their requests.
    arbiter = RoundRobin(width=WIDTH)

    async def bench(ctx: Any) -> None:
        ctx.set(arbiter.take, 1)
        for line in range(WIDTH):
            lines = [r for r in range(1 << WIDTH) if not r >> line & 1]
            for others in itertools.product(lines, repeat=WIDTH - 1):
                served = 0
                for request in (*others, 0):
                    ctx.set(arbiter.request, request | 1 << line)
                    served |= ctx.get(arbiter.grant)
                    await ctx.tick()
                assert served >> line & 1, (line, others)

    simulate(arbiter, bench, clocks=10_000)


class Selection(wiring.Component):
    line: In(3)
    chosen: Out(8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        values = [Signal(8, init=value) for value in (5, 0xAA, 0xFF)]
        m.d.comb += self.chosen.eq(select(self.line, values))
        m.d.sync += Signal().eq(1)  # the simulation needs a clock
        return m


def test_select_gives_the_value_of_the_line() -> None:
    selection = Selection()

    async def bench(ctx: Any) -> None:
        for line, value in ((1, 5), (2, 0xAA), (4, 0xFF), (0, 0)):
            ctx.set(selection.line, line)
            assert ctx.get(selection.chosen) == value

    simulate(selection, bench, clocks=10)


def test_no_width_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        RoundRobin(width=0)
