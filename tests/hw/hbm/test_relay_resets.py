"""Relay buffer when one of its links, or both, are reset."""

import random
from collections import Counter, deque

import pytest

from hw.hbm.relay import RelayBuffer
from hw.ucie.transaction import MessageClass, Operation, Status
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.hbm.relay_bench import CHUNK_PAGES, GPU_BEATS, Beat
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

REGIONS = 2
FIRST_BEAT = 3  # clocks from the choice of a page to its first beat


class Relay:
    """Both links and who is at their far ends, clock by clock; each output is checked."""

    def __init__(self, ctx, *, rate: int = 65_536):
        self.dut, self.ctx = RelayBuffer(TINY), None
        self.rate, self.clock, self.number = rate, 0, 0
        self.credits = REGIONS  # of link C
        self.held = self.given = 0  # credits of link B
        self.came: list[tuple[int, Beat, bool]] = []  # clock, beat, whether it ends its page
        self.ended: list[tuple[int, int]] = []  # clock, slot
        self.ends: deque[int] = deque()
        self.c_cut = self.b_lost = 0

    def start(self, ctx) -> None:
        self.ctx = Quiet(ctx)
        self.ctx.set(self.dut.rate, self.rate)

    def page(self, beats: int = 4, start: int = 0) -> list[Beat]:
        self.number += 1
        poison = self.number % 5 == 0
        return [
            (self.number, self.number % 7, (start + k) % 4, poison, 4 * self.number + k)
            for k in range(beats)
        ]

    async def step(self, beat=None, *, ends=0, closes=0, gives=0) -> None:
        """A clock; ``beat`` comes over link C, or with ``closes`` alone a word that does so."""
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.c_cut, self.c_cut)
        ctx.set(dut.b_lost, self.b_lost)
        ctx.set(dut.c_data.valid, bool(beat or closes))
        if beat:
            tag, page, number, poison, content = beat
            header = {"message_class": MessageClass.RELAY_DATA, "tag": tag, "page": page}
            header |= {"beat": number, "poison": poison, "page_end": ends, "chunk_end": closes}
            ctx.set(dut.c_data.header, header)
            set_lanes(ctx, dut.c_data, content)
        elif closes:
            header = {"message_class": MessageClass.COMPLETION, "chunk_end": 1}
            ctx.set(dut.c_data.header, header)
        gives = bool(gives and self.held)
        ctx.set(dut.b_data.credit, gives)
        self.held -= gives
        self.given += gives
        ctx.set(dut.end.valid, bool(self.ends))
        if self.ends:
            ctx.set(dut.end.payload, self.ends[0])
        assert ctx.get(dut.page_end) == bool(beat and ends)
        self._outputs()
        await ctx.tick()
        self.clock += 1

    def _outputs(self) -> None:
        ctx, dut = self.ctx, self.dut
        if ctx.get(dut.b_data.valid):
            head = ctx.get(dut.b_data.header)
            assert head.route == 1
            if head.message_class == MessageClass.COMPLETION:
                assert (head.operation, head.status) == (Operation.READ, Status.LINK_RESET)
                assert not head.page_end
                self.ended.append((self.clock, head.tag))
            else:
                assert head.message_class == MessageClass.RELAY_DATA and head.status == 0
                content = get_lanes(ctx, dut.b_data)
                beat = (head.tag, head.page, head.beat, head.poison, content)
                self.came.append((self.clock, beat, head.page_end))
            self.held += 1
            assert self.held <= GPU_BEATS, f"beat without credit at {self.clock}"
            assert not ctx.get(dut.empty)
        if ctx.get(dut.c_data.credit):
            self.credits += 1
            assert self.credits <= REGIONS, f"credit too many at {self.clock}"
        if self.ends and ctx.get(dut.end.ready):
            assert ctx.get(dut.empty)
            self.ends.popleft()

    async def send(self, pages: list[list[Beat]], *, torn: int = 0, late: bool = False) -> None:
        """A chunk; with ``torn`` so many beats of its last page come and then nothing more."""
        self.credits -= 1
        assert self.credits >= 0
        for k, page in enumerate(pages):
            last = k == len(pages) - 1
            for j, beat in enumerate(page[:torn] if torn and last else page):
                ends = j == len(page) - 1
                await self.step(beat, ends=ends, closes=ends and last and not late)
        if late:
            await self.step(closes=1)

    async def idle(self, clocks: int, **settings) -> None:
        for _ in range(clocks):
            await self.step(**settings)

    async def drain(self, most: int = 300) -> None:
        for _ in range(most):
            if self.ctx.get(self.dut.empty) and not self.ends:
                return
            await self.step(gives=1)
        raise AssertionError("not empty")

    def beats(self) -> list[Beat]:
        return [beat for _, beat, _ in self.came]


