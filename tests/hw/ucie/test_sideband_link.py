# amaranth: UnusedElaboratable=no
"""Both ends together, around register files: every register, latency, errors on the line."""

import random
from fractions import Fraction

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.presets import preset
from hw.registers.description import Kind
from hw.registers.hbf import hbf_description, hbf_resets
from hw.registers.register_file import RegisterFile
from hw.ucie.sideband_link import SidebandHost, SidebandPair, SidebandTarget
from hw.ucie.sideband_requester import AccessStatus
from hw.ucie.sideband_serial import CFG_BUS, Pace, wire_pace
from tests.hw.pysim import simulate
from tests.hw.registers.maps import SMALL_RDL, SMALL_RESETS, describe_text
from tests.hw.registers.port_bench import AccessRefused, access
from tests.tb.sideband_registers import SidebandRegisters

OK, UNSUPPORTED, TIMED_OUT = (
    AccessStatus.SUCCESS,
    AccessStatus.UNSUPPORTED,
    AccessStatus.TIMEOUT,
)


async def start(ctx, dut, address, data=None, *, wide=False):
    """Wait until the access is accepted, give its tag."""
    values = {"write": data is not None, "wide": wide, "config": 0, "address": address}
    ctx.set(dut.access.payload, values | {"be": 255 if wide else 15, "data": data or 0})
    ctx.set(dut.access.valid, 1)
    while not ctx.get(dut.access.ready):
        await ctx.tick()
    tag = ctx.get(dut.tag)
    await ctx.tick()
    ctx.set(dut.access.valid, 0)
    return tag


async def over_sideband(ctx, dut, address, data=None, *, wide=False):
    """One access to its end: status, data, and the clocks it took."""
    tag = await start(ctx, dut, address, data, wide=wide)
    clocks = 1
    ctx.set(dut.response.ready, 1)
    while not ctx.get(dut.response.valid):
        await ctx.tick()
        clocks += 1
    response = ctx.get(dut.response.payload)
    await ctx.tick()
    assert response.tag == tag
    return AccessStatus(response.status), response.data, clocks


class Twins(wiring.Component):
    """The register file of the die twice: behind a sideband, and at its plain port."""

    def __init__(self) -> None:
        self.far = SidebandRegisters(machine=preset("mini"), pace=CFG_BUS, tags=4, credits=4)
        self.near = RegisterFile(hbf_description(), resets=hbf_resets(preset("mini")))
        super().__init__({})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.far, m.submodules.near = self.far, self.near
        return m


def test_every_register_over_the_sideband_is_that_of_the_plain_port():
    twins, pick = Twins(), random.Random(1)
    description = hbf_description()
    words = list(description.words)
    nowhere = [at for at in range(0, max(words) + 64, 4) if at not in description.words]

    async def both(ctx, address, data):
        status, far, _ = await over_sideband(ctx, twins.far, address, data)
        try:
            near = await access(ctx, twins.near.port, address, data)
        except AccessRefused:
            assert status is UNSUPPORTED, hex(address)
            assert far & 31 == (0 if data is None else 1), "the header of the request"
        else:
            assert (status, far) == (OK, near), hex(address)

    async def bench(ctx):
        for field in description.fields:
            for file in (twins.far.file, twins.near):
                if field.kind is Kind.STATUS:
                    value = random.Random(field.name).getrandbits(field.width)
                    ctx.set(getattr(file, field.name), value)
                if field.kind is Kind.COUNTER:
                    ctx.set(getattr(file, field.name), field.address % 61 + 1)
        await ctx.tick()
        for field in description.fields:
            if field.kind is Kind.COUNTER:
                for file in (twins.far.file, twins.near):
                    ctx.set(getattr(file, field.name), 0)
        for address in [*words, *pick.sample(nowhere, 4), words[0] + 2]:
            await both(ctx, address, None)
        for address in pick.sample(words, len(words)):
            await both(ctx, address, pick.getrandbits(32))
        for field in description.fields:
            if field.kind is Kind.CONFIG:
                held = [ctx.get(getattr(f, field.name)) for f in (twins.far.file, twins.near)]
                assert held[0] == held[1], field.name
        for address in words:
            await both(ctx, address, None)

    simulate(twins, bench, clocks=60_000)


