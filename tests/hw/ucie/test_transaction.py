"""The header on the wire: every field at its place, through every way to pack it."""

import random

import pytest
from amaranth.hdl import Const
from amaranth.lib.data import StructLayout

from hw.ucie.transaction import HEADER_BYTES, Header, MessageClass, Operation, Route

# Field, lowest bit and width, counted by hand from the format in the order of the wire.
PLACES = [
    ("operation", 0, 4),
    ("message_class", 4, 3),
    ("route", 7, 1),
    ("address", 8, 40),
    ("length", 48, 18),
    ("tag", 66, 12),
    ("page", 78, 12),
    ("beat", 90, 2),
    ("chunk_end", 92, 1),
    ("poison", 93, 1),
    ("credit", 94, 16),
    ("epoch", 110, 1),
    ("spare", 111, 17),
]


def test_header_is_128_bits_without_gaps() -> None:
    layout = Header.as_shape()
    assert isinstance(layout, StructLayout)
    assert layout.size == 128 == 8 * HEADER_BYTES
    assert [(name, f.offset, f.width) for name, f in layout] == PLACES


@pytest.mark.parametrize(("name", "low", "width"), PLACES, ids=[place[0] for place in PLACES])
def test_a_field_fills_its_bits_and_no_others(name: str, low: int, width: int) -> None:
    ones = (1 << width) - 1
    assert Const.cast(Header.const({name: ones})).value == ones << low
    header = Header.from_bits(ones << low)
    assert {field: header[field] for field, *_ in PLACES if header[field]} == {name: ones}


def test_random_headers_round_trip() -> None:
    rng = random.Random(1)
    for _ in range(200):
        fields = {name: rng.getrandbits(width) for name, _, width in PLACES}
        bits = Const.cast(Header.const(fields)).value
        assert bits == sum(fields[name] << low for name, low, _ in PLACES), fields
        header = Header.from_bits(bits)
        assert {name: header[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("names", "width"), [(Operation, 4), (MessageClass, 3), (Route, 1)], ids=lambda x: str(x)
)
def test_names_fit_their_field(names: type[Operation | MessageClass | Route], width: int) -> None:
    assert [name.value for name in names] == list(range(len(names)))
    assert len(names) <= 1 << width


def test_length_reaches_the_largest_transaction() -> None:
    # 16 MiB, less one unit, in units of 64 bytes; as many pages of 4 KiB as `page` can count.
    assert (1 << 18) * 64 == 16 * 2**20 == (1 << 12) * 4096
