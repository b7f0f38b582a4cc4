"""Reads that end early: answers, words among the beats and resets of the link."""

import random
from collections import Counter, deque
from dataclasses import dataclass

import pytest

from hw.gpu.reassembly import BY_DATA, BY_WORD, Reassembly
from hw.ucie.transaction import MessageClass, Status
from hw.ucie.ucie_end import QUIET_CLOCKS
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SLOTS, RX_BEATS = TINY.credits.descriptors, TINY.credits.rx_beats
LATE = 8  # clocks from `lost` in which beats still come


@dataclass
class Read:
    slot: int
    tag: int
    first: int
    pages: int
    to_send: int  # pages; then it ends
    sent: int = 0
    told: bool = False  # a COMPLETION or answer is on its way
    poisoned: bool = False
    count: int = 0  # pages whose last beat was taken

    @property
    def missing(self) -> int:
        return self.pages - self.count


class Bench:
    """The link, the HBM base die at its far end and the consumer, clock by clock."""

    def __init__(self, dut: Reassembly, ctx, pick: random.Random, *, stall: float):
        self.dut, self.ctx, self.pick, self.stall = dut, Quiet(ctx), pick, stall
        self.reads: dict[int, Read] = {}
        self.page: deque = deque()  # beats of the page that is being sent
        self.queue: deque = deque()  # beats and words in the block
        self.credits, self.number, self.clock, self.since = RX_BEATS, 0, 0, None
        self.due: dict[int, tuple | None] = {BY_DATA: None, BY_WORD: None}
        self.seen = Counter()
        self.asked = self.received = 0

    def begins(self) -> None:
        free = [slot for slot in range(SLOTS) if slot not in self.reads]
        begin = {"valid": 0}
        if self.since is None and free and self.pick.random() < 0.3:
            pages = self.pick.choice((1, 1, 2, 3, 12))
            whole = self.pick.random() < 0.5
            read = Read(
                slot=self.pick.choice(free),
                tag=self.pick.randrange(4096),
                first=self.pick.randrange(200),
                pages=pages,
                to_send=pages if whole else self.pick.choice((0, self.pick.randrange(pages))),
            )
            self.begun = read
            begin = {"valid": 1, "slot": read.slot, "first": read.first, "pages": pages}
            begin["tag"] = read.tag
            self.asked += pages
        self.ctx.set(self.dut.begin, begin)

    def answers(self) -> Read | None:
        """Of a read that sent nothing, from any clock on."""
        able = [read for read in self.reads.values() if read.to_send == 0 and not read.told]
        # Often in the clock in which another read may end.
        other = self.queue[0] if self.queue else None
        ends = other and (other[1] is None or (other[3] and other[0].missing == 1))
        answered = None
        if self.coming and able and self.pick.random() < (0.7 if ends else 0.05):
            answered = self.pick.choice(able)
            answered.told = True
            status = self.pick.choice((Status.BAD_ADDRESS, Status.LINK_RESET))
            self.ctx.set(
                self.dut.answer, {"valid": 1, "tag": answered.slot, "status": status.value}
            )
            self.due_answer = (answered, status)
        else:
            noise = {"tag": self.pick.randrange(SLOTS), "status": self.pick.randrange(16)}
            self.ctx.set(self.dut.answer, {"valid": 0, **noise})
        return answered

    @property
    def coming(self) -> bool:
        return self.since is None or self.clock < self.since + LATE

    def sends(self) -> None:
        port, pick = self.dut.port, self.pick
        able = [read for read in self.reads.values() if not read.told]
        if not self.page and able and self.coming:
            read = pick.choice(able)
            if read.sent < read.to_send:
                number, start = read.sent, pick.randrange(4)
                read.sent += 1
                for k in range(4):
                    poison = pick.random() < 0.05
                    self.page.append((read, number, (start + k) % 4, k == 3, poison))
            elif read.to_send < read.pages and (read.to_send or pick.random() < 0.1):
                read.told = True
                self.page.append((read, None, 0, 0, 0))
        valid = bool(self.page) and self.coming and self.credits > 0 and pick.random() < 0.8
        self.ctx.set(port.valid, valid)
        if not valid:
            return
        read, page, beat, ends, poison = self.page.popleft()
        header = {"tag": read.slot, "message_class": MessageClass.RELAY_DATA, "beat": beat}
        if page is None:
            header |= {"message_class": MessageClass.COMPLETION, "status": Status.LINK_RESET.value}
            header |= {"poison": pick.getrandbits(1)}  # says nothing
        else:
            header |= {"page": page, "page_end": ends, "poison": poison}
        self.ctx.set(port.header, header)
        set_lanes(self.ctx, port, self.number)
        self.queue.append((read, page, beat, ends, poison, self.number))
        self.number += 1
        self.credits -= 1

    def takes(self, answered: Read | None) -> int:
        """Checks what leaves; returns the pages that `received` must tell."""
        ctx, dut, pages = self.ctx, self.dut, 0
        ready = self.pick.random() >= self.stall
        ctx.set(dut.o.ready, ready)
        due: dict[int, tuple | None] = {BY_DATA: None, BY_WORD: None}
        if answered:
            due[BY_WORD] = (answered.slot, answered.poisoned, self.due_answer[1])
            pages += answered.missing
        head = self.queue[0] if self.queue else None
        shown = ctx.get(dut.o.valid)
        if shown:
            assert head and head[1] is not None, self.say
        if shown and ready:
            read, page, beat, ends, poison, number = self.queue.popleft()
            header = ctx.get(dut.o.header)
            assert header.address == (read.first + page) * 4 + beat, self.say
            assert (header.tag, header.page, header.beat) == (read.tag, page, beat), self.say
            assert header.poison == poison and get_lanes(ctx, dut.o) == number, self.say
            read.poisoned |= bool(poison)
            read.count += ends
            pages += ends
            if not read.missing:
                due[BY_DATA] = (read.slot, read.poisoned, Status.OK)
        self.next_due = due
        return pages

    async def step(self, *, lost: int, quiet: int) -> None:
        ctx, dut = self.ctx, self.dut
        self.say, self.begun = f"clock {self.clock}", None
        ctx.set(dut.reset.lost, lost)
        ctx.set(dut.reset.quiet, quiet)
        # Ends that show in this clock.
        for way in (BY_DATA, BY_WORD):
            end, due = ctx.get(dut.end[way]), self.due[way]
            assert end.valid == (due is not None), (self.say, way)
            if due:
                assert (end.slot, end.poison, end.status) == due, (self.say, way)
                del self.reads[end.slot]
                self.seen[way, end.status] += 1
                self.seen["poisoned by word"] += end.poison and way == BY_WORD
        self.seen["both ends"] += all(self.due.values())
        self.begins()
        answered = self.answers()
        told_before = self.head_is_word()
        self.sends()
        pages = self.takes(answered)
        received = ctx.get(dut.received)
        if told_before and not answered and received > pages:
            # A word reaches the front of the queue and ends its read in this clock.
            read, *_ = self.queue.popleft()
            self.next_due[BY_WORD] = (read.slot, read.poisoned, Status.LINK_RESET)
            pages += read.missing
        elif quiet and not self.queue and received > pages:
            assert not told_before
            slot = min(slot for slot in self.reads)
            read = self.reads[slot]
            self.next_due[BY_WORD] = (slot, read.poisoned, Status.LINK_RESET)
            pages += read.missing
            self.seen["swept"] += 1
        self.seen["answer before word"] += bool(told_before and answered)
        assert received == pages, self.say
        self.received += received
        self.credits += ctx.get(dut.port.credit)
        assert self.credits <= RX_BEATS, self.say
        self.due = self.next_due
        await ctx.tick()
        if self.begun:
            self.reads[self.begun.slot] = self.begun
        self.clock += 1

    def head_is_word(self) -> bool:
        return bool(self.queue) and self.queue[0][1] is None


