"""Watches one end of a link from outside: retry, framing and credits of all that passes."""

from hw.ucie.framing import SLOT_BYTES
from hw.ucie.link_end import CHANNEL_BITS, Channel
from hw.ucie.link_shape import LinkShape
from tb.vip.credit_book import (
    CREDIT,
    CreditMessage,
    ReceiverBook,
    SenderBook,
    WrongCredit,
    message_class,
)
from tb.vip.flit_model import Group, GroupModel
from tb.vip.group_codec import Beat, GroupDecoder, WrongGroup
from tb.vip.retry_monitor import RetryMonitor, RuleBroken

_SPARE_AT = 15  # byte of a header


class Contents:
    """What groups carry, by channel: ``(place, header, data)`` of each, and CREDIT messages.

    The place of a channel rides in the spare bits of messages; beats have one channel only.
    """

    def __init__(self, shape: LinkShape, channels: tuple[Channel, ...]) -> None:
        self._decoder = GroupDecoder(data_bytes=8 * shape.lanes, slots=shape.slots)
        self._used, self._channels = SLOT_BYTES * shape.slots, channels
        beats = [place for place, channel in enumerate(channels) if channel.lanes]
        self._beats = beats[0] if beats else None

    @property
    def under_way(self) -> bool:
        """A beat has begun and not ended."""
        return self._decoder.under_way

    def group(self, payload: bytes) -> tuple[list[tuple[int, bytes, bytes]], bytes | None]:
        """Things of channels, and a CREDIT message, of the next group.

        Raises:
            WrongGroup: no sender may send it.
        """
        if any(payload[self._used :]):
            raise WrongGroup("bytes behind the last slot are not zero")
        message, beats = self._decoder.group(payload[: self._used])
        found = [self._beat(beat) for beat in beats]
        if message is None:
            return found, None
        if message_class(message) == CREDIT:
            return found, message
        place, rest = message[_SPARE_AT] & (1 << CHANNEL_BITS) - 1, message[_SPARE_AT]
        if rest != place or place >= len(self._channels) or self._channels[place].lanes:
            raise WrongGroup(f"message {message.hex()} is of no channel of messages")
        return [*found, (place, without_place(message), b"")], None

    def _beat(self, beat: Beat) -> tuple[int, bytes, bytes]:
        if self._beats is None or beat.header[_SPARE_AT]:
            raise WrongGroup(f"a beat with header {beat.header.hex()} is of no channel")
        return self._beats, beat.header, beat.data


def with_place(header: bytes, place: int) -> bytes:
    return header[:_SPARE_AT] + bytes([place])


def without_place(header: bytes) -> bytes:
    return header[:_SPARE_AT] + b"\0"


class LinkMonitor:
    """The rules of one end: those of :class:`tb.vip.retry_monitor.RetryMonitor`, and

    - groups are laid out as docs/ucie.md says, messages name a channel that there is;
    - nothing is sent without a credit that has come back to the watched end;
    - its CREDIT messages tell of no more than came to it, no count goes back, ``epoch`` and
      ``received`` stay as they are.

    Call ``left`` and ``delivered`` once a clock, ``left`` first, with what the watched end drives
    and what reaches it. ``sends`` and ``receives`` are its own.
    """

    def __init__(
        self,
        *,
        shape: LinkShape,
        sends: tuple[Channel, ...],
        receives: tuple[Channel, ...],
        answer_clocks: int = 16,
        name: str = "design",
    ) -> None:
        self._name = name
        self._model = GroupModel(shape.flit_format, shape.flits)
        self.retry = RetryMonitor(flits=shape.flits, rows=shape.rows, answer_clocks=answer_clocks)
        self._out, self._in = Contents(shape, sends), Contents(shape, receives)
        self.sends = [SenderBook(channel) for channel in sends]
        self.receives = [ReceiverBook(channel) for channel in receives]

    @property
    def at_rest(self) -> bool:
        """All was acknowledged, all credits are home and no beat is half sent."""
        return not self.unrest()

    def unrest(self) -> str:
        """What is not at rest; empty at rest."""
        if self.retry.acknowledged != self.retry.sent:
            return f"{self.retry.sent - self.retry.acknowledged} groups are unacknowledged"
        if self._out.under_way:
            return "a beat is half sent"
        for book in self.sends:
            if book.credits != book.depth:
                return f"{book.depth - book.credits} credits of {book.name} are not back"
        for receiver in self.receives:
            if receiver.came != receiver.freed:
                return f"{receiver.came - receiver.freed} of {receiver.name} were never freed"
        return ""

    def left(self, clock: int, group: Group | None) -> None:
        """A group leaves the watched end, or none.

        Raises:
            RuleBroken: it may not.
        """
        if group is None:
            return
        try:
            payload = self.retry.left(clock, self._model.parse(group))
            if payload is None:
                return
            things, credit = self._out.group(payload)
            for place, header, _ in things:
                self.sends[place].send(header)
            if credit is not None:
                self._told(credit)
        except RuleBroken as error:
            raise RuleBroken(f"{self._name}, {error}") from None
        except (WrongGroup, WrongCredit) as error:
            raise RuleBroken(f"{self._name}, clock {clock}: {error}") from None

    def delivered(self, clock: int, group: Group | None) -> None:
        """A group reaches the watched end; what it carries has been checked where it left."""
        if group is None:
            return
        seen = self._model.parse(group)
        if not self.retry.delivered(clock, seen):
            return
        things, credit = self._in.group(seen.payload)
        for place, header, _ in things:
            self.receives[place].receive(header)
        if credit is not None:
            told = CreditMessage.unpack(credit, len(self.sends))
            for book, count in zip(self.sends, told.freed, strict=True):
                book.told(count)

    def _told(self, header: bytes) -> None:
        told = CreditMessage.unpack(header, len(self.receives))
        began = tuple(book.began for book in self.receives)
        if (told.epoch, told.received) != (0, began):
            raise WrongCredit(
                f"CREDIT message of epoch {told.epoch}, received {told.received}, without a reset"
            )
        for book, count in zip(self.receives, told.freed, strict=True):
            book.told(count)
