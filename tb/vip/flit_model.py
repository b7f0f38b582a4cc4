"""Flits in plain Python: headers, payload and both CRCs, and the groups that a clock carries.

Written from the byte numbers of the formats and the text in docs/ucie.md, without the RTL. The CRC
is ``x^16 + x^15 + x^2 + 1`` over 1024 bits, computed byte by byte from a table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from hw.ucie.flit import CRC_MESSAGE_BYTES, HALVES, FlitFormat
from hw.ucie.flit_header import MAX_SEQUENCE, FlitType, HeaderFields, SequenceUse

Group = tuple[bytes, ...]  # the flits of a clock

STREAMING = 1  # protocol of payload
INJECTION = 0x138E  # what `lp_corrupt_crc` adds to a CRC

_POLYNOMIAL = 0x8005
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_unpacked = cache(HeaderFields.unpack)


class WrongFlit(ValueError):
    """Flits of which both CRCs are right, and that still nobody may send."""


def _entry(high: int) -> int:
    register = high << 8
    for _ in range(8):
        register = register << 1 ^ (_POLYNOMIAL if register & 0x8000 else 0)
        register &= 0xFFFF
    return register


_TABLE = tuple(map(_entry, range(256)))


@cache
def _zeros_behind(count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What ``count`` zero bytes make of the low and of the high byte of the register."""

    def run(register: int) -> int:
        for _ in range(count):
            register = (register << 8 & 0xFFFF) ^ _TABLE[register >> 8]
        return register

    return tuple(map(run, range(256))), tuple(run(byte << 8) for byte in range(256))


def crc_of(message: bytes) -> int:
    """CRC of at most 128 bytes."""
    if len(message) > CRC_MESSAGE_BYTES:
        raise ValueError(f"a message has at most {CRC_MESSAGE_BYTES} bytes, not {len(message)}")
    register = 0
    for byte in message.translate(_REVERSED):
        register = (register << 8 & 0xFFFF) ^ _TABLE[register >> 8 ^ byte]
    low, high = _zeros_behind(CRC_MESSAGE_BYTES - len(message))
    return low[register & 0xFF] ^ high[register >> 8]


@dataclass(frozen=True)
class Flit:
    header: HeaderFields
    payload: bytes
    bad: tuple[bool, ...] = (False, False)  # of each half


class FlitModel:
    """Makes flits of a format and takes them apart."""

    def __init__(self, flit_format: FlitFormat) -> None:
        self.flit_format = flit_format

    def assemble(
        self, header: HeaderFields, payload: bytes, corrupt: Sequence[bool] = (False, False)
    ) -> bytes:
        """A flit; ``corrupt`` makes the CRCs of its halves wrong."""
        parts = self.flit_format
        if len(payload) != parts.payload_bytes:
            raise ValueError(f"a flit carries {parts.payload_bytes} bytes, not {len(payload)}")
        flit, taken = bytearray(parts.flit_bytes), 0
        flit[parts.header.start : parts.header.stop] = header.pack().to_bytes(2, "little")
        for place in parts.protocol:
            flit[place.start : place.stop] = payload[taken : taken + len(place)]
            taken += len(place)
        for half in range(HALVES):
            message, place = parts.covered[half], parts.crc[half]
            crc = crc_of(bytes(flit[message.start : message.stop]))
            crc ^= INJECTION if corrupt[half] else 0
            flit[place.start : place.stop] = crc.to_bytes(2, "little")
        return bytes(flit)

    def parse(self, flit: bytes) -> Flit:
        """Reserved bytes are ignored."""
        parts = self.flit_format
        if len(flit) != parts.flit_bytes:
            raise ValueError(f"a flit has {parts.flit_bytes} bytes, not {len(flit)}")
        head = flit[parts.header.start : parts.header.stop]
        bad = tuple(
            crc_of(flit[message.start : message.stop])
            != int.from_bytes(flit[place.start : place.stop], "little")
            for message, place in zip(parts.covered, parts.crc, strict=True)
        )
        payload = b"".join(flit[place.start : place.stop] for place in parts.protocol)
        return Flit(_unpacked(int.from_bytes(head, "little")), payload, bad)


