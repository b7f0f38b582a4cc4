"""Far ends of credited ports in plain Python, over any simulator: they send, or take, or block."""

from collections import deque
from collections.abc import Mapping
from typing import Protocol

from hw.ucie.transaction import Header, MessageClass
from tb.vip.agents import unpacker

_FIELDS = {name: field.offset for name, field in Header.as_shape()}
unpack = unpacker(Header.as_shape())

Fields = Mapping[str, int]


class Wires(Protocol):
    """Ports of a design by their flat names, such as ``a_data__credit``."""

    def get(self, name: str) -> int: ...

    def set(self, name: str, value: int) -> None: ...


def pack(fields: Fields) -> int:
    """The bits of a header."""
    return sum(int(value) << _FIELDS[name] for name, value in fields.items())


def page_beats(fields: Fields, *, chunk_end: bool = False) -> list[dict[str, int]]:
    """Headers of the four beats of a page."""
    return [
        {**fields, "beat": beat, "page_end": int(beat == 3), "chunk_end": int(chunk_end)}
        for beat in range(4)
    ]


class Sender:
    """Sends what it is given to an input port of a die, in order, as credits allow.

    Attributes:
        port: Of the die.
        owed: Credits that the die keeps.
        stands: Clocks in which it has kept all that it keeps.
        sent: Messages or beats so far.
    """

    def __init__(self, wires: Wires, port: str, credits: int, *, chunked: bool = False) -> None:
        self._wires, self.port, self._credits, self._chunked = wires, port, credits, chunked
        self._waiting: deque[Fields] = deque()
        self._open = False  # a chunk
        self.owed = self.stands = self.sent = 0

    @property
    def idle(self) -> bool:
        return not self._waiting

    def offer(self, *headers: Fields) -> None:
        self._waiting.extend(headers)

    def clock(self, *, may_send: bool = True) -> None:
        back = self._wires.get(f"{self.port}__credit")
        self.owed -= back
        self.stands = 0 if back or not self.owed else self.stands + 1
        goes = may_send and not self.idle and (self._open or self.owed < self._credits)
        self._wires.set(f"{self.port}__valid", int(goes))
        if not goes:
            return
        header = self._waiting.popleft()
        self._wires.set(f"{self.port}__header", pack(header))
        self.sent += 1
        self.owed += not self._open
        self._open = self._chunked and not (header["page_end"] and header["chunk_end"])


class Receiver:
    """Takes all that comes from an output port of a die, or takes nothing and gives no credit.

    Attributes:
        port: Of the die.
        blocked: It takes nothing.
        came: Messages or beats so far.
    """

    def __init__(
        self, wires: Wires, port: str, *, chunked: bool = False, blocked: bool = False
    ) -> None:
        self._wires, self.port, self._chunked, self.blocked = wires, port, chunked, blocked
        self._owed = self.came = 0

    def clock(self) -> dict[str, int] | None:
        """What came, if it is taken."""
        header = None
        if self._wires.get(f"{self.port}__valid"):
            header = unpack(self._wires.get(f"{self.port}__header"))
            self.came += 1
            self._owed += not self._chunked or _ends_chunk(header)
        gives = self._owed > 0 and not self.blocked
        self._owed -= gives
        self._wires.set(f"{self.port}__credit", int(gives))
        return None if self.blocked else header


def _ends_chunk(header: Fields) -> bool:
    beat = header["message_class"] == MessageClass.RELAY_DATA
    return bool(header["chunk_end"] and (header["page_end"] or not beat))
