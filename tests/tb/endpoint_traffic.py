"""Random messages and beats for the channels of a link, and what must come of them."""

from collections import deque
from random import Random

from hw.ucie.link_end import Channel
from tb.vip.credit_book import CREDIT, message_class
from tb.vip.ucie_endpoint import Item, UcieEndpoint

STALLS = (0.0, 0.5, 0.95)  # of a receiver, each for a while
MOOD_CLOCKS = 120


def random_item(channel: Channel, pick: Random) -> Item:
    """Any header that is no CREDIT message; its spare bits are left to the link."""
    while True:
        header = pick.getrandbits(119).to_bytes(16, "little")
        if message_class(header) != CREDIT:
            return Item(header, pick.randbytes(8 * channel.lanes))


class Moods:
    """Probability that a receiver takes something; changes now and then."""

    def __init__(self, pick: Random) -> None:
        self._pick, self._left, self._stall = pick, 0, 0.0

    def takes(self) -> bool:
        if self._left == 0:
            self._left = self._pick.randrange(1, MOOD_CLOCKS)
            self._stall = self._pick.choice(STALLS)
        self._left -= 1
        return self._pick.random() >= self._stall


class EndpointUser:
    """Offers traffic to an endpoint and takes what comes.

    ``expected`` holds for each channel that the endpoint receives what must come, in order; the
    other side fills it. ``sent`` is what this side has offered, the ``expected`` of the other.
    """

    def __init__(
        self,
        endpoint: UcieEndpoint,
        sends: tuple[Channel, ...],
        receives: tuple[Channel, ...],
        pick: Random,
        amounts: dict[str, int],
    ) -> None:
        self._endpoint, self._sends, self._pick = endpoint, sends, pick
        self._left = dict(amounts)
        self._moods = {channel.name: Moods(pick) for channel in receives}
        self.sent: dict[str, deque[Item]] = {channel.name: deque() for channel in sends}
        self.expected: dict[str, deque[Item]] = {}
        self.taken = 0

    @property
    def done(self) -> bool:
        return not any(self._left.values()) and not any(self.expected.values())

    def reset(self) -> int:
        """What was under way is lost, either way; how much that was."""
        waiting, received = self._endpoint.waiting, self._endpoint.received
        lost = sum(
            forget_all_but(waiting(name), items, newest=True) for name, items in self.sent.items()
        )
        return lost + sum(
            forget_all_but(received(name), items) for name, items in self.expected.items()
        )

    def clock(self) -> None:
        for channel in self._sends:
            name = channel.name
            if self._left.get(name) and self._endpoint.waiting(name) < 2:
                item = random_item(channel, self._pick)
                self._left[name] -= 1
                self.sent[name].append(item)
                self._endpoint.offer(name, item.header, item.data)
        for name, moods in self._moods.items():
            if moods.takes() and (item := self._endpoint.take(name)) is not None:
                check(name, self.expected, item)
                self.taken += 1


def forget_all_but(count: int, items: deque[Item], *, newest: bool = False) -> int:
    """Forget all but the oldest, or the newest, ``count``; how many were forgotten."""
    forgotten = len(items) - count
    for _ in range(forgotten):
        items.popleft() if newest else items.pop()
    return forgotten


def check(name: str, expected: dict[str, deque[Item]], item: Item) -> None:
    """It is the next that was sent."""
    waiting = expected[name]
    assert waiting, f"{name}: {item} came, but nothing was sent"
    first = waiting.popleft()
    assert item == first, f"{name}: {item} came instead of {first}"
