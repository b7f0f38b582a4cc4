"""Reads before writes: a write goes when the reads accepted before it are issued, and no later."""

import random
from dataclasses import dataclass

import pytest

from hw.hbf.read_epochs import ReadEpochs
from tests.hw.beats import Quiet
from tests.hw.pysim import simulate

DIES = 3


@dataclass
class Read:
    """A read that was accepted, and how many of its pages are not issued."""

    epoch: int
    older: bool  # than the write that waits now
    left: int


@pytest.mark.parametrize("seed", range(4))
def test_a_write_waits_for_the_older_reads_and_for_no_others(seed):
    pick = random.Random(seed)
    dut = ReadEpochs(dies=DIES)
    taken_after: list[tuple[int, bool]] = []  # clocks that each write waited, younger reads left

    async def bench(ctx):
        ctx = Quiet(ctx)
        reads: list[Read] = []
        waiting_since: int | None = None
        load = 0.5
        for clock in range(3000):
            if clock % 150 == 0:
                load = pick.choice((0.02, 0.3, 0.8))
            say = f"clock {clock}, seed {seed}"
            if waiting_since is None and pick.random() < 0.1:
                waiting_since = clock
            ctx.set(dut.waiting, waiting_since is not None)
            ordered = waiting_since is not None and clock > waiting_since
            epoch = ctx.get(dut.epoch)
            assert ctx.get(dut.ordered) == ordered, say
            if ordered:
                # Whose page it is tells whether it must go before the write.
                assert all(read.older == (read.epoch != epoch) for read in reads), say
            goes = ordered and not any(read.older for read in reads)
            assert ctx.get(dut.go) == goes, say
            taken = goes and pick.random() < 0.3
            ctx.set(dut.taken, taken)

            issues = [{"valid": 0}] * DIES
            for d in pick.sample(range(DIES), DIES):
                able = [read for read in reads if read.left]
                if able and pick.random() < 0.6:
                    read = pick.choice(able)
                    read.left -= 1
                    issues[d] = {"valid": 1, "epoch": read.epoch}
            for d in range(DIES):
                ctx.set(dut.issued[d], issues[d])
            accepted = []
            for path in range(2):
                pages = pick.choice((1, 2, 5, 16)) if pick.random() < load / 4 else 0
                ctx.set(dut.accepted[path], pages)
                if pages:
                    accepted.append(pages)

            if taken:
                taken_after.append((clock - waiting_since, bool(reads)))
                waiting_since = None
            reads = [read for read in reads if read.left]
            for pages in accepted:
                # In the clock in which a write begins to wait a read is still older.
                older = waiting_since == clock
                reads.append(Read(epoch, older, pages))
            for read in reads:
                read.older |= waiting_since is not None and clock < waiting_since + 1
            await ctx.tick()

    simulate(dut, bench, clocks=4000)
    assert len(taken_after) > 50
    assert sum(younger for _, younger in taken_after) > 20  # reads that a write did not wait for
    assert max(clocks for clocks, _ in taken_after) > 20
