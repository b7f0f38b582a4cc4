# amaranth: UnusedElaboratable=no
"""Reads and writes of one HBM stack together: whose turn it is, and whose answer."""

import random
from collections import deque

import pytest

from hw.gpu.local_access import LocalAccess
from hw.ucie.pacer import RATE_ONE
from hw.ucie.transaction import MessageClass, Operation, Status
from tests.hw.beats import Quiet
from tests.hw.gpu.local_bench import FEW, WIDE
from tests.hw.pysim import simulate

SLOTS = WIDE.credits.descriptors


def test_requests_take_turns():
    """Of both kinds there is always one: they alternate. Alone, each goes every clock."""
    dut = LocalAccess(WIDE, stack=FEW)
    sent = []

    async def bench(ctx):
        ctx.set(dut.window, 1000)
        for clock in range(40):
            ctx.set(dut.read.valid, clock < 20)
            ctx.set(dut.write.valid, clock < 20)
            ctx.set(dut.request.credit, ctx.get(dut.request.valid))
            if ctx.get(dut.request.valid):
                header = ctx.get(dut.request.header)
                sent.append((header.operation, header.tag))
            await ctx.tick()

    simulate(dut, bench, clocks=50)
    assert sent == [(kind, slot) for slot in range(SLOTS) for kind in (0, 1)]


@pytest.mark.parametrize("seed", [1, 2])
def test_each_answer_ends_what_its_operation_says(seed):
    """Slots of reads and writes have the same numbers; other messages end nothing."""
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = LocalAccess(WIDE, stack=FEW)
    ended = {Operation.READ: [], Operation.WRITE: []}

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.window, 1000)
        ctx.set(dut.rate, RATE_ONE)
        tags = {kind: deque(pick.sample(range(4096), 40)) for kind in ended}
        wanted = {kind: list(tags[kind]) for kind in ended}
        open_ = {kind: {} for kind in ended}  # tag by slot
        due = {kind: [] for kind in ended}
        while any(len(done) < 40 for done in ended.values()):
            for kind, port in ((Operation.READ, dut.read), (Operation.WRITE, dut.write)):
                ctx.set(port.valid, bool(tags[kind]))
                if tags[kind]:
                    # Empty: the far end answers it and sends or takes nothing.
                    ctx.set(port.payload, {"address": 3, "length": 0, "tag": tags[kind][0]})
                    if ctx.get(port.ready):
                        tags[kind].popleft()
            ctx.set(dut.request.credit, ctx.get(dut.request.valid))
            if ctx.get(dut.request.valid):
                header = ctx.get(dut.request.header)
                kind = Operation(header.operation)
                open_[kind][header.tag] = wanted[kind].pop(0)
            kind = pick.choice((Operation.READ, Operation.WRITE))
            slots = sorted(open_[kind])
            answers = bool(slots) and pick.random() < 0.4
            header = {"message_class": MessageClass.COMPLETION, "operation": kind, "status": 1}
            if answers:
                slot = pick.choice(slots)
                due[kind].append(open_[kind].pop(slot))
                header["tag"] = slot
            else:  # of a relayed read, which has slots of its own
                header |= {"message_class": MessageClass.READ_DATA, "tag": pick.randrange(SLOTS)}
            valid = answers or pick.random() < 0.5
            ctx.set(dut.answer, {"valid": valid, "header": header})
            assert not ctx.get(dut.data.valid) and not ctx.get(dut.o.valid)
            await ctx.tick()
            for kind, done in (
                (Operation.READ, ctx.get(dut.read_done)),
                (Operation.WRITE, ctx.get(dut.write_done)),
            ):
                if done.valid:
                    assert done.status == Status.BAD_ADDRESS
                    ended[kind].append(done.tag)
                assert ended[kind] == due[kind]

    simulate(dut, bench, clocks=2000)


def test_the_link_settles_when_neither_has_anything_open():
    dut = LocalAccess(WIDE, stack=FEW)
    settled, ends = [], []

    async def bench(ctx):
        ctx.set(dut.window, 1000)
        for port in (dut.read, dut.write):
            ctx.set(port.payload, {"address": 0, "length": 8})
            ctx.set(port.valid, 1)
            await ctx.tick()
            ctx.set(port.valid, 0)
            await ctx.tick()
        ctx.set(dut.reset.lost, 1)
        for clock in range(40):
            ctx.set(dut.reset.quiet, clock >= 32)
            settled.append(ctx.get(dut.reset.settled))
            for done in (ctx.get(dut.read_done), ctx.get(dut.write_done)):
                ends.extend([Status(done.status)] if done.valid else [])
            await ctx.tick()

    simulate(dut, bench, clocks=60)
    assert settled == [0] * 33 + [1] * 7
    assert ends == [Status.LINK_RESET] * 2
