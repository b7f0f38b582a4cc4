"""The flit formats, byte by byte, and what a description of one may not say."""

from dataclasses import replace
from fractions import Fraction

import pytest

from hw.ucie.flit import (
    FLIT_BYTES,
    FORMATS,
    LATENCY_OPTIMISED,
    STANDARD,
    FlitFormat,
    latency_optimised,
)

# First and last byte of every part in the order of the flit, from the tables of the specification.
PARTS = {
    6: [
        ("header", 0, 1), ("protocol", 2, 63), ("protocol", 64, 125), ("crc0", 126, 127),
        ("protocol", 128, 191), ("protocol", 192, 253), ("crc1", 254, 255),
    ],
    3: [
        ("protocol", 0, 235), ("header", 236, 237), ("protocol", 238, 241),
        ("reserved", 242, 251), ("crc0", 252, 253), ("crc1", 254, 255),
    ],
}  # fmt: skip
COVERED = {6: [(0, 125), (128, 253)], 3: [(0, 127), (128, 241)]}
PAYLOAD = {6: 250, 3: 240}


def named(flit_format: FlitFormat) -> str:
    return f"format {flit_format.number}"


@pytest.mark.parametrize("flit_format", FORMATS, ids=named)
def test_every_byte_is_where_the_specification_has_it(flit_format: FlitFormat) -> None:
    number = flit_format.number
    assert [(use, r[0], r[-1]) for use, r in flit_format.parts()] == PARTS[number]
    assert [(r[0], r[-1]) for r in flit_format.covered] == COVERED[number]


@pytest.mark.parametrize("flit_format", FORMATS, ids=named)
def test_payload_is_all_protocol_bytes_in_order(flit_format: FlitFormat) -> None:
    places = flit_format.payload_places
    assert len(places) == flit_format.payload_bytes == PAYLOAD[flit_format.number]
    assert list(places) == sorted(set(places))
    for use, part in flit_format.parts():
        assert (set(part) <= set(places)) == (use == "protocol")


@pytest.mark.parametrize("flit_format", FORMATS, ids=named)
def test_all_that_is_sent_is_covered_once(flit_format: FlitFormat) -> None:
    covered = [place for part in flit_format.covered for place in part]
    sent = {*flit_format.header, *flit_format.payload_places}
    assert sorted(covered) == sorted(sent)


def test_efficiency_is_payload_over_flit() -> None:
    assert LATENCY_OPTIMISED.efficiency == Fraction(250, 256)
    assert STANDARD.efficiency == Fraction(240, 256)
    assert FLIT_BYTES == 256


@pytest.mark.parametrize("flit_bytes", [16, 48, 256])
def test_smaller_flits_are_laid_out_alike(flit_bytes: int) -> None:
    small = latency_optimised(flit_bytes)
    half = flit_bytes // 2
    # Bytes that are not payload: flit header and both CRCs.
    others = [0, 1, half - 2, half - 1, flit_bytes - 2, flit_bytes - 1]
    assert sorted({*range(flit_bytes)} - {*small.payload_places}) == others
    assert [small.covered[0][-1], small.covered[1][-1]] == [half - 3, flit_bytes - 3]
    assert [use for use, _ in small.parts()] == [use for use, *_ in PARTS[6]]


@pytest.mark.parametrize("flit_bytes", [12, 46, 260])
def test_sizes_that_do_not_fall_into_quarters_are_refused(flit_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"a multiple of 4 from 16 to 256, not {flit_bytes}"):
        latency_optimised(flit_bytes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reserved": (range(242, 251),)}, "byte 251 has 0 uses in format 3"),
        ({"reserved": (range(241, 252),)}, "byte 241 has 2 uses in format 3"),
        ({"reserved": (), "header": range(236, 238)}, "byte 242 has 0 uses"),
        ({"header": range(236, 239), "protocol": (range(236), range(239, 242))}, "2 bytes, not 3"),
        ({"covered": (range(0, 129), range(129, 242))}, "at most 128, not 2 over 129"),
        ({"crc": (range(251, 254), range(254, 256)), "reserved": (range(242, 251),)},
         "not 3 over 128"),
    ],
)  # fmt: skip
def test_what_is_no_flit_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(STANDARD, **changes)
