# amaranth: UnusedElaboratable=no
"""The register file against a plain model, and what its contract says in single cases."""

import random
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.lib.wiring import Flow

from hw.errors import InputError
from hw.presets import PRESETS, preset
from hw.registers.description import Kind, describe, load
from hw.registers.hbf import RDL, hbf_description, hbf_resets
from hw.registers.register_file import RegisterFile
from tests.hw.pysim import simulate
from tests.hw.registers.maps import SMALL_RDL, SMALL_RESETS
from tests.hw.registers.model import RegisterModel
from tests.hw.registers.port_bench import AccessRefused, access, by_name


def small(tmp_path: Path) -> tuple[Path, dict[str, int]]:
    file = tmp_path / "small.rdl"
    file.write_text(SMALL_RDL)
    return file, SMALL_RESETS


def hbf(tmp_path: Path) -> tuple[Path, dict[str, int]]:
    return RDL, hbf_resets(preset("mini"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("which", "clocks"), [(small, 4000), (hbf, 1500)])
def test_random_accesses_agree_with_the_model(which, clocks, seed, tmp_path):
    path, resets = which(tmp_path)
    description = describe(load(path))
    dut = RegisterFile(description, resets=resets)
    model = RegisterModel(load(path), resets)
    pick = random.Random(seed)
    addresses = sorted(model.addresses)
    unmapped = [1, 2, 3, 0xC, 0xFFFFFC, addresses[-1] + 4, addresses[1] + 1, addresses[1] | 1 << 22]
    status = [name for name in model.nodes if model.driven(name)]
    counters = [name for name in model.nodes if model.is_counter(name)]
    outputs = [name for name in model.nodes if model.is_config(name) or model.is_strobe(name)]
    refused = answered = 0

    async def bench(ctx: Any) -> None:
        nonlocal refused, answered
        request, response = dut.port.request, dut.port.response
        turn = 0  # walks on from the word before, so that high words follow low words
        driven, steps = {name: 0 for name in status}, {name: 0 for name in counters}
        for _ in range(clocks):
            for name in pick.sample(status, min(3, len(status))):
                driven[name] = pick.getrandbits(len(getattr(dut, name)))
                ctx.set(getattr(dut, name), driven[name])
            for name in pick.sample(counters, 2):
                steps[name] = pick.choice((0, pick.getrandbits(len(getattr(dut, name)))))
                ctx.set(getattr(dut, name), steps[name])
            asked = None
            if pick.random() < 0.7:
                turn = pick.choice((turn + 1, pick.randrange(len(addresses)))) % len(addresses)
                address = addresses[turn] if pick.random() < 0.9 else pick.choice(unmapped)
                asked = (pick.random() < 0.4, address, pick.getrandbits(32))
                ctx.set(request.write, asked[0])
                ctx.set(request.address, asked[1])
                ctx.set(request.data, asked[2])
            ctx.set(request.valid, asked is not None)
            await ctx.tick()
            expected = model.clock(asked, driven, steps)
            assert ctx.get(response.valid) == (expected is not None)
            if expected is not None:
                answered += 1
                refused += expected[1]
                assert (ctx.get(response.data), ctx.get(response.error)) == expected
            for name in outputs:
                assert ctx.get(getattr(dut, name)) == model.held[name], name

    simulate(dut, bench, clocks=clocks + 10)
    assert answered > clocks / 2 and answered / 20 < refused < answered / 2


@pytest.mark.parametrize("machine", PRESETS.values(), ids=PRESETS)
def test_all_readable_fields_hold_their_reset_value(machine):
    description, resets = hbf_description(), hbf_resets(machine)
    dut = RegisterFile(description, resets=resets)

    async def bench(ctx: Any) -> None:
        registers = by_name(ctx, dut.port, description)
        for field in description.fields:
            if field.readable:
                expected = resets.get(field.name, field.reset or 0)
                assert await registers.read(field.name) == expected, field.name
            if field.kind is Kind.CONFIG:
                assert ctx.get(getattr(dut, field.name)) == expected

    simulate(dut, bench, clocks=1000)


def test_high_word_belongs_to_the_low_word_though_the_counter_goes_on(tmp_path):
    path, resets = small(tmp_path)
    description = describe(load(path))
    dut = RegisterFile(description, resets=resets)
    step = 0x00_80_00_01  # 24 bits of the counter are in the low word: a carry every other clock

    async def bench(ctx: Any) -> None:
        ctx.set(dut.wide, step)
        for clock in range(1, 200):
            await ctx.tick()
            # The access takes effect a clock after its request: `clock + 1` steps were added then,
            # and three more clocks go by until the low word's answer and the high word's request.
            low = await access(ctx, dut.port, 0x10, None)
            added = (clock - 1) * 5 + 2
            high = await access(ctx, dut.port, 0x14, None)
            assert (high << 32 | low) >> 8 == step * added

    simulate(dut, bench, clocks=2000)


def test_an_increment_in_the_clock_of_the_clear_is_counted():
    description = hbf_description()
    dut = RegisterFile(description, resets=hbf_resets(preset("formal")))

    async def bench(ctx: Any) -> None:
        registers = by_name(ctx, dut.port, description)
        ctx.set(dut.erases, 7)
        await ctx.tick().repeat(10)
        await registers.pulse("clear_counters")
        assert ctx.get(dut.clear_counters)  # in this clock
        await ctx.tick()
        ctx.set(dut.erases, 0)
        assert not ctx.get(dut.clear_counters)
        assert await registers.read("erases") == 7
        await registers.pulse("clear_counters")
        assert await registers.read("erases") == 0

    simulate(dut, bench, clocks=100)


@pytest.mark.parametrize(
    ("address", "data"),
    [
        (0x7FC, None),
        (0x800100, None),
        (0x101, None),
        (0x102, 1),
        (0x000, 1),
        (0x508, 1),
        (0x500, None),
        (0x504, None),
    ],
    ids=[
        "unmapped", "alias of t_read", "misaligned", "misaligned write", "write to a constant",
        "write to a counter", "read of a strobe", "gap",
    ],
)  # fmt: skip
def test_a_wrong_access_is_answered_with_an_error_and_changes_nothing(address, data):
    description, resets = hbf_description(), hbf_resets(preset("formal"))
    dut = RegisterFile(description, resets=resets)

    async def bench(ctx: Any) -> None:
        with pytest.raises(AccessRefused):
            await access(ctx, dut.port, address, data)
        assert ctx.get(dut.port.response.data) == 0
        for field in description.fields:
            if field.kind is Kind.CONFIG:
                assert ctx.get(getattr(dut, field.name)) == resets.get(field.name, field.reset)
        assert await access(ctx, dut.port, 0x100, None) == resets["t_read"]

    simulate(dut, bench, clocks=20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t_read": 1 << 20}, r"resets\['t_read'\] is 1048576: the field has 20 bits, at most"),
        ({"dies": -1}, r"resets\['dies'\] is -1: the field has 8 bits, at most 255"),
        ({"erases": 1}, r"resets\['erases'\]: no field of that name has a reset value"),
        ({"t_write": 1}, r"resets\['t_write'\]: no field of that name has a reset value"),
    ],
)
def test_wrong_reset_values_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        RegisterFile(hbf_description(), resets=hbf_resets(preset("paper")) | change)


def test_missing_reset_values_are_refused():
    with pytest.raises(InputError, match=r"resets\['dies'\] is missing"):
        RegisterFile(hbf_description())


def test_every_field_but_constants_is_a_port_and_the_file_converts():
    description = hbf_description()
    dut = RegisterFile(description, resets=hbf_resets(preset("paper")))
    members = dict(dut.signature.members)
    del members["port"]
    flows = {Kind.CONFIG: Flow.Out, Kind.STROBE: Flow.Out}
    assert {name: (member.flow, member.shape) for name, member in members.items()} == {
        field.name: (flows.get(field.kind, Flow.In), field.increment_bits or field.width)
        for field in description.fields
        if field.kind is not Kind.CONSTANT
    }
    rtlil.convert(dut)  # which refuses combinational cycles
