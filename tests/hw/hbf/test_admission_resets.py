"""Pages of a die whose link is reset, in whatever state they are: each ends once, and as promised.

The bench is that of :mod:`tests.hw.hbf.test_write_admission`, with links that are lost and come
back.
"""

import dataclasses
from collections import Counter

import pytest

from hw.ucie.codes import Owner, Status
from hw.ucie.transaction import Operation
from tests.hw.hbf.admission_bench import LINKS, AdmissionBench, Life
from tests.hw.hbf.die_bench import places
from tests.hw.hbf.test_write_admission import some_jobs
from tests.hw.pysim import simulate

TAKEN_LATE = 8  # clocks after the loss in which dies may still take a write that was accepted


@dataclasses.dataclass
class Reset:
    """Of a link, under way: for how many clocks it is lost, and when nothing comes any more."""

    quiet: int
    clocks: int = 0
    settled: int = 0  # clocks since no page is awaited


class ResetBench(AdmissionBench):
    """Loses links: at random with ``often`` a clock, or ``after`` clocks of a job that says so.

    Attributes:
        found: What pages of writes were at when they became orphans.
        cuts: Pages that were granted and cut.
    """

    def __init__(self, jobs: list[dict], *, often: float = 0.0, **options) -> None:
        super().__init__(jobs, **options)
        self._often = often
        self.resets: dict[int, Reset] = {}
        self.found: Counter[str] = Counter()
        self.cuts: list[Life] = []
        self.due_at: dict[int, int] = {}  # clock of a reset, by link
        self.count = 0

    def _resets(self, ctx) -> None:
        for k in range(LINKS):
            awaited = [life for life in self.arriving if life.link == k]
            assert ctx.get(self.dut.awaits[k]) == bool(awaited), self.say()
            wanted = self.pick.random() < self._often or self.due_at.get(k) == self.clock
            if k not in self.resets and wanted:
                self.resets[k] = Reset(quiet=self.pick.choice((1, 2, 5, 40)))
                self.count += 1
                self._lose(k)
            cut = False
            if reset := self.resets.get(k):
                reset.clocks += 1
                cut = reset.clocks > reset.quiet
                reset.settled += cut and not awaited
                if cut and reset.clocks > reset.quiet + 1:
                    assert not awaited, f"{self.say()}: link {k} does not settle"
                if cut:
                    self._cut(awaited)
                if reset.settled > 3 and self.pick.random() < 0.2:
                    del self.resets[k]
                    cut = False
            ctx.set(self.dut.cut[k], cut)
        ctx.set(self.dut.orphans, sum(1 << n for n in self.orphans))

    def _lose(self, k: int) -> None:
        """All its writes are orphans from now on."""
        lives = [*self.active.values(), *(life for lives in self.due.values() for life in lives)]
        for life in lives:
            if life.link == k and not life.collects:
                self.orphans.add(life.index)
                if life.operation == Operation.WRITE:
                    self.found[life.steps[-1] if life.steps else "waits"] += 1

    def _cut(self, awaited: list[Life]) -> None:
        for life in awaited:
            assert life.index in self.orphans
            self.arriving.remove(life)
            life.steps.append("cut")
            life.lost = "cut"
            self.cuts.append(life)

    def _request(self, ctx) -> None:
        if not self.jobs:
            return super()._request(ctx)
        job = self.jobs[0]
        reset = self.resets.get(job["link"])
        if reset and reset.clocks > TAKEN_LATE:
            ctx.set(self.dut.i.valid, 0)
            return None
        before = len(self.jobs)
        super()._request(ctx)
        if len(self.jobs) < before:
            if "after" in job:
                self.due_at[job["link"]] = self.clock + 1 + job["after"]
            if reset and job["index"] in self.open:
                self.orphans.add(job["index"])
        return None


def check(bench: ResetBench, jobs: list[dict], *, clocks: int) -> list[Life]:
    """Plays the bench to its end; its pages."""

    async def drive(ctx):
        await bench.run(ctx)

    simulate(bench.dut, drive, clocks=clocks)
    assert not bench.orphans
    pages = [life for life in bench.ended if not life.collects]
    asked = sum(len(list(places(job["first"], job["pages"]))) for job in jobs)
    assert len(pages) == asked
    return pages


@pytest.mark.parametrize("hold", [False, True], ids=["free at once", "hold"])
@pytest.mark.parametrize("chance", [1.0, 0.2], ids=["quick", "slow"])
def test_pages_of_a_lost_link_end_once_and_those_of_the_other_as_ever(hold, chance):
    seed = 13 if hold else 30  # of those that come upon all of it
    print(f"seed {seed}")
    jobs = some_jobs(seed) + some_jobs(seed + 20)
    bench = ResetBench(jobs, often=0.01, seed=seed, hold=hold, collect=True, chance=chance)
    pages = check(bench, jobs, clocks=40_000)
    statuses = Counter(Status(life.status) for life in pages)
    assert min(statuses[s] for s in (Status.OK, Status.PROGRAM_FAILED, Status.LINK_RESET)) > 3
    assert bench.count > 8
    assert set(bench.found) >= {"waits", "erase", "grant"}, bench.found
    lost = Counter(life.lost for life in pages)
    assert min(lost[how] for how in ("waits", "given up", "cut")) > 0, lost
    # Counted as a page that the die failed to program.
    failed = [life for life in pages if life.lost in ("given up", "cut")]
    assert bench.counts["program_failed"] >= len(failed)
    assert all(life.status == Status.PROGRAM_FAILED for life in failed)
    # A page that had arrived goes on.
    trims = [life for life in pages if life.operation != Operation.WRITE]
    assert trims and not any(life.lost for life in trims)


@pytest.mark.parametrize("chance", [1.0, 0.3], ids=["quick", "slow"])
def test_a_link_is_lost_in_every_clock_of_a_page(chance):
    """A page of each link, in subarrays of their own; link 0 is lost one clock later each time."""
    rounds = 80
    jobs = []
    for n in range(rounds):
        for link in range(LINKS):
            job = {"first": 64 * (n % 2) + 128 * link + 4 * link, "pages": 4, "link": link}
            job |= {"operation": Operation.WRITE, "owner": Owner.KV, "relocated": 0}
            jobs.append(job | {"index": link, "alone": link == 0})
        jobs[-2]["after"] = 3 * n // 4
    bench = ResetBench(jobs, seed=5, hold=False, collect=False, chance=chance)
    bench.longest_erase = 6
    print(f"seed {5}")
    pages = check(bench, jobs, clocks=20_000)
    assert bench.count > 0.9 * rounds
    # Before the slot, with the table, granted, on its way into the array, and in it.
    stages = {"waits", "reserve", "erase", "erased", "told", "grant", "program", "left"}
    assert set(bench.found) >= stages, bench.found
    assert not any(life.lost for life in pages if life.link == 1)
    assert {"waits", "given up", "cut", ""} == {life.lost for life in pages if life.link == 0}
    arrived = [life for life in pages if life.link == 0 and "arrive" in life.steps]
    assert any(life.status == Status.OK for life in arrived)
