"""A write admission with table, array, slots and tracker in Python around it."""

import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from hw.hbf.block_layouts import BlockOperation
from hw.hbf.write_admission import WriteAdmission
from hw.ucie.codes import Owner, Status
from hw.ucie.transaction import Operation
from perfmodel.memory.blocks import Block, BlockLedger
from tests.hw.beats import Quiet
from tests.hw.hbf.die_bench import DIE, DIES, SUBARRAYS, places
from tests.hw.machines import TINY

BLOCK_ROWS, BLOCKS, LINKS, INDICES = 4, 4, 2, 8
LATENCY, PERIOD = 2, 3  # of the block table
REQUESTS = {
    Operation.WRITE: BlockOperation.ADMIT,
    Operation.TRIM: BlockOperation.TRIM,
    Operation.RELEASE: BlockOperation.RELEASE,
}


@dataclass
class Life:
    """What happened to a page, or to a block that is collected, in the order that it must."""

    subarray: int
    row: int
    index: int = -1
    page: int = -1
    operation: int = Operation.WRITE
    owner: int = Owner.NONE
    relocated: int = 0
    link: int = 0
    collects: bool = False
    steps: list[str] = field(default_factory=list)
    region: int | None = None  # of its slot, while it is reserved
    bad: str = ""  # poisoned on "arrival", or when it is "read"
    lost: str = ""  # by a reset of its link: while it "waits", "given up" or "cut"
    fails: bool = False  # what the array does next
    status: int = Status.OK

    @property
    def slot(self) -> dict[str, int]:
        return {"subarray": self.subarray, "region": self.region}

    def expected_steps(self) -> tuple[str, ...]:
        """All that may happen to it, given what the table and the array said."""
        steps = ["ask"]
        if self.collects or self.operation != Operation.WRITE:
            if "erase" in self.steps:
                steps += ["erase", "erased", *(["failed"] if self.fails else [])]
            return tuple(steps if self.collects else [*steps, "event"])
        if self.lost == "waits":
            return ("event",)
        steps.insert(0, "reserve")
        if "refused" in self.steps:
            return (*steps, "refused", "free", "event")
        if "erase" in self.steps:
            steps += ["erase", "erased"]
            if "told" not in self.steps:
                return (*steps, "failed", "free", "event")
            steps.append("told")
        if self.lost == "given up":
            return (*steps, "failed", "free", "event")
        steps.append("grant")
        if self.lost == "cut":
            return (*steps, "cut", "failed", "free", "event")
        steps.append("arrive")
        if self.bad == "arrival":
            return (*steps, "failed", "free", "event")
        ends = ["programmed", *(["failed"] if self.fails or self.bad else [])]
        return (*steps, "program", "left", *ends, "event")


