"""Plays reads to the whole read system in Amaranth's own simulator."""

from dataclasses import dataclass

from hw.gpu.router import Choice
from hw.params import Machine, Topology
from tb.read_system import ReadSystem
from tests.hw.pysim import simulate


@dataclass(frozen=True, kw_only=True)
class Settings:
    t_read: int = 12
    cache_read: bool = True
    lockstep: bool = False
    stall: tuple[int, int] = (0, 0)
    corrupt: bool = False
    window: int = 64


def play(
    machine: Machine,
    topology: Topology,
    reads: list[tuple[int, int, Choice]],
    settings: Settings = Settings(),
    *,
    clocks: int,
) -> dict[str, int]:
    """Counters after all ``reads`` (first page, pages, path) are complete."""
    dut = ReadSystem(machine, topology)
    counters: dict[str, int] = {}

    async def bench(ctx):
        ctx.set(dut.registers.t_read, settings.t_read)
        ctx.set(dut.registers.tsv_rate, 51_200)
        ctx.set(dut.registers.link_rate, 51_200)
        ctx.set(dut.registers.cache_read, settings.cache_read)
        ctx.set(dut.registers.lockstep, settings.lockstep)
        ctx.set(dut.window, settings.window)
        ctx.set(dut.stall_direct, settings.stall[0])
        ctx.set(dut.stall_relay, settings.stall[1])
        ctx.set(dut.corrupt, settings.corrupt)
        for tag, (first, pages, choice) in enumerate(reads):
            read = {"first": first, "pages": pages, "tag": tag, "choice": choice}
            ctx.set(dut.read.payload, read)
            ctx.set(dut.read.valid, 1)
            while not ctx.get(dut.read.ready):
                await ctx.tick()
            await ctx.tick()
            ctx.set(dut.read.valid, 0)
        while ctx.get(dut.completed) < len(reads):
            await ctx.tick()
        for _ in range(150):  # anything too many would come now
            await ctx.tick()
        counters.update({name: ctx.get(getattr(dut, name)) for name in ReadSystem.COUNTERS})

    simulate(dut, bench, clocks=clocks)
    return counters
