# amaranth: UnusedElaboratable=no
"""Requesters, links, tracker and ingress together, with dies that the bench plays."""

import random
from collections import deque
from types import SimpleNamespace

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring

from hw.hbf.page_walk import locate
from hw.hbf.write_ingress import WriteIngress
from hw.hbf.write_tracker import WriteTracker
from hw.ucie.channel import DataChannel, RequestChannel
from hw.ucie.credit import RequestReceiver
from hw.ucie.pacer import RATE_ONE
from hw.ucie.transaction import Operation, Owner, Status
from hw.ucie.write_sender import WriteSender
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

MACHINE = TINY
DIES = MACHINE.geometry.dies
LINKS = 2


class WritePath(Elaboratable):
    """The parts in a row, two links."""

    def __init__(self) -> None:
        self.senders = [WriteSender(MACHINE) for _ in range(LINKS)]
        self.ingresses = [WriteIngress(MACHINE) for _ in range(LINKS)]
        self.tracker = WriteTracker(MACHINE, links=LINKS)

    def elaborate(self, platform) -> Module:
        m = Module()
        cycles = MACHINE.link.one_way_cycles
        m.submodules.tracker = self.tracker
        for k in range(LINKS):
            sender, ingress = self.senders[k], self.ingresses[k]
            receiver = RequestReceiver(credits=MACHINE.credits.writes)
            request, reply = RequestChannel(cycles=cycles), RequestChannel(cycles=cycles)
            beats = DataChannel(
                lanes=MACHINE.lanes, cycles=cycles, bank_bytes=MACHINE.sram.bank_bytes
            )
            m.submodules += [sender, ingress, receiver, request, reply, beats]
            wiring.connect(m, sender.request, request.i)
            wiring.connect(m, request.o, receiver.port)
            wiring.connect(m, receiver.o, self.tracker.i[k])
            wiring.connect(m, self.tracker.reply[k], reply.i)
            wiring.connect(m, reply.o, sender.reply)
            wiring.connect(m, sender.data, beats.i)
            wiring.connect(m, beats.o, ingress.port)
        return m


class Stack:
    """Requesters' memories and users, fill arbiter and dies, each as simple as can be."""

    def __init__(self, ctx, path: WritePath, *, rng: random.Random, shares: dict) -> None:
        self.ctx, self.path, self.rng, self.shares = Quiet(ctx), path, rng, shares
        self.requests = [deque() for _ in range(LINKS)]
        self.fetched = [None] * LINKS
        self.open: list[dict[int, dict]] = [{} for _ in range(LINKS)]  # asked for, by tag
        self.ended: list[dict[int, int]] = [{} for _ in range(LINKS)]  # last status, by tag
        self.page_failures: list[set] = [set() for _ in range(LINKS)]
        self.waiting = [deque() for _ in range(DIES)]  # pages that want a slot
        self.grants = [deque() for _ in range(DIES)]
        self.events = [deque() for _ in range(DIES)]
        self.slots: dict[tuple[int, int, int], dict] = {}  # reserved, by (die, subarray, region)
        self.rows: dict[tuple[int, int, int], int] = {}
        self.stored: dict[int, tuple[int, int, int]] = {}  # stack page -> who wrote it
        self.writes: dict[int, dict] = {}  # outstanding at the dies, by index
        self.clocks = 0

    def chance(self, what: str) -> bool:
        return self.rng.random() < self.shares.get(what, 1.0)

    async def clock(self) -> None:
        for k in range(LINKS):
            self._requester(k)
        self._fill()
        self._dies()
        await self.ctx.tick()
        self.clocks += 1

    def _requester(self, k: int) -> None:
        ctx, sender = self.ctx, self.path.senders[k]
        offers = bool(self.requests[k])
        ctx.set(sender.i.valid, offers)
        if offers:
            request = self.requests[k][0]
            ctx.set(sender.i.payload, request)
            if ctx.get(sender.i.ready):
                self.open[k][request["tag"]] = self.requests[k].popleft()
        if self.fetched[k] is not None:
            set_lanes(ctx, SimpleNamespace(lanes=sender.fetch_lanes), self.fetched[k])
        fetch = ctx.get(sender.fetch)
        self.fetched[k] = None
        if fetch.valid:
            assert fetch.page < self.open[k][fetch.tag]["pages"]
            self.fetched[k] = k << 32 | fetch.tag << 16 | fetch.page << 2 | fetch.beat
        done = ctx.get(sender.done)
        if done.valid and done.last:
            self.open[k].pop(done.tag)
            assert done.tag not in self.ended[k]
            self.ended[k][done.tag] = done.status
        elif done.valid:
            assert done.status and done.tag in self.open[k]
            self.page_failures[k].add((done.tag, done.page))

    def _fill(self) -> None:
        """Each group takes one beat in its fill clocks, of either link."""
        ctx, busy = self.ctx, set()
        order = self.rng.sample(range(LINKS), LINKS)
        for k in order:
            ingress = self.path.ingresses[k]
            want = ctx.get(ingress.want)
            take = want.valid and (self.clocks - want.group) % 2 == 0
            take = bool(take and want.group not in busy and self.chance("fill"))
            ctx.set(ingress.take, take)
            if take:
                busy.add(want.group)
                self.rows[want.region, want.group, want.row] = get_lanes(ctx, ingress)
            written = ctx.get(ingress.written)
            if written.valid:
                assert not written.poison
                slot = written.die, written.slot.subarray, written.slot.region
                page = self.slots[slot]
                assert page["link"] == k
                row = slot[1] * DIES + slot[0]
                for beat in range(4):
                    word = self.rows.pop((slot[2], (beat + slot[0]) % 4, row))
                    assert word == k << 32 | page["tag"] << 16 | page["page"] << 2 | beat
                if not page["status"]:
                    self.stored[page["stack_page"]] = k, page["tag"], page["page"]
                self.events[slot[0]].append(page)

    def _dies(self) -> None:
        ctx, tracker = self.ctx, self.path.tracker
        ready = self.chance("broadcast")
        ctx.set(tracker.o.ready, ready)
        if ready and ctx.get(tracker.o.valid):
            self._start(ctx.get(tracker.o.payload))
        for d in range(DIES):
            for page in list(self.waiting[d]):  # any order: whichever subarray has a slot
                subarray = page["subarray"]
                free = [r for r in range(2) if (d, subarray, r) not in self.slots]
                if free and self.chance("slot"):
                    self.waiting[d].remove(page)
                    page["slot"] = d, subarray, free[0]
                    self.slots[page["slot"]] = page
                    self.grants[d].append(page)
            for port, queue in self._ports(d):
                ctx.set(port.valid, bool(queue))
                if not queue:
                    continue
                page = queue[0]
                fields = {"index": page["index"], "page": page["page"]}
                if queue is self.grants[d]:
                    die, subarray, region = page["slot"]
                    token = die + DIES * (subarray + region * MACHINE.geometry.subarrays_per_die)
                    ctx.set(port.payload, {**fields, "token": token})
                else:
                    ctx.set(port.payload, {**fields, "status": page["status"]})
        for d in range(DIES):  # who is served depends on who asks
            for port, queue in self._ports(d):
                if queue and ctx.get(port.ready):
                    page = queue.popleft()
                    if queue is self.events[d]:
                        self.slots.pop(page.get("slot"), None)

    def _ports(self, d: int):
        tracker = self.path.tracker
        return (tracker.grant[d], self.grants[d]), (tracker.event[d], self.events[d])

    def _start(self, descriptor) -> None:
        """Pages of a descriptor go to their dies; whose it is follows from the open requests."""
        k, request = next(
            (k, request)
            for k in range(LINKS)
            for request in self.open[k].values()
            if (request["first"], request["pages"]) == (descriptor.first, descriptor.pages)
            and not request.get("started")
        )
        request["started"] = True
        for page in range(descriptor.pages):
            die, subarray, _ = locate(MACHINE, descriptor.first + page)
            item = {
                "index": descriptor.index,
                "link": k,
                "tag": request["tag"],
                "page": page,
                "subarray": subarray,
                "stack_page": descriptor.first + page,
                "status": Status.PROGRAM_FAILED if page in request_failures(request) else 0,
            }
            if descriptor.operation == Operation.WRITE:
                self.waiting[die].append(item)
            else:
                self.events[die].append(item)


