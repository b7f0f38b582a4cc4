# amaranth: UnusedElaboratable=no
"""Reads of the HBM stack: clock by clock against a model of slots, beats and ends."""

import random
from collections import Counter, deque
from dataclasses import dataclass

import pytest

from hw.errors import InputError
from hw.gpu.local_reads import LocalReads
from hw.ucie.transaction import MessageClass, Operation, Status
from hw.ucie.ucie_end import QUIET_CLOCKS
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.gpu.local_bench import FEW, NARROW, WIDE, Piece, pieces
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SLOTS = TINY.credits.descriptors
LATE = 8  # clocks from `lost` in which messages still come
TIMEOUT = 60


@dataclass
class Read:
    tag: int
    length: int
    beats: deque[Piece]  # that have not been sent
    refused: bool
    missing: int = 0
    poisoned: bool = False
    touched: bool = False
    told: bool = False  # its answer has come
    asked: int = 0  # clock


class Bench:
    """Host, consumer and far end of one `LocalReads`; every output is checked in every clock."""

    def __init__(self, dut: LocalReads, ctx, pick: random.Random, *, stall: float):
        self.dut, self.ctx, self.pick, self.stall = dut, Quiet(ctx), pick, stall
        self.accesses = dut.stack.beat_accesses
        self.reads: dict[int, Read] = {}  # open, by slot
        self.over: dict[int, tuple[int, int, int]] = {}  # tag, poison, status, to be told, by slot
        self.beat: tuple | None = None  # that waits in front of the block
        self.clock, self.number, self.since = 0, 0, None
        self.offer: dict | None = None
        self.window, self.lively, self.seen = 10, 0.9, Counter()
        ctx.set(dut.window, self.window)
        ctx.set(dut.timeout, TIMEOUT)

    @property
    def coming(self) -> bool:
        return self.since is None or self.clock < self.since + LATE

    def asks(self, *, lost: int) -> tuple[int, Read] | None:
        """The host offers a read; the slot and the read that begin."""
        ctx, dut, pick = self.ctx, self.dut, self.pick
        if pick.random() < 0.02:
            self.window = pick.choice((0, 1, 10, 40, 1000))
            ctx.set(dut.window, self.window)
        if self.offer is None and pick.random() < 0.6:
            most = dut.stack.accesses
            address = pick.randrange(most)
            length = pick.choice((0, 1, pick.randint(1, most - address), pick.randrange(2 * most)))
            self.offer = {"address": address, "length": length, "tag": pick.randrange(4096)}
        ctx.set(dut.i.valid, self.offer is not None)
        if self.offer:
            ctx.set(dut.i.payload, self.offer)
        ready = pick.random() < 0.8
        ctx.set(dut.request.ready, ready)
        outstanding = sum(read.missing for read in self.reads.values())
        free = set(range(SLOTS)) - self.reads.keys() - self.over.keys()
        reasons = {
            "slots": not free, "request": not ready, "window": outstanding >= self.window,
            "lost": bool(lost),
        }  # fmt: skip
        if self.offer:
            self.seen.update(f"waits for {name}" for name, holds in reasons.items() if holds)
        assert ctx.get(dut.i.ready) == (not any(reasons.values())), (self.say, reasons)
        assert ctx.get(dut.request.valid) == (
            self.offer is not None and not any(v for k, v in reasons.items() if k != "request")
        ), self.say
        if any(reasons.values()) or not self.offer:
            return None
        header, slot = ctx.get(dut.request.payload), min(free)
        assert header.operation == Operation.READ and header.message_class == MessageClass.REQUEST
        shown = (header.address, header.length, header.tag)
        assert shown == (self.offer["address"], self.offer["length"], slot), self.say
        address, length = self.offer["address"], self.offer["length"]
        bad = length == 0 or address + length > dut.stack.accesses
        beats = deque([] if bad else pieces(address, length, self.accesses))
        read = Read(self.offer["tag"], length, beats, bad, missing=length, asked=self.clock)
        self.offer = None
        return slot, read

    def answers(self) -> int | None:
        """The far end refuses a read; its slot."""
        able = [slot for slot, read in self.reads.items() if read.refused and not read.told]
        if self.coming and able and self.pick.random() < 0.1:
            slot = self.pick.choice(able)
            self.reads[slot].told = True
            answer = {"valid": 1, "tag": slot, "status": Status.BAD_ADDRESS.value}
            self.ctx.set(self.dut.answer, answer)
            return slot
        noise = {"tag": self.pick.randrange(SLOTS), "status": self.pick.randrange(16)}
        self.ctx.set(self.dut.answer, {"valid": 0, **noise})
        return None

    def sends(self) -> None:
        """The next beat stands until it is taken."""
        dut, pick = self.dut, self.pick
        able = [slot for slot, read in self.reads.items() if read.beats]
        if pick.random() < 0.03:
            self.lively = pick.choice((0.05, 0.9))
        if self.beat is None and able and self.coming and pick.random() < self.lively:
            slot = pick.choice(able)
            self.beat = (slot, self.reads[slot].beats.popleft(), pick.random() < 0.05, self.number)
            self.number += 1
        self.ctx.set(dut.beats.valid, self.beat is not None)
        if self.beat:
            slot, piece, poison, number = self.beat
            header = {"message_class": MessageClass.READ_DATA, "tag": slot, "poison": poison}
            # The number of the beat says nothing that the block needs.
            header |= {"page": number % 4096, "beat": number % 4, "page_end": piece.last}
            self.ctx.set(dut.beats.header, header)
            set_lanes(self.ctx, dut.beats, number)

    def takes(self) -> tuple[int, int] | None:
        """The consumer; the slot whose last beat has left, and whether it is poisoned."""
        ctx, dut = self.ctx, self.dut
        ready = self.pick.random() >= self.stall
        ctx.set(dut.o.ready, ready)
        assert ctx.get(dut.o.valid) == (self.beat is not None), self.say
        if self.beat is None:
            return None
        slot, piece, poison, number = self.beat
        assert ctx.get(dut.beats.ready) == ready, self.say
        read, header = self.reads[slot], ctx.get(dut.o.header)
        assert (header.address, header.tag) == (piece.address, read.tag), self.say
        assert ctx.get(dut.o.wanted) == piece.wanted, self.say
        assert (header.page_end, header.poison) == (piece.last, poison), self.say
        assert get_lanes(ctx, dut.o) == number, self.say
        if not ready:
            return None
        self.beat = None
        read.missing -= piece.wanted.bit_count()
        read.poisoned |= poison
        read.touched = True
        return (slot, read.poisoned) if piece.last else None

    async def step(self, *, lost: int = 0, quiet: int = 0) -> None:
        ctx, dut = self.ctx, self.dut
        self.say = f"clock {self.clock}"
        ctx.set(dut.reset.lost, lost)
        done = ctx.get(dut.done)
        assert done.valid == bool(self.over), self.say
        overdue = ctx.get(dut.overdue)
        if overdue.valid:
            late = self.reads.get(overdue.slot)
            tag = late.tag if late else self.over[overdue.slot][0]
            assert overdue.tag == tag, self.say
            assert late is None or self.clock - late.asked >= TIMEOUT, self.say
            self.seen["overdue"] += 1
        begun = self.asks(lost=lost)
        if self.over:
            slot = min(self.over)
            assert (done.tag, done.poison, done.status) == self.over.pop(slot), self.say
            self.seen["told later"] += bool(self.over)
        answered = self.answers()
        self.sends()
        waits = self.beat is not None
        ctx.set(dut.reset.quiet, quiet)
        settled = not waits and not self.reads
        assert ctx.get(dut.reset.settled) == settled, self.say
        whole = self.takes()
        ends = {}
        if whole:
            ends[whole[0]] = (self.reads[whole[0]].tag, whole[1], Status.OK.value)
        if answered is not None:
            ends[answered] = (self.reads[answered].tag, 0, Status.BAD_ADDRESS.value)
        elif quiet and not waits and self.reads:
            slot = min(self.reads)
            read = self.reads[slot]
            ends[slot] = (read.tag, read.poisoned, Status.LINK_RESET.value)
            self.seen["cut" if read.touched else "lost"] += 1
        for slot, end in ends.items():
            self.seen[Status(end[2]).name] += 1
            self.seen["poisoned"] += end[1]
            del self.reads[slot]
        self.seen["two ends"] += len(ends) == 2
        await ctx.tick()
        self.over |= ends
        if begun:
            self.reads[begun[0]] = begun[1]
        self.clock += 1


