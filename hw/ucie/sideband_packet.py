"""Packets of the sideband: a header of 64 bits, then no, 32 or 64 bits of data.

Phase 0 is the low half of a header, phase 1 the high half. Three kinds share their ends: register
requests, their completions, and messages without data. Bit 0 of an opcode says that data follows,
bit 3 that it is an access or data of 64 bits; this holds for all opcodes of the specification.

Source: UCIe 3.0 chapter 7 for the fields and opcodes; UCIe 1.1 table 6-7 for both parities, the
status codes, and what the completion of a refused request carries.
"""

import enum
from dataclasses import dataclass, fields

from amaranth.hdl import Cat, Value
from amaranth.lib import data, wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Out

HEADER_BITS = 64
CONTROL_PARITY_BIT = 62
DATA_PARITY_BIT = 63
TAGS = 32
STATUS_BITS = 3
COUNT_BITS = 16  # of packets that were dropped


class Opcode(enum.IntEnum):
    MEMORY_READ_32 = 0b00000
    MEMORY_WRITE_32 = 0b00001
    CONFIG_READ_32 = 0b00100
    CONFIG_WRITE_32 = 0b00101
    MEMORY_READ_64 = 0b01000
    MEMORY_WRITE_64 = 0b01001
    CONFIG_READ_64 = 0b01100
    CONFIG_WRITE_64 = 0b01101
    COMPLETION = 0b10000
    COMPLETION_32 = 0b10001
    COMPLETION_64 = 0b11001
    MESSAGE = 0b10010

    @property
    def data_bits(self) -> int:
        """Bits of data that follow the header."""
        return (32 << (self >> 3 & 1)) if self & 1 else 0

    @property
    def is_request(self) -> bool:
        return not self & 0b10010

    @property
    def is_completion(self) -> bool:
        return self & 0b10010 == 0b10000


class CompletionStatus(enum.IntEnum):
    """How the completer ended an access; other codes are reserved, or stalls, which none sends."""

    SUCCESS = 0
    UNSUPPORTED = 1  # refused, nothing was done
    ABORT = 4  # half of it was done


class RequestHeader(data.Struct):
    """Header of a register request, 64 bits.

    Members
    -------
    opcode, tag, address
        The tag comes back in the completion; the address is one of bytes.
    ep
        The data is poisoned.
    be
        Byte enables, the upper four for accesses of 64 bits only.
    srcid, dstid
        From and to whom.
    cr
        Gives one credit back.
    cp, dp
        Even parity of the header but for both, and of the data.
    """

    opcode: 5
    ep: 1
    reserved0: 8
    be: 8
    tag: 5
    reserved1: 2
    srcid: 3
    address: 24
    dstid: 3
    reserved2: 2
    cr: 1
    cp: 1
    dp: 1


class CompletionHeader(data.Struct):
    """Header of a completion, 64 bits: as of a request, with a status instead of the address.

    Members
    -------
    status
        A :class:`CompletionStatus`.
    be, tag
        Those of the request.
    """

    opcode: 5
    ep: 1
    reserved0: 8
    be: 8
    tag: 5
    reserved1: 2
    srcid: 3
    status: 3
    reserved2: 21
    dstid: 3
    reserved3: 2
    cr: 1
    cp: 1
    dp: 1


class MessageHeader(data.Struct):
    """Header of a message, 64 bits; ``msgcode`` and ``subcode`` say which, ``info`` is its own."""

    opcode: 5
    reserved0: 9
    msgcode: 8
    reserved1: 7
    srcid: 3
    subcode: 8
    info: 16
    dstid: 3
    reserved2: 3
    cp: 1
    dp: 1


class SidebandPacket(data.Struct):
    """A packet between blocks: the header as 64 bits, and data, low half first, else zero.

    Parity is put in by the transmitter and taken as right by all behind the receiver.
    """

    header: 64
    data: 64


