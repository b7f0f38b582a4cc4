"""A die of two subarrays: bursts that fill its queues at once."""

from typing import Any

from hw.hbf.die_controller import DieController
from hw.hbf.layouts import Command
from hw.presets import preset
from tests.hw.pysim import simulate


def test_every_sensed_page_is_latched_and_offered() -> None:
    dut = DieController(preset("formal"), links=2)
    commands: list[tuple[Command, int]] = []
    offered: list[int] = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.registers.t_read, 12)
        ctx.set(dut.registers.cache_read, 1)
        ctx.set(dut.region_open, 3)
        ctx.set(dut.path_open, 3)
        # One page wave: a page for each of the two subarrays of the two dies.
        ctx.set(dut.direct.payload, {"first": 0, "pages": 4, "tag": 1})
        ctx.set(dut.direct.valid, 1)
        await ctx.tick().until(dut.direct.ready)
        ctx.set(dut.direct.valid, 0)
        for clock in range(60):
            ctx.set(dut.clock, clock)
            # Both pages wait for the TSV lane before it takes the first.
            ctx.set(dut.transfer.ready, clock >= 40)
            if ctx.get(dut.command.valid):
                command = ctx.get(dut.command.command)
                commands.append((command, ctx.get(dut.command.subarray)))
            if clock >= 40 and ctx.get(dut.transfer.valid):
                offered.append(ctx.get(dut.transfer.payload.slot.subarray))
            await ctx.tick()

    simulate(dut, bench, clocks=200)
    assert commands == [
        (Command.SENSE, 0),
        (Command.SENSE, 1),
        (Command.LATCH, 0),
        (Command.LATCH, 1),
    ]
    assert offered == [0, 1]
