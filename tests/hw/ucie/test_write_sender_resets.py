"""The requester of writes when its link is reset: what ends, what is dropped, what comes back."""

import random
from collections import Counter
from typing import Any

import pytest

from hw.params import Machine
from hw.ucie.pacer import RATE_ONE
from hw.ucie.transaction import Operation, Status
from hw.ucie.ucie_end import QUIET_CLOCKS
from hw.ucie.write_sender import WriteSender
from tests.hw.pysim import simulate
from tests.hw.ucie.test_write_sender import MACHINES, Ends, completion, end_of_read, grant

LATE = 8  # clocks from `lost` in which replies still come
FIRST_BEAT = 2  # clocks from the choice of a page


class Resets(Ends):
    """As :class:`Ends`, over a link that is reset; it gives no credit meanwhile."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.open: Counter[tuple[int, int]] = Counter()  # operation and tag
        self.unanswered: Counter[tuple[int, int]] = Counter()
        self.since: int | None = None
        self.cut: list[tuple[int, int]] = []  # ended by a reset

    @property
    def quiet(self) -> bool:
        return self.since is not None and self.clocks >= self.since + QUIET_CLOCKS

    async def clock(self, **shares: float) -> None:
        """A clock; while the link is lost neither requests nor pages begin, nor credits come."""
        ctx, lost = self.ctx, self.since is not None
        ctx.set(self.sender.reset.lost, lost)
        ctx.set(self.sender.reset.quiet, self.quiet)
        if self.since is not None:
            shares |= {"give_request": 0, "give_data": 0}
            if self.clocks >= self.since + LATE:
                shares["reply"] = 0
        waiting = self.requests[0] if self.requests else None
        accepted = len(self.requests)
        await super().clock(**shares)
        if waiting and len(self.requests) < accepted:
            assert not lost, f"accepted at {self.clocks - 1}"
            request = waiting["operation"], waiting["tag"]
            self.open[request] += 1
            self.unanswered[request] += 1

    def _done(self, done: Any) -> None:
        cut = done.valid and self.expected_done is None
        if not cut:
            super()._done(done)
            if done.valid and done.last:
                self._ends(done)
            return
        assert self.quiet and done.status == Status.LINK_RESET, f"clock {self.clocks}"
        assert (done.page, done.last) == (0, 1)
        self._ends(done)
        self.cut.append((done.operation, done.tag))

    def _ends(self, done: Any) -> None:
        request = (done.operation, done.tag)
        assert self.open[request], f"{request} ended twice or never began, clock {self.clocks}"
        self.open[request] -= 1

    def _beat(self) -> None:
        if self.page is None and self.since is not None:
            assert self.clocks < self.since + FIRST_BEAT, "a page began while the link was lost"
        super()._beat()

    async def reset(self) -> int:
        """Lose the link, wait for the sender to settle, and bring it up again; requests cut."""
        self.since, cut = self.clocks, len(self.cut)
        open_ = None
        settled = self.sender.reset.settled
        while not self.quiet or not self.ctx.get(settled):
            if self.quiet and open_ is None:
                open_ = +self.open
            await self.clock()
            assert self.clocks < self.since + QUIET_CLOCKS + 100
        assert self.clocks >= self.since + QUIET_CLOCKS
        await self.clock()  # the last `done` is a register
        ended = Counter(self.cut[cut:])
        assert not +self.open
        if open_ is not None:
            assert ended == open_
        assert self.reply_credits == self.credits.descriptors
        for _ in range(self.rng.randrange(20)):  # the other end takes longer
            assert self.ctx.get(settled)
            await self.clock()
        # What waited here or was under way is lost.
        self.replies.clear()
        self.grants.clear()
        self.unanswered.clear()
        self.since = None
        return ended.total()


def write(rng: random.Random, tags: int = 4096) -> dict[str, int]:
    """A request; of those that have the same tag all ask for the same."""
    tag = rng.randrange(tags)
    return {
        "first": rng.randrange(8),
        "pages": rng.randrange(1, 4097),
        "tag": tag,
        "operation": (Operation.WRITE, Operation.TRIM, Operation.RELEASE)[tag % 3].value,
        "owner": 1,
        "relocated": 0,
    }


def run(scenario: Any, *, machine: Machine, clocks: int, seed: int = 0, rate: int = RATE_ONE):
    sender = WriteSender(machine)

    async def bench(ctx: Any) -> None:
        await scenario(Resets(sender, ctx, machine.credits, rate=rate, seed=seed))

    simulate(sender, bench, clocks=clocks)


async def credits_are_whole(ends: Resets) -> None:
    """Without a credit from the other end exactly those of the beginning are used up."""
    for _ in range(80):
        await ends.clock()
    assert ends.held == {"request": 0, "data": 0}
    sent, pages = len(ends.beats), ends.credits.rx_beats // 4
    ends.requests.extend(write(ends.rng) for _ in range(ends.credits.writes))
    for _ in range(4):
        ends.replies.extend(grant(1, page, page) for page in range(pages))
    for _ in range(80):
        await ends.clock(give_data=0, give_request=0)
    assert ends.held == {"request": ends.credits.writes, "data": 4 * pages}
    assert len(ends.beats) == sent + 4 * pages and not ends.requests
    while ends.grants or ends.replies or ends.page:
        await ends.clock()


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize(("seed", "tags"), [(0, 4096), (1, 2)])
def test_every_open_request_ends_once_and_credits_are_whole(
    machine: Machine, seed: int, tags: int
) -> None:
    rng = random.Random(seed)
    print(f"seed {seed}")
    cut, granted, mid_page = [], [], 0

    async def scenario(ends: Resets) -> None:
        nonlocal mid_page
        for _ in range(12):
            shares = rng.choice(({}, {"give_data": 0.1}, {"reply": 0.3, "give_request": 0.2}))
            for _ in range(rng.randrange(5, 90)):
                if rng.random() < 0.3:
                    ends.requests.append(write(rng, tags))
                if rng.random() < 0.3 and len(ends.replies) < 6:
                    ends.replies.append(
                        grant(rng.randrange(9), rng.randrange(99), rng.randrange(9))
                    )
                if rng.random() < 0.05:
                    ends.replies.append(end_of_read(rng.randrange(4), status=1))
                if rng.random() < 0.15 and +ends.unanswered:
                    operation, tag = rng.choice(sorted((+ends.unanswered).elements()))
                    last = rng.random() < 0.7
                    ends.unanswered[operation, tag] -= last
                    ends.replies.append(
                        completion(tag, status=rng.randrange(8), last=last)
                        | {"operation": operation}
                    )
                await ends.clock(**shares)
            granted.append(len(ends.grants))
            mid_page += ends.page is not None
            cut.append(await ends.reset())
        ends.requests.clear()
        await credits_are_whole(ends)

    run(scenario, machine=machine, clocks=6000, seed=seed)
    assert max(cut) > 1 and sum(cut) > 12 and max(granted) > 1 and mid_page, (
        cut,
        granted,
        mid_page,
    )


@pytest.mark.parametrize("offset", range(1, 12))
def test_a_reset_in_any_clock_of_a_page(offset: int) -> None:
    """A page that has begun leaves whole, none begins any more, and the credit of none is lost."""
    begun = []

    async def scenario(ends: Resets) -> None:
        for _ in range(8):
            await ends.clock()
        ends.requests.append(write(ends.rng))
        pages = ends.credits.rx_beats // 4
        ends.replies.extend(grant(3, page, page) for page in range(pages))
        for _ in range(offset):
            await ends.clock(give_data=0)
        assert await ends.reset() == 1
        assert len(ends.beats) % 4 == 0 and ends.page is None
        begun.append(len(ends.beats) // 4)
        await credits_are_whole(ends)

    run(scenario, machine=MACHINES["tiny"], clocks=500)
    # The first grant comes in clock 8; a page is chosen three clocks later, the next in four.
    assert begun == [sum(chosen < 8 + offset for chosen in (11, 15))]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_no_more_than_twice_the_credits_of_requests_are_open(machine: Machine) -> None:
    async def scenario(ends: Resets) -> None:
        most = 2 * ends.credits.writes
        ends.requests.extend(write(ends.rng) for _ in range(most + 3))
        for _ in range(6 * most):
            await ends.clock()
        assert ends.open.total() == most and len(ends.requests) == 3
        (operation, tag), *_ = +ends.open
        ends.replies.append(completion(tag, last=0))
        for _ in range(6):
            await ends.clock()
        assert len(ends.requests) == 3  # it has not ended yet
        ends.replies.append(completion(tag) | {"operation": operation})
        for _ in range(6):
            await ends.clock()
        assert ends.open.total() == most and len(ends.requests) == 2
        ends.requests.clear()
        assert await ends.reset() == most

    run(scenario, machine=machine, clocks=500)


def test_requests_wait_for_the_link_and_leave_then() -> None:
    """One that is accepted in the last clock before ends; the next one waits."""

    async def scenario(ends: Resets) -> None:
        first, second = write(ends.rng), write(ends.rng)
        ends.requests.append(first)
        await ends.clock()
        ends.requests.append(second)
        assert await ends.reset() == 1
        assert ends.cut == [(first["operation"], first["tag"])]
        assert list(ends.requests) == [second]
        await ends.clock()
        assert not ends.requests
        ends.replies.append(completion(second["tag"]) | {"operation": second["operation"]})
        for _ in range(5):
            await ends.clock()
        assert ends.done == 1 and not +ends.open

    run(scenario, machine=MACHINES["tiny"], clocks=100)