class PacketPort(wiring.Signature):
    """Packets that have come: ``valid`` for one clock each. Nobody can refuse one."""

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "packet": Out(SidebandPacket)})


def control_parity(header: Value) -> Value:
    """What ``cp`` of the header must be."""
    return header[:CONTROL_PARITY_BIT].xor()


def with_parity(header: Value, payload: Value) -> Value:
    """The header with both parities put in."""
    return Cat(header[:CONTROL_PARITY_BIT], control_parity(header), payload.xor())


def check_identity(identity: int) -> None:
    """A ``srcid`` or ``dstid``."""
    if not 0 <= identity < 8:
        raise ValueError(f"an identity has 3 bits and cannot be {identity!r}")


class ParityError(ValueError):
    """A packet of plain Python has a wrong parity."""


@dataclass(frozen=True, kw_only=True)
class _Packet:
    """Common to the packets of plain Python: fields of the header, and the data."""

    opcode: Opcode
    srcid: int = 0
    dstid: int = 0
    data: int = 0

    def _layout(self) -> StructLayout:
        raise NotImplementedError

    def pack(self) -> tuple[int, int]:
        """Header with both parities, and data.

        Raises:
            ValueError: a value does not fit its field, or the data what the opcode says.
        """
        if not 0 <= self.data < 1 << self.opcode.data_bits:
            raise ValueError(f"{self.opcode.name} cannot carry the data {self.data:#x}")
        layout = dict(self._layout())
        header = 0
        for name in (field.name for field in fields(self) if field.name != "data"):
            value, place = getattr(self, name), layout[name]
            if not 0 <= value < 1 << place.width:
                raise ValueError(f"{name} has {place.width} bits and cannot be {value!r}")
            header |= value << place.offset
        header |= (header.bit_count() & 1) << CONTROL_PARITY_BIT
        return header | (self.data.bit_count() & 1) << DATA_PARITY_BIT, self.data


@dataclass(frozen=True, kw_only=True)
class Request(_Packet):
    """A register request in plain Python."""

    tag: int
    address: int
    be: int
    ep: int = 0
    cr: int = 0

    def _layout(self) -> StructLayout:
        return _layout(RequestHeader)


@dataclass(frozen=True, kw_only=True)
class Completion(_Packet):
    """A completion in plain Python."""

    tag: int
    status: int = CompletionStatus.SUCCESS
    be: int = 0
    ep: int = 0
    cr: int = 0

    def _layout(self) -> StructLayout:
        return _layout(CompletionHeader)


@dataclass(frozen=True, kw_only=True)
class Message(_Packet):
    """A message without data in plain Python."""

    opcode: Opcode = Opcode.MESSAGE
    msgcode: int
    subcode: int = 0
    info: int = 0

    def _layout(self) -> StructLayout:
        return _layout(MessageHeader)


def unpack(header: int, payload: int = 0) -> Request | Completion | Message:
    """The packet of a header and its data.

    Raises:
        ParityError: one of the parities is wrong.
        ValueError: the opcode is none of :class:`Opcode`.
    """
    if (header & (1 << DATA_PARITY_BIT) - 1).bit_count() & 1:
        raise ParityError(f"control parity of {header:#018x}")
    if (header >> DATA_PARITY_BIT ^ payload.bit_count()) & 1:
        raise ParityError(f"data parity of {header:#018x} with {payload:#x}")
    opcode = Opcode(header & 0x1F)
    kind = Request if opcode.is_request else Completion if opcode.is_completion else Message
    layout = _layout(
        {Request: RequestHeader, Completion: CompletionHeader, Message: MessageHeader}[kind]
    )
    places = {name: place for name, place in layout if name in kind.__dataclass_fields__}
    values = {n: header >> p.offset & (1 << p.width) - 1 for n, p in places.items()}
    return kind(**values | {"opcode": opcode, "data": payload})


def _layout(struct: type[data.Struct]) -> StructLayout:
    layout = struct.as_shape()
    assert isinstance(layout, StructLayout)
    return layout
