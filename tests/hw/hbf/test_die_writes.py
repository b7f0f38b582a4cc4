"""Reads, writes and trims of one die controller together, against a ledger and a NAND model."""

import itertools
import random
from collections import Counter, defaultdict

import pytest

from hw.hbf.block_layouts import BlockOperation
from hw.hbf.layouts import Command
from hw.ucie.codes import Owner, Status
from hw.ucie.transaction import Operation
from perfmodel.memory.blocks import Block, BlockLedger
from tests.hw.hbf.die_bench import (
    DIE,
    DIRECT,
    MACHINE,
    RELAY,
    SUBARRAYS,
    WRITE,
    DieBench,
    Page,
    WriteJob,
    places,
    reads_of,
)
from tests.hw.pysim import simulate

BLOCKS = 4
BLOCK_ROWS, BLOCK_PAGES = 4, 64  # of a subarray; of all blocks of one number together
INDICES = 8
OK, REPLAY = Status.OK, Status.PROGRAM_FAILED


def run(bench: DieBench, *, clocks: int) -> DieBench:
    """Until all is done, and a little longer: nothing may be left or come then."""

    async def drive(ctx):
        await bench.run(ctx, until=lambda: bench.done)
        end = bench.clock + 40
        commands = len(bench.commands)
        await bench.run(ctx, until=lambda: bench.clock == end)
        assert ctx.get(bench.dut.region_busy) == 0, "a slot is still reserved"
        assert len(bench.commands) == commands, "commands for nobody"
        assert bench.nand.idle
        for block in itertools.product(range(SUBARRAYS), range(BLOCKS)):
            bench.entries[block] = await look_up(ctx, bench.dut, *block)

    simulate(bench.top(), drive, clocks=clocks)
    return bench


async def look_up(ctx, dut, subarray: int, block: int):
    """The entry of the block table."""
    ctx.set(dut.query.payload, {"subarray": subarray, "block": block})
    ctx.set(dut.query.valid, 1)
    while not ctx.get(dut.query.ready):
        await ctx.tick()
    await ctx.tick()
    ctx.set(dut.query.valid, 0)
    while not (ctx.get(dut.answer.valid) and ctx.get(dut.answer.kind) == BlockOperation.QUERY):
        await ctx.tick()
    return ctx.get(dut.answer.entry)


def jobs_over(
    pick: random.Random, block: int, *, owner=Owner.KV, version=1, operation=Operation.WRITE
):
    """Writes of all pages of the blocks of one number, in order, in pieces of any size."""
    first, end = block * BLOCK_PAGES, (block + 1) * BLOCK_PAGES
    jobs = []
    while first < end:
        pages = min(end - first, pick.choice((3, 8, 16, 30)))
        jobs.append(WriteJob(first, pages, 0, owner=owner, version=version, operation=operation))
        first += pages
    jobs[0].alone = True
    return jobs


def numbered(*parts: list[WriteJob]) -> list[WriteJob]:
    jobs = list(itertools.chain(*parts))
    for k, job in enumerate(jobs):
        job.index = k % INDICES
    return jobs


def expected(bench: DieBench, fails) -> tuple[dict[int, dict[int, int]], BlockLedger]:
    """By job and page of it: a subarray does one page after the other, in order of requests."""
    ledger = BlockLedger(MACHINE.geometry)
    statuses = defaultdict(dict)
    for n, job in enumerate(bench.writes):
        for k, subarray, row in places(job.first, job.pages):
            number, page = divmod(row, BLOCK_ROWS)
            block = Block(die=DIE, subarray=subarray, block=number)
            if job.operation == Operation.TRIM:
                verdict = ledger.trim(block, page)
                statuses[n][k] = verdict.status
                continue
            if job.operation == Operation.RELEASE:
                statuses[n][k] = ledger.release(block).status
                continue
            verdict = ledger.admit(block, page, Owner(job.owner))
            statuses[n][k] = verdict.status
            if verdict.status:
                continue
            place = Page(subarray, row, WRITE, (job.version, k))
            if verdict.erase and fails(True, job.version, place):
                ledger.failed(block)
                statuses[n][k] = REPLAY
                continue
            if verdict.erase:
                ledger.erased(block)
            if fails(False, job.version, place) or bench.poisons(place):
                ledger.failed(block)
                statuses[n][k] = REPLAY
    return statuses, ledger


def check(bench: DieBench, fails=lambda *_: False) -> dict[int, dict[int, int]]:
    """Each page of each job has ended once, with the status it must have."""
    want, ledger = expected(bench, fails)
    numbers = {id(job): n for n, job in enumerate(bench.writes)}
    found = defaultdict(dict)
    for job, page, status in bench.tracker.ended:
        assert page not in found[numbers[id(job)]], "a page has ended twice"
        found[numbers[id(job)]][page] = status
    assert found == want, f"seed {bench.seed}"
    if not bench.registers.get("collect_enable"):
        check_table(bench, ledger)
    return found


