"""The flit header on the wire, in plain Python and in RTL."""

import random
from typing import Any

import pytest
from amaranth.hdl import Const, Module, Signal
from amaranth.lib.data import StructLayout

from hw.ucie.flit_header import (
    FlitHeader,
    HeaderFields,
    SequenceUse,
    is_discarded,
    sequence_of,
)
from tests.hw.pysim import simulate

# Field, lowest bit and width, counted from byte 0 bit 0 of the table in the specification.
PLACES = [
    ("sequence_high", 0, 4),
    ("reserved", 4, 1),
    ("stack", 5, 1),
    ("protocol", 6, 2),
    ("sequence_low", 8, 4),
    ("use", 12, 2),
    ("type", 14, 2),
]


def test_header_is_16_bits_without_gaps() -> None:
    layout = FlitHeader.as_shape()
    assert isinstance(layout, StructLayout)
    assert layout.size == 16
    assert [(name, f.offset, f.width) for name, f in layout] == PLACES


def random_fields(rng: random.Random) -> HeaderFields:
    return HeaderFields(
        protocol=rng.randrange(4),
        stack=rng.randrange(2),
        sequence=rng.randrange(256),
        use=rng.randrange(3),
        type=rng.randrange(3),
    )


def test_both_ways_to_pack_agree() -> None:
    rng = random.Random(1)
    for _ in range(500):
        fields = random_fields(rng)
        const = FlitHeader.const(
            {
                "protocol": fields.protocol,
                "stack": fields.stack,
                "sequence_high": fields.sequence >> 4,
                "sequence_low": fields.sequence & 15,
                "use": fields.use,
                "type": fields.type,
            }
        )
        assert Const.cast(const).value == fields.pack(), fields
        assert HeaderFields.unpack(fields.pack()) == fields


def test_a_known_header() -> None:
    # A Nak of sequence 0xA5 beside payload of protocol 2 of stack 1.
    nak = HeaderFields(protocol=2, stack=1, sequence=0xA5, use=SequenceUse.NAK)
    assert nak.pack().to_bytes(2, "little") == bytes([0b10_1_0_1010, 0b00_10_0101])


def test_the_reserved_bit_is_dropped() -> None:
    assert HeaderFields.unpack(1 << 4) == HeaderFields()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"protocol": 4}, "protocol must be 0 to 3, not 4"),
        ({"stack": 2}, "stack must be 0 to 1, not 2"),
        ({"sequence": 256}, "sequence must be 0 to 255, not 256"),
        ({"use": 4}, "use must be 0 to 3, not 4"),
        ({"type": -1}, "type must be 0 to 3, not -1"),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HeaderFields(**fields)


def test_more_than_16_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="16 bits, not 0x10000"):
        HeaderFields.unpack(1 << 16)


def test_headers_are_judged_as_in_python() -> None:
    m, header = Module(), Signal(FlitHeader)
    sequence, discarded = Signal(8), Signal()
    m.d.comb += [
        sequence.eq(sequence_of(header)),
        discarded.eq(is_discarded(header)),
    ]
    m.d.sync += Signal().eq(0)

    rng = random.Random(2)
    some = [rng.getrandbits(16) & rng.getrandbits(16) for _ in range(500)]

    async def bench(ctx: Any) -> None:
        for bits in [0, *(1 << k for k in range(16)), *some]:
            ctx.set(header.as_value(), bits)
            fields = HeaderFields.unpack(bits)
            assert ctx.get(sequence) == fields.sequence, hex(bits)
            assert ctx.get(discarded) == (bits == 0), hex(bits)

    simulate(m, bench, clocks=1)