@pytest.mark.parametrize(("seed", "stall"), [(0, 0.0), (1, 0.5), (2, 0.95)])
def test_each_read_ends_once_whatever_ends_it(seed, stall):
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = Reassembly(TINY)
    queued = []  # beats that waited when the link went quiet

    async def scenario(ctx):
        bench = Bench(dut, ctx, pick, stall=stall)
        for _ in range(15):
            for _ in range(pick.randrange(20, round(150 / (1 - stall) ** 0.5))):
                await bench.step(lost=0, quiet=0)
            bench.since = bench.clock
            for _ in range(QUIET_CLOCKS):
                await bench.step(lost=1, quiet=0)
            bench.page.clear()  # what had not been sent is lost
            queued.append(len(bench.queue))
            while not ctx.get(dut.reset.settled) or any(bench.due.values()):
                waits = bench.clock
                await bench.step(lost=1, quiet=1)
                assert waits < bench.since + 3000
            assert not bench.reads and not bench.queue
            for _ in range(5):
                await bench.step(lost=1, quiet=1)
                assert ctx.get(dut.reset.settled)
            assert bench.received == bench.asked
            assert bench.credits == RX_BEATS
            bench.since = None
        seen = bench.seen
        assert min(seen[BY_DATA, Status.OK], seen[BY_WORD, Status.LINK_RESET]) > 10, seen
        assert min(seen[BY_WORD, Status.BAD_ADDRESS], seen["swept"]) > 10, seen
        rare = ["poisoned by word", "answer before word", "both ends"]
        assert all(seen[name] for name in rare), seen
        assert (max(queued) > 4) == (stall > 0.9), queued

    simulate(dut, scenario, clocks=20_000)


def test_a_slot_is_as_new_after_its_read_was_cut():
    """Neither the poison nor the pages of the read before count for the next one."""
    dut = Reassembly(TINY)
    ends = []

    async def bench(ctx):
        async def clocks(count):
            for _ in range(count):
                for way in (BY_DATA, BY_WORD):
                    end = ctx.get(dut.end[way])
                    if end.valid:
                        ends.append((way, end.slot, end.poison, Status(end.status)))
                await ctx.tick()

        async def begin(pages):
            ctx.set(dut.begin, {"valid": 1, "slot": 2, "pages": pages, "tag": 5})
            await clocks(1)
            ctx.set(dut.begin.valid, 0)

        async def page(poison):
            for beat in range(4):
                header = {"tag": 2, "beat": beat, "page_end": beat == 3, "poison": poison}
                ctx.set(dut.port.header, header)
                ctx.set(dut.port.valid, 1)
                await clocks(1)
            ctx.set(dut.port.valid, 0)

        ctx.set(dut.o.ready, 1)
        await begin(3)
        await page(poison=1)
        await page(poison=0)
        await clocks(8)
        for level in (1, 0):
            ctx.set(dut.reset.lost, level)
            ctx.set(dut.reset.quiet, level)
            await clocks(4)
        await begin(2)
        await page(poison=0)
        await clocks(8)
        assert len(ends) == 1
        await page(poison=0)
        await clocks(8)

    simulate(dut, bench, clocks=80)
    assert ends == [(BY_WORD, 2, 1, Status.LINK_RESET), (BY_DATA, 2, 0, Status.OK)]
