# amaranth: UnusedElaboratable=no
"""Writes of the HBM stack: requests, beats under credit and ends, against a model."""

import random
from collections import Counter, deque
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from hw.errors import InputError
from hw.gpu.local_writes import LocalWrites
from hw.ucie.pacer import RATE_ONE
from hw.ucie.transaction import MessageClass, Operation, Status
from hw.ucie.ucie_end import QUIET_CLOCKS
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.gpu.local_bench import FEW, NARROW, WIDE, pieces
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SLOTS, RX_BEATS = TINY.credits.descriptors, TINY.credits.rx_beats
LATE = 8  # clocks from `lost` in which messages still come
MACHINES = {"beats of four": (WIDE, FEW), "beats of one": (TINY, NARROW)}


@dataclass
class Write:
    tag: int
    beats: int
    came: int = 0


def content(tag: int, beat: int) -> int:
    return tag << 20 | beat


class Bench:
    """Host, owner of the data and far end of one `LocalWrites`."""

    def __init__(self, dut: LocalWrites, ctx, pick: random.Random, *, gives: float):
        self.dut, self.ctx, self.pick, self.gives = dut, Quiet(ctx), pick, gives
        self.writes: dict[int, Write] = {}  # open, by slot
        self.beats: deque[tuple[int, int, bool]] = deque()  # slot, number, last: still to come
        self.offer: dict | None = None
        self.fetched: int | None = None
        self.held = 0  # beats that have not been credited
        self.clock, self.since = 0, None
        self.due: tuple[int, int] | None = None  # tag and status of `done`
        self.seen = Counter()
        ctx.set(dut.rate, RATE_ONE)

    def asks(self, *, lost: int) -> tuple[int, Write] | None:
        ctx, dut, pick = self.ctx, self.dut, self.pick
        if self.offer is None and pick.random() < 0.4:
            most = dut.stack.accesses
            address = pick.randrange(most)
            length = pick.choice((0, 1, pick.randint(1, most - address), pick.randrange(2 * most)))
            self.offer = {"address": address, "length": length, "tag": pick.randrange(4096)}
        ctx.set(dut.i.valid, self.offer is not None)
        if self.offer:
            ctx.set(dut.i.payload, self.offer)
        ready = pick.random() < 0.8
        ctx.set(dut.request.ready, ready)
        free = set(range(SLOTS)) - self.writes.keys()
        assert ctx.get(dut.i.ready) == (bool(free) and ready and not lost), self.say
        assert ctx.get(dut.request.valid) == (bool(self.offer and free) and not lost), self.say
        self.seen["waits for a slot"] += not free and self.offer is not None
        if not (self.offer and free and ready) or lost:
            return None
        header, slot = ctx.get(dut.request.payload), min(free)
        assert header.operation == Operation.WRITE and header.message_class == MessageClass.REQUEST
        address, length, tag = (self.offer[name] for name in ("address", "length", "tag"))
        assert (header.address, header.length, header.tag) == (address, length, slot), self.say
        self.offer = None
        bad = length == 0 or address + length > dut.stack.accesses
        count = 0 if bad else len(pieces(address, length, dut.stack.beat_accesses))
        self.beats += [(slot, number, number == count - 1) for number in range(count)]
        return slot, Write(tag, count)

    def receives(self, *, lost: int) -> None:
        """Beats, in order, with what was fetched a clock before; credits for them."""
        ctx, dut = self.ctx, self.dut
        if self.fetched is not None:
            set_lanes(ctx, SimpleNamespace(lanes=dut.fetch_lanes), self.fetched)
        if ctx.get(dut.data.valid):
            self.held += 1
            assert self.held <= RX_BEATS, self.say
            if not self.beats:
                assert lost, self.say
            else:
                slot, number, last = self.beats.popleft()
                label = ctx.get(dut.data.header)
                assert label.message_class == MessageClass.WRITE_DATA, self.say
                shown = (label.tag, label.page << 2 | label.beat, label.page_end)
                assert shown == (slot, number, last), self.say
                write = self.writes[slot]
                assert get_lanes(ctx, dut.data) == content(write.tag, number), self.say
                write.came += 1
        self.seen["no credit"] += self.held == RX_BEATS
        # What was sent while the link is lost comes home when it is up.
        gives = self.held > 0 and not lost and self.pick.random() < self.gives
        ctx.set(dut.data.credit, gives)
        self.held -= gives
        fetch = ctx.get(dut.fetch)
        self.fetched = content(fetch.tag, fetch.beat) if fetch.valid else None

    def answers(self) -> int | None:
        able = [slot for slot, write in self.writes.items() if write.came == write.beats]
        coming = self.since is None or self.clock < self.since + LATE
        if coming and able and self.pick.random() < 0.15:
            slot = self.pick.choice(able)
            status = Status.OK if self.writes[slot].beats else Status.BAD_ADDRESS
            self.ctx.set(self.dut.answer, {"valid": 1, "tag": slot, "status": status.value})
            self.due = (self.writes[slot].tag, status.value)
            return slot
        noise = {"tag": self.pick.randrange(SLOTS), "status": self.pick.randrange(16)}
        self.ctx.set(self.dut.answer, {"valid": 0, **noise})
        return None

    async def step(self, *, lost: int = 0, quiet: int = 0) -> None:
        ctx, dut = self.ctx, self.dut
        self.say = f"clock {self.clock}"
        ctx.set(dut.reset.lost, lost)
        ctx.set(dut.reset.quiet, quiet)
        done, due = ctx.get(dut.done), self.due
        assert done.valid == (due is not None), self.say
        if due:
            assert (done.tag, done.status) == due, self.say
            self.seen[Status(done.status).name] += 1
        self.due = None
        begun = self.asks(lost=lost)
        self.receives(lost=lost)
        ended = self.answers()
        if quiet:
            assert ctx.get(dut.reset.settled) == (not self.writes), self.say
            if self.writes:
                ended = min(self.writes)
                write = self.writes[ended]
                self.due = (write.tag, Status.LINK_RESET.value)
                self.seen["cut" if 0 < write.came < write.beats else "uncut"] += 1
        await ctx.tick()
        if ended is not None:
            del self.writes[ended]
        if begun:
            self.writes[begun[0]] = begun[1]
        self.clock += 1


