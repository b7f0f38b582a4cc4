# amaranth: UnusedElaboratable=no
"""Erase-block table: every rule by hand, its twin by random operations, dead blocks never lost."""

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from hw.hbf.block_layouts import BlockOperation, entry_layout
from hw.hbf.block_table import BlockTable
from hw.params import BLOCK_READ_BITS, ERASE_CYCLE_BITS
from hw.presets import preset
from hw.ucie.codes import Owner, Status
from perfmodel.memory.blocks import Block, BlockEntry, BlockLedger, Verdict
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

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


# By hand: operation, then its status and whether it asks for an erase -----------------------------


def step(kind, status=OK, *, page=0, owner=NONE, erase=False, where=(1, 0)):
    return Op(kind, where=where, page=page, owner=owner), Verdict(status=status, erase=erase)


def admit(page, owner, status=OK, *, erase=False, where=(1, 0)):
    return step(ADMIT, status, page=page, owner=owner, erase=erase, where=where)


def written(owner, pages=4):
    return [admit(page, owner) for page in range(pages)]


def trims(*pages):
    return [step(TRIM, page=page) for page in pages]


TAKES_PAGE_0 = [admit(0, KV, erase=True)]
FAILED_KV = [*written(KV, 2), step(FAILED)]
RULES = {
    "pages of a block come in order, each once": [
        admit(0, KV),
        admit(2, KV, ORDER),
        admit(1, KV),
        admit(1, KV, ORDER),
        *written(WEIGHT, 0),
        admit(2, KV),
        admit(3, KV),
        admit(3, KV, ORDER),
    ],
    "page 0 of a written block erases it first": [
        *written(WEIGHT, 2),
        admit(0, WEIGHT, erase=True),
        admit(2, WEIGHT, ORDER),
        admit(1, WEIGHT),
    ],
    "nobody may not write": [
        admit(0, NONE, ILLEGAL),
        admit(1, NONE, ILLEGAL),
        admit(0, 3, ILLEGAL),
        *FAILED_KV,
        admit(1, NONE, ILLEGAL),
        step(COLLECT, ORDER),
    ],
    "a block without owner is opened by page 0 only": [admit(1, WEIGHT, ILLEGAL), admit(0, WEIGHT)],
    "KV takes no block of weights": [
        *written(WEIGHT, 2),
        admit(0, KV, ILLEGAL),
        admit(2, KV, ILLEGAL),
        admit(2, WEIGHT),
    ],
    "weights take a KV block when no page is live": [
        *written(KV, 2),
        admit(0, WEIGHT, ILLEGAL),
        *trims(0),
        admit(0, WEIGHT, ILLEGAL),
        admit(2, WEIGHT, ILLEGAL),
        *trims(1),
        admit(2, WEIGHT, ILLEGAL),
        admit(0, WEIGHT, erase=True),
    ],
    "KV writes its own block again, live pages or not": [
        *written(KV, 2),
        admit(0, KV, erase=True),
        step(TRIM, page=0),
        step(TRIM, ORDER, page=0),
    ],
    "a failed block is replayed from page 0": [
        *FAILED_KV,
        admit(2, KV, REPLAY),
        admit(1, WEIGHT, REPLAY),
        admit(0, KV, erase=True),
        admit(1, KV),
    ],
    "garbage collection takes closed KV blocks without live pages": [
        step(COLLECT, ILLEGAL),
        *written(KV, 3),
        *trims(0, 1, 2),
        step(COLLECT, ORDER),  # open
        admit(3, KV),
        step(COLLECT, ORDER),  # live
        *trims(3),
        step(COLLECT, erase=True),
        step(COLLECT, ILLEGAL),
        admit(0, WEIGHT),  # erased
    ],
    "garbage collection takes failed KV blocks without live pages": [
        *FAILED_KV,
        step(COLLECT, ORDER),
        *trims(0, 1),
        step(COLLECT, erase=True),
        admit(0, KV),
    ],
    "an erase of garbage collection that fails is made up by page 0": [
        *written(KV),
        *trims(0, 1, 2, 3),
        step(COLLECT, erase=True),
        step(FAILED),
        admit(1, KV, REPLAY),
        admit(0, KV, erase=True),
    ],
    "only written pages of KV die": [
        step(TRIM, ILLEGAL),
        *written(KV, 2),
        step(TRIM, ORDER, page=2),
        *trims(1, 0),
        step(TRIM, ORDER, page=0),
    ],
    "weights stay through TRIM and COLLECT": [
        *written(WEIGHT),
        step(TRIM, ILLEGAL, page=3),
        step(COLLECT, ILLEGAL),
        step(FAILED),
        step(COLLECT, ILLEGAL),
        step(TRIM, ILLEGAL),
    ],
    "a released block of weights goes to KV": [
        *written(WEIGHT, 1),
        step(RELEASE),
        step(RELEASE, ILLEGAL),
        admit(1, WEIGHT, ILLEGAL),
        step(COLLECT, ILLEGAL),
        *TAKES_PAGE_0,
    ],
    "a KV block is released when no page is live": [
        step(RELEASE, ILLEGAL),
        *written(KV),
        *trims(0, 1, 2),
        step(RELEASE, ILLEGAL),
        *trims(3),
        step(RELEASE),
        step(COLLECT, ILLEGAL),
        step(TRIM, ILLEGAL),
        admit(0, WEIGHT, erase=True),
    ],
    "neighbours are not touched": [
        *written(WEIGHT),
        *(admit(0, KV, where=where) for where in ((0, 0), (2, 0), (1, 1), (1, 3))),
        *(step(FAILED, where=where) for where in ((0, 0), (2, 0), (1, 1), (1, 3))),
        admit(0, KV, ILLEGAL),
    ],
}