def request_failures(request: dict) -> set[int]:
    """Pages of a request that fail: some of every fifth."""
    return {page for page in range(request["pages"]) if (request["tag"] + page) % 5 == 0}


SHARES = {
    "eager": {},
    "slow fill": {"fill": 0.2},
    "slow slots": {"slot": 0.05, "broadcast": 0.1},
    "all": {"fill": 0.6, "slot": 0.5, "broadcast": 0.5},
}


@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_every_page_arrives_once_and_every_write_ends_once(shares):
    """Ranges of the two links alternate, so that none overlap and all succeed or fail by plan."""
    seed = 3
    rng = random.Random(seed)
    path = WritePath()

    async def bench(ctx):
        stack = Stack(ctx, path, rng=rng, shares=shares)
        asked, first = [], 0
        for tag in range(12):
            for k in range(LINKS):
                pages = rng.choice([1, 2, 7, 16])
                request = {
                    "first": first,
                    "pages": pages,
                    "tag": tag,
                    "operation": Operation.TRIM if tag % 4 == 3 else Operation.WRITE,
                    "owner": Owner.KV,
                }
                first += pages
                asked.append((k, dict(request)))
                stack.requests[k].append(request)
            ctx.set(path.senders[tag % LINKS].rate, RATE_ONE if tag % 2 else 51_200)
        assert first <= MACHINE.geometry.stack_pages
        while sum(map(len, stack.ended)) < len(asked):
            await stack.clock()
        for _ in range(4 * MACHINE.link.one_way_cycles + 20):
            await stack.clock()
        assert not stack.slots and not stack.rows

        stored = {}
        for k, request in asked:
            fails = request_failures(request)
            assert stack.ended[k][request["tag"]] == (Status.PROGRAM_FAILED if fails else 0)
            found = {page for tag, page in stack.page_failures[k] if tag == request["tag"]}
            assert found == fails
            if request["operation"] == Operation.WRITE:
                for page in set(range(request["pages"])) - fails:
                    stored[request["first"] + page] = k, request["tag"], page
        assert stack.stored == stored

    simulate(path, bench, clocks=3000)
