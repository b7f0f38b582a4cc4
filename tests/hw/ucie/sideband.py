"""Sideband packets as the tables of the specification have them, and what benches share."""

import random

# Field, lowest bit and width in the 64 bits of a header; phase 1 begins at bit 32.
ENDS = [("cp", 62, 1), ("dp", 63, 1)]
COMMON = [
    ("opcode", 0, 5),
    ("ep", 5, 1),
    ("be", 14, 8),
    ("tag", 22, 5),
    ("srcid", 29, 3),
    ("dstid", 56, 3),
    ("cr", 61, 1),
    *ENDS,
]
REQUEST = [*COMMON, ("address", 32, 24)]
COMPLETION = [*COMMON, ("status", 32, 3)]
MESSAGE = [
    ("opcode", 0, 5),
    ("msgcode", 14, 8),
    ("srcid", 29, 3),
    ("subcode", 32, 8),
    ("info", 40, 16),
    ("dstid", 56, 3),
    *ENDS,
]

# Opcode: bits of data behind the header.
OPCODES = {
    0b00000: 0, 0b00001: 32, 0b00100: 0, 0b00101: 32,
    0b01000: 0, 0b01001: 64, 0b01100: 0, 0b01101: 64,
    0b10000: 0, 0b10001: 32, 0b11001: 64, 0b10010: 0,
}  # fmt: skip


def header_of(places, **values) -> int:
    """A header with its fields put at their places, parity as given."""
    assert values.keys() <= {name for name, _, _ in places}
    return sum(values.get(name, 0) << low for name, low, _ in places)


def fields_of(places, header: int) -> dict[str, int]:
    return {name: header >> low & (1 << width) - 1 for name, low, width in places}


def checked(header: int, data: int) -> int:
    """The header with even parity of its lower 62 bits in bit 62, and of the data in bit 63."""
    header &= (1 << 62) - 1
    return header | bin(header).count("1") % 2 << 62 | bin(data).count("1") % 2 << 63


def words_of(header: int, data: int, width: int, padded: bool) -> list[int]:
    """The words of a packet on a bus, low ones first."""
    bits = OPCODES[header & 0x1F]
    bits = 64 if bits and padded else bits
    sent = header | data << 64
    return [sent >> at & (1 << width) - 1 for at in range(0, 64 + bits, width)]


def random_packet(pick: random.Random) -> tuple[int, int]:
    """Any header of a known opcode, reserved bits too, with data that fits it and right parity."""
    opcode = pick.choice(list(OPCODES))
    data = pick.getrandbits(OPCODES[opcode]) if OPCODES[opcode] else 0
    return checked(pick.getrandbits(64) & ~0x1F | opcode, data), data
