"""What a NAND core die remembers, for :mod:`tb.vip.nand_model`: registers, blocks, work."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from tb.vip.nand_rules import NandRule


class NandRuleBroken(AssertionError):
    """The base die did what a NAND die forbids; ``rule`` names it."""

    def __init__(self, rule: NandRule | None, text: str) -> None:
        super().__init__(text)
        self.rule = rule


@dataclass(frozen=True)
class Page:
    """What a register holds: lanes of the four beats, made when they are asked for."""

    row: int
    since: int  # clock of the command that put it there
    beats: Callable[[int], list[int]]


@dataclass
class Incoming:
    """A cache register that LOAD opened."""

    row: int
    since: int
    beats: list[list[int]] = field(default_factory=list)
    whole_since: int | None = None


@dataclass
class Work:
    """A program or an erase."""

    erase: bool
    row: int
    issued: int
    ends: int  # unless it is suspended
    stops: int | None = None  # clock from which on it is suspended, unless it ends by then
    answered: bool = False  # a STATUS has found it ready

    def suspended(self, clock: int) -> bool:
        return self.stops is not None and self.stops < self.ends and clock >= self.stops

    def runs(self, clock: int) -> bool:
        return not self.suspended(clock) and clock < self.ends


@dataclass
class BlockState:
    erased: bool = False  # its blank pages are ones, not what was preloaded
    spoilt: bool = False  # an erase failed
    written: int = 0  # pages, from the first


@dataclass
class SubarrayRegisters:
    data: Page | None = None
    cache: Page | Incoming | None = None
    last_beat: int | None = None  # read out of the cache register
    work: Work | None = None  # the last one
    failed: bool = False


@dataclass(frozen=True)
class Place:
    """Where and when a port does something."""

    clock: int
    die: int
    subarray: int

    def broken(self, rule: NandRule | None, what: str) -> NoReturn:
        name = f" ({rule.name})" if rule else ""
        raise NandRuleBroken(
            rule, f"clock {self.clock}, die {self.die}, subarray {self.subarray}: {what}{name}"
        )
