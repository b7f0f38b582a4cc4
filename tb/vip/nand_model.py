"""NAND core dies of one stack in plain Python: registers, command rules and TSV lanes.

Written from the port contracts alone (:class:`hw.hbf.layouts.CommandPort`,
:class:`hw.hbf.layouts.ReadoutPort`), as a second opinion on the RTL model in :mod:`tb.vip.nand`.
"""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from hw.hbf.layouts import Command
from hw.params import Machine, Sensing

BEATS = 4  # of a page
# A lane may be two finished beats ahead of the read-outs, one waiting and one behind it, and begins
# with a partial one.
LANE_BURST = 3


class NandRuleBroken(AssertionError):
    """The base die did what a NAND die forbids."""


@dataclass
class _Subarray:
    sensed: tuple[int, int] | None = None  # row in the data register, clock of its SENSE
    cached: int | None = None  # row in the cache register
    beat: int = 0  # read out next


@dataclass
class NandModel:
    """One stack of core dies.

    Contract: call :meth:`step` once a clock, then :meth:`readout` and :meth:`command` for what the
    ports show in that clock, read-outs first, since the last read-out of a page makes room for a
    LATCH in the same clock. Rules are those of :class:`tb.vip.nand.NandDie`; beyond them a die's
    read-outs may not outrun its TSV lane, and with lockstep sensing no SENSE may come while a page
    of an earlier wave is still sensed anywhere in the stack.

    Attributes:
        senses: Pages sensed so far.
        read_out: How often each page was read out whole.
    """

    machine: Machine
    senses: int = 0
    read_out: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        g = self.machine.geometry
        self._clock = 0
        self._lane_rate: Fraction = self.machine.tsv_beats_per_clock_per_die
        self._lane_tokens = [Fraction(LANE_BURST)] * g.dies
        self._subarrays = [[_Subarray() for _ in range(g.subarrays_per_die)] for _ in range(g.dies)]
        self._wave_begun = -g.subarrays_per_die

    @property
    def idle(self) -> bool:
        """Whether all registers are empty."""
        return all(r.sensed is None and r.cached is None for die in self._subarrays for r in die)

    def page(self, die: int, subarray: int, row: int) -> int:
        """Page of the stack: consecutive pages go to dies, then subarrays, then rows."""
        g = self.machine.geometry
        return (row * g.subarrays_per_die + subarray) * g.dies + die

    def step(self) -> None:
        """Begin the next clock."""
        self._clock += 1
        for d, tokens in enumerate(self._lane_tokens):
            self._lane_tokens[d] = min(Fraction(LANE_BURST), tokens + self._lane_rate)

    def readout(self, die: int, subarray: int, beat: int) -> int:
        """Number of the beat that the stack answers with one clock later.

        Raises:
            NandRuleBroken: the cache register is empty, the beat is not its next one, or the lane
                cannot have it yet.
        """
        where = f"clock {self._clock}, die {die}, subarray {subarray}"
        registers = self._subarrays[die][subarray]
        self._lane_tokens[die] -= 1
        if self._lane_tokens[die] < 0:
            raise NandRuleBroken(f"{where}: read-outs outrun the TSV lane")
        if registers.cached is None:
            raise NandRuleBroken(f"{where}: read-out of beat {beat} of an empty cache register")
        if beat != registers.beat:
            raise NandRuleBroken(f"{where}: read-out of beat {beat} instead of {registers.beat}")
        page = self.page(die, subarray, registers.cached)
        registers.beat += 1
        if registers.beat == BEATS:
            registers.beat, registers.cached = 0, None
            self.read_out[page] += 1
        return page * BEATS + beat

    def command(self, die: int, command: Command, subarray: int, row: int) -> None:
        """Take a command of this clock.

        Raises:
            NandRuleBroken: the registers are not ready for it.
        """
        where = f"clock {self._clock}, die {die}, subarray {subarray}"
        registers = self._subarrays[die][subarray]
        if command is Command.SENSE:
            self._sense(where, registers, row)
            self.senses += 1
        else:
            self._latch(where, registers)

    def _sense(self, where: str, registers: _Subarray, row: int) -> None:
        if registers.sensed is not None:
            raise NandRuleBroken(f"{where}: SENSE over a page that was not latched")
        if registers.cached is not None and not self.machine.nand.cache_read:
            raise NandRuleBroken(f"{where}: SENSE without cache read over a page not read out")
        if self.machine.nand.sensing is Sensing.LOCKSTEP:
            self._join_wave(where)
        registers.sensed = row, self._clock

    def _join_wave(self, where: str) -> None:
        """A wave is whatever is issued within as many clocks as a die has subarrays."""
        if self._clock - self._wave_begun < self.machine.geometry.subarrays_per_die:
            return
        if any(r.sensed is not None for die in self._subarrays for r in die):
            raise NandRuleBroken(f"{where}: SENSE of a wave while the one before still senses")
        self._wave_begun = self._clock

    def _latch(self, where: str, registers: _Subarray) -> None:
        if registers.sensed is None:
            raise NandRuleBroken(f"{where}: LATCH without SENSE")
        row, since = registers.sensed
        elapsed, t_read = self._clock - since, self.machine.t_read_cycles
        if elapsed < t_read:
            raise NandRuleBroken(f"{where}: LATCH after {elapsed} of {t_read} clocks")
        if registers.cached is not None:
            raise NandRuleBroken(f"{where}: LATCH over a page that was not read out")
        registers.sensed, registers.cached = None, row
