"""A second, plain model of one pseudo-channel: the published times and first-ready scheduling.

It shares nothing with the RTL but the description of the stack. Time is continuous: of all commands
that waiting requests need, the one that may be sent first goes next, column commands and older
requests first. It has no clocks, no queues of its own choosing and no pipeline, so it says what the
DRAM allows such a scheduler; reads only.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

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


@dataclass
class ReferenceChannel:
    """Reads ``places`` with at most ``window`` under way, ``queue`` of them before their bursts."""

    stack: HbmStack
    window: int
    _banks: list[_Bank] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._banks = [_Bank() for _ in range(self.stack.organization.bank_count)]
        t = self.stack.timing
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

    def bytes_per_s(self, places: Iterable[Place]) -> float:
        """The rate from the first burst to the last."""
        t = self._t
        coming = iter(places)
        waiting: list[_Request] = []
        under_way: list[Fraction] = []  # when each comes back
        first = last = None
        bursts, now = 0, Fraction(0)
        more = True
        every = t["refi"] / self.stack.organization.bank_count
        due = every
        while True:
            under_way = [time for time in under_way if time > now]
            queue = self.stack.scheduling.reads
            while more and len(waiting) < queue and len(waiting) + len(under_way) < self.window:
                place = next(coming, None)
                if place is None:
                    more = False
                else:
                    waiting.append(_Request(place))
            if not waiting:
                if not more and not under_way:
                    break
                now = min(under_way)
                continue
            if now >= due:
                due = self._refresh(waiting, now, due, every)
            time, kind, request = self._next(waiting, now)
            if under_way and more and min(under_way) < time:
                now = min(under_way)  # a new request may be quicker
                continue
            now = max(now, time)
            self._do(kind, request, now)
            if kind == "read":
                first = now if first is None else first
                last, bursts = now, bursts + 1
                if not request.bursts:
                    waiting.remove(request)
                    under_way.append(now + t["cl"] + t["burst"])
        assert first is not None and last is not None
        return float(bursts * ACCESS_BYTES / BURSTS / (last - first + t["burst"]) * 10**9)

    def _refresh(self, waiting, now, due, every) -> Fraction:
        """The bank whose turn it is, unless it is wanted and may be owed a little longer."""
        bank = self._banks[self._refresh_bank]
        wanted = any(request.place.bank == self._refresh_bank for request in waiting)
        if wanted and now < due + self.stack.scheduling.postponed * every:
            return due
        t = self._t
        begin = now
        if bank.row is not None:
            begin = max(begin, self._precharge_time(bank)) + t["rp"]
        begin = max(begin, (bank.precharged or Fraction(-1000)) + t["rp"])
        begin = max(begin, (bank.activated or Fraction(-1000)) + t["rc"])
        bank.row, bank.refreshed = None, begin
        self._refreshed = begin
        self._refresh_bank = (self._refresh_bank + 1) % len(self._banks)
        return due + every

    def _precharge_time(self, bank: _Bank) -> Fraction:
        t = self._t
        times = [(bank.activated, "ras"), (bank.read, "rtp")]
        return max([self._row_free, *(at + t[name] for at, name in times if at is not None)])

    def _next(self, waiting: list[_Request], now: Fraction):
        """Time, kind and request of the command that may be sent first."""
        hits = {r.place.bank for r in waiting if self._banks[r.place.bank].row == r.place.row}
        found, seen = None, set()
        for order, request in enumerate(waiting):
            number = request.place.bank
            bank = self._banks[number]
            if bank.row == request.place.row:
                time, kind, rank = self._read_time(number, bank), "read", 0
            elif number in hits or number in seen:
                continue
            elif bank.row is None:
                time, kind, rank = self._activate_time(number, bank), "activate", 1
            else:
                time, kind, rank = self._precharge_time(bank), "precharge", 2
            seen.add(number)
            key = (max(time, now), rank, order)
            if found is None or key < found[0]:
                found = key, kind, request
        assert found is not None
        return found[0][0], found[1], found[2]

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
        times = [(bank.activated, "rc"), (bank.precharged, "rp"), (bank.refreshed, "rfc"),
                 (self._refreshed, "rrefd")]  # fmt: skip
        time = max([self._row_free, *(at + t[name] for at, name in times if at is not None)])
        for at, other in self._activates:
            same = other // o.banks == number // o.banks
            time = max(time, at + t["rrd_l" if same else "rrd_s"])
        if len(self._activates) == 4:
            time = max(time, self._activates[0][0] + t["faw"])
        return time

    def _do(self, kind: str, request: _Request, now: Fraction) -> None:
        number = request.place.bank
        bank = self._banks[number]
        match kind:
            case "read":
                bank.read = now
                self._reads = [*self._reads[-3:], (now, number)]
                request.bursts -= 1
            case "activate":
                bank.row, bank.activated = request.place.row, now
                self._activates = [*self._activates[-3:], (now, number)]
                self._row_free = now + self._t["activate_bus"]
            case _:
                bank.row, bank.precharged = None, now
