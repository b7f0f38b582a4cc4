"""NAND core dies of one stack in plain Python: registers, arrays, command rules and TSV lanes.

Written from the port contracts of :mod:`hw.hbf.layouts` alone, as a second opinion on the RTL model
in :mod:`tb.vip.nand`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from hw.hbf.layouts import Command
from hw.params import Machine, Sensing
from tb.vip.content import beat_lanes, blank_lanes, garbage_lanes
from tb.vip.nand_rules import NandRule
from tb.vip.nand_state import BlockState, Incoming, Page, Place, SubarrayRegisters, Work

BEATS = 4  # of a page
# A lane may be two finished beats ahead of the ports, one waiting and one behind it, and begins
# with a partial one.
LANE_BURST = 3

Fails = Callable[[bool, int, int, int], bool]  # an erase?, die, subarray, row


@dataclass
class NandModel:
    """One stack of core dies.

    Contract: call :meth:`step` once a clock, then what the ports show in that clock:
    :meth:`readout`, :meth:`command`, :meth:`writein`, in this order, since the last read-out of a
    page makes room for a command in the same clock. Rules are those of
    :class:`tb.vip.nand_rules.NandRule`; beyond them the beats of a die may not outrun its TSV lane,
    and with lockstep sensing no SENSE may come while a page of an earlier wave is still sensed
    anywhere in the stack.

    Attributes:
        stack: Number of the stack, for what was never written.
        fails: Whether a program or erase fails, asked as it begins.
        senses: Pages sensed so far.
        read_out: How often each page was read out, counted with its last beat.
        written: What each page holds that was programmed and not erased; ``None`` is garbage.
    """

    machine: Machine
    stack: int = 0
    fails: Fails = lambda erase, die, subarray, row: False
    senses: int = 0
    read_out: Counter[int] = field(default_factory=Counter)
    written: dict[int, list[list[int]] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        g = self.machine.geometry
        self._clock = 0
        self._times = self.machine.nand_cycles
        self._lane_rate: Fraction = self.machine.tsv_beats_per_clock_per_die
        self._lane_tokens = [Fraction(LANE_BURST)] * g.dies
        self._subarrays = [
            [SubarrayRegisters() for _ in range(g.subarrays_per_die)] for _ in range(g.dies)
        ]
        self._blocks: dict[tuple[int, int, int], BlockState] = {}
        self._wave_begun = -g.subarrays_per_die
        self._plane_used: dict[tuple[int, int], int] = {}
        self._bus: dict[int, tuple[int, int]] = {}  # by die: clock and subarray of the last beat
        self._read_at: dict[int, int] = {}  # by die: clock of the last read-out

    @property
    def idle(self) -> bool:
        """Whether all registers are empty and nothing runs."""
        return all(
            r.data is None
            and r.cache is None
            and not (r.work and (r.work.runs(self._clock) or r.work.suspended(self._clock)))
            for die in self._subarrays
            for r in die
        )

    def page(self, die: int, subarray: int, row: int) -> int:
        """Page of the stack: consecutive pages go to dies, then subarrays, then rows."""
        g = self.machine.geometry
        return (row * g.subarrays_per_die + subarray) * g.dies + die

    def stored(self, page: int) -> Callable[[int], list[int]]:
        """What a page holds, beat by beat, while nothing runs in its subarray."""
        g = self.machine.geometry
        rest, die = divmod(page, g.dies)
        row, subarray = divmod(rest, g.subarrays_per_die)
        at = Place(self._clock, die, subarray)
        return self._array(at, self._subarrays[die][subarray], row)

    def activity(self, die: int, subarray: int) -> str:
        """``runs`` or ``suspended`` while a program or erase is under way, else ``over``."""
        work = self._subarrays[die][subarray].work
        if work is not None and work.suspended(self._clock):
            return "suspended"
        return "runs" if work is not None and work.runs(self._clock) else "over"

    def step(self) -> None:
        """Begin the next clock."""
        self._clock += 1
        for d, tokens in enumerate(self._lane_tokens):
            self._lane_tokens[d] = min(Fraction(LANE_BURST), tokens + self._lane_rate)

    # Data -----------------------------------------------------------------------------------------

    def readout(self, die: int, subarray: int, beat: int, last: bool) -> tuple[int, list[int]]:
        """Number and lanes of the beat that the stack answers with one clock later.

        Raises:
            NandRuleBroken: the beat cannot be read, or the lane cannot have it yet.
        """
        at = Place(self._clock, die, subarray)
        registers = self._subarrays[die][subarray]
        if self._read_at.get(die) == self._clock:
            at.broken(NandRule.TWO_BEATS, "two read-outs of a die in one clock")
        self._read_at[die] = self._clock
        cache = registers.cache
        if not isinstance(cache, Page):
            at.broken(NandRule.READ_NOTHING, f"read-out of beat {beat} of an empty cache register")
        wait = self._times["t_latch"] + self._times["t_rr"]
        if self._clock - cache.since < wait:
            at.broken(
                NandRule.READ_EARLY,
                f"read-out {self._clock - cache.since} of {wait} clocks after LATCH",
            )
        if registers.last_beat is not None and beat != registers.last_beat + 1:
            after = registers.last_beat
            at.broken(NandRule.READ_ORDER, f"read-out of beat {beat} after beat {after}")
        self._use_lane(at)
        page = self.page(die, subarray, cache.row)
        lanes = cache.beats(beat)
        registers.last_beat = beat
        if last:
            registers.cache = registers.last_beat = None
            self.read_out[page] += 1
        return page * BEATS + beat, lanes

    def writein(self, die: int, subarray: int, beat: int, lanes: list[int]) -> None:
        """Take a beat of data.

        Raises:
            NandRuleBroken: the cache register is not open for it, or the lane cannot have it yet.
        """
        at = Place(self._clock, die, subarray)
        cache = self._subarrays[die][subarray].cache
        if (
            not isinstance(cache, Incoming)
            or cache.since == self._clock
            or len(cache.beats) == BEATS
        ):
            at.broken(NandRule.WRITE_NOTHING, f"write-in of beat {beat} without LOAD")
        if self._clock - cache.since < self._times["t_adl"]:
            at.broken(
                NandRule.WRITE_EARLY,
                f"write-in {self._clock - cache.since} of {self._times['t_adl']} clocks after LOAD",
            )
        if beat != len(cache.beats):
            at.broken(
                NandRule.WRITE_ORDER, f"write-in of beat {beat} instead of {len(cache.beats)}"
            )
        self._use_lane(at)
        cache.beats.append(list(lanes))
        if len(cache.beats) == BEATS:
            cache.whole_since = self._clock

    def _use_lane(self, at: Place) -> None:
        clock, subarray = self._bus.get(at.die, (0, at.subarray))
        if subarray != at.subarray and at.clock - clock < self._times["t_ccs"]:
            at.broken(
                NandRule.BEATS_CLOSE,
                f"beat {at.clock - clock} of {self._times['t_ccs']} clocks after one of "
                f"subarray {subarray}",
            )
        self._bus[at.die] = at.clock, at.subarray
        self._lane_tokens[at.die] -= 1
        if self._lane_tokens[at.die] < 0:
            at.broken(None, "beats outrun the TSV lane")

    # Commands -------------------------------------------------------------------------------------

    def command(
        self, die: int, command: Command, subarray: int, row: int
    ) -> tuple[bool, bool] | None:
        """Take a command of this clock; returns ``ready`` and ``fail`` for STATUS.

        Raises:
            NandRuleBroken: it is not allowed now.
        """
        at = Place(self._clock, die, subarray)
        registers = self._subarrays[die][subarray]
        if command is Command.STATUS:
            return self._status(at, registers)
        self._use_plane(at)
        work = registers.work
        running = work is not None and work.runs(self._clock)
        suspended = work is not None and work.suspended(self._clock)
        if running and command not in (Command.SUSPEND, Command.RESUME):
            at.broken(NandRule.BUSY, f"{command.name} while a program or erase runs")
        if suspended and command in (Command.LOAD, Command.PROGRAM, Command.ERASE):
            at.broken(NandRule.SUSPENDED, f"{command.name} while one is suspended")
        match command:
            case Command.SENSE:
                self._sense(at, registers, row)
                self.senses += 1
            case Command.LATCH:
                self._latch(at, registers)
            case Command.LOAD:
                if registers.data is not None or registers.cache is not None:
                    at.broken(NandRule.LOAD_OVER_PAGE, "LOAD over a page")
                registers.cache = Incoming(row, self._clock)
            case Command.PROGRAM:
                self._program(at, registers, row)
            case Command.ERASE:
                self._erase(at, registers, row)
            case Command.SUSPEND:
                if work is None or work.answered or work.stops is not None:
                    at.broken(NandRule.SUSPEND_NOTHING, "SUSPEND of nothing that may run")
                work.stops = self._clock + self._times["t_suspend"]
            case Command.RESUME:
                self._resume(at, registers)
        return None

    def _status(self, at: Place, registers: SubarrayRegisters) -> tuple[bool, bool]:
        work, wait = registers.work, self._times["t_wb"]
        if work is None:
            return True, False
        if self._clock - work.issued < wait:
            since = self._clock - work.issued
            at.broken(NandRule.STATUS_EARLY, f"STATUS {since} of {wait} clocks after its command")
        ready = not work.runs(self._clock) and not work.suspended(self._clock)
        work.answered |= ready
        return ready, ready and registers.failed

    def _use_plane(self, at: Place) -> None:
        plane = at.die, at.subarray % self.machine.geometry.planes
        used, wait = self._plane_used.get(plane), self._times["t_plane_busy"]
        if used is not None and self._clock - used < wait:
            at.broken(
                NandRule.PLANE_BUSY,
                f"command {self._clock - used} of {wait} clocks after one to plane {plane[1]}",
            )
        self._plane_used[plane] = self._clock

    def _sense(self, at: Place, registers: SubarrayRegisters, row: int) -> None:
        if registers.data is not None:
            at.broken(NandRule.SENSE_OVER_PAGE, "SENSE over a page that was not latched")
        if registers.cache is not None and not self.machine.nand.cache_read:
            at.broken(
                NandRule.SENSE_OVER_CACHE, "SENSE without cache read over a page not read out"
            )
        if self.machine.nand.sensing is Sensing.LOCKSTEP:
            self._join_wave(at)
        registers.data = Page(row, self._clock, self._array(at, registers, row))

    def _join_wave(self, at: Place) -> None:
        """A wave is whatever is issued within two clocks for each subarray of a die.

        With cache read the next may begin a sensing time later. Its first page can come late in
        its window, and then the next wave comes as much too early.
        """
        window = 2 * self.machine.geometry.subarrays_per_die
        since = self._clock - self._wave_begun
        if since < window:
            return
        senses = any(r.data is not None for die in self._subarrays for r in die)
        sensed = self.machine.nand.cache_read and since + window >= self._times["t_read"]
        if senses and not sensed:
            at.broken(None, "SENSE of a wave while the one before still senses")
        self._wave_begun = self._clock

    def _latch(self, at: Place, registers: SubarrayRegisters) -> None:
        page = registers.data
        if page is None:
            at.broken(NandRule.LATCH_NOTHING, "LATCH without SENSE")
        elapsed, t_read = self._clock - page.since, self._times["t_read"]
        if elapsed < t_read:
            at.broken(NandRule.LATCH_EARLY, f"LATCH after {elapsed} of {t_read} clocks")
        if registers.cache is not None:
            at.broken(NandRule.LATCH_OVER_PAGE, "LATCH over a page that was not read out")
        registers.data = None
        registers.cache = Page(page.row, self._clock, page.beats)
        registers.last_beat = None

    def _program(self, at: Place, registers: SubarrayRegisters, row: int) -> None:
        cache = registers.cache
        if not isinstance(cache, Incoming) or cache.whole_since in (None, self._clock):
            at.broken(NandRule.PROGRAM_INCOMPLETE, "PROGRAM without four beats before it")
        if row != cache.row:
            at.broken(NandRule.PROGRAM_ROW, f"PROGRAM of row {row}, LOAD was of row {cache.row}")
        if registers.data is not None:
            at.broken(NandRule.PROGRAM_OVER_PAGE, "PROGRAM over a sensed page")
        block = self._block(at, row)
        number = row % self.machine.geometry.pages_per_block
        if block.spoilt or number != block.written:
            if number == 0:
                at.broken(NandRule.PROGRAM_NOT_ERASED, "PROGRAM of a block that is not erased")
            at.broken(
                NandRule.PROGRAM_ORDER,
                f"PROGRAM of page {number} of a block, the next is {block.written}",
            )
        block.written += 1
        failed = self._begin(at, registers, row, erase=False)
        self.written[self.page(at.die, at.subarray, row)] = None if failed else cache.beats
        registers.cache = None

    def _erase(self, at: Place, registers: SubarrayRegisters, row: int) -> None:
        if registers.data is not None or registers.cache is not None:
            at.broken(NandRule.ERASE_OVER_PAGE, "ERASE with a page in a register")
        block, size = self._block(at, row), self.machine.geometry.pages_per_block
        block.erased, block.written = True, 0
        for each in range(row // size * size, (row // size + 1) * size):
            self.written.pop(self.page(at.die, at.subarray, each), None)
        block.spoilt = self._begin(at, registers, row, erase=True)

    def _begin(self, at: Place, registers: SubarrayRegisters, row: int, *, erase: bool) -> bool:
        """Start a program or erase; tells whether it will fail."""
        takes = self._times["t_erase" if erase else "t_program"]
        registers.work = Work(erase, row, self._clock, self._clock + takes)
        registers.failed = self.fails(erase, at.die, at.subarray, row)
        return registers.failed

    def _resume(self, at: Place, registers: SubarrayRegisters) -> None:
        work = registers.work
        if work is None or work.stops is None or not work.suspended(self._clock):
            at.broken(NandRule.RESUME_NOTHING, "RESUME of nothing that is suspended")
        if registers.data is not None:
            at.broken(NandRule.RESUME_OVER_PAGE, "RESUME over a sensed page")
        work.ends += self._clock - work.stops
        work.stops = None

    # Array ----------------------------------------------------------------------------------------

    def _block(self, at: Place, row: int) -> BlockState:
        key = at.die, at.subarray, row // self.machine.geometry.pages_per_block
        return self._blocks.setdefault(key, BlockState())

    def _array(
        self, at: Place, registers: SubarrayRegisters, row: int
    ) -> Callable[[int], list[int]]:
        """What a row holds now, beat by beat."""
        page, lanes = self.page(at.die, at.subarray, row), self.machine.lanes

        def garbage(beat: int) -> list[int]:
            return garbage_lanes(self.stack, page * BEATS + beat, lanes)

        def preloaded(beat: int) -> list[int]:
            return beat_lanes(self.stack, page * BEATS + beat, lanes)

        work, block = registers.work, self._block(at, row)
        if work is not None and work.suspended(self._clock):
            size = self.machine.geometry.pages_per_block
            within = row // size == work.row // size if work.erase else row == work.row
            if within:
                return garbage
        if block.spoilt:
            return garbage
        if page in self.written:
            beats = self.written[page]
            return garbage if beats is None else beats.__getitem__
        return (lambda beat: blank_lanes(lanes)) if block.erased else preloaded
