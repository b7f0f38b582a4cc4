# amaranth: UnusedElaboratable=no
"""The access layer: against a plain memory, and over the port of the register file."""

import random
from typing import Any

import pytest

from hw.presets import preset
from hw.registers.description import Description, Kind
from hw.registers.hbf import hbf_description, hbf_resets
from hw.registers.register_file import RegisterFile
from tb.vip.registers import RegisterAccess
from tests.hw.pysim import simulate
from tests.hw.registers.maps import SMALL_RDL, describe_text
from tests.hw.registers.port_bench import by_name


class Words:
    """A memory in place of the port; notes what is asked of it."""

    def __init__(self) -> None:
        self.words: dict[int, int] = {}
        self.asked: list[tuple[str, int]] = []

    async def read(self, address: int) -> int:
        self.asked.append(("read", address))
        return self.words.get(address, 0)

    async def write(self, address: int, data: int) -> None:
        self.asked.append(("write", address))
        self.words[address] = data


def run(coroutine: Any) -> Any:
    """The result of a coroutine that never waits."""
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    return stop.value.value


@pytest.fixture
def small(tmp_path) -> Description:
    return describe_text(tmp_path, SMALL_RDL)


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def registers(small: Description, words: Words) -> RegisterAccess:
    return RegisterAccess(small, words.read, words.write)


def test_read_takes_the_bits_of_the_field(registers, words):
    words.words = {0x4: 0x765_00000 | 5 << 7 | 0x1F}
    assert run(registers.read("low")) == 0x1F
    assert run(registers.read("fixed")) == 5
    assert run(registers.read("top")) == 0x765


def test_read_of_a_wide_counter_takes_the_low_word_first(registers, words):
    words.words = {0x10: 0x123456_FF, 0x14: 0xFFFF_ABCD}
    assert run(registers.read("wide")) == 0xABCD_123456
    assert words.asked == [("read", 0x10), ("read", 0x14)]


def test_write_keeps_the_other_fields_and_no_strobe(registers, words):
    words.words = {0x4: 0x765_00000 | 5 << 7 | 0x1F}
    run(registers.write(low=2))
    assert words.words == {0x4: 0x765_00000 | 5 << 7 | 2}
    run(registers.write(top=0xFFF, go=1))
    assert words.words == {0x4: 0xFFF_00000 | 1 << 10 | 5 << 7 | 2}


def test_write_of_whole_words_reads_nothing(registers, words):
    run(registers.write(alone=1, top=1, low=9))
    assert words.asked == [("write", 0x4), ("write", 0x800000)]
    assert words.words == {0x4: 1 << 20 | 9, 0x800000: 1}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lower": 1}, "'lower' is not in the map"),
        ({"low": 32}, "'low' of 5 bits cannot be 32"),
        ({"low": -1}, "'low' of 5 bits cannot be -1"),
        ({"low": 1, "fixed": 1}, "'fixed' cannot be written: it is a constant"),
        ({"state": 1}, "'state' cannot be written: it is a status"),
        ({"wide": 0}, "'wide' cannot be written: it is a counter"),
    ],
)
def test_wrong_writes_are_refused_before_anything_is_written(registers, words, values, message):
    coroutine = registers.write(**values)
    with pytest.raises(ValueError, match=message):
        coroutine.send(None)
    assert words.asked == []


def test_strobes_cannot_be_read(registers):
    with pytest.raises(ValueError, match="'go' cannot be read: it is a strobe"):
        registers.read("go").send(None)


@pytest.mark.parametrize("seed", range(2))
def test_every_field_of_the_die_over_its_port(seed):
    description = hbf_description()
    dut = RegisterFile(description, resets=hbf_resets(preset("mini")))
    pick = random.Random(seed)

    async def bench(ctx: Any) -> None:
        registers = by_name(ctx, dut.port, description)
        config = {
            field.name: pick.getrandbits(field.width)
            for field in description.fields
            if field.kind is Kind.CONFIG
        }
        await registers.write(**config)
        names = list(config)
        pick.shuffle(names)
        for name in names:  # one by one: the others must stay
            config[name] = pick.getrandbits(description.by_name[name].width)
            await registers.write(**{name: config[name]})
        for field in description.fields:
            match field.kind:
                case Kind.CONFIG:
                    assert ctx.get(getattr(dut, field.name)) == config[field.name], field.name
                    assert await registers.read(field.name) == config[field.name], field.name
                case Kind.STATUS:
                    value = pick.getrandbits(field.width)
                    ctx.set(getattr(dut, field.name), value)
                    assert await registers.read(field.name) == value, field.name
                case Kind.COUNTER:
                    step = 1 + pick.getrandbits(7)
                    ctx.set(getattr(dut, field.name), step)
                    await ctx.tick()
                    ctx.set(getattr(dut, field.name), 0)
                    assert await registers.read(field.name) == step, field.name
                case Kind.STROBE:
                    await registers.pulse(field.name)
                    others = [f.name for f in description.fields if f.kind is Kind.STROBE]
                    high = [name for name in others if ctx.get(getattr(dut, name))]
                    assert high == [field.name]

    simulate(dut, bench, clocks=2000)