def test_a_wide_read_of_a_counter_is_of_one_moment(tmp_path):
    """The counter carries into its high word every few clocks."""
    description = describe_text(tmp_path, SMALL_RDL)
    dut = SidebandRegisters(description=description, resets=SMALL_RESETS, pace=CFG_BUS)
    step = (1 << 21) + 12_345  # 40 bits from bit 8 on, the high word begins at bit 24 of them

    async def bench(ctx):
        ctx.set(dut.file.wide, step)
        last = 0
        for _ in range(30):
            status, value, _ = await over_sideband(ctx, dut, 0x10, wide=True)
            assert status is OK
            count, rest = divmod(value >> 8, step)
            assert rest == 0, "both words are of one moment"
            assert last < count < 1 << 40
            last = count

    simulate(dut, bench, clocks=3000)


def config_pairs():
    """Addresses of two words that hold nothing but configuration."""
    words = hbf_description().words
    config = {at for at, parts in words.items() if all(p.field.kind is Kind.CONFIG for p in parts)}
    pairs = [at for at in config if at % 8 == 0 and at + 4 in config]
    assert pairs
    return sorted(pairs)


def test_a_wide_write_of_two_registers_writes_both():
    dut = SidebandRegisters(machine=preset("mini"), pace=CFG_BUS)
    pairs = config_pairs()

    async def bench(ctx):
        for at in pairs:
            status, _, _ = await over_sideband(ctx, dut, at, 1 << 32 | 1, wide=True)
            assert status is OK
            status, value, _ = await over_sideband(ctx, dut, at, wide=True)
            assert (status, value) == (OK, 1 << 32 | 1)

    simulate(dut, bench, clocks=6000)


@pytest.mark.parametrize("performant", [0, 1], ids=["gaps", "performant"])
@pytest.mark.parametrize("cycles", [0, 5])
@pytest.mark.parametrize(
    ("write", "wide", "down", "up"),
    [
        (0, 0, [64], [64, 64]),
        (1, 0, [64, 64], [64]),
        (0, 1, [64], [64, 64]),
        (1, 1, [64, 64], [64]),
    ],
    ids=["read 32", "write 32", "read 64", "write 64"],
)
def test_latency_is_the_bits_on_the_wire_and_a_constant(write, wide, down, up, cycles, performant):
    """800 MHz on the wire, 2 GHz inside: 2.5 clocks a UI; 32 UI between header and data."""
    dut = SidebandRegisters(machine=preset("mini"), cycles=cycles)
    gap = 0 if performant else 32
    ui = sum(down) + sum(up) + gap * (len(down) + len(up) - 2)
    inside = 11 + (3 if wide else 0)
    at = config_pairs()[0]

    async def bench(ctx):
        ctx.set(dut.pair.performant, performant)
        for _ in range(cycles + 6):
            await ctx.tick()
        _, _, clocks = await over_sideband(ctx, dut, at, 1 if write else None, wide=bool(wide))
        assert clocks == ui * Fraction(2000, 800) + 2 * cycles + inside

    simulate(dut, bench, clocks=2000)


LINE = Pace(word_clocks=2, gap_clocks=3, padded=True)


@pytest.mark.parametrize("errors", [0.0, 0.04], ids=["clean", "wrong bits"])
def test_whatever_the_line_loses_every_access_ends_and_no_credit_is_missing(errors, seed=1):
    dut = SidebandRegisters(
        machine=preset("mini"), pace=LINE, cycles=3, tags=6, credits=4, timeout=250
    )
    pick, pair = random.Random(seed), dut.pair
    resets, fields = hbf_resets(preset("mini")), hbf_description().by_name
    names = ["t_read", "t_program", "t_erase", "dies"]
    asked, statuses, seen = {}, [], {"errors": 0, "overflow": 0}
    wanted = 80

    async def ask(ctx):
        for _ in range(wanted):
            name = pick.choice([*names, None])
            address = fields[name].address if name else 0xFFFFF0
            tag = await start(ctx, dut, address)
            assert tag not in asked
            asked[tag] = name
            if pick.random() < 0.1:
                for _ in range(pick.randrange(300)):
                    await ctx.tick()

    async def take(ctx):
        choose = random.Random(seed + 100)
        while len(statuses) < wanted:
            ready = choose.random() < 0.5
            ctx.set(dut.response.ready, ready)
            if ready and ctx.get(dut.response.valid):
                response = ctx.get(dut.response.payload)
                status, name = AccessStatus(response.status), asked.pop(response.tag)
                statuses.append(status)
                assert status in ((OK if name else UNSUPPORTED), TIMED_OUT)
                if status is OK:
                    field = fields[name]
                    value = response.data >> field.low & (1 << field.width) - 1
                    assert value == resets[name]
            await ctx.tick()
        ctx.set(dut.response.ready, 0)
        while not ctx.get(pair.idle):
            await ctx.tick()
        for _ in range(3):
            await ctx.tick()
        assert ctx.get(pair.credits) == 4
        assert ctx.get(pair.unexpected) == ctx.get(pair.dropped) == 0

    async def spoil(ctx):
        """At most one wrong bit in each 64: two would pass the parity."""
        choose = random.Random(seed + 200)
        calm = {"corrupt_down": 0, "corrupt_up": 0}
        while len(statuses) < wanted:
            for name in calm:
                hit = calm[name] == 0 and choose.random() < errors
                calm[name] = 16 if hit else max(0, calm[name] - 1)
                ctx.set(getattr(pair, name), hit)
            await ctx.tick()
            seen["errors"] += ctx.get(pair.error)
            seen["overflow"] += ctx.get(pair.overflow)
        for name in calm:
            ctx.set(getattr(pair, name), 0)

    simulate(dut, ask, take, spoil, clocks=60_000)
    assert asked == {}
    assert (statuses.count(TIMED_OUT) > 3) == (seen["errors"] > 3) == (errors > 0)
    assert statuses.count(OK) > 20
    assert seen["overflow"] == 0


