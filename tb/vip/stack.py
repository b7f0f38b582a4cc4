"""The NAND of one stack in plain Python, at the ports of :class:`hw.package.Package`."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from hw.hbf.layouts import Command
from hw.params import Machine
from hw.sram.regions import GROUPS
from tb.vip.agents import handles
from tb.vip.content import WORD, beat_lanes
from tb.vip.nand_model import BEATS, NandModel

FAULTS = ("flip", "drop", "swap", "forget")


class Fault:
    """What one page of the NAND suffers, the first one of its kind once ``begins`` clocks are over.

    ``flip`` inverts one bit of one beat that is read out, ``drop`` leaves the page unanswered,
    ``swap`` answers with the page beside it; ``None`` lets all pages pass. With ``forget`` no page
    is programmed any more from then on.
    """

    def __init__(self, kind: str | None, begins: int) -> None:
        if kind is not None and kind not in FAULTS:
            raise ValueError(f"fault {kind!r} is unknown: choose {', '.join(FAULTS)}")
        self._kind, self._begins, self._page = kind, begins, -1

    def answer(self, clock: int, stack: int, number: int, content: list[int]) -> list[int] | None:
        """Lanes of a beat that holds ``content``, or ``None`` for no answer."""
        if self._kind in (None, "forget"):
            return content
        page, beat = divmod(number, BEATS)
        if self._page < 0 and clock >= self._begins:
            self._page = page
        if page != self._page:
            return content
        match self._kind:
            case "drop":
                return None
            case "swap":
                return beat_lanes(stack, number ^ BEATS, len(content))
        flip = 1 << 63 if beat == BEATS - 1 else 0
        return [*content[:-1], content[-1] ^ flip]

    def forgets(self, clock: int) -> bool:
        """Whether the page that is programmed now is lost."""
        return self._kind == "forget" and clock >= self._begins


class Observer(Protocol):
    """Who hears of what a stack is told, in the order of events."""

    def sensed(self, die: int, subarray: int, row: int) -> None: ...
    def programs(self, die: int, subarray: int, row: int, fails: bool) -> None: ...
    def erases(self, die: int, subarray: int, row: int, fails: bool) -> None: ...
    def array_done(self, die: int, subarray: int, fail: bool) -> None: ...


@dataclass
class Failures:
    """Which programs and erases fail, drawn as they begin."""

    program: float
    erase: float
    random: Random
    last: bool = False

    def __call__(self, erase: bool, die: int, subarray: int, row: int) -> bool:
        self.last = self.random.random() < (self.erase if erase else self.program)
        return self.last


@dataclass
class Commanded:
    """A command that a die was given.

    Attributes:
        work: The last ``program`` or ``erase`` of the subarray, until a STATUS told its end.
        activity: What it did as the command came: ``runs``, ``suspended`` or ``over``.
    """

    die: int
    command: Command
    subarray: int
    row: int
    work: str
    activity: str


@dataclass
class _Running:
    kind: str = ""
    told: bool = False  # STATUS found it ready


@dataclass
class Stack:
    """The NAND of one pair: takes commands and data, answers one clock later.

    Attributes:
        commands: Commands of this clock.
        counts: Commands by name so far, and programs and erases that failed.
    """

    dut: Any
    machine: Machine
    pair: int
    fault: Fault
    failures: Failures
    observer: Observer
    commands: list[Commanded] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.model = NandModel(self.machine, self.pair, self.failures)
        self._clock = 0
        g, dut, pair = self.machine.geometry, self.dut, self.pair
        names = ("valid", "command", "subarray", "row")
        self._commands = [handles(dut, f"command__{pair}__{d}", names) for d in range(g.dies)]
        self._replies = [
            handles(dut, f"command__{pair}__{d}", ("ready", "fail")) for d in range(g.dies)
        ]
        self._readouts = [
            handles(dut, f"readout__{pair}__{k}", ("valid", "die", "subarray", "beat", "last"))
            for k in range(GROUPS)
        ]
        lanes = range(self.machine.lanes)
        self._answers = [handles(dut, f"readout__{pair}__{k}__lanes", lanes) for k in range(GROUPS)]
        self._writein = handles(dut, f"writein__{pair}", ("valid", "die", "subarray", "beat"))
        self._data = handles(dut, f"writein__{pair}__lanes", lanes)
        self._answered = [True] * GROUPS
        self._running = [[_Running() for _ in range(g.subarrays_per_die)] for _ in range(g.dies)]
        for k in range(GROUPS):
            self._drive(k, None)
        for ready, fail in self._replies:
            ready.value, fail.value = 0, 0

    def clock(self) -> None:
        self._clock += 1
        self.model.step()
        for k, (valid, *rest) in enumerate(self._readouts):
            lanes = None
            if int(valid.value):
                die, subarray, beat, last = (int(handle.value) for handle in rest)
                number, content = self.model.readout(die, subarray, beat, bool(last))
                lanes = self.fault.answer(self._clock, self.pair, number, content)
            self._drive(k, lanes)
        self.commands = []
        for die, (valid, *rest) in enumerate(self._commands):
            if int(valid.value):
                command, subarray, row = (int(handle.value) for handle in rest)
                self._command(die, Command(command), subarray, row)
        valid, *rest = self._writein
        if int(valid.value):
            die, subarray, beat = (int(handle.value) for handle in rest)
            self.model.writein(die, subarray, beat, [int(lane.value) for lane in self._data])

    def _command(self, die: int, command: Command, subarray: int, row: int) -> None:
        running = self._running[die][subarray]
        at = self.model.page(die, subarray, row)
        held, before = at in self.model.written, self.model.written.get(at)
        work = "" if running.told else running.kind
        activity = self.model.activity(die, subarray)
        self.commands.append(Commanded(die, command, subarray, row, work, activity))
        reply = self.model.command(die, command, subarray, row)
        self.counts[command.name] += 1
        match command:
            case Command.SENSE:
                self.observer.sensed(die, subarray, row)
            case Command.PROGRAM:
                if self.fault.forgets(self._clock):
                    del self.model.written[at]
                    if held:
                        self.model.written[at] = before
                self._begin(running, "program", self.failures.last)
                self.observer.programs(die, subarray, row, self.failures.last)
            case Command.ERASE:
                self._begin(running, "erase", self.failures.last)
                self.observer.erases(die, subarray, row, self.failures.last)
            case Command.STATUS if reply is not None:
                self._replies[die][0].value, self._replies[die][1].value = map(int, reply)
                if reply[0] and running.kind and not running.told:
                    running.told = True
                    self.observer.array_done(die, subarray, reply[1])

    def _begin(self, running: _Running, kind: str, fails: bool) -> None:
        running.kind, running.told = kind, False
        self.counts[f"{kind}_failures"] += fails

    def _drive(self, group: int, lanes: list[int] | None) -> None:
        """Lanes hold an answer for one clock; after it they must not be looked at."""
        if lanes is None and self._answered[group]:
            lanes = [WORD ^ (group << 8 | k) for k in range(self.machine.lanes)]
            self._answered[group] = False
        elif lanes is not None:
            self._answered[group] = True
        for handle, lane in zip(self._answers[group], lanes or (), strict=False):
            handle.value = lane
