"""Watches one end of a link from outside: retry, framing and credits of all that passes."""

from hw.ucie.framing import SLOT_BYTES
from hw.ucie.link_end import Channel
from hw.ucie.link_shape import LinkShape
from tb.vip.credit_book import (
    CREDIT,
    EPOCHS,
    CreditMessage,
    ReceiverBook,
    SenderBook,
    WrongCredit,
    message_class,
)
from tb.vip.flit_model import Group, GroupModel
from tb.vip.group_codec import Beat, GroupDecoder, WrongGroup
from tb.vip.retry_monitor import RetryMonitor, RuleBroken

_SPARE_AT = 119  # lowest of the spare bits, which are the last of a header


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
        place = spare(message)
        if place >= len(self._channels) or self._channels[place].lanes:
            raise WrongGroup(f"message {message.hex()} is of no channel of messages")
        return [*found, (place, without_place(message), b"")], None

    def _beat(self, beat: Beat) -> tuple[int, bytes, bytes]:
        if self._beats is None or spare(beat.header):
            raise WrongGroup(f"a beat with header {beat.header.hex()} is of no channel")
        return self._beats, beat.header, beat.data


def with_place(header: bytes, place: int) -> bytes:
    return _with_spare(header, place)


def without_place(header: bytes) -> bytes:
    return _with_spare(header, 0)


def spare(header: bytes) -> int:
    """The bits that are left to the link."""
    return int.from_bytes(header, "little") >> _SPARE_AT


def _with_spare(header: bytes, spare: int) -> bytes:
    kept = int.from_bytes(header, "little") & (1 << _SPARE_AT) - 1
    return (kept | spare << _SPARE_AT).to_bytes(len(header), "little")


class LinkMonitor:
    """The rules of one end: those of :class:`tb.vip.retry_monitor.RetryMonitor`, and

    - groups are laid out as docs/ucie.md says, messages name a channel that there is;
    - nothing is sent without a credit that has come back to the watched end;
    - its CREDIT messages tell of no more than came to it, no count goes back, ``epoch`` and
      ``received`` stay as they are until a reset.

    Call ``left`` and ``delivered`` once a clock, ``left`` first, with what the watched end drives
    and what reaches it; neither while the link is down. ``clear`` begins a new epoch, as that of
    the watched end does. ``sends`` and ``receives`` are its own.
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
        self._name, self._answer_clocks = name, answer_clocks
        self._shape, self._channels = shape, (sends, receives)
        self._model = GroupModel(shape.flit_format, shape.flits)
        self.sends = [SenderBook(channel) for channel in sends]
        self.receives = [ReceiverBook(channel) for channel in receives]
        self.epoch, self._settled = 0, True
        self._restart()

    def _restart(self) -> None:
        shape, (sends, receives) = self._shape, self._channels
        self.retry = RetryMonitor(
            flits=shape.flits, rows=shape.rows, answer_clocks=self._answer_clocks
        )
        self._out, self._in = Contents(shape, sends), Contents(shape, receives)

    def clear(self, clock: int) -> None:
        """All that was under way is lost, and the watched end begins an epoch."""
        self.epoch = (self.epoch + 1) % EPOCHS
        for sender in self.sends:
            sender.cleared()
        for receiver in self.receives:
            receiver.cleared()
        self._restart()
        self._settled = False
        self.retry.resumed(clock)

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
            for k, book in enumerate(self.sends):
                if not self._settled:
                    book.arrived(told.received[k])
                book.told(told.freed[k])
            self._settled = True

    def _told(self, header: bytes) -> None:
        told = CreditMessage.unpack(header, len(self.receives))
        began = tuple(book.began for book in self.receives)
        if (told.epoch, told.received) != (self.epoch, began):
            raise WrongCredit(
                f"CREDIT message of epoch {told.epoch}, received {told.received}, in epoch "
                f"{self.epoch}, which began with {began}"
            )
        for book, count in zip(self.receives, told.freed, strict=True):
            book.told(count)