def run(scenario, *, clocks: int, rate: int = 65_536) -> None:
    relay = Relay(None, rate=rate)

    async def bench(ctx):
        relay.start(ctx)
        await scenario(relay)

    simulate(relay.dut, bench, clocks=clocks)


def flat(pages: list[list[Beat]]) -> list[Beat]:
    return [beat for page in pages for beat in page]


@pytest.mark.parametrize("torn", range(4))
@pytest.mark.parametrize("whole", range(CHUNK_PAGES))
def test_a_cut_chunk_closes_with_its_last_whole_page(whole, torn):
    """In every clock of the other region's last page, the one in which it is emptied included."""
    freed = set()  # regions that were free at the cut

    async def scenario(relay: Relay) -> None:
        # Link B without credit: what leaves is what credits are given for.
        await relay.send([relay.page(), relay.page()])
        await relay.idle(20)
        assert relay.held == GPU_BEATS
        for offset in (None, *range(14)):
            before, given = len(relay.came), relay.given
            want = []
            if offset is not None:
                want.append(relay.page(start=offset % 4))
                await relay.send(want)
            pages = [relay.page(start=k) for k in range(whole + bool(torn))]
            want += pages[:whole]
            if pages:
                relay.credits -= 1
            for k, page in enumerate(pages):
                for j, beat in enumerate(page if k < whole else page[:torn]):
                    await relay.step(beat, ends=j == 3)
            for clock in range(offset or 0):  # the page of the other region begins to leave
                await relay.step(gives=clock < 4)
            freed.add(relay.credits)
            relay.c_cut = 1
            await relay.idle(16, gives=0)
            while relay.given < given + 4 * len(want):
                await relay.step(gives=1)
            await relay.idle(20)
            found = relay.came[before:]
            assert [beat for _, beat, _ in found] == flat(want), (offset, whole, torn)
            assert [end for *_, end in found] == [0, 0, 0, 1] * len(want)
            assert relay.credits == REGIONS, (offset, whole, torn)
            assert relay.ctx.get(relay.dut.empty) and not relay.ctx.get(relay.dut.occupied)
            assert relay.held == GPU_BEATS
            relay.c_cut = 0
        # And on as ever, with four pages of a chunk.
        before, pages = len(relay.came), [relay.page() for _ in range(4)]
        await relay.send(pages)
        await relay.idle(60, gives=1)
        assert relay.beats()[before:] == flat(pages) and relay.credits == REGIONS

    run(scenario, clocks=3000)
    assert len(freed) == 2


