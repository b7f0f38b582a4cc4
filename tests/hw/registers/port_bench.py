"""Drives the register port in pysim, one access after the other."""

from typing import Any

from amaranth.lib import wiring

from hw.registers.description import Description
from tb.vip.registers import RegisterAccess

LATENCY = 2


class AccessRefused(Exception):
    """The port answered with an error."""


async def access(ctx: Any, port: wiring.PureInterface, address: int, data: int | None) -> int:
    """One access, a read if there is no data; checks the latency."""
    ctx.set(port.request.valid, 1)
    ctx.set(port.request.write, data is not None)
    ctx.set(port.request.address, address)
    ctx.set(port.request.data, data or 0)
    await ctx.tick()
    ctx.set(port.request.valid, 0)
    for _ in range(LATENCY - 1):
        assert not ctx.get(port.response.valid)
        await ctx.tick()
    assert ctx.get(port.response.valid)
    if ctx.get(port.response.error):
        raise AccessRefused(f"{address:#x}")
    return ctx.get(port.response.data)


def by_name(ctx: Any, port: wiring.PureInterface, description: Description) -> RegisterAccess:
    """The access layer over that port."""

    async def read_word(address: int) -> int:
        return await access(ctx, port, address, None)

    async def write_word(address: int, data: int) -> None:
        await access(ctx, port, address, data)

    return RegisterAccess(description, read_word, write_word)
