"""Plain-Python agents at the ports of :class:`hw.package.Package`.

An agent caches its handles and acts when its ``clock`` is called, in every clock just after the
rising edge: what it reads is what the edge saw, what it writes is there at the next one.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Generic, TypeVar

from amaranth.lib import data

from hw.gpu.router import accepted_layout, read_layout
from hw.params import Machine
from hw.ucie.transaction import Route
from hw.ucie.write_sender import done_layout, fetch_layout, write_request_layout
from tb.vip.content import WORD
from tb.vip.requests import ReadRequest, WriteRequest
from tb.vip.scoreboard import Scoreboard

LONGEST = {"runs": 400, "hesitates": 200, "stands": 300}  # clocks of a consumer's moods
PAUSES = (0, 0, 0, 1, 7, 40)  # clocks between two requests

Request = TypeVar("Request")


def handles(dut: Any, prefix: str, names: Sequence[str] | Sequence[int]) -> list[Any]:
    """Handles of the members of a port."""
    return [getattr(dut, f"{prefix}__{name}") for name in names]


def unpacker(layout: data.StructLayout) -> Callable[[int], dict[str, int]]:
    """From the bits of a struct to its fields."""
    fields = [(name, field.offset, (1 << field.width) - 1) for name, field in layout]
    return lambda bits: {name: bits >> offset & mask for name, offset, mask in fields}


class Consumer:
    """Takes the beats of one path and pair; runs, hesitates or stands still for random times."""

    def __init__(self, dut: Any, machine: Machine, route: Route, pair: int, random: Random) -> None:
        name = f"{route.name.lower()}_o__{pair}"
        self._route, self._pair, self._random = route, pair, random
        self._valid, self._ready, self._header = handles(dut, name, ("valid", "ready", "header"))
        self._lanes = handles(dut, f"{name}__lanes", range(machine.lanes))
        self.mood, self._left = "runs", 0
        self._takes = False
        self._ready.value = 0

    def clock(self, scoreboard: Scoreboard) -> None:
        if self._takes and int(self._valid.value):
            lanes = [int(lane.value) for lane in self._lanes]
            scoreboard.beat(self._route, self._pair, int(self._header.value), lanes)
        if self._left == 0:
            self.mood = self._random.choice(list(LONGEST))
            self._left = self._random.randrange(1, LONGEST[self.mood])
        self._left -= 1
        takes = self.mood == "runs" or (self.mood == "hesitates" and self._random.random() < 0.5)
        if takes != self._takes:
            self._takes = takes
            self._ready.value = int(takes)


class Offers(Generic[Request]):
    """Offers requests at a port one after the other, with random pauses, each until it is accepted.

    ``following`` gives the next request, or ``None`` while there is none. The payload has the
    fields of the request by their names, and ``tag``.
    """

    def __init__(
        self,
        dut: Any,
        port: str,
        layout: data.StructLayout,
        following: Callable[[], Request | None],
        random: Random,
    ) -> None:
        self._valid, self._ready, self._payload = handles(dut, port, ("valid", "ready", "payload"))
        self._layout, self._names = layout, [name for name, _ in layout if name != "tag"]
        self._following, self._random, self._pause = following, random, 0
        self._offer: tuple[int, Request] | None = None
        self._valid.value = 0
        self._payload.value = 0

    @property
    def idle(self) -> bool:
        return self._offer is None

    def clock(
        self, accepted: Callable[[int, Request], object], used: Callable[[], set[int]]
    ) -> None:
        """``accepted`` hears of the one that was taken; tags in ``used`` are not given."""
        if self._offer is not None:
            if not int(self._ready.value):
                return
            accepted(*self._offer)
            self._offer = None
            self._valid.value = 0
            self._pause = self._random.choice(PAUSES)
        if self._pause:
            self._pause -= 1
            return
        following = self._following()
        if following is None:
            return
        tag = _free_tag(self._random, used())
        self._offer = tag, following
        fields = {name: int(getattr(following, name)) for name in self._names} | {"tag": tag}
        self._payload.value = self._layout.const(fields).as_bits()
        self._valid.value = 1


class Requester:
    """Asks for the reads that ``following`` gives, see :class:`Offers`."""

    def __init__(
        self,
        dut: Any,
        machine: Machine,
        following: Callable[[], ReadRequest | None],
        random: Random,
    ) -> None:
        self._offers = Offers(dut, "read", read_layout(machine), following, random)
        self._taken = dut.gpu.router.accepted
        slots = range(machine.credits.descriptors)
        self._fields = unpacker(accepted_layout(slots))

    @property
    def idle(self) -> bool:
        return self._offers.idle

    def clock(self, scoreboard: Scoreboard) -> None:
        def accepted(tag: int, read: ReadRequest) -> None:
            taken = self._fields(int(self._taken.value))
            scoreboard.accepted(read, tag, Route(taken["path"]), taken["slot"])

        self._offers.clock(accepted, lambda: scoreboard.tags)


class Writer:
    """One write port: offers requests, answers fetches, hears how transactions end.

    An answer holds for one clock; before and after it the lanes are not to be looked at.
    """

    def __init__(
        self,
        dut: Any,
        machine: Machine,
        port: str,
        pairs: int,
        following: Callable[[], WriteRequest | None],
        random: Random,
    ) -> None:
        self.port = port
        self._offers = Offers(dut, port, write_request_layout(machine), following, random)
        self._fetches = [getattr(dut, f"{port}_fetch__{pair}") for pair in range(pairs)]
        self._lanes = [
            handles(dut, f"{port}_lanes__{pair}", range(machine.lanes)) for pair in range(pairs)
        ]
        self._dones = [getattr(dut, f"{port}_done__{pair}") for pair in range(pairs)]
        self._fetch_fields = unpacker(fetch_layout())
        self._done_fields = unpacker(done_layout())
        self._nothing = [WORD ^ k for k in range(machine.lanes)]
        self._answered = [True] * pairs
        for pair in range(pairs):
            self._drive(pair, None)

    @property
    def idle(self) -> bool:
        return self._offers.idle

    def clock(self, scoreboard: Scoreboard) -> None:
        for pair, handle in enumerate(self._fetches):
            bits, lanes = int(handle.value), None
            if bits & 1:
                fetch = self._fetch_fields(bits)
                lanes = scoreboard.writes.fetched(
                    self.port, pair, fetch["tag"], fetch["page"], fetch["beat"]
                )
            self._drive(pair, lanes)
        for pair, handle in enumerate(self._dones):
            bits = int(handle.value)
            if bits & 1:
                done = self._done_fields(bits)
                del done["valid"]
                scoreboard.writes.done(self.port, pair, **done)
        writes = scoreboard.writes
        self._offers.clock(
            lambda tag, write: writes.accepted(self.port, tag, write),
            lambda: writes.tags(self.port),
        )

    def _drive(self, pair: int, lanes: list[int] | None) -> None:
        if lanes is None:
            if not self._answered[pair]:
                return
            lanes, self._answered[pair] = self._nothing, False
        else:
            self._answered[pair] = True
        for handle, lane in zip(self._lanes[pair], lanes, strict=True):
            handle.value = lane


def _free_tag(random: Random, used: set[int]) -> int:
    while (tag := random.randrange(4096)) in used:
        pass
    return tag