MACHINES = {"beats of four": (WIDE, FEW), "beats of one": (TINY, NARROW)}


@pytest.mark.parametrize("stall", [0.0, 0.6])
@pytest.mark.parametrize("of", MACHINES)
def test_every_read_has_its_beats_and_ends_once_whatever_ends_it(of, stall):
    """Many resets, in every phase of reads that were asked for, are refused or half there."""
    machine, few = MACHINES[of]
    seed = f"{of}/{stall}"
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = LocalReads(machine, stack=few)

    async def scenario(ctx):
        bench = Bench(dut, ctx, pick, stall=stall)
        for _ in range(16):
            for _ in range(pick.randrange(10, 160)):
                await bench.step()
            bench.since = bench.clock
            bench.stall = pick.choice((stall, 1.0))  # a beat may wait for long
            for _ in range(QUIET_CLOCKS):
                await bench.step(lost=1)
            for read in bench.reads.values():
                read.beats.clear()  # what had not been sent is lost
            bench.seen["waits for its consumer"] += bool(bench.beat and bench.reads)
            for _ in range(5):
                await bench.step(lost=1, quiet=1)
            bench.stall = stall
            while bench.reads or bench.over or bench.beat:
                assert bench.clock < bench.since + 500
                await bench.step(lost=1, quiet=1)
            for _ in range(3):
                await bench.step(lost=1, quiet=1)
            bench.since = None
        seen = bench.seen
        assert min(seen["OK"], seen["BAD_ADDRESS"], seen["LINK_RESET"]) > 10, seen
        often = ("poisoned", "cut", "lost", "told later", "two ends", "overdue")
        assert all(seen[name] for name in often), seen
        assert all(
            seen[f"waits for {name}"]
            for name in ("slots", "request", "window", "lost", "its consumer")
        )

    simulate(dut, scenario, clocks=8000)


