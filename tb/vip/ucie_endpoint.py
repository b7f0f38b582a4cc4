"""One end of a link in plain Python: sends and receives messages and beats under credit."""

from collections import deque
from dataclasses import dataclass
from random import Random

from hw.ucie.link_end import Channel
from hw.ucie.link_shape import LinkShape
from tb.vip.credit_book import (
    EPOCHS,
    CreditMessage,
    ReceiverBook,
    SenderBook,
    message_of,
)
from tb.vip.flit_model import Group, GroupModel
from tb.vip.group_codec import SLOT, Beat, GroupEncoder
from tb.vip.link_monitor import Contents, spare, with_place
from tb.vip.retry_model import Outcome, ReplayReceiver, ReplaySender


@dataclass(frozen=True)
class Item:
    """A message, or a beat with its data. The spare bits of the header are zero."""

    header: bytes
    data: bytes = b""


class UcieEndpoint:
    """Talks to the other end, group by group: call ``clock`` once a clock, see docs/ucie.md.

    What ``offer`` puts into the queue of a channel leaves in order, as soon as the other end has
    granted a credit for it. What comes waits in a buffer of ``depth`` places for ``take``, which
    grants its credit anew. A group that is not full leaves with probability ``flush`` a clock, so
    that all ways of laying out groups occur. CREDIT messages leave ``period`` clocks after one
    another, or ``refresh`` clocks if there is nothing new.

    While ``active`` is not set nothing is sent, and what comes is dropped; what is unacknowledged
    is sent again later. ``clear`` begins a new epoch, as the ``clear`` of the other end does.

    Attributes:
        active: The link is up.
        lost: Of each channel that this end sends, how many the reset before the last news lost.
    """

    def __init__(
        self,
        *,
        shape: LinkShape,
        sends: tuple[Channel, ...],
        receives: tuple[Channel, ...],
        random: Random,
        flush: float = 0.3,
        period: int = 8,
        refresh: int = 1024,
    ) -> None:
        self._shape, self._random, self._flush = shape, random, flush
        self._period, self._refresh = period, refresh
        self._model = GroupModel(shape.flit_format, shape.flits)
        self._channels = sends, receives
        self.sends = [SenderBook(channel) for channel in sends]
        self.receives = [ReceiverBook(channel) for channel in receives]
        self._offered: list[deque[Item]] = [deque() for _ in sends]
        self._received: list[deque[Item]] = [deque() for _ in receives]
        self._places = (
            {channel.name: k for k, channel in enumerate(sends)},
            {channel.name: k for k, channel in enumerate(receives)},
        )
        self.active, self.epoch = True, 0
        self.lost = [0] * len(sends)
        self._restart()

    def _restart(self) -> None:
        shape = self._shape
        sizes = {"data_bytes": 8 * shape.lanes, "slots": shape.slots}
        self.sender = ReplaySender(flits=shape.flits, rows=shape.rows)
        self.receiver = ReplayReceiver(flits=shape.flits)
        self._encoder = GroupEncoder(**sizes)
        self._contents = Contents(shape, self._channels[1])
        self._turn, self._since, self._owed, self._settled = 0, self._period, True, False

    # For the user ---------------------------------------------------------------------------------

    def offer(self, name: str, header: bytes, data: bytes = b"") -> None:
        """Queue a message, or a beat, of the channel ``name``."""
        place = self._places[0][name]
        lanes = self._channels[0][place].lanes
        if len(header) != SLOT or spare(header) or len(data) != 8 * lanes:
            raise ValueError(
                f"{name} takes headers of {SLOT} bytes whose spare bits are zero, and {8 * lanes} "
                f"bytes of data, not {header.hex()} and {len(data)} bytes"
            )
        self._offered[place].append(Item(header, data))

    def waiting(self, name: str) -> int:
        """How much of a channel was offered and has not left."""
        return len(self._offered[self._places[0][name]])

    def received(self, name: str) -> int:
        """How much of a channel waits for :meth:`take`."""
        return len(self._received[self._places[1][name]])

    def take(self, name: str) -> Item | None:
        """The oldest of what came on a channel, if there is any; its place is free then.

        A chunked channel has no place for each: call :meth:`free` for those.
        """
        place = self._places[1][name]
        if not self._received[place]:
            return None
        if not self._channels[1][place].chunked:
            self.free(name)
        return self._received[place].popleft()

    def free(self, name: str) -> None:
        """Grant a credit of a channel anew."""
        self.receives[self._places[1][name]].free()
        self._owed = True

    def clear(self) -> None:
        """Lose all that is under way, on the way out of the queues too, and begin an epoch."""
        self.epoch = (self.epoch + 1) % EPOCHS
        for sender in self.sends:
            sender.cleared()
        for receiver in self.receives:
            receiver.cleared()
        self._restart()

    @property
    def at_rest(self) -> bool:
        """All that was offered was acknowledged, and all credits are here."""
        return (
            self.sender.idle
            and self._encoder.idle
            and not any(self._offered)
            and not self._owed
            and all(book.credits == book.depth for book in self.sends)
        )

    # Each clock -----------------------------------------------------------------------------------

    def clock(self, came: Group | None) -> Group | None:
        """What is sent in a clock in which ``came`` has come.

        Raises:
            WrongGroup, WrongCredit: what came is wrong, although its CRCs are right.
        """
        if not self.active:
            return None
        if came is not None:
            self._receive(came)
        self._since += 1
        self.sender.tick()
        payload = self._payload() if self.sender.accepts else None
        sent = self.sender.group(payload)
        nak, answer = self.receiver.answer()
        sequence, payload = (None, b"") if sent is None else sent
        return self._model.assemble(sequence, payload, nak=nak, answer=answer)

    def _receive(self, came: Group) -> None:
        seen = self._model.parse(came)
        outcome = self.receiver.group(seen.bad, seen.sequence)
        if not seen.bad and seen.answer is not None:
            self.sender.answered(seen.answer, nak=seen.nak)
        if outcome is not Outcome.TAKEN:
            return
        things, credit = self._contents.group(seen.payload)
        for place, header, data in things:
            self.receives[place].receive(header)
            self._received[place].append(Item(header, data))
        if credit is not None:
            self._told(CreditMessage.unpack(credit, len(self.sends)))

    def _told(self, message: CreditMessage) -> None:
        if message.epoch != self.epoch:
            return
        for k, book in enumerate(self.sends):
            if not self._settled:
                self.lost[k] = book.arrived(message.received[k])
            book.told(message.freed[k])
        self._settled = True

    def _payload(self) -> bytes | None:
        """A new group, if there is reason for one."""
        self._put_beats()
        flushes = self._random.random() < self._flush
        if not self._encoder.full and not flushes:
            return None
        self._put_message()
        return None if self._encoder.idle else self._encoder.group()

    def _put_beats(self) -> None:
        for book, offered in zip(self.sends, self._offered, strict=True):
            while offered and offered[0].data and book.ready and not self._encoder.full:
                item = offered.popleft()
                book.send(item.header)
                self._encoder.put_beat(Beat(item.header, item.data))

    def _put_message(self) -> None:
        """One message; channels take turns, CREDIT messages go first when it is time."""
        if self._since >= (self._period if self._owed else self._refresh):
            self._encoder.put_message(message_of(self.epoch, self.receives).pack())
            self._since, self._owed = 0, False
            return
        for _ in self.sends:
            self._turn = (self._turn + 1) % len(self.sends)
            book, offered = self.sends[self._turn], self._offered[self._turn]
            if offered and not offered[0].data and book.ready:
                header = offered.popleft().header
                book.send(header)
                self._encoder.put_message(with_place(header, self._turn))
                return