def check_table(bench: DieBench, ledger: BlockLedger) -> None:
    """The table of the die holds what the ledger does, and has counted every page sensed."""
    senses = Counter((page.subarray, page.row // BLOCK_ROWS) for _, page in bench.rules.issued)
    for (subarray, number), entry in bench.entries.items():
        twin = ledger.query(Block(die=DIE, subarray=subarray, block=number))
        for name in ("owner", "dirty", "failed", "next_page", "live_pages", "erase_cycles"):
            assert getattr(entry, name) == getattr(twin, name), (subarray, number, name)
        if not entry.erase_cycles:
            assert entry.reads == senses[subarray, number]


def commands(bench: DieBench, kind: Command) -> int:
    return sum(command == kind for _, command, _ in bench.commands)


TIMES = {
    "ideal": {},
    "every time": {
        "t_latch": 5, "t_rr": 3, "t_adl": 7, "t_ccs": 4, "t_wb": 6, "t_plane_busy": 5,
    },
    "hold": {"hold_until_programmed": 1, "t_plane_busy": 2},
    "suspend": {"suspend_enable": 1, "t_program": 150, "t_erase": 300, "t_wb": 20},
    "suspend, every time": {
        "suspend_enable": 1, "t_latch": 5, "t_rr": 3, "t_adl": 7, "t_ccs": 4, "t_wb": 6,
        "t_plane_busy": 5, "t_program": 150,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "cache_read"),
    [(name, True) for name in TIMES] + [("every time", False), ("suspend", False)],
)
def test_reads_and_writes_of_all_kinds(name, cache_read):
    registers = TIMES[name]
    seed = f"{name}/{cache_read}"
    pick = random.Random(seed)
    reads = tuple(reads_of(pick, p, count=6, sizes=(1, 4, 16, 30)) for p in (DIRECT, RELAY))
    # Two blocks a subarray, one of them twice: it is erased in between.
    first = jobs_over(pick, 0)
    jobs = numbered(first, jobs_over(pick, 3, owner=Owner.WEIGHT), jobs_over(pick, 0, version=2))
    bench = DieBench(
        reads, seed=seed, writes=jobs, registers=registers, cache_read=cache_read, t_read=15
    )
    run(bench, clocks=60_000)
    found = check(bench)
    assert {status for job in found.values() for status in job.values()} == {OK}
    assert commands(bench, Command.PROGRAM) == 3 * 16
    assert commands(bench, Command.ERASE) == 4
    assert sum(bench.rules.drained) == len(bench.rules.issued) + 3 * 16
    assert (commands(bench, Command.SUSPEND) > 0) == ("suspend_enable" in registers)
    # All pages hold the last version that was written there.
    for page, beats in bench.nand.written.items():
        version = {0: 2, 3: 1}[page // BLOCK_PAGES]
        assert all(beat[0] & 0xFF == version for beat in beats)
    assert len(bench.nand.written) == 2 * 16


@pytest.mark.parametrize("seed", range(2))
def test_failures_and_illegal_writes(seed):
    pick = random.Random(seed)
    reads = tuple(reads_of(pick, p, count=3, sizes=(1, 16)) for p in (DIRECT, RELAY))
    unlucky = {(False, v, s, row) for v in (1, 2, 3) for s in range(4) for row in range(16)
               if pick.random() < 0.12}  # fmt: skip
    unlucky |= {(True, v, s, row) for v in (2, 3) for s in range(4) for row in (0, 12)
                if pick.random() < 0.4}  # fmt: skip
    bad = {
        (v, s, row): pick.choice(("arrival", "read"))
        for v in (1, 2, 3) for s in range(4) for row in range(16) if pick.random() < 0.12
    }  # fmt: skip
    skips = jobs_over(pick, 1)[1:]  # pages out of order: nothing of these blocks was written
    skips[0].alone = True
    jobs = numbered(
        jobs_over(pick, 0),
        jobs_over(pick, 0, operation=Operation.TRIM)[:3],
        jobs_over(pick, 3, owner=Owner.WEIGHT),
        skips,
        jobs_over(pick, 3, owner=Owner.KV, version=2),  # of another owner
        jobs_over(pick, 3, operation=Operation.TRIM),  # not KV
        jobs_over(pick, 0, version=2),
        jobs_over(pick, 3, operation=Operation.RELEASE)[:2],
        jobs_over(pick, 0, version=3),
    )
    bench = DieBench(reads, seed=seed, writes=jobs, poisons=lambda page: bad.get(
        (page.label[0], page.subarray, page.row), ""))  # fmt: skip
    versions = {}

    def fails(erase, version, page) -> bool:
        return (erase, version, page.subarray, page.row) in unlucky

    def nand_fails(erase, die, subarray, row) -> bool:
        """The version that is being written there decides."""
        job = next(
            job for job in bench.tracker.open.values()
            if Page(subarray, row, WRITE, (0, 0)).number in job.span
        )  # fmt: skip
        versions[job.version] = True
        return (erase, job.version, subarray, row) in unlucky

    bench.nand.fails = nand_fails
    run(bench, clocks=60_000)
    found = check(bench, fails)
    statuses = [status for job in found.values() for status in job.values()]
    assert {OK, REPLAY, Status.ORDER, Status.ILLEGAL_OWNER} == set(statuses)
    assert len(versions) == 3


@pytest.mark.parametrize("seed", range(1))
def test_dead_blocks_are_erased_in_the_background(seed):
    pick = random.Random(seed)
    jobs = numbered(
        jobs_over(pick, 1),
        jobs_over(pick, 1, operation=Operation.TRIM),
        jobs_over(pick, 2, owner=Owner.WEIGHT),
        jobs_over(pick, 1, version=2),
    )
    reads = ([{"first": 5, "pages": 40, "tag": 1}], [])
    registers = {"collect_enable": 1}
    bench = DieBench(reads, seed=seed, writes=jobs, registers=registers)
    run(bench, clocks=60_000)
    check(bench)
    erases = [subarray for _, kind, subarray in bench.commands if kind == Command.ERASE]
    assert sorted(erases) == [0, 1, 2, 3]
    # They come as soon as the last page is dead, not as its block is written again.
    rewrites = [clock for clock, kind, _ in bench.commands if kind == Command.LOAD][2 * 16 :]
    assert max(c for c, kind, _ in bench.commands if kind == Command.ERASE) < rewrites[0]


def test_a_collection_that_fails_names_its_own_block():
    """Blocks 1 die while nothing is collected; blocks 2 of weights are written before it is."""
    pick = random.Random(0)
    jobs = numbered(
        jobs_over(pick, 1),
        jobs_over(pick, 1, operation=Operation.TRIM),
        jobs_over(pick, 2, owner=Owner.WEIGHT),
    )
    bench = DieBench(([], []), seed=0, writes=jobs, registers={"collect_enable": 0})
    bench.nand.fails = lambda erase, die, subarray, row: erase
    entries = {}

    async def drive(ctx):
        await bench.run(ctx, until=lambda: bench.done)
        bench.registers["collect_enable"] = 1
        ctx.set(bench.dut.registers.collect_enable, 1)
        end = bench.clock + 3000
        await bench.run(ctx, until=lambda: bench.clock == end)
        for subarray, block in itertools.product(range(SUBARRAYS), (1, 2)):
            entries[subarray, block] = await look_up(ctx, bench.dut, subarray, block)

    simulate(bench.top(), drive, clocks=60_000)
    assert commands(bench, Command.ERASE) == SUBARRAYS
    for (_, block), entry in entries.items():
        assert (entry.failed, entry.owner) == ((1, Owner.NONE), (0, Owner.WEIGHT))[block - 1]


def test_a_page_is_not_suspended_for_reads_of_itself():
    """A read of the page that is programmed waits for it anyway: one SUSPEND finds that out."""
    jobs = numbered([WriteJob(DIE, 1, 0)])
    reads = [{"first": DIE, "pages": 1, "tag": 1}]
    registers = {"suspend_enable": 1, "t_program": 2000}
    bench = DieBench((reads, []), seed=1, writes=jobs, registers=registers, starts=(1 << 30, 0))

    async def drive(ctx):
        await bench.run(ctx, until=lambda: commands(bench, Command.PROGRAM) > 0)
        bench.starts = (bench.clock, 0)
        await bench.run(ctx, until=lambda: bench.done)

    simulate(bench.top(), drive, clocks=10_000)
    check(bench)
    assert commands(bench, Command.SUSPEND) <= 1


def test_a_busy_subarray_holds_up_no_other():
    """Subarrays 1 to 3 are read while 0 is erased; its own page waits until that has ended."""
    pick = random.Random(1)
    jobs = numbered(jobs_over(pick, 0), [WriteJob(DIE, 1, 0, version=2, alone=True)])
    others = [16 * row + 4 * subarray + DIE for row in range(8) for subarray in (1, 2, 3)]
    reads = [{"first": page, "pages": 1, "tag": page} for page in (16 * 5 + DIE, *others)]
    bench = DieBench(
        (reads, []), seed=1, writes=jobs, registers={"t_erase": 1500}, starts=(1 << 30, 0)
    )
    erased_at = []

    def erases() -> bool:
        erased_at[:] = [clock for clock, kind, _ in bench.commands if kind == Command.ERASE]
        return bool(erased_at)

    async def drive(ctx):
        await bench.run(ctx, until=erases)
        bench.starts = (bench.clock, 0)
        await bench.run(ctx, until=lambda: bench.done)

    simulate(bench.top(), drive, clocks=20_000)
    check(bench)
    end = erased_at[0] + 1500
    issued = {page.number: clock for clock, page in bench.rules.issued}
    assert max(issued[page] for page in others) < end - 500
    assert issued[16 * 5 + DIE] >= end
