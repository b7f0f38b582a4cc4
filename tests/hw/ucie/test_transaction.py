"""The header on the wire: every field at its place, through every way to pack it."""

import random

import pytest
from amaranth.hdl import Const
from amaranth.lib.data import StructLayout

from hw.ucie.transaction import (
    HEADER_BYTES,
    Header,
    MessageClass,
    Operation,
    Owner,
    Route,
    Status,
)

# Field, lowest bit and width, counted by hand from the format in the order of the wire.
PLACES = [
    ("operation", 0, 4),
    ("message_class", 4, 3),
    ("route", 7, 1),
    ("address", 8, 40),
    ("length", 48, 19),
    ("tag", 67, 12),
    ("page", 79, 12),
    ("beat", 91, 2),
    ("chunk_end", 93, 1),
    ("poison", 94, 1),
    ("credit", 95, 16),
    ("page_end", 111, 1),
    ("owner", 112, 2),
    ("relocated", 114, 1),
    ("status", 115, 4),
    ("spare", 119, 9),
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
    ("names", "width"),
    [(Operation, 4), (MessageClass, 3), (Route, 1), (Owner, 2)],
    ids=lambda x: str(x),
)
def test_names_fit_their_field(
    names: type[Operation | MessageClass | Route | Owner], width: int
) -> None:
    assert [name.value for name in names] == list(range(len(names)))
    assert len(names) <= 1 << width


def test_status_has_the_numbers_of_the_write_table() -> None:
    assert {status.name: status.value for status in Status} == {
        "OK": 0,
        "BAD_ADDRESS": 1,
        "OVERLAP": 2,
        "ILLEGAL_OWNER": 3,
        "ORDER": 6,
        "PROGRAM_FAILED": 7,
        "LINK_RESET": 15,  # no number of the specification's
    }


def test_largest_transaction_has_a_length_and_pages() -> None:
    units, pages = 16 * 2**20 // 64, 16 * 2**20 // 4096
    fields = {"length": units, "page": pages - 1}
    header = Header.from_bits(Const.cast(Header.const(fields)).value)
    assert (header.length, header.page) == (units, pages - 1)