@pytest.mark.parametrize("steps", RULES.values(), ids=RULES)
def test_rule(steps):
    dut = BlockTable(TINY)
    ops, verdicts = [op for op, _ in steps], [verdict for _, verdict in steps]
    touched = {op.where for op in ops}
    untouched = [(s, b) for s in range(4) for b in range(4) if (s, b) not in touched]

    async def bench(ctx):
        answers = await operate(ctx, dut, ops)
        assert [verdict for _, verdict, _ in answers] == verdicts
        others = await operate(ctx, dut, [Op(QUERY, where=where) for where in untouched])
        assert {entry for _, _, entry in others} == {BlockEntry()}

    simulate(dut, bench, clocks=1_000)
    ledger = BlockLedger(TINY.geometry)
    assert [ask(ledger, op)[0] for op in ops] == verdicts


def test_refused_operations_leave_weights_bit_for_bit():
    dut = BlockTable(TINY)
    kinds = [Op(TRIM, page=page) for page in range(4)] + [Op(COLLECT), Op(QUERY)]
    kinds += [Op(ADMIT, page=page, owner=owner) for page in range(4) for owner in (NONE, KV)]

    async def bench(ctx):
        states = [[op for op, _ in written(WEIGHT, pages)] for pages in (1, 4)]
        states += [[Op(ADMIT, owner=WEIGHT), Op(FAILED), Op(SENSED), Op(ERASED), Op(SENSED)]]
        for state in states:
            *_, (_, _, entry) = await operate(ctx, dut, state)
            answers = await operate(ctx, dut, kinds)
            assert {after for _, _, after in answers} == {entry}
            assert entry.owner is WEIGHT

    simulate(dut, bench, clocks=1_000)


def test_wear_counters_saturate():
    dut = BlockTable(TINY, cycle_bits=2, read_bits=3)
    ops = [Op(SENSED)] * 9 + [Op(ERASED)] + [Op(SENSED)] + [Op(ERASED)] * 4
    closes = [op for op, _ in [*written(KV), *trims(0, 1, 2, 3)]]

    async def bench(ctx):
        entries = [entry for _, _, entry in await operate(ctx, dut, ops)]
        assert [entry.reads for entry in entries] == [*range(1, 8), 7, 7, 0, 1, 0, 0, 0, 0]
        assert [entry.erase_cycles for entry in entries] == [0] * 9 + [1, 1, 2, 3, 3, 3]
        *_, (_, verdict, entry) = await operate(ctx, dut, [*closes, Op(COLLECT)])
        assert verdict.erase and entry == BlockEntry(erase_cycles=3)
        assert ctx.get(dut.max_cycles) == 3
        assert (ctx.get(dut.erases), ctx.get(dut.collected), ctx.get(dut.admitted)) == (6, 1, 4)

    simulate(dut, bench, clocks=1_000)


