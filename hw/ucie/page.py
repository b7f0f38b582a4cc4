"""Renews the tables in the page of the flit layer: ``python -m hw.ucie.page docs/ucie.md``."""

import sys
from itertools import accumulate
from pathlib import Path

from hw.ucie.flit import FORMATS, FlitFormat
from hw.ucie.flit_header import FlitHeader
from hw.ucie.group_page import groups
from hw.ucie.tables import table
from hw.ucie.transaction import HEADER_BYTES, Header

_MEANING = {
    "protocol": "payload",
    "header": "flit header",
    "reserved": "reserved, zero",
    "crc0": "CRC of the first half, low byte first",
    "crc1": "CRC of the second half, low byte first",
}


def layouts() -> str:
    """All tables."""
    return "\n\n".join([*map(_format_table, FORMATS), _header_table()])


def _format_table(flit_format: FlitFormat) -> str:
    title = (
        f"Format {flit_format.number}, {flit_format.name}: {flit_format.payload_bytes} of "
        f"{flit_format.flit_bytes} bytes are payload, {100 * float(flit_format.efficiency):.2f} %."
    )
    parts = list(flit_format.parts())
    taken = accumulate((len(r) if use == "protocol" else 0 for use, r in parts), initial=0)
    rows = []
    for (use, part), first in zip(parts, taken, strict=False):
        meaning = _MEANING[use]
        if use == "protocol":
            meaning += f" {_span(range(first, first + len(part)))}"
        crcs = [
            f"CRC {half}"
            for half, message in enumerate(flit_format.covered)
            if set(message) & set(part)
        ]
        rows.append((_span(part), str(len(part)), meaning, " and ".join(crcs) or "-"))
    return title + "\n\n" + table(("flit bytes", "size", "holds", "covered by"), "rrll", rows)


def _header_table() -> str:
    rows = []
    for name, field in FlitHeader.as_shape():
        low = field.offset % 8
        bits = _span(range(low, low + field.width), high_first=True)
        rows.append((str(field.offset // 8), bits, f"`{name}`"))
    return "Flit header (`FlitHeader`):\n\n" + table(("byte", "bits", "field"), "rrl", rows)


def transactions() -> str:
    """The header of the transaction format, bit by bit."""
    rows = [
        (_span(range(field.offset, field.offset + field.width), high_first=True), f"`{name}`")
        for name, field in Header.as_shape()
    ]
    title = f"Header of a transaction (`Header`), {8 * HEADER_BYTES} bits:"
    return title + "\n\n" + table(("bits", "field"), "rl", rows)


def _span(part: range, *, high_first: bool = False) -> str:
    if len(part) == 1:
        return str(part[0])
    return f"{part[-1]}:{part[0]}" if high_first else f"{part[0]}-{part[-1]}"


def renewed(page: str) -> str:
    """``page`` with the blocks between the marks made anew.

    Raises:
        ValueError: it lacks such a block.
    """
    for block, (begin_mark, end_mark, content) in BLOCKS.items():
        begin, end = page.find(begin_mark), page.find(end_mark)
        if not 0 <= begin < end:
            raise ValueError(f"the page has no block of {block}: {begin_mark} ... {end_mark}")
        page = f"{page[: begin + len(begin_mark)]}\n\n{content()}\n\n{page[end:]}"
    return page


BLOCKS = {
    name: (f"<!-- made by make docs: {name} -->", f"<!-- end of {name} -->", content)
    for name, content in (
        ("transactions", transactions),
        ("layouts", layouts),
        ("groups", groups),
    )
}


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text()))