def test_a_slot_is_as_new_after_its_read_was_cut():
    """Neither poison nor accesses of the read before count for the next one."""
    dut = LocalReads(WIDE, stack=FEW)
    ends = []

    async def bench(ctx):
        async def clocks(count):
            for _ in range(count):
                done = ctx.get(dut.done)
                if done.valid:
                    ends.append((done.tag, done.poison, Status(done.status)))
                await ctx.tick()

        async def read(tag, beats, poison):
            ctx.set(dut.i.payload, {"address": 2, "length": 8, "tag": tag})  # three beats
            ctx.set(dut.i.valid, 1)
            assert ctx.get(dut.i.ready)
            await clocks(1)
            ctx.set(dut.i.valid, 0)
            ctx.set(dut.beats.header, {"poison": poison})
            ctx.set(dut.beats.valid, 1)
            await clocks(beats)
            ctx.set(dut.beats.valid, 0)
            await clocks(3)

        ctx.set(dut.window, 8)  # of which nothing may be left
        ctx.set(dut.request.ready, 1)
        ctx.set(dut.o.ready, 1)
        await read(1, 2, 1)
        for level in (1, 0):
            ctx.set(dut.reset.lost, level)
            ctx.set(dut.reset.quiet, level)
            await clocks(3)
        await read(2, 3, 0)

    simulate(dut, bench, clocks=60)
    assert ends == [(1, 1, Status.LINK_RESET), (2, 0, Status.OK)]


def test_beats_of_another_size_are_refused():
    with pytest.raises(InputError, match=r"HbmStack.beat_bytes is 256: must be Link.beat_bytes of"):
        LocalReads(TINY, stack=FEW)