# At random, against the twin ----------------------------------------------------------------------


class Crowd:
    """Random operations that crowd a few blocks, most of them such that they succeed."""

    def __init__(self, ledger, pick, *, geometry, blocks):
        self.ledger, self.pick, self.pages = ledger, pick, geometry.pages_per_block
        self.blocks = blocks
        self.expected, self.deaths = [], []

    def draw(self, count):
        for _ in range(count):
            op = self._one()
            dead = set(self.ledger.dead)
            self.expected.append((op, *ask(self.ledger, op)))
            self.deaths += [(b.subarray, b.block) for b in self.ledger.dead if b not in dead]
            yield op

    def _one(self):
        pick = self.pick
        where = pick.choice(self.blocks)
        if self.ledger.dead and pick.random() < 0.1:
            block = pick.choice(self.ledger.dead)
            return Op(COLLECT, where=(block.subarray, block.block))
        entry = self.ledger.query(Block(die=0, subarray=where[0], block=where[1]))
        kind = pick.choices(
            list(BlockOperation), weights=(12, 1, 1, 1, 12, 0.5, 2, 1), k=1
        )[0]  # fmt: skip
        page, owner = pick.randrange(self.pages), pick.choice((NONE, WEIGHT, KV, KV, KV))
        if pick.random() < 0.7:
            owner = entry.owner or owner
            page = entry.next_page % self.pages if kind is ADMIT else max(0, entry.next_page - 1)
            if kind is ADMIT and page == 0 and entry.live_pages:
                kind = TRIM
        return Op(kind, where=where, page=page, owner=owner)


def check(dut, crowd, answers):
    assert len(answers) == len(crowd.expected)
    for number, (got, expected) in enumerate(zip(answers, crowd.expected, strict=True)):
        assert got == expected, f"operation {number}"


def check_counters(ctx, dut, ledger):
    wear = ledger.wear
    for name in ("erases", "collected", "max_cycles"):
        assert ctx.get(getattr(dut, name)) == getattr(wear, name), name
    assert ctx.get(dut.admitted) == wear.pages_programmed