@pytest.mark.parametrize(
    ("offset", "pages"),
    [*((n, 0) for n in range(1, 4)), *((n, 1) for n in range(4, 8)), (8, 2), (9, 2), (20, 2)],
)
def test_pages_that_have_begun_leave_and_later_ones_are_dropped(offset, pages):
    """Two chunks wait; link B is lost in any clock, with and without credits."""

    async def scenario(relay: Relay) -> None:
        first, second = ([relay.page() for _ in range(3)] for _ in range(2))
        await relay.send(first)
        await relay.idle(offset)
        lost = relay.clock
        relay.b_lost = 1
        await relay.send(second, late=True)  # link C goes on
        for _ in range(80):
            await relay.step()
        assert relay.ctx.get(relay.dut.empty) and relay.credits == REGIONS
        begun = len(relay.came) // 4
        assert len(relay.came) == 4 * begun and relay.held == 4 * begun
        assert relay.beats() == flat(first[:begun])
        assert all(clock < lost + FIRST_BEAT for clock, *_ in relay.came[::4])
        # Those that came before had credit for two pages; nothing else took any.
        assert begun <= GPU_BEATS // 4
        relay.b_lost = 0
        third = [relay.page() for _ in range(4)]
        await relay.send(third)
        await relay.idle(60)
        assert relay.beats()[4 * begun :] == flat(third[: GPU_BEATS // 4 - begun])
        await relay.idle(60, gives=1)
        assert relay.beats()[4 * begun :] == flat(third)

        assert begun == pages

    run(scenario, clocks=500)


def test_ends_leave_behind_all_data_and_under_credit():
    async def scenario(relay: Relay) -> None:
        pages = [relay.page() for _ in range(3)]
        await relay.send(pages)
        relay.ends.extend((3, 0))
        await relay.idle(60)
        assert len(relay.came) == 8 and not relay.ended  # no credit for the third page
        await relay.idle(4, gives=1)
        await relay.idle(20)
        assert len(relay.came) == 12 and not relay.ended  # none for the end
        await relay.idle(4, gives=1)
        await relay.idle(10)
        assert [slot for _, slot in relay.ended] == [3]  # a page's worth of credit is asked for
        await relay.idle(1, gives=1)
        await relay.idle(10)
        assert [slot for _, slot in relay.ended] == [3, 0]
        assert relay.ended[0][0] > relay.came[-1][0]
        # While link B is lost they are dropped, credit or not.
        await relay.idle(10)
        relay.b_lost = 1
        relay.ends.extend((1, 2))
        await relay.idle(10)
        assert not relay.ends and len(relay.ended) == 2
        relay.b_lost = 0
        # Three credits are left, and nine come back: exactly two pages go.
        assert relay.held == GPU_BEATS - 3
        await relay.send([relay.page() for _ in range(3)])
        await relay.idle(60)
        assert len(relay.came) == 12
        await relay.idle(1, gives=1)
        await relay.idle(40)
        assert len(relay.came) == 16

    run(scenario, clocks=600)


@pytest.mark.parametrize(("seed", "rate"), [(0, 65_536), (1, 65_536), (2, 30_000)])
def test_resets_of_both_links_at_random(seed, rate):
    """What came whole leaves once and in order, but for what link B lost; all credits stay."""
    pick = random.Random(seed)
    print(f"seed {seed}")
    seen = Counter()

    async def scenario(relay: Relay) -> None:
        whole: list[list[Beat]] = []  # pages
        windows: list[list[int]] = []  # clocks in which link B is lost
        until = 0
        asked: list[int] = []

        async def step(beat=None, **settings) -> None:
            nonlocal until
            if relay.b_lost and relay.clock >= until:
                relay.b_lost = 0
                windows[-1].append(relay.clock)
            elif not relay.b_lost and pick.random() < 0.004:
                relay.b_lost, until = 1, relay.clock + pick.randrange(30, 90)
                windows.append([relay.clock])
            gives = not relay.b_lost and pick.random() < give
            await relay.step(beat, gives=gives, **settings)

        for _ in range(30):
            give = pick.choice((0.1, 0.5, 1.0))
            for _ in range(pick.randrange(1, 5)):  # chunks, the last of which is cut
                while not relay.credits:
                    await step()
                relay.credits -= 1
                pages = [relay.page(start=pick.randrange(4)) for _ in range(pick.randint(1, 4))]
                late = len(pages) < CHUNK_PAGES and pick.random() < 0.5
                for k, page in enumerate(pages):
                    for j, beat in enumerate(page):
                        closes = k == len(pages) - 1 and j == 3 and not late
                        await step(beat, ends=j == 3, closes=closes)
                    whole.append(page)
                    while pick.random() < 0.3:
                        await step()
                if late:
                    await step(closes=1)
            if relay.credits:
                cut = pick.randrange(1, 16)
                relay.credits -= 1
                for _ in range(cut // 4):
                    page = relay.page()
                    for j, beat in enumerate(page):
                        await step(beat, ends=j == 3)
                    whole.append(page)
                for beat in relay.page()[: cut % 4]:
                    await step(beat)
                seen["torn", cut % 4] += 1
            for _ in range(pick.randrange(20)):
                await step()
            relay.c_cut = 1
            slots = [pick.randrange(4) for _ in range(pick.randrange(3))]
            ends_before, b_was = len(relay.ended), relay.b_lost
            await step()
            asked.extend(slots)
            relay.ends.extend(slots)
            calm = not b_was
            limit = relay.clock + 2500
            while relay.ends or not relay.ctx.get(relay.dut.empty):
                await step()
                calm &= not relay.b_lost
                assert relay.clock < limit
            await step()  # credits of link C and beats of link B are registers
            if calm:
                assert [slot for _, slot in relay.ended[ends_before:]] == slots
                seen["calm ends"] += len(slots)
            assert relay.credits == REGIONS
            relay.c_cut = 0
        # Pages that are missing are those that link B lost.
        places = {page[0][0]: k for k, page in enumerate(whole)}
        assert [end for *_, end in relay.came] == [0, 0, 0, 1] * (len(relay.came) // 4)
        after, clock = 0, 0
        for k in range(0, len(relay.came), 4):
            page = [beat for _, beat, _ in relay.came[k : k + 4]]
            place = places[page[0][0]]
            assert page == whole[place] and place >= after
            first = relay.came[k][0]
            assert [at for at, *_ in relay.came[k : k + 4]] == [first + j for j in range(4)]
            lost = [w for w in windows if w[0] <= first and clock <= (*w, 1 << 30)[1]]
            assert place == after or lost, f"page {place} at {first}"
            seen["dropped"] += place - after
            for begin, *end in windows:
                assert not begin + FIRST_BEAT <= first <= (*end, 1 << 30)[0]
            after, clock = place + 1, relay.came[k + 3][0]
        seen["came"] += len(relay.came) // 4
        # Exactly the credits of the beginning are there.
        relay.b_lost = 0
        await relay.idle(20, gives=1)
        assert not relay.held
        before = len(relay.came)
        await relay.send([relay.page() for _ in range(4)])
        await relay.idle(80)
        assert len(relay.came) - before == GPU_BEATS

    run(scenario, clocks=30_000, rate=rate)
    assert min(seen["dropped"], seen["came"], seen["calm ends"]) > 5, seen
    assert all(seen["torn", k] for k in range(4)), seen
