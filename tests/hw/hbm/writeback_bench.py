# amaranth: UnusedElaboratable=no
"""Writeback with its write sender, between a user, a plain HBM and an HBF base die."""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.hbm.dram.description import HbmStack
from hw.hbm.writeback import Writeback
from hw.params import Machine
from hw.ucie.pacer import RATE_ONE
from hw.ucie.transaction import MessageClass, Operation, Status
from hw.ucie.ucie_end import QUIET_CLOCKS
from hw.ucie.write_sender import WriteSender
from tests.hw.beats import Quiet
from tests.hw.hbm.controller_model import LANES, ControllerModel, pattern

UNIT = 4  # pages of a complete wave in these tests
LATE = 8  # clocks from `lost` in which something still comes
BEATS = 4


def join_sender(m: Module, block: Any, sender: WriteSender) -> None:
    """What a base die joins of a writeback and its sender, but the resets."""
    wiring.connect(m, block.write, sender.i)
    wiring.connect(m, sender.granted, block.granted)
    wiring.connect(m, block.at_hand, sender.at_hand)
    m.d.comb += [
        block.fetch.eq(sender.fetch),
        block.done.eq(sender.done),
        sender.fetch_poison.eq(block.fetch_poison),
        *(a.eq(b) for a, b in zip(sender.fetch_lanes, block.fetch_lanes, strict=True)),
        sender.rate.eq(RATE_ONE),
    ]


def writeback_design(
    machine: Machine, hbm: HbmStack, writeback: type = Writeback
) -> tuple[Module, Any, WriteSender]:
    m = Module()
    m.submodules.writeback = block = writeback(machine, hbm, unit_pages=UNIT, pages=4)
    m.submodules.sender = sender = WriteSender(machine, staged=True)
    join_sender(m, block, sender)
    m.d.comb += [
        sender.reset.lost.eq(block.reset.lost),
        sender.reset.quiet.eq(block.reset.quiet),
    ]
    return m, block, sender


@dataclass
class Command:
    """What is asked for, and what becomes of it."""

    source: int
    first: int
    pages: int
    tag: int
    owner: int = 2
    good: bool = True  # by the rule
    slot: int | None = None  # tag on the link
    ungranted: list[int] = field(default_factory=list)
    wanted: set[int] = field(default_factory=set)  # pages that have not arrived
    status: int | None = None  # of its last COMPLETION
    ended: bool = False

    @property
    def payload(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("source", "first", "pages", "tag", "owner")}


