"""A second, plain model of one pseudo-channel: the published times and first-ready scheduling.

It shares nothing with the RTL but the description of the stack. Time is continuous: of all commands
that waiting requests need, the one that may be sent first goes next, column commands and older
requests first. It has no clocks, no queues of its own choosing and no pipeline, so it says what the
DRAM allows such a scheduler; reads only.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import NamedTuple

from hw.hbm.dram.address import Place
from hw.hbm.dram.description import ACCESS_BYTES, BURSTS, HbmStack

GOLDEN = 0x9E3779B97F4A7C15


def random_places(stack: HbmStack, channel: int, stream: int) -> Iterator[Place]:
    """The random stream of :class:`tb.vip.hbm_traffic.AccessSource`: Marsaglia's xorshift64."""
    o = stack.organization
    row_bits = o.rows.bit_length() - 1
    x = GOLDEN * stream % 2**64
    while True:
        yield Place(
            channel, (x >> 8) % o.bank_count, (x >> 20) % (1 << row_bits), (x >> 48) % o.columns
        )
        x ^= x << 13 & 2**64 - 1
        x ^= x >> 7
        x ^= x << 17 & 2**64 - 1


@dataclass
class _Bank:
    row: int | None = None
    activated: Fraction | None = None
    precharged: Fraction | None = None
    read: Fraction | None = None
    refreshed: Fraction | None = None


@dataclass
class _Request:
    place: Place
    bursts: int = BURSTS


class _Kind(IntEnum):
    """Commands, in the order in which they go at the same time."""

    REFRESH = 0
    REFRESH_PRECHARGE = 1
    READ = 2
    ACTIVATE = 3
    PRECHARGE = 4


class _Command(NamedTuple):
    """The least goes next: the earliest, of those by kind, then for the oldest."""

    time: Fraction
    kind: _Kind
    order: int
    bank: int
    request: _Request | None  # none of a refresh and of what it needs