def test_nothing_is_asked_before_both_ends_are_out_of_reset():
    """The host sees the target's ready after the line, and holds no credit before."""
    cycles = 4
    dut = SidebandPair(pace=CFG_BUS, cycles=cycles, credits=8, tags=2)
    seen = []

    async def bench(ctx):
        for _ in range(2 * cycles):
            seen.append((ctx.get(dut.credits), ctx.get(dut.access.ready)))
            await ctx.tick()

    simulate(dut, bench, clocks=100)
    silent = cycles + 2
    assert seen == [(0, 0)] * silent + [(8, 1)] * (2 * cycles - silent)


@pytest.mark.parametrize("gone", ["host", "target"])
def test_after_the_reset_of_one_end_both_begin_anew(gone):
    host = SidebandHost(pace=CFG_BUS, tags=2, credits=2)
    target = SidebandTarget(pace=CFG_BUS, credits=2)

    class Ends(wiring.Component):
        def elaborate(self, platform) -> Module:
            m = Module()
            m.submodules.host, m.submodules.target = host, target
            wiring.connect(m, host.bus_o, target.bus_i)
            wiring.connect(m, target.bus_o, host.bus_i)
            return m

    async def bench(ctx):
        async def rest(clocks):
            for _ in range(clocks):
                await ctx.tick()

        ctx.set(host.response.ready, 1)
        ctx.set(host.peer_ready, 1)
        ctx.set(target.peer_ready, 1)
        await rest(3)
        for _ in range(2):
            await start(ctx, host, 0)
        await rest(8)  # the port has got one and does not answer yet
        assert ctx.get(host.credits) == 0
        ctx.set((target if gone == "host" else host).peer_ready, 0)
        await rest(3)
        ctx.set((host if gone == "host" else target).peer_ready, 0)
        await rest(10)
        assert ctx.get(host.credits) == 0 and ctx.get(host.idle)
        ctx.set(target.port.response.valid, 1)
        await rest(1)
        ctx.set(target.port.response.valid, 0)
        await rest(10)
        ctx.set(host.peer_ready, 1)
        ctx.set(target.peer_ready, 1)
        await rest(3)
        assert ctx.get(host.credits) == 2
        await start(ctx, host, 4)
        while not ctx.get(target.port.request.valid):
            await ctx.tick()
        assert ctx.get(target.port.request.address) == 4
        await ctx.tick()
        ctx.set(target.port.response.valid, 1)
        ctx.set(target.port.response.data, 7)
        await ctx.tick()
        ctx.set(target.port.response.valid, 0)
        while not ctx.get(host.response.valid):
            await ctx.tick()
        response = ctx.get(host.response.payload)
        assert (response.status, response.data) == (OK, 7)
        assert ctx.get(host.unexpected) == 0

    simulate(Ends({}), bench, clocks=300)


def test_negative_delays_are_refused():
    with pytest.raises(ValueError, match="must not be negative"):
        SidebandPair(cycles=-1)
    assert SidebandHost().pace == SidebandTarget().pace == wire_pace(32)
