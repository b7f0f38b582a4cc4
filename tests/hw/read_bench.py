"""Plays reads to the whole read system in Amaranth's own simulator."""

from dataclasses import dataclass, field

from hw.gpu.router import Choice
from hw.params import Machine, Topology
from hw.registers.description import WORD_BITS
from hw.registers.hbf import hbf_description
from hw.ucie.sideband_requester import AccessStatus
from tb.memory_system import MemorySystem
from tb.vip.registers import RegisterAccess
from tests.hw.pysim import simulate


@dataclass(frozen=True, kw_only=True)
class Settings:
    t_read: int = 12
    cache_read: bool = True
    lockstep: bool = False
    stall: tuple[int, int] = (0, 0)
    corrupt: bool = False
    inject: dict[str, int] = field(default_factory=dict)  # into the SRAM of the first HBF die
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
    dut = MemorySystem(machine, topology)
    counters: dict[str, int] = {}

    async def bench(ctx):
        port = registers(ctx, dut.port[0])
        known = {
            "t_read": settings.t_read,
            "tsv_rate": 51_200,
            "link_rate": 51_200,
            "cache_read": settings.cache_read,
            "lockstep": settings.lockstep,
        }
        for name, value in known.items():
            ctx.set(getattr(dut.registers, name), value)
        begun = ctx.get(dut.clock)
        for each in dut.port:
            await registers(ctx, each).write(**{n: int(v) for n, v in known.items()})
        counters["set_up_clocks"] = ctx.get(dut.clock) - begun
        ctx.set(dut.window, settings.window)
        ctx.set(dut.stall_direct, settings.stall[0])
        ctx.set(dut.stall_relay, settings.stall[1])
        ctx.set(dut.corrupt, settings.corrupt)
        if settings.inject:
            await port.write(**settings.inject)
            await port.pulse("inject_arm")
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
        counters.update({name: ctx.get(getattr(dut, name)) for name in MemorySystem.COUNTERS})
        for name in ("corrected", "uncorrected"):
            counters[name] = await port.read(f"ecc_{name}")

    simulate(dut, bench, clocks=clocks)
    return counters


def registers(ctx, port) -> RegisterAccess:
    """Registers of an HBF base die over its port, or over the sideband."""
    over_sideband = "access" in port.signature.members

    async def over_wire(address: int, data: int | None) -> int:
        fields = {"write": data is not None, "address": address, "be": 0xF, "data": data or 0}
        ctx.set(port.access.payload, fields)
        ctx.set(port.access.valid, 1)
        while not ctx.get(port.access.ready):
            await ctx.tick()
        tag = ctx.get(port.tag)
        await ctx.tick()
        ctx.set(port.access.valid, 0)
        ctx.set(port.response.ready, 1)
        while not ctx.get(port.response.valid):
            await ctx.tick()
        response = ctx.get(port.response.payload)
        await ctx.tick()
        assert response.tag == tag
        if response.status != AccessStatus.SUCCESS:
            raise RuntimeError(f"{address:#x} ended as {AccessStatus(response.status).name}")
        return response.data & (1 << WORD_BITS) - 1

    async def access(address: int, data: int | None) -> int:
        request = {"valid": 1, "write": data is not None, "address": address, "data": data or 0}
        if over_sideband:
            return await over_wire(address, data)
        for name, value in request.items():
            ctx.set(getattr(port.request, name), value)
        await ctx.tick()
        ctx.set(port.request.valid, 0)
        while not ctx.get(port.response.valid):
            await ctx.tick()
        assert not ctx.get(port.response.error), hex(address)
        return ctx.get(port.response.data)

    async def write(address: int, data: int) -> None:
        await access(address, data)

    return RegisterAccess(hbf_description(), lambda address: access(address, None), write)
