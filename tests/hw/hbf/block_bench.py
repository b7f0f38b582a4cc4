"""Operations on the erase-block table of a die, and what must come of them."""

import random
from collections import deque
from dataclasses import dataclass, field

from hw.hbf.block_layouts import BlockOperation
from hw.ucie.codes import Owner, Status
from perfmodel.memory.blocks import Block, BlockEntry, BlockLedger, Verdict

ADMIT, FAILED, ERASED, COLLECT, TRIM, RELEASE, SENSED, QUERY = BlockOperation
NONE, WEIGHT, KV = Owner
OK, ILLEGAL, ORDER, REPLAY = (
    Status.OK,
    Status.ILLEGAL_OWNER,
    Status.ORDER,
    Status.PROGRAM_FAILED,
)
LATENCY, PERIOD = 2, 3


@dataclass(frozen=True)
class Op:
    kind: BlockOperation
    where: tuple[int, int] = (1, 0)  # subarray, block
    page: int = 0
    owner: int = NONE

    @property
    def payload(self):
        subarray, block = self.where
        where = {"subarray": subarray, "block": block}
        return {"kind": self.kind, "where": where, "page": self.page, "owner": self.owner}


def ask(ledger: BlockLedger, op: Op) -> tuple[Verdict, BlockEntry]:
    """The twin's answer."""
    block = Block(die=0, subarray=op.where[0], block=op.where[1])
    match op.kind:
        case BlockOperation.ADMIT:
            verdict = ledger.admit(block, op.page, op.owner)
        case BlockOperation.TRIM:
            verdict = ledger.trim(block, op.page)
        case BlockOperation.QUERY:
            verdict = Verdict()
        case kind:
            verdict = getattr(ledger, kind.name.lower())(block)
    return verdict, ledger.query(block)


def as_entry(view) -> BlockEntry:
    fields = {name: getattr(view, name) for name in vars(BlockEntry())}
    fields["owner"] = Owner(fields["owner"])
    fields["dirty"], fields["failed"] = bool(fields["dirty"]), bool(fields["failed"])
    return BlockEntry(**fields)


@dataclass
class Reader:
    """Reads ``dead`` with some chance a clock, and keeps what it got with the clock."""

    chance: float
    pick: random.Random
    offers: list[tuple[int, tuple[int, int]]] = field(default_factory=list)

    def clock(self, ctx, dut, now) -> None:
        ready = self.pick.random() < self.chance
        ctx.set(dut.dead.ready, ready)
        if ready and ctx.get(dut.dead.valid):
            block = ctx.get(dut.dead.payload)
            self.offers.append((now, (block.subarray, block.block)))


async def operate(ctx, dut, ops, *, reader=None, pauses=None):
    """Send ``ops`` as fast as they go, but for ``pauses``; returns the answers.

    Each must come exactly ``LATENCY`` clocks after its operation.
    """
    answers, due, now, ops = [], deque(), 0, iter(ops)
    op = next(ops, None)
    idle = 0
    while op is not None or due:
        offered = op is not None and not idle
        ctx.set(dut.op.valid, offered)
        if offered:
            ctx.set(dut.op.payload, op.payload)
        if reader:
            reader.clock(ctx, dut, now)
        answers_now = ctx.get(dut.answer.valid)
        assert answers_now == bool(due and due[0][0] == now), f"clock {now}"
        if answers_now:
            _, asked = due.popleft()
            answer = ctx.get(dut.answer)
            where = (answer.where.subarray, answer.where.block)
            assert (answer.kind, where) == (asked.kind, asked.where), f"clock {now}"
            verdict = Verdict(status=Status(answer.status), erase=bool(answer.erase))
            answers.append((asked, verdict, as_entry(answer.entry)))
        if offered and ctx.get(dut.op.ready):
            due.append((now + LATENCY, op))
            op = next(ops, None)
            idle = pauses() if pauses else 0
        elif idle:
            idle -= 1
        await ctx.tick()
        now += 1
    ctx.set(dut.op.valid, 0)
    return answers
