"""Credits of a link in plain Python: CREDIT messages, and the books of both ends.

Written from the text in docs/ucie.md, without the RTL. Counts are kept without end here; messages
carry them modulo 4096. A channel has ``depth`` credits; most spend one with each message or beat,
a chunked one with the first beat of a chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hw.ucie.link_end import Channel

CREDIT, RELAY_DATA = 5, 4  # message classes
COUNTS, EPOCHS = 1 << 12, 1 << 2
_COUNT_BITS = 12
_CLASS_AT, _EPOCH_AT, _FREED_AT = 4, 7, 9
_CHUNK_END, _PAGE_END = 93, 111  # bits of a header
HEADER_BYTES = 16


class WrongCredit(ValueError):
    """Something was sent, freed or told that cannot be."""


def message_class(header: bytes) -> int:
    return header[0] >> _CLASS_AT & 0x7


@dataclass(frozen=True)
class CreditMessage:
    """Counts of each channel, modulo 4096."""

    epoch: int
    freed: tuple[int, ...]
    received: tuple[int, ...]

    def pack(self) -> bytes:
        """As the 16 bytes of a header."""
        bits = CREDIT << _CLASS_AT | self.epoch << _EPOCH_AT
        for place, count in enumerate((*self.freed, *self.received)):
            bits |= count << _FREED_AT + _COUNT_BITS * place
        return bits.to_bytes(HEADER_BYTES, "little")

    @classmethod
    def unpack(cls, header: bytes, channels: int) -> "CreditMessage":
        """Counts of a header of this class.

        Raises:
            WrongCredit: bits are set that have no meaning.
        """
        bits = int.from_bytes(header, "little")
        counts = [
            bits >> _FREED_AT + _COUNT_BITS * place & COUNTS - 1 for place in range(2 * channels)
        ]
        epoch = bits >> _EPOCH_AT & EPOCHS - 1
        found = cls(epoch, tuple(counts[:channels]), tuple(counts[channels:]))
        if found.pack() != header:
            raise WrongCredit(f"CREDIT message {header.hex()} has bits that mean nothing")
        return found


class Spending:
    """What of a channel takes a credit."""

    def __init__(self, channel: Channel) -> None:
        self._chunked, self.open = channel.chunked, False

    def spends(self, header: bytes) -> bool:
        """Call it for each message or beat, in order."""
        if not self._chunked:
            return True
        bits = int.from_bytes(header, "little")
        beat = message_class(header) == RELAY_DATA
        spends = beat and not self.open
        if bits >> _CHUNK_END & 1 and (bits >> _PAGE_END & 1 or not beat):
            self.open = False
        elif beat:
            self.open = True
        return spends


class SenderBook:
    """Credits of one channel at the end that sends."""

    def __init__(self, channel: Channel) -> None:
        self.name, self.depth = channel.name, channel.depth
        self._spending = Spending(channel)
        self.sent = self.freed = 0
        self._before = 0  # sent when the epoch began

    @property
    def credits(self) -> int:
        return self.depth - (self.sent - self.freed)

    @property
    def ready(self) -> bool:
        """The next thing may go out: there is a credit, or it belongs to an open chunk."""
        return self.credits > 0 or self._spending.open

    def send(self, header: bytes) -> None:
        """Something goes out.

        Raises:
            WrongCredit: without a credit.
        """
        if not self._spending.spends(header):
            return
        if self.credits <= 0:
            raise WrongCredit(
                f"{self.name} is sent without credit: {self.sent} went before, {self.freed} are "
                f"freed, and it is {self.depth} deep"
            )
        self.sent += 1

    def told(self, count: int) -> None:
        """A message tells what was freed.

        Raises:
            WrongCredit: the count went back, or ahead of what was sent.
        """
        freed = self.freed + (count - self.freed) % COUNTS
        if freed > self.sent:
            raise WrongCredit(
                f"{count} of {self.name} are told as freed, after {self.freed % COUNTS}, and "
                f"{self.sent % COUNTS} were sent (modulo {COUNTS})"
            )
        self.freed = freed

    def cleared(self) -> None:
        """An epoch begins, and a chunk that was open is cut."""
        self._before = self.sent
        self._spending.open = False

    def arrived(self, count: int) -> int:
        """The first message of an epoch tells what had come; how many were lost."""
        lost = (self._before - count) % COUNTS
        if lost > self.sent - self.freed:
            raise WrongCredit(
                f"{count} of {self.name} are told as received, {self._before % COUNTS} were sent"
            )
        self.sent -= lost
        self._before -= lost
        return lost


class ReceiverBook:
    """Places of one channel at the end that receives."""

    def __init__(self, channel: Channel) -> None:
        self.name, self.depth = channel.name, channel.depth
        self._spending = Spending(channel)
        self.came = self.freed = self.began = 0

    def receive(self, header: bytes) -> None:
        """Something has come.

        Raises:
            WrongCredit: there is no place for it.
        """
        if not self._spending.spends(header):
            return
        if self.came - self.freed >= self.depth:
            raise WrongCredit(f"{self.name} overflows: all {self.depth} places are taken")
        self.came += 1

    def free(self) -> None:
        if self.freed == self.came:
            raise WrongCredit(f"a place of {self.name} is freed that is not taken")
        self.freed += 1

    def told(self, count: int) -> None:
        """What this end tells as freed, of an end that is watched from outside.

        Raises:
            WrongCredit: the count went back, or ahead of what came.
        """
        freed = self.freed + (count - self.freed) % COUNTS
        if freed > self.came:
            raise WrongCredit(
                f"{count} of {self.name} are told as freed, after {self.freed % COUNTS}, and "
                f"{self.came % COUNTS} came (modulo {COUNTS})"
            )
        self.freed = freed

    def cleared(self) -> None:
        """An epoch begins, and a chunk that was open is cut."""
        self.began = self.came
        self._spending.open = False


def message_of(epoch: int, books: Sequence[ReceiverBook]) -> CreditMessage:
    """What an end tells of its receivers."""
    return CreditMessage(
        epoch,
        tuple(book.freed % COUNTS for book in books),
        tuple(book.began % COUNTS for book in books),
    )
