"""The two-byte header of a flit: fields, helpers that pack it, and what an empty one means.

With retry on, both bytes carry half of the 8-bit sequence number. Sequence 0 is reserved.

Source: UCIe 3.0 chapter 3, table 3-5 (256-byte flits, retry on).
"""

import enum
from dataclasses import dataclass

from amaranth.hdl import Cat, Value
from amaranth.lib import data

NOP_PROTOCOL = 0  # of the adapter; payload of a streaming protocol has 1, 2 or 3
MAX_SEQUENCE = 255


class FlitType(enum.IntEnum):
    NORMAL = 0  # or NOP, if the protocol says so
    TEST = 1
    MANAGEMENT = 2


class SequenceUse(enum.IntEnum):
    """What the sequence number in a header says; 3 is reserved."""

    EXPLICIT = 0  # the number of this flit
    ACK = 1  # the last flit that came in right
    NAK = 2  # the last flit before one that did not


class FlitHeader(data.Struct):
    """Flit header, 16 bits, the first byte low.

    Members
    -------
    sequence_high, sequence_low
        Bits 7:4 and 3:0 of the sequence number, see :func:`sequence_of`.
    reserved
        Zero for streaming protocols.
    stack, protocol
        Which of two protocol stacks the payload belongs to, and what it is. Protocol 0 is a flit
        of the adapter itself.
    use, type
        A :class:`SequenceUse` and a :class:`FlitType`.
    """

    sequence_high: 4
    reserved: 1
    stack: 1
    protocol: 2
    sequence_low: 4
    use: 2
    type: 2


@dataclass(frozen=True, kw_only=True)
class HeaderFields:
    """A flit header in plain Python."""

    protocol: int = NOP_PROTOCOL
    stack: int = 0
    sequence: int = 0
    use: int = SequenceUse.EXPLICIT
    type: int = FlitType.NORMAL

    def __post_init__(self) -> None:
        limits = {"protocol": 3, "stack": 1, "sequence": MAX_SEQUENCE, "use": 3, "type": 3}
        for name, limit in limits.items():
            value = getattr(self, name)
            if not 0 <= value <= limit:
                raise ValueError(f"{name} must be 0 to {limit}, not {value!r}")

    def pack(self) -> int:
        """As 16 bits, the first byte low."""
        first = self.protocol << 6 | self.stack << 5 | self.sequence >> 4
        second = self.type << 6 | self.use << 4 | self.sequence & 0xF
        return second << 8 | first

    @classmethod
    def unpack(cls, bits: int) -> "HeaderFields":
        """Fields of 16 bits; the reserved bit is dropped.

        Raises:
            ValueError: ``bits`` are more than 16.
        """
        if not 0 <= bits < 1 << 16:
            raise ValueError(f"a flit header has 16 bits, not {bits:#x}")
        first, second = bits & 0xFF, bits >> 8
        return cls(
            protocol=first >> 6,
            stack=first >> 5 & 1,
            sequence=(first & 0xF) << 4 | second & 0xF,
            use=second >> 4 & 3,
            type=second >> 6,
        )


def sequence_of(header: data.View) -> Value:
    """The sequence number of a :class:`FlitHeader`."""
    return Cat(header.sequence_low, header.sequence_high)


def is_discarded(header: data.View) -> Value:
    """All bits are zero: the receiver drops the flit and takes nothing from its header."""
    return header.as_value() == 0
