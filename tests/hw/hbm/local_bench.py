# amaranth: UnusedElaboratable=no
"""The GPU at the local port of an HBM base die, and writeback beside it, around a plain memory."""

import dataclasses
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.hbm.controller_share import ControllerShare
from hw.hbm.dram.description import DramOrganization, HbmStack
from hw.hbm.dram.stacks import stack
from hw.hbm.local_port import LocalPort
from hw.params import Machine
from hw.ucie.transaction import MessageClass, Operation, Status
from hw.ucie.ucie_end import QUIET_CLOCKS
from tests.hw.beats import Quiet
from tests.hw.hbm.controller_model import LANES, ControllerModel, pattern
from tests.hw.machines import TINY, WIDE

# Two accesses a beat, 2,048 in all.
WIDE_STACK = dataclasses.replace(
    stack("mini"),
    name="wide",
    organization=DramOrganization(
        pseudo_channels=4, stack_ids=1, bank_groups=2, banks=1, rows=16, row_bytes=1024
    ),
    beat_bytes=128,
)
SIZES = {"beats of an access": (TINY, stack("mini")), "beats of two": (WIDE, WIDE_STACK)}
LATE = 8  # clocks from `lost` in which something still comes
PAGE_TAGS = 1 << 11


def local_design(machine: Machine, hbm: HbmStack) -> tuple[Module, LocalPort, ControllerShare]:
    m = Module()
    m.submodules.port = port = LocalPort(machine, hbm)
    m.submodules.share = share = ControllerShare(hbm)
    wiring.connect(m, port.read, share.read)
    wiring.connect(m, port.write, share.write)
    wiring.connect(m, share.local_beats, port.beats)
    return m, port, share


