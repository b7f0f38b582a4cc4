"""Plain-Python agents at the ports of :class:`hw.package.Package`.

An agent caches its handles and acts when its ``clock`` is called, in every clock just after the
rising edge: what it reads is what the edge saw, what it writes is there at the next one.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from hw.gpu.router import Choice, read_layout
from hw.hbf.layouts import Command
from hw.params import Machine
from hw.sram.regions import GROUPS
from hw.ucie.transaction import Route
from tb.vip.content import WORD, beat_lanes
from tb.vip.nand_model import BEATS, NandModel
from tb.vip.scoreboard import Scoreboard

FAULTS = ("flip", "drop", "swap")
LONGEST = {"runs": 400, "hesitates": 200, "stands": 300}  # clocks of a consumer's moods


class Fault:
    """What one page of the NAND suffers, the one first read out once ``begins`` clocks are over.

    ``flip`` inverts one bit of one beat, ``drop`` leaves the page unanswered, ``swap`` answers with
    the page beside it; ``None`` lets all pages pass.
    """

    def __init__(self, kind: str | None, begins: int) -> None:
        if kind is not None and kind not in FAULTS:
            raise ValueError(f"fault {kind!r} is unknown: choose {', '.join(FAULTS)}")
        self._kind, self._begins, self._page = kind, begins, -1

    def answer(self, clock: int, stack: int, number: int, lanes: int) -> list[int] | None:
        """Lanes of a beat, or ``None`` for no answer."""
        page, beat = divmod(number, BEATS)
        if self._page < 0 and clock >= self._begins:
            self._page = page
        if self._kind is None or page != self._page:
            return beat_lanes(stack, number, lanes)
        match self._kind:
            case "drop":
                return None
            case "swap":
                return beat_lanes(stack, number ^ BEATS, lanes)
        content = beat_lanes(stack, number, lanes)
        content[-1] ^= 1 << 63 if beat == BEATS - 1 else 0
        return content


class Stack:
    """The NAND of one pair: takes commands and answers read-outs one clock later."""

    def __init__(self, dut: Any, machine: Machine, pair: int, fault: Fault) -> None:
        self.model = NandModel(machine)
        self._pair, self._lanes, self._fault, self._clock = pair, machine.lanes, fault, 0
        self._commands = [
            _handles(dut, f"command__{pair}__{d}", ("valid", "command", "subarray", "row"))
            for d in range(machine.geometry.dies)
        ]
        self._readouts = [
            _handles(dut, f"readout__{pair}__{g}", ("valid", "die", "subarray", "beat"))
            for g in range(GROUPS)
        ]
        lanes = range(machine.lanes)
        self._answers = [
            _handles(dut, f"readout__{pair}__{g}__lanes", lanes) for g in range(GROUPS)
        ]
        self._answered = [True] * GROUPS
        for g in range(GROUPS):
            self._drive(g, None)

    def clock(self) -> None:
        self._clock += 1
        self.model.step()
        for g, (valid, *rest) in enumerate(self._readouts):
            lanes = None
            if int(valid.value):
                die, subarray, beat = (int(handle.value) for handle in rest)
                number = self.model.readout(die, subarray, beat)
                lanes = self._fault.answer(self._clock, self._pair, number, self._lanes)
            self._drive(g, lanes)
        for die, (valid, *rest) in enumerate(self._commands):
            if int(valid.value):
                command, subarray, row = (int(handle.value) for handle in rest)
                self.model.command(die, Command(command), subarray, row)

    def _drive(self, group: int, lanes: list[int] | None) -> None:
        """Lanes hold an answer for one clock; after it they must not be looked at."""
        if lanes is None and self._answered[group]:
            lanes = [WORD ^ (group << 8 | k) for k in range(self._lanes)]
            self._answered[group] = False
        elif lanes is not None:
            self._answered[group] = True
        for handle, lane in zip(self._answers[group], lanes or (), strict=False):
            handle.value = lane


class Consumer:
    """Takes the beats of one path and pair; runs, hesitates or stands still for random times."""

    def __init__(self, dut: Any, machine: Machine, route: Route, pair: int, random: Random) -> None:
        name = f"{route.name.lower()}_o__{pair}"
        self._route, self._pair, self._random = route, pair, random
        self._valid, self._ready, self._header = _handles(dut, name, ("valid", "ready", "header"))
        self._lanes = _handles(dut, f"{name}__lanes", range(machine.lanes))
        self._mode, self._left = "runs", 0
        self._takes = False
        self._ready.value = 0

    def clock(self, scoreboard: Scoreboard) -> None:
        if self._takes and int(self._valid.value):
            lanes = [int(lane.value) for lane in self._lanes]
            scoreboard.beat(self._route, self._pair, int(self._header.value), lanes)
        if self._left == 0:
            self._mode = self._random.choice(list(LONGEST))
            self._left = self._random.randrange(1, LONGEST[self._mode])
        self._left -= 1
        takes = self._mode == "runs" or (self._mode == "hesitates" and self._random.random() < 0.5)
        if takes != self._takes:
            self._takes = takes
            self._ready.value = int(takes)


class Requester:
    """Offers reads one after the other, with random pauses, each until it is accepted."""

    def __init__(
        self, dut: Any, machine: Machine, reads: Iterator[tuple[int, int, Choice]], random: Random
    ) -> None:
        self._valid, self._ready, self._payload = _handles(
            dut, "read", ("valid", "ready", "payload")
        )
        self._layout = read_layout(machine)
        self._reads, self._random, self._pause = reads, random, 0
        self._offer: tuple[int, int, int, Choice] | None = None
        self.exhausted = False
        self._valid.value = 0
        self._payload.value = 0

    def clock(self, scoreboard: Scoreboard) -> None:
        if self._offer is not None:
            if not int(self._ready.value):
                return
            scoreboard.accepted(*self._offer)
            self._offer = None
            self._valid.value = 0
            self._pause = self._random.choice((0, 0, 0, 1, 7, 100))
        if self._pause:
            self._pause -= 1
            return
        following = next(self._reads, None)
        self.exhausted = following is None
        if following is None:
            return
        first, pages, choice = following
        tag = self._random.choice([t for t in range(4096) if t not in scoreboard.tags])
        self._offer = first, pages, tag, choice
        fields = {"first": first, "pages": pages, "tag": tag, "choice": choice}
        self._payload.value = self._layout.const(fields).as_bits()
        self._valid.value = 1


def _handles(dut: Any, prefix: str, names: Sequence[str] | Sequence[int]) -> list[Any]:
    return [getattr(dut, f"{prefix}__{name}") for name in names]