class AdmissionBench:
    def __init__(self, jobs: list[dict], *, seed: int, hold: bool, collect: bool, chance: float):
        self.pick, self.hold, self.collect, self.chance = random.Random(seed), hold, collect, chance
        self.dut = WriteAdmission(TINY, die=DIE, links=LINKS)
        self.jobs = deque(jobs)
        self.ledger = BlockLedger(TINY.geometry)
        self.due = defaultdict(deque)  # by subarray, in order of requests
        self.active: dict[int, Life] = {}
        self.ended: list[Life] = []
        self.open: Counter[int] = Counter()  # pages left, by index
        self.spans: dict[int, range] = {}
        self.orphans: set[int] = set()  # indices
        self.slots: dict[tuple[int, int], str] = {}
        self.answers: deque = deque()  # of the table: clock, kind, block, verdict
        self.op_again = 0
        self.erasing: dict[int, int] = {}  # clocks left, by subarray
        self.moving: dict[int, int] = {}
        self.programming: dict[int, int] = {}
        self.arriving: list[Life] = []
        self.offer: Block | None = None  # on `dead`
        self.left: dict = {"valid": 0}
        self.counts: Counter[str] = Counter()
        self.longest_erase = 60
        self.clock = 0

    @property
    def done(self) -> bool:
        dead = self.collect and self.ledger.dead
        return not (self.jobs or self.open or self.active or dead)

    def say(self) -> str:
        return f"clock {self.clock}"

    async def run(self, ctx) -> None:
        ctx, dut = Quiet(ctx), self.dut
        ctx.set(dut.hold_until_programmed, self.hold)
        ctx.set(dut.collect_enable, self.collect)
        quiet = 0
        while quiet < 20:
            quiet = quiet + 1 if self.done else 0
            before = dict(self.slots)
            for r in range(2):
                busy = sum(1 << s for s, q in before if q == r)
                ctx.set(dut.slot_busy[r], busy)
            self._resets(ctx)
            self._request(ctx)
            self._reads(ctx)
            self._table(ctx)
            self._array(ctx)
            self._data(ctx)
            self._dead(ctx)
            self._slots(ctx, before)
            self._operation(ctx)
            self._start(ctx)
            self._tracker(ctx)
            for name in WriteAdmission.COUNTS:
                self.counts[name] += ctx.get(getattr(dut, name))
            await ctx.tick()
            self.clock += 1
        assert all(owner == "read" for owner in self.slots.values()), self.slots

    # Neighbours -----------------------------------------------------------------------------------

    def _resets(self, ctx) -> None:
        """Links stay up."""

    def _request(self, ctx) -> None:
        dut, job = self.dut, self.jobs[0] if self.jobs else None
        begins = False
        if job:
            span = range(job["first"], job["first"] + job["pages"])
            clash = any(span.start < o.stop and o.start < span.stop for o in self.spans.values())
            free = job["index"] not in self.open and not clash
            alone = not (job["alone"] and (self.open or self.active or self.ledger_dead()))
            begins = free and alone and self.pick.random() < 0.3 and ctx.get(dut.i.ready)
        ctx.set(dut.i.valid, bool(begins))
        if not begins:
            return
        self.jobs.popleft()
        names = ("first", "pages", "index", "operation", "owner", "relocated", "link")
        ctx.set(dut.i.payload, {name: job[name] for name in names})
        rest = {name: job[name] for name in names[2:]}
        for k, subarray, row in places(job["first"], job["pages"]):
            life = Life(subarray, row, page=k, **rest)
            if life.operation == Operation.WRITE and self.pick.random() < 0.12:
                life.bad = self.pick.choice(("arrival", "read"))
            self.due[subarray].append(life)
            self.open[job["index"]] += 1
        if self.open[job["index"]]:
            self.spans[job["index"]] = span
        else:
            del self.open[job["index"]]

    def ledger_dead(self) -> bool:
        return bool(self.collect and self.ledger.dead)

    def _reads(self, ctx) -> None:
        """Reads take region 0 first, and leave the last slot to a write that waits."""
        waits = ctx.get(self.dut.waits)
        for s in range(SUBARRAYS):
            free = [r for r in range(2) if (s, r) not in self.slots]
            if len(free) > (waits >> s & 1) and self.pick.random() < 0.1:
                self.slots[s, free[0]] = "read"

    def _table(self, ctx) -> None:
        """Answers come two clocks after; those of other users in between."""
        answer = {"valid": 0}
        if self.answers and self.answers[0][0] == self.clock:
            _, kind, where, verdict = self.answers.popleft()
            answer = {"valid": 1, "kind": kind, "where": where}
            answer |= {"status": verdict.status, "erase": verdict.erase}
        elif self.pick.random() < 0.2:
            kind = self.pick.choice((BlockOperation.SENSED, BlockOperation.QUERY))
            answer = {"valid": 1, "kind": kind, "status": 5, "erase": self.pick.randrange(2)}
        ctx.set(self.dut.answer, answer)

    def _array(self, ctx) -> None:
        """Erases, and programs once their page has left; one end a clock."""
        for clocks in (self.erasing, self.programming):
            for s in clocks:
                clocks[s] -= 1
        done = {"valid": 0}
        ends = [s for s in (*self.erasing, *self.programming) if self._over(s)]
        if ends:
            s = self.pick.choice(ends)
            erase = s in self.erasing
            (self.erasing if erase else self.programming).pop(s)
            life = self.active[s]
            life.fails = self.pick.random() < 0.15
            life.steps.append("erased" if erase else "programmed")
            done = {"valid": 1, "subarray": s, "erase": erase, "fail": life.fails}
        ctx.set(self.dut.done, done)
        left = {"valid": 0}
        for s in self.moving:
            self.moving[s] -= 1
        moved = [s for s, clocks in self.moving.items() if clocks <= 0]
        if moved:
            s = self.pick.choice(moved)
            del self.moving[s]
            life = self.active[s]
            life.steps.append("left")
            self.programming[s] = self.pick.randint(2, 40)
            left = {"valid": 1, "slot": life.slot, "poison": life.bad == "read"}
        ctx.set(self.dut.left, left)
        self.left = left

    def _over(self, s: int) -> bool:
        return self.erasing.get(s, 1) <= 0 or self.programming.get(s, 1) <= 0

    def _data(self, ctx) -> None:
        for k, arrived in enumerate(self.dut.arrived):
            arrives = {"valid": 0}
            comes = [life for life in self.arriving if life.link == k]
            if comes and self.pick.random() < 0.2:
                life = self.pick.choice(comes)
                self.arriving.remove(life)
                life.steps.append("arrive")
                arrives = {"valid": 1, "slot": life.slot, "poison": life.bad == "arrival"}
            ctx.set(arrived, arrives)

    def _dead(self, ctx) -> None:
        """Blocks that are dead, or were: COLLECT decides."""
        dut = self.dut
        if self.offer is None and self.pick.random() < 0.2:
            block = None
            if self.ledger.dead and self.pick.random() < 0.9:
                block = self.pick.choice(self.ledger.dead)
            elif self.pick.random() < 0.05:
                number = self.pick.randrange(BLOCKS)
                block = Block(die=DIE, subarray=self.pick.randrange(SUBARRAYS), block=number)
            if block:
                self.offer = block
        ctx.set(dut.dead.valid, self.offer is not None)
        if self.offer:
            where = {"subarray": self.offer.subarray, "block": self.offer.block}
            ctx.set(dut.dead.payload, where)
            if ctx.get(dut.dead.ready):
                assert self.collect, "collection is off"
                s = self.offer.subarray
                assert s not in self.active, f"{self.say()}: two jobs at {s}"
                self.active[s] = Life(s, self.offer.block * BLOCK_ROWS, collects=True)
                self.offer = None

    # What the block does --------------------------------------------------------------------------

    def _slots(self, ctx, before) -> None:
        reserve, free = ctx.get(self.dut.reserve), ctx.get(self.dut.free)
        if reserve.valid:
            s, r = reserve.slot.subarray, reserve.slot.region
            assert (s, r) not in self.slots, f"{self.say()}: slot is {self.slots[s, r]}'s"
            assert s not in self.active, f"{self.say()}: two jobs at {s}"
            life = self.due[s].popleft()
            assert life.operation == Operation.WRITE
            assert life.index not in self.orphans, f"{self.say()}: a slot for {life}"
            life.steps.append("reserve")
            life.region = r
            self.active[s] = life
            self.slots[s, r] = "write"
        if free.valid:
            s, r = free.slot.subarray, free.slot.region
            assert before.get((s, r)) == "write", f"{self.say()}: freed what was not reserved"
            life = self.active[s]
            assert life.region == r
            del self.slots[s, r]
            if "left" in life.steps:
                at_left = self.left["valid"] and self.left["slot"] == {"subarray": s, "region": r}
                assert self.hold or at_left, f"{self.say()}: freed late"
                assert not self.hold or "programmed" in life.steps
            else:
                life.steps.append("free")
            life.region = None
        for (s, r), owner in before.items():
            if owner == "read" and self.pick.random() < 0.1:
                self.slots.pop((s, r), None)

    def _operation(self, ctx) -> None:
        op = self.dut.op
        self.op_again -= 1
        ready = self.op_again <= 0 and self.pick.random() < self.chance
        ctx.set(op.ready, ready)
        if not (ready and ctx.get(op.valid)):
            return
        self.op_again = PERIOD
        asked = ctx.get(op.payload)
        s, number = asked.where.subarray, asked.where.block
        kind = BlockOperation(asked.kind)
        block = Block(die=DIE, subarray=s, block=number)
        if s not in self.active:  # trims and releases want no slot
            life = self.due[s].popleft()
            assert life.operation != Operation.WRITE
            self.active[s] = life
        life = self.active[s]
        assert number == life.row // BLOCK_ROWS, self.say()
        match kind:
            case BlockOperation.COLLECT:
                assert life.collects and not life.steps
                verdict = self.ledger.collect(block)
            case BlockOperation.FAILED:
                if life.steps[-1] in ("ask", "told"):
                    assert life.index in self.orphans, f"{self.say()}: {life}"
                    life.lost = "given up"
                life.steps.append("failed")
                verdict = self.ledger.failed(block)
            case BlockOperation.ERASED:
                assert not life.collects and not life.fails
                life.steps.append("told")
                verdict = self.ledger.erased(block)
            case _:
                assert kind == REQUESTS[life.operation] and asked.page == life.row % BLOCK_ROWS
                if kind == BlockOperation.ADMIT:
                    assert asked.owner == life.owner
                    verdict = self.ledger.admit(block, asked.page, Owner(life.owner))
                elif kind == BlockOperation.TRIM:
                    verdict = self.ledger.trim(block, asked.page)
                else:
                    verdict = self.ledger.release(block)
        if kind not in (BlockOperation.FAILED, BlockOperation.ERASED):
            life.steps.append("ask")
            life.status = verdict.status
            if verdict.erase:
                life.steps.append("erase")
            if verdict.status and life.operation == Operation.WRITE and not life.collects:
                life.steps.append("refused")
            if life.collects and not verdict.erase:
                self._end(life)
        elif kind == BlockOperation.FAILED:
            life.status = Status.PROGRAM_FAILED
            if life.collects:
                self._end(life)
        where = {"subarray": s, "block": number}
        self.answers.append((self.clock + LATENCY, kind, where, verdict))

    def _orphan(self, place: tuple[int, int]) -> Life:
        """A page that ends where it waited, at the head of its subarray."""
        heads = [lives[0] for lives in self.due.values() if lives]
        life = next(o for o in heads if (o.index, o.page) == place)
        assert life.index in self.orphans and life.operation == Operation.WRITE, self.say()
        assert life.subarray not in self.active, f"{self.say()}: out of turn: {life}"
        self.active[life.subarray] = self.due[life.subarray].popleft()
        life.lost, life.status = "waits", Status.LINK_RESET
        return life

    def _end(self, life: Life) -> None:
        assert tuple(life.steps) == life.expected_steps(), f"{self.say()}: {life}"
        assert life.region is None or life.collects, f"{self.say()}: its slot is not free: {life}"
        del self.active[life.subarray]
        self.ended.append(life)

    def _start(self, ctx) -> None:
        start = self.dut.start
        ctx.set(start.ready, 1)
        if not ctx.get(start.valid):
            return
        order = ctx.get(start.payload)
        s = order.slot.subarray
        life = self.active[s]
        assert s not in self.erasing and s not in self.programming and s not in self.moving
        assert order.row == life.row
        if order.erase:
            assert life.steps[-1] == "erase", f"{self.say()}: {life}"
            self.erasing[s] = self.pick.randint(3, self.longest_erase)
        else:
            assert life.steps[-1] == "arrive" and order.slot.region == life.region
            life.steps.append("program")
            self.moving[s] = self.pick.randint(3, 30)

    def _tracker(self, ctx) -> None:
        dut = self.dut
        for port in (dut.grant, dut.event):
            ctx.set(port.ready, self.pick.random() < self.chance)
        if ctx.get(dut.grant.valid) and ctx.get(dut.grant.ready):
            grant = ctx.get(dut.grant.payload)
            assert grant.index not in self.orphans, f"{self.say()}: granted to an orphan"
            place = grant.token // DIES
            s, region = place % SUBARRAYS, place // SUBARRAYS
            life = self.active[s]
            assert grant.token % DIES == DIE
            assert (grant.index, grant.page, region) == (life.index, life.page, life.region)
            life.steps.append("grant")
            self.arriving.append(life)
        if ctx.get(dut.event.valid) and ctx.get(dut.event.ready):
            event = ctx.get(dut.event.payload)
            place = event.index, event.page
            life = next((o for o in self.active.values() if (o.index, o.page) == place), None)
            if life is None:
                life = self._orphan(place)
            life.steps.append("event")
            assert event.status == life.status, f"{self.say()}: {life}"
            self._end(life)
            self.open[life.index] -= 1
            if not self.open[life.index]:
                del self.open[life.index], self.spans[life.index]
                self.orphans.discard(life.index)
        # A collection that succeeds ends without a word.
        for life in list(self.active.values()):
            done = life.collects and life.steps and life.steps[-1] == "erased" and not life.fails
            if done and ctx.get(dut.collected):
                self._end(life)
