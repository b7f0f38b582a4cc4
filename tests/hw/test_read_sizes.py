"""Requests of every size and place survive their way through the header."""

import pytest

from hw.gpu.router import Choice, RequestRouter
from hw.hbf.request_decoder import RequestDecoder
from hw.presets import preset
from tests.hw.beats import side_by_side
from tests.hw.pysim import simulate

LARGEST = 4096  # pages of a read: 16 MiB in `paper`


@pytest.mark.parametrize("name", ["paper", "mini", "formal"])
def test_the_hbf_die_understands_what_the_gpu_asks(name):
    machine = preset(name)
    last = machine.geometry.stack_pages - 1
    sizes = [1, 2, 255, 256, 2048, LARGEST - 1, LARGEST]
    sizes = [size for size in sizes if size <= machine.geometry.stack_pages]
    router = RequestRouter(machine, pairs=1, direct=True, relay=False)
    decoder = RequestDecoder(machine)
    understood = []

    async def bench(ctx):
        ctx.set(router.window, 2**20 - 1)
        ctx.set(router.may_send, 1)
        ctx.set(decoder.o.ready, 1)
        for size in sizes:
            first = max(0, last - size + 1)
            read = {"first": first, "pages": size, "choice": Choice.DIRECT}
            ctx.set(router.i.payload, read)
            ctx.set(decoder.port.header, ctx.get(router.header[0]))
            ctx.set(decoder.port.valid, 1)
            await ctx.tick()
            ctx.set(decoder.port.valid, 0)
            while not ctx.get(decoder.o.valid):
                await ctx.tick()
            found = ctx.get(decoder.o.payload)
            understood.append((found.first, found.pages))
            assert ctx.get(decoder.pages) == found.pages
            await ctx.tick()

    simulate(side_by_side(router, decoder), bench, clocks=100)
    assert understood == [(max(0, last - size + 1), size) for size in sizes]


@pytest.mark.parametrize("name", ["paper", "formal"])
def test_the_hbf_die_understands_pieces_of_pages(name):
    """Units of 64 bytes, and the beats that hold them."""
    machine = preset(name)
    last, beat = machine.geometry.stack_pages - 1, machine.link.beat_bytes
    units = machine.geometry.page_bytes // 64
    pieces = [(0, 1), (0, units - 1), (1, units - 1), (units - 1, 1), (units // 2 - 1, 2)]
    router = RequestRouter(machine, pairs=1, direct=False, relay=True)
    decoder = RequestDecoder(machine)
    understood = []

    async def bench(ctx):
        ctx.set(router.window, 2**20 - 1)
        ctx.set(router.may_send, 2)
        ctx.set(decoder.o.ready, 1)
        for offset, count in pieces:
            read = {"first": last, "pages": 1, "choice": Choice.RELAY}
            ctx.set(router.i.payload, read | {"offset": offset, "units": count})
            ctx.set(decoder.port.header, ctx.get(router.header[1]))
            ctx.set(decoder.port.valid, 1)
            await ctx.tick()
            ctx.set(decoder.port.valid, 0)
            while not ctx.get(decoder.o.valid):
                await ctx.tick()
            found = ctx.get(decoder.o.payload)
            understood.append((found.first, found.pages, found.first_beat, found.last_beat))
            await ctx.tick()

    simulate(side_by_side(router, decoder), bench, clocks=100)
    assert understood == [
        (last, 1, 64 * offset // beat, (64 * (offset + count) - 1) // beat)
        for offset, count in pieces
    ]