@dataclass
class Request:
    """A request of the GPU; ``beats`` are those that it has data for."""

    write: bool
    address: int
    length: int
    version: int = 0
    asked: int = 0  # clock
    beats: int = 0  # that came
    old: dict[int, int] = field(default_factory=dict)  # versions that were done when it was asked

    def wanted(self, per: int) -> list[range]:
        """Accesses of each of its beats."""
        end = self.address + self.length
        numbers = range(self.address // per, -(-end // per)) if self.length else range(0)
        return [range(max(self.address, n * per), min(end, (n + 1) * per)) for n in numbers]

    def bad(self, hbm: HbmStack) -> bool:
        beats = len(self.wanted(hbm.beat_accesses))
        return not 0 < self.length <= hbm.accesses - self.address or beats > 1 << 14


class Gpu:
    """Asks under credit and judges every beat and completion, clock by clock."""

    def __init__(
        self, ctx: Any, machine: Machine, hbm: HbmStack, port: LocalPort, share: Any, *, seed: int
    ) -> None:
        self.ctx, self.machine, self.hbm = Quiet(ctx), machine, hbm
        self.port, self.share, self.rng = port, share, random.Random(seed)
        self.model = ControllerModel(
            stack=hbm, ctx=self.ctx, request=share.request, beats=share.beats,
            write_data=port.write_data, done=port.done, rng=self.rng,
        )  # fmt: skip
        self.queue: deque[Request] = deque()
        self.slots: dict[int, Request] = {}
        self.data: deque[tuple[Request, range]] = deque()  # beats to send, of requests that left
        self.order: deque[int] = deque()  # slots of reads
        self.credits = {"b_local": machine.credits.descriptors}
        self.credits["b_local_data"] = machine.credits.rx_beats
        self.done: dict[int, int] = {}  # version by access, of writes that are done
        self.open: list[Request] = []  # writes
        self.pages: deque[tuple[int, int]] = deque()  # tag, address: asked for
        self.page_beats = 0
        self.shares = {"ask": 0.6, "data": 0.6, "o": 0.7, "completion": 0.5, "page": 0.1}
        self.clocks, self.reads, self.writes, self.refused = 0, 0, 0, 0
        self.lost_since: int | None = None
        self._page: tuple[int, int] | None = None

    @property
    def idle(self) -> bool:
        return not (self.queue or self.slots or self.data or self.pages) and self.model.idle

    @property
    def quiet(self) -> bool:
        return self.lost_since is not None and self.clocks >= self.lost_since + QUIET_CLOCKS

    def chance(self, what: str) -> bool:
        return self.rng.random() < self.shares[what]

    async def clock(self) -> None:
        ctx, port = self.ctx, self.port
        sends = self.lost_since is None or self.clocks < self.lost_since + LATE
        ctx.set(port.reset.lost, self.lost_since is not None)
        ctx.set(port.reset.quiet, self.quiet)
        self._ask(sends)
        self._send(sends)
        self._ask_page()
        self.model.outputs()
        ctx.set(port.o.ready, self.chance("o"))
        ctx.set(port.completion.ready, self.chance("completion"))
        self._beat()
        self._completion()
        self._page_beat()
        if self._page and ctx.get(self.share.page.ready):
            self.pages.append(self._page)
            self._page = None
        self.model.inputs()
        for name in self.credits:
            self.credits[name] += ctx.get(getattr(port, name).credit)
        assert self.credits["b_local"] <= self.machine.credits.descriptors
        assert self.credits["b_local_data"] <= self.machine.credits.rx_beats
        await ctx.tick()
        self.clocks += 1

    def _ask(self, sends: bool) -> None:
        ctx, port = self.ctx, self.port.b_local
        free = set(range(self.machine.credits.descriptors)) - set(self.slots)
        asks = sends and self.queue and free and self.credits["b_local"] and self.chance("ask")
        ctx.set(port.valid, bool(asks))
        if not asks:
            return
        request, slot = self.queue.popleft(), self.rng.choice(sorted(free))
        self.credits["b_local"] -= 1
        ctx.set(
            port.header,
            {
                "operation": Operation.WRITE if request.write else Operation.READ,
                "message_class": MessageClass.REQUEST,
                "address": request.address,
                "length": request.length,
                "tag": slot,
            },
        )
        self.slots[slot] = request
        request.asked, request.old = self.clocks, dict(self.done)
        if request.write:
            wanted = request.wanted(self.hbm.beat_accesses)
            self.data.extend((request, accesses) for accesses in wanted)
            if not request.bad(self.hbm):
                self.open.append(request)
        elif not request.bad(self.hbm):
            self.order.append(slot)

    def _send(self, sends: bool) -> None:
        ctx, port, per = self.ctx, self.port.b_local_data, self.hbm.beat_accesses
        sends = bool(sends and self.data and self.credits["b_local_data"] and self.chance("data"))
        ctx.set(port.valid, sends)
        if not sends:
            return
        self.credits["b_local_data"] -= 1
        request, accesses = self.data.popleft()
        begin = accesses.start // per * per
        for access in range(begin, begin + per):
            version = request.version if access in accesses else 0xBAD
            for k, word in enumerate(pattern(access % (1 << 32), version)):
                ctx.set(port.lanes[LANES * (access - begin) + k], word)
        ctx.set(port.header, {"message_class": MessageClass.WRITE_DATA})

    def _beat(self) -> None:
        ctx, o, per = self.ctx, self.port.o, self.hbm.beat_accesses
        if not ctx.get(o.valid):
            return
        assert self.lost_since is None, "a beat while link B is lost"
        if not ctx.get(o.ready):
            return
        header, slot = ctx.get(o.header), self.order[0]
        request = self.slots[slot]
        wanted = request.wanted(per)
        assert (header.message_class, header.operation) == (MessageClass.READ_DATA, Operation.READ)
        assert header.tag == slot, f"clock {self.clocks}"
        assert header.page << 2 | header.beat == request.beats
        accesses = wanted[request.beats]
        request.beats += 1
        assert header.page_end == (request.beats == len(wanted))
        assert header.poison == bool(self.model.poisoned & set(accesses))
        begin = accesses.start // per * per
        words = [ctx.get(lane) for lane in o.lanes]
        for access in accesses:
            at = LANES * (access - begin)
            version = words[at] >> 40
            assert words[at : at + LANES] == pattern(access, version)
            assert version in self._may_be(request, access), f"access {access}, {version}"
        if header.page_end:
            self.order.popleft()
            del self.slots[slot]
            self.reads += 1

    def _may_be(self, request: Request, access: int) -> set[int]:
        """What was done when the read was asked for, and all that was written meanwhile."""
        meanwhile = {
            write.version
            for write in self.open
            if write.address <= access < write.address + write.length
        }
        return {request.old.get(access, 0), self.done.get(access, 0)} | meanwhile

    def _completion(self) -> None:
        ctx, port = self.ctx, self.port.completion
        if not (ctx.get(port.valid) and ctx.get(port.ready)):
            return
        header = ctx.get(port.payload)
        if self.lost_since is not None:
            return  # lost on the link
        request = self.slots.pop(header.tag)
        assert header.message_class == MessageClass.COMPLETION
        assert header.operation == (Operation.WRITE if request.write else Operation.READ)
        bad = request.bad(self.hbm)
        assert header.status == (Status.BAD_ADDRESS if bad else Status.OK)
        assert not any(request is of for of, _ in self.data), "ended before its data came"
        if bad:
            self.refused += 1
            return
        assert request is self.open.pop(0), "writes end in order"
        self.writes += 1
        for access in range(request.address, request.address + request.length):
            assert self.model.versions[access] >= request.version, "not written yet"
            self.done[access] = request.version

    def _ask_page(self) -> None:
        ctx, port = self.ctx, self.share.page
        if self._page is None and self.chance("page"):
            page = 4 * self.hbm.beat_accesses
            at = self.rng.randrange(self.hbm.accesses // page) * page
            self._page = self.rng.randrange(PAGE_TAGS), at
        ctx.set(port.valid, self._page is not None)
        if self._page:
            payload = {"address": self._page[1], "length": 4 * self.hbm.beat_accesses}
            ctx.set(port.payload, {**payload, "tag": self._page[0], "write": 0})

    def _page_beat(self) -> None:
        ctx, port = self.ctx, self.share.page_beats
        ctx.set(port.ready, 1)
        if not ctx.get(port.valid):
            return
        label, (tag, address) = ctx.get(port.label), self.pages[0]
        assert (label.tag, label.beat) == (tag, self.page_beats)
        access = address + self.page_beats * self.hbm.beat_accesses
        assert ctx.get(port.lanes[0]) & (1 << 40) - 1 == access << 8
        self.page_beats = (self.page_beats + 1) % 4
        if self.page_beats == 0:
            self.pages.popleft()

    async def reset(self) -> list[Request]:
        """Loses link B until the port has settled; returns the writes that were open.

        Meanwhile the link takes no beats and the controller is slow to write.
        """
        self.lost_since, shares = self.clocks, dict(self.shares)
        self.shares["o"], self.model.write_share = 0.0, 0.05
        settled = self.port.reset.settled
        while not self.quiet or not self.ctx.get(settled):
            await self.clock()
            assert self.clocks < self.lost_since + QUIET_CLOCKS + 3000, "does not settle"
        assert not self.model.writing
        cut, self.open = self.open, []
        self.shares, self.model.write_share = shares, 0.8
        await self.clock()  # the last credit is a register
        whole = {"b_local": self.machine.credits.descriptors}
        assert self.credits == whole | {"b_local_data": self.machine.credits.rx_beats}
        for _ in range(self.rng.randrange(10)):
            await self.clock()
            assert self.ctx.get(settled)
        self.slots, self.lost_since = {}, None
        self.data.clear()
        self.order.clear()
        self.done = dict(self.model.versions)
        return cut


def requests(rng: random.Random, hbm: HbmStack, count: int, *, first: int = 1) -> list[Request]:
    """Of all sizes, at few addresses, so that they meet; a tenth cannot be done.

    Versions count from ``first``.
    """
    made, per = [], hbm.beat_accesses
    for version in range(first, first + count):
        length = rng.choice((1, rng.randint(1, 4 * per), rng.randint(1, 12 * per)))
        address = rng.choice((0, hbm.accesses - 16 * per)) + rng.randrange(4 * per)
        if rng.random() < 0.1:
            address, length = rng.choice(
                (
                    (address, 0),
                    (hbm.accesses - length + 1, length),
                    (hbm.accesses, length),
                    ((1 << 39) + address, length),
                )
            )
        made.append(Request(rng.random() < 0.5, address, length, version))
    return made
