"""The layouts in the page of the flit layer are those of the descriptions."""

from pathlib import Path

import pytest

from hw.ucie.flit import FORMATS
from hw.ucie.page import layouts, renewed, transactions

PAGE = Path(__file__).parents[3] / "docs" / "ucie.md"


def test_page_is_that_of_the_formats() -> None:
    page = PAGE.read_text()
    assert page == renewed(page), "run `make docs`"


def test_layouts_have_every_part_of_every_format() -> None:
    lines = layouts().splitlines()
    for flit_format in FORMATS:
        for use, part in flit_format.parts():
            rows = [line for line in lines if line.startswith(f"| {part[0]}-{part[-1]} |")]
            assert rows, (flit_format.number, use, part)
    assert "| 128-191 | 64 | payload 124-187 | CRC 1 |" in lines
    assert "| 0-235 | 236 | payload 0-235 | CRC 0 and CRC 1 |" in lines
    assert "| 0 | 7:6 | `protocol` |" in lines
    assert "| 1 | 5:4 | `use` |" in lines


def test_every_bit_of_a_header_has_one_field() -> None:
    """Fields in their order, without a gap, over the sixteen bytes that a slot holds."""
    rows = [line.split("|")[1].strip() for line in transactions().splitlines()[4:]]
    spans = [[int(bit) for bit in reversed(row.split(":"))] for row in rows]
    bits = [bit for span in spans for bit in range(span[0], span[-1] + 1)]
    assert bits == list(range(128))


def test_a_page_without_the_block_is_refused() -> None:
    with pytest.raises(ValueError, match="no block"):
        renewed("# A page\n")
