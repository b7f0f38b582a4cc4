"""Life of write pages, trims and collections: each as promised, and counted."""

import itertools
import random
from collections import Counter

import pytest

from hw.hbf.write_admission import WriteAdmission
from hw.ucie.codes import Owner, Status
from hw.ucie.transaction import Operation
from tests.hw.hbf.admission_bench import INDICES, LINKS, AdmissionBench
from tests.hw.hbf.die_bench import DIE, DIES, SUBARRAYS, places
from tests.hw.machines import TINY
from tests.hw.pysim import simulate


def some_jobs(seed: int) -> list[dict]:
    """Writes of blocks in order and out of order, rewrites, trims, releases, of both owners."""
    pick = random.Random(f"jobs/{seed}")
    jobs: list[dict] = []

    def over(block, operation=Operation.WRITE, owner=Owner.KV, skip=0, pages=64):
        first, end = block * 64 + skip, block * 64 + pages
        begin = len(jobs)
        while first < end:
            size = min(end - first, pick.choice((4, 7, 16, 40)))
            job = {"first": first, "pages": size, "operation": operation, "owner": owner}
            jobs.append(job | {"relocated": pick.randrange(2), "alone": False})
            first += size
        jobs[begin]["alone"] = True

    over(0)
    over(1, owner=Owner.WEIGHT)
    over(2, pages=16)
    over(2, skip=36)  # a row is missing
    over(1)
    over(0, operation=Operation.TRIM)
    over(0)
    over(3, operation=Operation.RELEASE)
    over(0, owner=Owner.WEIGHT)
    over(1, operation=Operation.TRIM)
    over(1, operation=Operation.RELEASE)
    over(1)
    over(0)
    for k, job in enumerate(jobs):
        job["index"], job["link"] = k % INDICES, k // 3 % LINKS
    return jobs


@pytest.mark.parametrize("hold", [False, True], ids=["free at once", "hold"])
@pytest.mark.parametrize("collect", [False, True], ids=["no collection", "collection"])
@pytest.mark.parametrize("chance", [1.0, 0.2], ids=["quick", "slow"])
def test_every_page_lives_as_promised(hold, collect, chance):
    seed = 4 + 2 * hold + collect
    bench = AdmissionBench(some_jobs(seed), seed=seed, hold=hold, collect=collect, chance=chance)

    async def drive(ctx):
        await bench.run(ctx)

    simulate(bench.dut, drive, clocks=40_000)
    lives = bench.ended
    pages = [life for life in lives if not life.collects]
    asked = sum(len(list(places(job["first"], job["pages"]))) for job in some_jobs(seed))
    assert len(pages) == asked
    statuses = {Status(life.status) for life in pages}
    assert statuses >= {Status.OK, Status.ILLEGAL_OWNER, Status.ORDER, Status.PROGRAM_FAILED}
    # What is counted is what happened.
    programs = [life for life in pages if "programmed" in life.steps and not life.fails]
    good = [life for life in programs if not life.bad]
    erased = [life for life in lives if "erased" in life.steps]
    lost = [
        life for life in erased if life.steps[life.steps.index("erased") + 1 :][:1] == ["failed"]
    ]
    poisoned = [life for life in pages if "arrive" in life.steps and life.bad]
    failed = [life for life in pages if "programmed" in life.steps and life.fails and not life.bad]
    assert bench.counts == Counter(
        programmed=len(good),
        relocated=sum(life.relocated for life in good),
        program_failed=len(failed) + len(poisoned),
        erased=len(erased) - len(lost),
        collected=sum(life.collects for life in erased) - sum(life.collects for life in lost),
        erase_failed=len(lost),
    )
    assert len(good) > 15 and erased and poisoned and failed
    assert (bench.counts["collected"] > 0) == collect


@pytest.mark.parametrize("subarray", range(SUBARRAYS))
def test_trims_without_end_let_a_write_elsewhere_begin_in_its_turn(subarray):
    """The table takes everything; a TRIM waits at every other subarray."""
    dut = WriteAdmission(TINY, die=DIE, links=LINKS)
    first = subarray * DIES + DIE
    others = [number * DIES + DIE for number in range(SUBARRAYS) if number != subarray]
    requests = itertools.chain(
        # So many that TRIMs wait everywhere when the write comes.
        [{"first": page, "operation": Operation.TRIM} for page in others * 2],
        [{"first": first, "operation": Operation.WRITE, "index": 1}],
        itertools.cycle({"first": page, "operation": Operation.TRIM} for page in others),
    )
    trims = []  # begun while the write waited

    async def drive(ctx):
        ctx.set(dut.op.ready, 1)
        ctx.set(dut.event.ready, 1)
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.i.payload, next(requests) | {"pages": 1})
        waited = 0
        for _ in range(400):
            taken, reserve = ctx.get(dut.i.ready), ctx.get(dut.reserve)
            asks, asked = ctx.get(dut.op.valid), ctx.get(dut.op.payload)
            waits = ctx.get(dut.waits) >> subarray & 1
            if asks and waited:
                trims.append(asked.where.subarray)
            if reserve.valid:
                assert waits and reserve.slot.subarray == subarray
                return
            waited = waits
            await ctx.tick()
            ctx.set(dut.answer, {"valid": asks, "kind": asked.kind})
            if taken:
                ctx.set(dut.i.payload, next(requests) | {"pages": 1})
        raise AssertionError(f"a write at subarray {subarray} never begins")

    simulate(dut, drive, clocks=500)
    assert len(trims) == len(set(trims))
