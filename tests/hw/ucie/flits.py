"""Flits in plain Python, from the byte numbers of the specification and another CRC."""

from amaranth.lib.crc import Algorithm

# Amaranth's CRC is an implementation of its own: bits 0 to 7 of each byte come in, C[15] is high.
OTHER_CRC = Algorithm(
    crc_width=16,
    polynomial=0x8005,
    initial_crc=0,
    reflect_input=True,
    reflect_output=False,
    xor_output=0,
)(data_width=8)


def other_crc(message: bytes) -> int:
    return OTHER_CRC.compute(message.ljust(128, b"\0"))


def make_flit(number: int, payload: bytes, header: int) -> bytes:
    """A flit of format ``number``."""
    head = header.to_bytes(2, "little")
    if number == 6:
        first, second = head + payload[:124], payload[124:]
        return first + crc_bytes(first) + second + crc_bytes(second)
    assert number == 3
    sent = payload[:236] + head + payload[236:]
    return sent + bytes(10) + crc_bytes(sent[:128]) + crc_bytes(sent[128:])


def crc_bytes(message: bytes) -> bytes:
    return other_crc(message).to_bytes(2, "little")


# Bits of a flit that its CRCs protect: all but the reserved bytes of format 3.
PROTECTED = {
    6: list(range(8 * 256)),
    3: [*range(8 * 242), *range(8 * 252, 8 * 256)],
}