@dataclass(frozen=True)
class Seen:
    """A group taken apart.

    Attributes:
        bad: A CRC of one of its flits is wrong; what else stands here is not to be believed.
        sequence: Of its first flit, ``None`` for a NOP.
        payload: Of all flits.
        nak, answer: What the odd flits say; ``answer`` is a sequence number, or ``None``.
        wrong: Why nobody may send such a group; empty if that is not so.
    """

    bad: bool
    sequence: int | None
    payload: bytes
    nak: bool
    answer: int | None
    wrong: str = ""


class GroupModel:
    """The ``flits`` flits of a clock: even ones carry their numbers, odd ones an Ack or Nak."""

    def __init__(self, flit_format: FlitFormat, flits: int) -> None:
        self.flit, self.flits = FlitModel(flit_format), flits
        self._each = flit_format.payload_bytes
        self.payload_bytes = flits * self._each

    def assemble(
        self, sequence: int | None, payload: bytes, *, nak: bool, answer: int | None
    ) -> Group:
        """A group; without a ``sequence`` a NOP, without an ``answer`` its odd flits are empty."""
        payload = payload.ljust(self.payload_bytes, b"\0")
        protocol = 0 if sequence is None else STREAMING
        found = []
        for k in range(self.flits):
            if k % 2 == 0:
                number = 0 if sequence is None else flit_sequence(sequence, k)
                header = HeaderFields(protocol=protocol, sequence=number)
            elif answer is None:
                header = HeaderFields(protocol=protocol)
            else:
                use = SequenceUse.NAK if nak else SequenceUse.ACK
                header = HeaderFields(protocol=protocol, sequence=answer, use=use)
            part = payload[k * self._each : (k + 1) * self._each]
            found.append(self.flit.assemble(header, part))
        return tuple(found)

    def labels(self, group: Group) -> tuple[int | None, bool, int | None]:
        """``sequence``, ``nak`` and ``answer`` as of :class:`Seen`, unchecked."""
        place = self.flit.flit_format.header
        first, other = (
            _unpacked(int.from_bytes(flit[place.start : place.stop], "little"))
            for flit in group[:2]
        )
        return (
            first.sequence if first.protocol else None,
            other.use == SequenceUse.NAK,
            other.sequence if other.use in (SequenceUse.ACK, SequenceUse.NAK) else None,
        )

    def parse(self, group: Group) -> Seen:
        flits = [self.flit.parse(flit) for flit in group]
        heads = [flit.header for flit in flits]
        payload = b"".join(flit.payload for flit in flits)
        sequence, nak, answer = self.labels(group)
        return Seen(
            bad=any(any(flit.bad) for flit in flits),
            sequence=sequence,
            payload=payload,
            nak=nak,
            answer=answer,
            wrong=_wrong(heads, payload),
        )


def flit_sequence(sequence: int, further: int) -> int:
    """The sequence number ``further`` flits on; 255 is followed by 1."""
    return 1 + (sequence - 1 + further) % MAX_SEQUENCE


def _wrong(heads: list[HeaderFields], payload: bytes) -> str:
    first = heads[0]
    if len({head.protocol for head in heads}) > 1:
        return "flits of one group have different protocols"
    if any(head.type != FlitType.NORMAL or head.stack for head in heads):
        return "type or stack of a flit is not zero"
    if not first.protocol and any(payload):
        return "the payload of a NOP is not zero"
    if first.protocol and not first.sequence:
        return "payload has sequence number 0, which is reserved"
    for k, head in enumerate(heads):
        if k % 2:
            if head.use not in (SequenceUse.ACK, SequenceUse.NAK) or not head.sequence:
                return f"odd flit {k} carries neither Ack nor Nak of a sequence number"
            if (head.use, head.sequence) != (heads[1].use, heads[1].sequence):
                return "the odd flits of a group answer differently"
        else:
            number = flit_sequence(first.sequence, k) if first.protocol else 0
            if head.use != SequenceUse.EXPLICIT or head.sequence != number:
                return (
                    f"even flit {k} must carry sequence number {number} of its own, not "
                    f"{head.sequence} with use {int(head.use)}"
                )
    return ""