@pytest.mark.parametrize("gives", [0.9, 0.3])
@pytest.mark.parametrize("of", MACHINES)
def test_every_write_sends_its_beats_and_ends_once_whatever_ends_it(of, gives):
    """Many resets, in every phase; what is refused sends nothing."""
    machine, few = MACHINES[of]
    seed = f"{of}/{gives}"
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = LocalWrites(machine, stack=few)

    async def scenario(ctx):
        bench = Bench(dut, ctx, pick, gives=gives)
        for _ in range(12):
            for _ in range(pick.randrange(10, 160)):
                await bench.step()
            bench.since = bench.clock
            for clock in range(QUIET_CLOCKS):
                await bench.step(lost=1)
                if clock == 3:  # no beat is sent any more
                    bench.beats.clear()
            while bench.writes or bench.due:
                await bench.step(lost=1, quiet=1)
            bench.since = None
        seen = bench.seen
        assert min(seen["OK"], seen["BAD_ADDRESS"], seen["LINK_RESET"]) > 10, seen
        assert all(seen[name] for name in ("cut", "uncut", "waits for a slot")), seen
        assert gives > 0.5 or seen["no credit"], seen

    simulate(dut, scenario, clocks=8000)


@pytest.mark.parametrize("rate", [RATE_ONE, 51_200, 10_000])
def test_beats_of_following_writes_leave_without_a_gap_at_their_rate(rate):
    """And the first is fetched four clocks after its write was taken, its beat a clock later."""
    dut = LocalWrites(WIDE, stack=FEW)
    fetches, beats = [], []

    async def bench(ctx):
        ctx.set(dut.rate, rate)
        ctx.set(dut.request.ready, 1)
        ctx.set(dut.data.credit, 0)
        for _ in range(200):
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.i.payload, {"address": 4, "length": 9, "tag": 7})  # three beats
            ctx.set(dut.data.credit, ctx.get(dut.data.valid))
            label = ctx.get(dut.data.header)
            ends = ctx.get(dut.data.valid) and label.page_end
            ctx.set(dut.answer, {"valid": ends, "tag": label.tag})
            fetches.append(ctx.get(dut.fetch.valid))
            beats.append(ctx.get(dut.data.valid))
            await ctx.tick()

    simulate(dut, bench, clocks=210)
    assert beats[1:] == fetches[:-1]
    if rate == RATE_ONE:
        assert fetches == [0] * 4 + [1] * 196
    stretch = beats[20:]
    assert abs(sum(stretch) - len(stretch) * rate / RATE_ONE) <= 1


def test_beats_of_another_size_are_refused():
    with pytest.raises(InputError, match=r"must be Link.beat_bytes of 'tiny', 64"):
        LocalWrites(TINY, stack=FEW)