CROWDED = {
    "formal": (preset("formal"), [(s, b) for s in range(2) for b in range(2)]),
    "tiny": (TINY, [(0, 0), (3, 1), (3, 2)]),
    "mini": (preset("mini"), [(31, 15), (7, 0)]),
    "one block": (TINY, [(2, 3)]),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("crowded", CROWDED)
def test_as_the_twin(crowded, seed):
    machine, blocks = CROWDED[crowded]
    pick = random.Random(seed)
    dut = BlockTable(machine, cycle_bits=4, read_bits=3)
    ledger = BlockLedger(machine.geometry, cycle_bits=4, read_bits=3)
    crowd = Crowd(ledger, pick, geometry=machine.geometry, blocks=blocks)
    reader = Reader(chance=1, pick=pick)
    fast = seed == 0
    pauses = None if fast else lambda: pick.choice((0, 0, 0, 1, 2, 5))

    async def bench(ctx):
        answers = await operate(ctx, dut, crowd.draw(1000), reader=reader, pauses=pauses)
        check(dut, crowd, answers)
        check_counters(ctx, dut, ledger)
        g = machine.geometry
        everywhere = [
            (s, b) for s in range(g.subarrays_per_die) for b in range(g.blocks_per_subarray)
        ]
        queries = await operate(ctx, dut, [Op(QUERY, where=where) for where in everywhere])
        for (subarray, block), (_, _, entry) in zip(everywhere, queries, strict=True):
            assert entry == ledger.query(Block(die=0, subarray=subarray, block=block))

    simulate(dut, bench, clocks=20_000)
    # A reader that never waits is offered every block that dies, once, in order.
    offers = [block for _, block in reader.offers]
    assert offers == crowd.deaths[: len(offers)] and len(crowd.deaths) - len(offers) <= 1
    seen = {(op.kind, verdict.status, verdict.erase) for op, verdict, _ in crowd.expected}
    assert seen >= {
        *((ADMIT, status, False) for status in (OK, ILLEGAL, ORDER, REPLAY)),
        (ADMIT, OK, True),
        (COLLECT, OK, True),
        *((kind, OK, False) for kind in (FAILED, ERASED, TRIM, RELEASE, SENSED, QUERY)),
        *((kind, ILLEGAL, False) for kind in (COLLECT, TRIM, RELEASE)),
        *((kind, ORDER, False) for kind in (COLLECT, TRIM)),
    }


@pytest.mark.parametrize("seed", range(4))
def test_no_dead_block_is_lost_when_the_queue_is_full(seed):
    """A slow reader of ``dead`` that asks COLLECT for each block it is offered gets them all."""
    pick = random.Random(seed)
    dut = BlockTable(TINY, dead_depth=2)
    ledger = BlockLedger(TINY.geometry)
    blocks = [(s, b) for s in range(4) for b in range(4)]
    reader = Reader(chance=0 if seed % 2 else 0.02, pick=pick)
    kills = []
    for block in pick.sample(blocks, len(blocks)):
        kills += [Op(ADMIT, where=block, page=page, owner=KV) for page in range(4)]
        kills += [Op(TRIM, where=block, page=page) for page in range(4)]
    at_random = Crowd(ledger, pick, geometry=TINY.geometry, blocks=blocks)

    async def bench(ctx):
        # The queue holds few of these sixteen, yet operations go on at full rate.
        answers = await operate(ctx, dut, kills, reader=reader)
        assert answers == [(op, *ask(ledger, op)) for op in kills]
        assert len(ledger.dead) == 16 and len(reader.offers) < 12
        if seed >= 2:
            answers = await operate(ctx, dut, at_random.draw(200), reader=reader)
            check(dut, at_random, answers)
        reader.chance, quiet, collected = 1, 0, len(reader.offers)
        waiting = {block for _, block in reader.offers}
        while quiet < 2 * 16 * PERIOD:
            reader.clock(ctx, dut, 0)
            await ctx.tick()
            quiet += 1
            for _, block in reader.offers[collected:]:
                waiting.add(block)
                quiet = 0
            collected = len(reader.offers)
        # Now it is quiet, and all that are dead were offered; COLLECT sorts out the others.
        assert {(b.subarray, b.block) for b in ledger.dead} <= waiting
        collects = [Op(COLLECT, where=block) for block in sorted(waiting)]
        answers = await operate(ctx, dut, collects)
        assert answers == [(op, *ask(ledger, op)) for op in collects]
        assert not ledger.dead

    simulate(dut, bench, clocks=20_000)


def test_an_operation_takes_three_clocks():
    dut = BlockTable(TINY)

    async def bench(ctx):
        accepted = []
        ctx.set(dut.op.valid, 1)
        for now in range(30):
            if ctx.get(dut.op.ready):
                accepted.append(now)
            await ctx.tick()
        assert accepted == list(range(0, 30, PERIOD))

    simulate(dut, bench, clocks=100)


def test_an_entry_of_the_paper_is_one_word():
    layout = entry_layout(preset("paper"), cycle_bits=ERASE_CYCLE_BITS, read_bits=BLOCK_READ_BITS)
    assert layout.size == 64
    assert 2**ERASE_CYCLE_BITS > 100_000  # cycles that SLC is said to live


@pytest.mark.parametrize(
    ("field", "value"), [("dead_depth", 1), ("cycle_bits", 0), ("read_bits", 0)]
)
def test_wrong_parameter(field, value):
    with pytest.raises(ValueError, match=f"{field} must be at least"):
        BlockTable(TINY, **{field: value})
