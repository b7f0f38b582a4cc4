"""A die of two subarrays: bursts that fill its queues at once."""

from typing import Any

from hw.hbf.die_scheduler import DieScheduler
from hw.hbf.layouts import Command
from hw.params import preset
from tests.hw.pysim import simulate


def test_every_sensed_page_is_latched_and_offered() -> None:
    scheduler = DieScheduler(preset("formal"), die=0)
    commands: list[tuple[Command, int]] = []
    offered: list[int] = []

    async def bench(ctx: Any) -> None:
        ctx.set(scheduler.t_read, 12)
        ctx.set(scheduler.cache_read, 1)
        # One page wave: a page for each of the two subarrays of the two dies.
        ctx.set(scheduler.direct.payload, {"first": 0, "pages": 4, "tag": 1})
        ctx.set(scheduler.direct.valid, 1)
        await ctx.tick().until(scheduler.direct.ready)
        ctx.set(scheduler.direct.valid, 0)
        for clock in range(60):
            ctx.set(scheduler.clock, clock)
            # Both pages wait for the TSV lane before it takes the first.
            ctx.set(scheduler.transfer.ready, clock >= 40)
            if ctx.get(scheduler.command.valid):
                command = ctx.get(scheduler.command.command)
                commands.append((command, ctx.get(scheduler.command.subarray)))
            if clock >= 40 and ctx.get(scheduler.transfer.valid):
                offered.append(ctx.get(scheduler.transfer.payload.slot.subarray))
            await ctx.tick()

    simulate(scheduler, bench, clocks=200)
    assert commands == [
        (Command.SENSE, 0),
        (Command.SENSE, 1),
        (Command.LATCH, 0),
        (Command.LATCH, 1),
    ]
    assert offered == [0, 1]
