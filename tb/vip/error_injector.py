"""One direction of a link in plain Python: a delay, and groups that suffer on their way."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from hw.ucie.flit import HALVES, FlitFormat
from hw.ucie.flit_header import MAX_SEQUENCE
from tb.vip.flit_channel import BURST_BITS, Noise
from tb.vip.flit_model import INJECTION, Group, GroupModel

MOST_FLIPS = 3  # in a half: so many the CRC finds for certain


@dataclass(frozen=True)
class Passing:
    """A group on its way, for scripts.

    Attributes:
        clock: In which it enters.
        number: Of a group with payload, counted from zero; ``None`` for a NOP.
        times: How often this number has passed, this time included.
        nak, answer: As of :class:`tb.vip.flit_model.Seen`.
    """

    clock: int
    number: int | None
    times: int
    nak: bool
    answer: int | None


Script = Callable[[Passing], bool]  # whether the group is struck


def groups(numbers: Iterable[int], *, times: int = 1) -> Script:
    """Strikes these groups of payload, each the first ``times`` times that it passes."""
    chosen = frozenset(numbers)
    return lambda passing: passing.number in chosen and passing.times <= times


def clocks(begin: int, end: int) -> Script:
    """Strikes whatever passes from ``begin`` to before ``end``."""
    return lambda passing: begin <= passing.clock < end


def naks(count: int) -> Script:
    """Strikes the first ``count`` groups that carry a Nak."""
    left = iter(range(count))
    return lambda passing: passing.nak and next(left, None) is not None


def answers_alone(begin: int, end: int) -> Script:
    """Strikes NOPs in that time: their answers are lost, and no payload."""
    return lambda passing: passing.number is None and begin <= passing.clock < end


class ErrorInjector:
    """What enters ``passes`` comes out ``cycles`` calls later, sometimes wrong, sometimes not.

    Each flit is struck by itself with probability ``rate``, in one half, as ``noise`` says: up to
    three bits, a burst of up to 16 bits of the message, or the wrong CRC of ``lp_corrupt_crc``.
    ``lose`` is the probability that a group never arrives at all. With ``nops_only`` all this
    happens to NOPs only, so that nothing is lost but answers. A group that any of ``scripts``
    chooses is struck in one of its flits. While ``cut`` is set nothing arrives. All attributes may
    change at any time.
    """

    def __init__(
        self,
        *,
        flit_format: FlitFormat,
        flits: int,
        random: Random,
        rate: float = 0.0,
        noise: Noise = Noise.FLIPS,
        lose: float = 0.0,
        nops_only: bool = False,
        scripts: Iterable[Script] = (),
        cycles: int = 1,
    ) -> None:
        if cycles < 0:
            raise ValueError(f"cycles must be at least 0, not {cycles!r}")
        self._format, self._flits, self._random = flit_format, flits, random
        self._model = GroupModel(flit_format, flits)
        self._way: deque[Group | None] = deque([None] * cycles)
        self.rate, self.noise, self.lose, self.nops_only = rate, noise, lose, nops_only
        self.scripts, self.cut = list(scripts), False
        self.struck = self.lost = 0
        self._times: Counter[int] = Counter()
        self._newest = -1

    def passes(self, clock: int, group: Group | None) -> Group | None:
        """Call it once a clock."""
        if group is not None:
            group = self._suffers(clock, group)
        self._way.append(group)
        arrives = self._way.popleft()
        return None if self.cut else arrives

    def strike(self, flit: bytes) -> bytes:
        """The flit with an error in one of its halves."""
        pick, half = self._random, self._random.randrange(HALVES)
        message, place = self._format.covered[half], self._format.crc[half]
        wrong = int.from_bytes(flit, "little")
        match self.noise:
            case Noise.FLIPS:
                bits = [8 * byte + k for byte in (*message, *place) for k in range(8)]
                for bit in pick.sample(bits, pick.randint(1, MOST_FLIPS)):
                    wrong ^= 1 << bit
            case Noise.BURST:
                length = pick.randint(1, BURST_BITS)
                at = pick.randrange(8 * message.start, 8 * message.stop - length + 1)
                wrong ^= (pick.getrandbits(length) | 1) << at
            case Noise.INJECTION:
                wrong ^= INJECTION << 8 * place.start
        return wrong.to_bytes(len(flit), "little")

    def _suffers(self, clock: int, group: Group) -> Group | None:
        pick = self._random
        passing = self._look(clock, group)
        if not self.scripts and not self.rate and not self.lose:
            return group
        chosen = any([script(passing) for script in self.scripts])
        if self.nops_only and passing.number is not None and not chosen:
            return group
        if self.lose and pick.random() < self.lose:
            self.lost += 1
            return None
        flits = [flit if pick.random() >= self.rate else self.strike(flit) for flit in group]
        if chosen:
            place = pick.randrange(len(flits))
            flits[place] = self.strike(group[place])
        self.struck += tuple(flits) != group
        return tuple(flits)

    def _look(self, clock: int, group: Group) -> Passing:
        number = None
        sequence, nak, answer = self._model.labels(group)
        if sequence is not None:
            # The group with this sequence number that is nearest to the newest.
            follows = (self._newest + 1) * self._flits
            ahead = (sequence - 1 - follows) % MAX_SEQUENCE
            if ahead > MAX_SEQUENCE // 2:
                ahead -= MAX_SEQUENCE
            number = (follows + ahead) // self._flits
            self._newest = max(self._newest, number)
            self._times[number] += 1
        times = 0 if number is None else self._times[number]
        return Passing(clock, number, times, nak, answer)