@dataclass
class ReferenceChannel:
    """Reads ``places`` with at most ``window`` under way, ``queue`` of them before their bursts."""

    stack: HbmStack
    window: int
    _banks: list[_Bank] = field(default_factory=list)

    def __post_init__(self) -> None:
        o, t = self.stack.organization, self.stack.timing
        self._banks = [_Bank() for _ in range(o.bank_count)]
        self._t = {
            name.removesuffix("_ns"): Fraction(str(value))
            for name, value in vars(t).items()
            if name.endswith("_ns")
        }
        self._t["burst"] = t.burst_ns
        self._activates: list[tuple[Fraction, int]] = []
        self._reads: list[tuple[Fraction, int]] = []
        self._row_free = Fraction(0)
        self._refreshed: Fraction | None = None
        self._refresh_bank = 0
        self._refresh_every = self._t["refi"] / o.bank_count
        self._due = self._refresh_every

    def bytes_per_s(self, places: Iterable[Place]) -> float:
        """The rate from the first burst to the last."""
        t, queue = self._t, self.stack.scheduling.reads
        coming = iter(places)
        waiting: list[_Request] = []
        under_way: list[Fraction] = []  # when each comes back
        first = last = None
        bursts, now = 0, Fraction(0)
        more = True
        while waiting or more:
            under_way = [time for time in under_way if time > now]
            while more and len(waiting) < queue and len(waiting) + len(under_way) < self.window:
                place = next(coming, None)
                if place is None:
                    more = False
                else:
                    waiting.append(_Request(place))
            command = self._next(waiting, now)
            if under_way and more and min(under_way) < command.time:
                now = min(under_way)  # a new request may be quicker
                continue
            now, request = command.time, command.request
            self._do(command)
            if command.kind is _Kind.READ:
                assert request is not None
                request.bursts -= 1
                first = now if first is None else first
                last, bursts = now, bursts + 1
                if not request.bursts:
                    waiting.remove(request)
                    under_way.append(now + t["cl"] + t["burst"])
        assert first is not None and last is not None
        return float(bursts * ACCESS_BYTES / BURSTS / (last - first + t["burst"]) * 10**9)

    def _next(self, waiting: list[_Request], now: Fraction) -> _Command:
        """The command that may be sent first."""
        wanted = {request.place.bank for request in waiting}
        hits = {r.place.bank for r in waiting if self._banks[r.place.bank].row == r.place.row}
        # Until then the bank whose turn it is may be wanted and its refresh be owed.
        forced = self._due + (self.stack.scheduling.postponed - 1) * self._refresh_every
        next_one = self._refresh(max(now, forced if self._refresh_bank in wanted else self._due))
        seen = set()
        for order, request in enumerate(waiting):
            number = request.place.bank
            bank = self._banks[number]
            if bank.row == request.place.row:
                time, kind = self._read_time(number, bank), _Kind.READ
            elif number in hits or number in seen:
                continue
            elif bank.row is None:
                time, kind = self._activate_time(number, bank), _Kind.ACTIVATE
            else:
                time, kind = self._precharge_time(bank), _Kind.PRECHARGE
            seen.add(number)
            time = max(time, now)
            if number != self._refresh_bank or time < forced:
                next_one = min(next_one, _Command(time, kind, order, number, request))
        return next_one

    def _refresh(self, earliest: Fraction) -> _Command:
        """What the bank whose turn it is needs next for its refresh."""
        number = self._refresh_bank
        bank = self._banks[number]
        if bank.row is not None:
            time, kind = self._precharge_time(bank), _Kind.REFRESH_PRECHARGE
        else:
            time, kind = self._opens_time(bank), _Kind.REFRESH
            time = max([time, *(at + self._t["rrd_s"] for at, _ in self._activates)])
        return _Command(max(time, earliest), kind, 0, number, None)

    def _after(self, *times: tuple[Fraction | None, str]) -> Fraction:
        """When the row bus is free and each of ``times`` is past by what its rule asks."""
        past = [at + self._t[name] for at, name in times if at is not None]
        return max([self._row_free, *past])

    def _precharge_time(self, bank: _Bank) -> Fraction:
        return self._after((bank.activated, "ras"), (bank.read, "rtp"))

    def _opens_time(self, bank: _Bank) -> Fraction:
        """What ACTIVATE and refresh of a bank have in common."""
        return self._after(
            (bank.activated, "rc"), (bank.precharged, "rp"), (bank.refreshed, "rfc"),
            (self._refreshed, "rrefd"),
        )  # fmt: skip

    def _read_time(self, number: int, bank: _Bank) -> Fraction:
        o, t, timing = self.stack.organization, self._t, self.stack.timing
        assert bank.activated is not None
        time = bank.activated + t["rcd_read"]
        for at, other in self._reads:
            gap = Fraction(1)
            if other // o.banks == number // o.banks:
                gap = Fraction(str(timing.ccd_l_bursts))
            elif other // (o.banks * o.bank_groups) != number // (o.banks * o.bank_groups):
                gap = Fraction(str(timing.ccd_r_bursts))
            time = max(time, at + gap * t["burst"])
        return time

    def _activate_time(self, number: int, bank: _Bank) -> Fraction:
        o, t = self.stack.organization, self._t
        time = self._opens_time(bank)
        for at, other in self._activates:
            same = other // o.banks == number // o.banks
            time = max(time, at + t["rrd_l" if same else "rrd_s"])
        if len(self._activates) == 4:
            time = max(time, self._activates[0][0] + t["faw"])
        return time

    def _do(self, command: _Command) -> None:
        now, number = command.time, command.bank
        bank = self._banks[number]
        match command.kind:
            case _Kind.READ:
                bank.read = now
                self._reads = [*self._reads[-3:], (now, number)]
            case _Kind.ACTIVATE:
                assert command.request is not None
                bank.row, bank.activated = command.request.place.row, now
                self._activates = [*self._activates[-3:], (now, number)]
                self._row_free = now + self._t["activate_bus"]
            case _Kind.REFRESH:
                bank.refreshed = self._refreshed = now
                self._refresh_bank = (number + 1) % len(self._banks)
                self._due += self._refresh_every
            case _:
                bank.row, bank.precharged = None, now