class Hbf:
    """User, HBM and HBF around the design, clock by clock."""

    def __init__(
        self, ctx: Any, machine: Machine, hbm: HbmStack, block: Any, sender: Any, *, seed: int
    ) -> None:
        self.ctx, self.machine, self.hbm = Quiet(ctx), machine, hbm
        self.block, self.sender, self.rng = block, sender, random.Random(seed)
        self.model = ControllerModel(
            stack=hbm, ctx=self.ctx, request=block.page_request, beats=block.page_beats,
            rng=self.rng,
        )  # fmt: skip
        self.commands: deque[Command] = deque()
        self.taken: deque[Command] = deque()  # not yet on the request port
        self.open: dict[int, Command] = {}  # by tag of the command, not yet told
        self.slots: dict[int, Command] = {}  # at the HBF
        self.replies: deque[dict[str, int]] = deque()
        self.tokens: dict[tuple[int, int], int] = {}
        self.reply_credits = machine.credits.descriptors
        self.owed = {"request": 0, "data": 0}
        self.beat = 0
        self.released, self.failed = 0, 0
        self.bad_pages: set[tuple[int, int]] = set()  # slot and page, came as poison
        self.spoil = 0.0  # how often a write is refused, or a page of it fails
        self.shares = {"grant": 0.5, "reply": 0.7, "credit": 0.7, "told": 0.5, "command": 0.5}
        self.clocks = self.pages = 0
        self.lost_since: int | None = None

    def chance(self, what: str) -> bool:
        return self.rng.random() < self.shares[what]

    @property
    def idle(self) -> bool:
        return not (self.commands or self.open)

    @property
    def quiet(self) -> bool:
        return self.lost_since is not None and self.clocks >= self.lost_since + QUIET_CLOCKS

    def command(self, tag: int, *, pages: int | None = None) -> Command:
        accesses = BEATS * self.hbm.beat_accesses
        pages = pages or UNIT * self.rng.randint(1, 4)
        source = self.rng.randrange(self.hbm.accesses // accesses - pages) * accesses
        return Command(source, self.rng.randrange(99), pages, tag)

    async def clock(self) -> None:
        ctx, block = self.ctx, self.block
        lost = self.lost_since is not None
        comes = not lost or self.clocks < self.lost_since + LATE
        ctx.set(block.reset.lost, lost)
        ctx.set(block.reset.quiet, self.quiet)
        offers = bool(self.commands) and (ctx.get(block.command.valid) or self.chance("command"))
        ctx.set(block.command.valid, offers)
        if offers:
            ctx.set(block.command.payload, self.commands[0].payload)
        for port in (block.released, block.failed):
            ctx.set(port.ready, self.chance("told"))
        self._credits(lost)
        self._grant()
        self._reply(comes)
        self.model.outputs()
        self._request()
        self._data()
        self._told()
        if offers and ctx.get(block.command.ready):
            command = self.commands.popleft()
            assert command.tag not in self.open
            self.open[command.tag] = command
            if command.good:
                self.taken.append(command)
        self.model.inputs()
        self.reply_credits += ctx.get(self.sender.reply.credit)
        assert self.reply_credits <= self.machine.credits.descriptors
        await ctx.tick()
        self.clocks += 1

    def _credits(self, lost: bool) -> None:
        for name, owed in self.owed.items():
            gives = owed > 0 and not lost and self.chance("credit")
            self.ctx.set(getattr(self.sender, name).credit, gives)
            self.owed[name] -= gives

    def _grant(self) -> None:
        """Grants a page of any write, answers one that has all its pages."""
        writes = [w for w in self.slots.values() if w.ungranted]
        if self.lost_since is None and writes and len(self.replies) < 4 and self.chance("grant"):
            write = self.rng.choice(writes)
            page = write.ungranted.pop(self.rng.randrange(len(write.ungranted)))
            token = self.rng.getrandbits(16)
            self.tokens[write.slot, page] = token
            self.replies.append(
                {"message_class": MessageClass.GRANT, "tag": write.slot, "page": page}
                | {"credit": token}
            )

    def _complete(self, write: Command, status: int, *, page: int = 0, last: bool = True) -> None:
        self.replies.append(
            {
                "message_class": MessageClass.COMPLETION,
                "operation": Operation.WRITE,
                "tag": write.slot,
                "page": page,
                "status": status,
                "chunk_end": last,
            }
        )

    def _reply(self, comes: bool) -> None:
        ctx, port = self.ctx, self.sender.reply
        sends = bool(comes and self.replies and self.reply_credits and self.chance("reply"))
        ctx.set(port.valid, sends)
        if not sends:
            return
        self.reply_credits -= 1
        header = self.replies.popleft()
        ctx.set(port.header, header)
        if header["message_class"] == MessageClass.COMPLETION and header["chunk_end"]:
            self.slots.pop(header["tag"]).status = header["status"]

    def _request(self) -> None:
        ctx, port = self.ctx, self.sender.request
        if not ctx.get(port.valid):
            return
        header, command = ctx.get(port.header), self.taken.popleft()
        units = self.machine.geometry.page_bytes // 64
        assert header.operation == Operation.WRITE and header.owner == command.owner
        assert (header.address, header.length) == (command.first * units, command.pages * units)
        assert header.tag not in self.slots and header.relocated == 0
        command.slot = header.tag
        self.slots[header.tag] = command
        self.owed["request"] += 1
        if self.lost_since is not None:
            return
        if self.rng.random() < self.spoil:
            self._complete(command, Status.OVERLAP)
            return
        command.ungranted = list(range(command.pages))
        command.wanted = set(command.ungranted)

    def _data(self) -> None:
        ctx, port = self.ctx, self.sender.data
        if not ctx.get(port.valid):
            assert self.beat == 0, "a gap within a page"
            return
        self.owed["data"] += 1
        assert self.owed["data"] <= self.machine.credits.rx_beats
        header, per = ctx.get(port.header), self.hbm.beat_accesses
        assert header.beat == self.beat
        self.beat = (self.beat + 1) % BEATS
        if self.lost_since is not None and header.tag not in self.slots:
            return
        write = self.slots[header.tag]
        assert header.credit == self.tokens[header.tag, header.page]
        first = write.source + (BEATS * header.page + header.beat) * per
        words = [ctx.get(lane) for lane in port.lanes]
        for k in range(per):
            assert words[LANES * k : LANES * (k + 1)] == pattern(first + k, 0)
        assert header.poison == bool(self.model.poisoned & set(range(first, first + per)))
        if header.poison:
            self.bad_pages.add((header.tag, header.page))
        if header.page_end:
            write.wanted.remove(header.page)
            self.pages += 1
            if self.lost_since is None:
                self._arrived(write, header.page)

    def _arrived(self, write: Command, page: int) -> None:
        bad = [p for s, p in self.bad_pages if s == write.slot]
        if page in bad:
            self._complete(write, Status.PROGRAM_FAILED, page=page, last=False)
        if not write.wanted:
            self._complete(write, Status.PROGRAM_FAILED if bad else Status.OK)
            self.bad_pages -= {(write.slot, p) for p in bad}

    def _told(self) -> None:
        ctx, block = self.ctx, self.block
        if ctx.get(block.released.valid) and ctx.get(block.released.ready):
            told = ctx.get(block.released.payload)
            command = self.open.pop(told.tag)
            assert command.good and command.status == Status.OK, "released early"
            assert (told.source, told.pages) == (command.source, command.pages)
            assert not command.wanted
            self.released += 1
        if ctx.get(block.failed.valid) and ctx.get(block.failed.ready):
            told = ctx.get(block.failed.payload)
            command = self.open.pop(told.tag)
            expected = command.status if command.good else Status.BAD_ADDRESS
            assert told.status == expected != Status.OK
            self.failed += 1

    async def reset(self) -> int:
        """Loses link C until both have settled; returns how many writes it cut."""
        self.lost_since = self.clocks
        ctx, settled = self.ctx, (self.sender.reset.settled, self.block.reset.settled)
        cut = None
        while not self.quiet or not all(map(ctx.get, settled)):
            if self.quiet and cut is None:
                cut = self._cut()
            await self.clock()
            assert self.clocks < self.lost_since + QUIET_CLOCKS + 500, "does not settle"
        cut = self._cut() if cut is None else cut
        for _ in range(3 + self.rng.randrange(10)):
            await self.clock()
        assert self.reply_credits == self.machine.credits.descriptors
        self.replies.clear()
        self.tokens.clear()
        self.bad_pages.clear()
        self.lost_since = None
        return cut

    def _cut(self) -> int:
        """What is at the HBF ends with LINK_RESET."""
        count = len(self.slots)
        for command in self.slots.values():
            command.status = Status.LINK_RESET
        self.slots.clear()
        return count
