"""Groups of flits in plain Python: messages and beats to payloads of bytes and back.

Written from the text in docs/ucie.md, without the RTL. A header is 16 bytes, its highest bit
zero, a beat is its header and its data.

Layout: slots of 16 bytes. Slot 0 holds a message or zeros. The other slots are one stream of
beats, a header and then the data; each group starts with the rest of the beat under way. Where no
beat is under way, a header begins the next one and a slot of zeros ends what the group holds. The
highest bit of the last byte of a header is set on the way.
"""

from collections.abc import Iterable
from dataclasses import dataclass

SLOT = 16
_FILLED = 0x80


class WrongGroup(ValueError):
    """A group that no sender may send."""


@dataclass(frozen=True)
class Beat:
    header: bytes
    data: bytes


def _marked(header: bytes) -> bytes:
    if len(header) != SLOT or header[-1] & _FILLED:
        raise ValueError(f"a header is {SLOT} bytes, the highest bit zero, not {header.hex()}")
    return header[:-1] + bytes([header[-1] | _FILLED])


def _is_marked(slot: bytes) -> bool:
    return bool(slot[-1] & _FILLED)


def _unmarked(slot: bytes) -> bytes:
    return slot[:-1] + bytes([slot[-1] & ~_FILLED])


class GroupEncoder:
    """Packs as tightly as it can; ``group`` makes the next group of what was put."""

    def __init__(self, *, data_bytes: int, slots: int) -> None:
        self._data_bytes, self._slots = data_bytes, slots
        self._messages: list[bytes] = []
        self._stream = bytearray()  # beats, or what is left of them

    @property
    def pending(self) -> int:
        """Slots of beats that no group holds yet."""
        return len(self._stream) // SLOT

    @property
    def full(self) -> bool:
        """The next group leaves no slot of its data region empty."""
        return self.pending >= self._slots - 1

    @property
    def idle(self) -> bool:
        return not self._messages and not self._stream

    def put_message(self, header: bytes) -> None:
        self._messages.append(_marked(header))

    def put_beat(self, beat: Beat) -> None:
        if len(beat.data) != self._data_bytes:
            raise ValueError(f"a beat has {self._data_bytes} bytes, not {len(beat.data)}")
        self._stream += _marked(beat.header) + beat.data

    def group(self) -> bytes:
        """One message, if there is one, and as much of the beats as fits."""
        message = self._messages.pop(0) if self._messages else bytes(SLOT)
        region = SLOT * (self._slots - 1)
        data, self._stream = self._stream[:region], self._stream[region:]
        return message + bytes(data).ljust(region, b"\0")


class GroupDecoder:
    """Takes groups apart, one after the other."""

    def __init__(self, *, data_bytes: int, slots: int) -> None:
        self._beat_bytes, self._slots = SLOT + data_bytes, slots
        self._begun = bytearray()

    @property
    def under_way(self) -> bool:
        """A beat has begun and not ended."""
        return bool(self._begun)

    def group(self, payload: bytes) -> tuple[bytes | None, list[Beat]]:
        """The message of a group and the beats that end in it.

        Raises:
            WrongGroup: something is where nothing may be.
        """
        if len(payload) != SLOT * self._slots:
            raise WrongGroup(f"a group has {self._slots} slots, not {len(payload)} bytes")
        slots = [payload[at : at + SLOT] for at in range(0, len(payload), SLOT)]
        message, beats, ended = None, [], False
        if _is_marked(slots[0]):
            message = _unmarked(slots[0])
        elif any(slots[0]):
            raise WrongGroup(f"no message, but slot 0 is {slots[0].hex()}")
        for place, slot in enumerate(slots[1:], start=1):
            if self._begun and not ended:
                self._begun += slot
            elif _is_marked(slot) and not ended:
                self._begun += _unmarked(slot)
            elif any(slot):
                raise WrongGroup(f"slot {place} is {slot.hex()} where no beat goes on or begins")
            else:
                ended = True
            if len(self._begun) == self._beat_bytes:
                beats.append(Beat(bytes(self._begun[:SLOT]), bytes(self._begun[SLOT:])))
                self._begun.clear()
        return message, beats


def encode(
    messages: Iterable[bytes], beats: Iterable[Beat], *, data_bytes: int, slots: int
) -> list[bytes]:
    """The fewest groups that hold all of them, a message in each as long as there are some."""
    encoder = GroupEncoder(data_bytes=data_bytes, slots=slots)
    for message in messages:
        encoder.put_message(message)
    for beat in beats:
        encoder.put_beat(beat)
    groups = []
    while not encoder.idle:
        groups.append(encoder.group())
    return groups


def decode(
    groups: Iterable[bytes], *, data_bytes: int, slots: int
) -> tuple[list[bytes], list[Beat]]:
    """The messages and beats of groups, in order.

    Raises:
        WrongGroup: of a group, or since the last beat does not end.
    """
    decoder = GroupDecoder(data_bytes=data_bytes, slots=slots)
    messages, beats = [], []
    for payload in groups:
        message, ended = decoder.group(payload)
        messages += [] if message is None else [message]
        beats += ended
    if decoder.under_way:
        raise WrongGroup("the last beat does not end")
    return messages, beats
