"""HBM base die when link B, link C or both are reset."""

import random
from collections import Counter, deque

import pytest

from hw.hbm.base_die import HbmBaseDie
from hw.ucie.transaction import MessageClass, Status
from hw.ucie.ucie_end import QUIET_CLOCKS
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SLOTS, RX_BEATS, PAGE_UNITS = TINY.credits.descriptors, TINY.credits.rx_beats, 4
CHUNK_PAGES, REGIONS = 4, 2
LATE = 8  # clocks from `lost` in which messages still come


class Link:
    """One link of the die: when it is lost, and for how long at least."""

    def __init__(self, port):
        self.port, self.since, self.away = port, None, 0

    @property
    def lost(self) -> bool:
        return self.since is not None


class Dies:
    """The GPU and the HBF base die at the far ends, clock by clock; each message is checked."""

    def __init__(self, dut: HbmBaseDie, ctx, pick: random.Random):
        self.dut, self.ctx, self.pick = dut, Quiet(ctx), pick
        self.b, self.c = Link(dut.b_reset), Link(dut.c_reset)
        self.clock = 0
        self.seen: Counter = Counter()
        self.asks, self.gives = 0.2, 0.5
        # GPU: reads by slot, since when the link is up.
        self.reads: dict[int, dict] = {}
        self.request_credits, self.held, self.answers_held = SLOTS, 0, 0
        self.tag = 0
        # HBF: requests that have come, in order; pages of the chunk that is under way.
        self.requests: list[dict] = []
        self.c_held, self.c_credits = 0, REGIONS
        self.chunk: deque = deque()
        self.reply_credits = SLOTS
        self.expected: deque = deque()  # requests that leave over link C
        self.beats: list = []  # of the page that comes over link B
        self.number = 0
        ctx.set(dut.link_rate, 65_536)

    def comes(self, link: Link) -> bool:
        return link.since is None or self.clock < link.since + LATE

    async def step(self) -> None:
        ctx = self.ctx
        for link in (self.b, self.c):
            ctx.set(link.port.lost, link.lost)
            ctx.set(link.port.quiet, link.lost and self.clock >= link.since + QUIET_CLOCKS)
            if link.lost and self.clock == link.since + LATE:
                self._gone(link)
        self._gpu_asks()
        self._hbf_sends()
        self._hbf_hears()
        self._gpu_hears()
        await ctx.tick()
        self.clock += 1

    # GPU ------------------------------------------------------------------------------------------

    def _gpu_asks(self) -> None:
        ctx, dut, pick = self.ctx, self.dut, self.pick
        free = [slot for slot in range(SLOTS) if slot not in self.reads]
        sends = self.b.since is None and free and self.request_credits and pick.random() < self.asks
        ctx.set(dut.b_request.valid, bool(sends))
        if sends:
            slot, pages = pick.choice(free), pick.choice((1, 1, 2, 5))
            self.number += 1
            read = {"slot": slot, "pages": pages, "mark": self.number, "taken": 0}
            self.reads[slot] = read
            header = {"tag": slot, "length": pages * PAGE_UNITS, "address": self.number}
            ctx.set(dut.b_request.header, header)
            self.request_credits -= 1
        self.request_credits += ctx.get(dut.b_request.credit)
        assert self.request_credits <= SLOTS
        for port, name in ((dut.b_data, "held"), (dut.b_reply, "answers_held")):
            held = getattr(self, name)
            back = bool(held and self.b.since is None and pick.random() < self.gives)
            ctx.set(port.credit, back)
            setattr(self, name, held - back)

    def _gpu_hears(self) -> None:
        ctx, dut = self.ctx, self.dut
        if ctx.get(dut.b_data.valid):
            self.held += 1
            assert self.held <= RX_BEATS, f"clock {self.clock}"
            header = ctx.get(dut.b_data.header)
            if self.b.since is None or self.clock <= self.b.since:
                self._data(header, get_lanes(ctx, dut.b_data))
        if ctx.get(dut.b_reply.valid):
            self.answers_held += 1
            assert self.answers_held <= SLOTS
            if self.b.since is None or self.clock <= self.b.since:
                header = ctx.get(dut.b_reply.header)
                assert header.message_class == MessageClass.READ_DATA
                assert self.reads[header.tag]["refused"] and header.status == Status.BAD_ADDRESS
                del self.reads[header.tag]
                self.seen["refused"] += 1

    def _data(self, header, content: int) -> None:
        read = self.reads.get(header.tag)
        assert read, f"clock {self.clock}: nothing of slot {header.tag} was asked for"
        if header.message_class == MessageClass.COMPLETION:
            assert header.status == Status.LINK_RESET and not self.beats
            assert read["cut"] and read["taken"] == 4 * read["sent"], f"clock {self.clock}: {read}"
            self.seen["cut"] += 1
            del self.reads[header.tag]
            return
        assert content == read["mark"] << 8 | header.page << 2 | header.beat
        read["taken"] += 1
        if read["taken"] == 4 * read["pages"]:
            self.seen["whole"] += 1
            del self.reads[header.tag]

    # HBF ------------------------------------------------------------------------------------------

    def _hbf_hears(self) -> None:
        ctx, dut, pick = self.ctx, self.dut, self.pick
        if ctx.get(dut.c_request.valid):
            self.c_held += 1
            assert self.c_held <= SLOTS
            header = ctx.get(dut.c_request.header)
            read = self.reads.get(header.tag)
            if read and read["mark"] != header.address:
                read = None
            # While link B is away the GPU knows nothing of it any more, yet it goes on.
            read = read or {"mark": header.address, "pages": header.length // PAGE_UNITS}
            assert header.length == read["pages"] * PAGE_UNITS
            read |= {"slot": header.tag, "sent": 0, "cut": False, "refused": False}
            lost = self.c.since is not None and self.clock > self.c.since
            assert not lost, "a request left over a lost link"
            if self.c.since is None:
                self.requests.append(read)
            else:
                read["cut"] = True
        back = bool(self.c_held and self.c.since is None and pick.random() < self.gives)
        ctx.set(dut.c_request.credit, back)
        self.c_held -= back

    def _hbf_sends(self) -> None:
        ctx, dut, pick = self.ctx, self.dut, self.pick
        self.c_credits += ctx.get(dut.c_data.credit)
        assert self.c_credits <= REGIONS
        self.reply_credits += ctx.get(dut.c_reply.credit)
        assert self.reply_credits <= SLOTS
        refuses = self.c.since is None and self.requests and pick.random() < 0.02
        refuses = refuses and self.reply_credits and "next" not in self.requests[-1]
        ctx.set(dut.c_reply.valid, bool(refuses))
        if refuses:
            read = self.requests.pop()
            read["refused"] = True
            header = {"message_class": MessageClass.READ_DATA, "tag": read["slot"]}
            ctx.set(dut.c_reply.header, header | {"status": Status.BAD_ADDRESS.value})
            self.reply_credits -= 1
        if not self.chunk and self.requests and self.c_credits and self.c.since is None:
            self.c_credits -= 1
            self._new_chunk()
        sends = bool(self.chunk) and self.comes(self.c)
        ctx.set(dut.c_data.valid, sends)
        if not sends:
            return
        read, page, beat, ends, closes = self.chunk.popleft()
        header = {"message_class": MessageClass.RELAY_DATA, "tag": read["slot"], "page": page}
        header |= {"beat": beat, "page_end": ends, "chunk_end": closes}
        ctx.set(dut.c_data.header, header)
        set_lanes(ctx, dut.c_data, read["mark"] << 8 | page << 2 | beat)
        read["sent"] += ends

    def _new_chunk(self) -> None:
        """Pages of some reads, in any order; once all are sent a read is done here."""
        pages = []
        count = self.pick.randint(1, CHUNK_PAGES)
        while self.requests and len(pages) < count:
            read = self.pick.choice(self.requests)
            read.setdefault("next", 0)
            pages.append((read, read["next"]))
            read["next"] += 1
            if read["next"] == read["pages"]:
                self.requests.remove(read)
        for k, (read, page) in enumerate(pages):
            for beat in range(4):
                closes = beat == 3 and k == len(pages) - 1
                self.chunk.append((read, page, beat, beat == 3, closes))

    # Resets ---------------------------------------------------------------------------------------

    def lose(self, link: Link) -> None:
        link.since = self.clock
        link.away = self.pick.randrange(QUIET_CLOCKS, 3 * QUIET_CLOCKS)

    def _gone(self, link: Link) -> None:
        """What the far end forgets when the last message has come."""
        if link is self.c:
            for read in {id(r): r for r in [*self.requests, *(b[0] for b in self.chunk)]}.values():
                read["cut"] = True
            self.requests.clear()
            self.chunk.clear()
        else:
            self.reads.clear()
            self.beats.clear()

    def back(self, link: Link) -> None:
        """The link is up: what was sent into it while it was lost counts as freed."""
        link.since = None

    def settled(self, link: Link) -> bool:
        quiet = link.since is not None and self.clock > link.since + QUIET_CLOCKS
        return quiet and bool(self.ctx.get(link.port.settled))


async def away(dies: Dies, links: list[Link]) -> None:
    """Lose the links, some clocks apart, and wait until each may come up again."""
    for link in links:
        dies.lose(link)
        for _ in range(dies.pick.randrange(3) * 20 if len(links) > 1 else 0):
            await dies.step()
    pending = list(links)
    limit = dies.clock + 4000
    while pending:
        for link in list(pending):
            if dies.settled(link) and dies.clock >= link.since + link.away:
                pending.remove(link)
                dies.back(link)
        await dies.step()
        assert dies.clock < limit, "a link never settles"


@pytest.mark.parametrize(("which", "seed"), [("b", 0), ("c", 0), ("both", 0), ("any", 1)])
def test_what_a_reset_cuts_ends_and_all_else_goes_on(which, seed):
    """Each read of the GPU ends once, whole, refused or cut, as long as link B has not lost it."""
    pick = random.Random(f"{which}/{seed}")
    print(f"seed {which}/{seed}")
    dut = HbmBaseDie(TINY)
    found = Counter()

    async def bench(ctx):
        dies = Dies(dut, ctx, pick)
        for _ in range(10):
            dies.gives = pick.choice((0.1, 0.5, 1.0))
            dies.asks = pick.choice((0.1, 0.5))
            for _ in range(pick.randrange(20, 150)):
                await dies.step()
            one = {"b": [dies.b], "c": [dies.c], "both": [dies.b, dies.c]}
            links = one.get(which) or pick.choice(list(one.values()))
            await away(dies, pick.sample(links, len(links)))
        # At rest nothing is open, and all credits are those of the beginning.
        dies.asks, dies.gives = 0, 1
        for _ in range(600):
            await dies.step()
        assert not dies.reads and not dies.requests and not dies.chunk
        assert dies.request_credits == dies.reply_credits == SLOTS
        assert dies.c_credits == REGIONS and not dies.c_held and not dies.held
        assert not ctx.get(dut.relay_occupied)
        found.update(dies.seen)

    simulate(dut, bench, clocks=12_000)
    needed = {"whole", "refused"} | ({"cut"} if which in ("c", "any") else set())
    assert all(found[name] for name in needed) and found["whole"] > 10, found


def test_requests_wait_while_link_c_is_lost_and_pass_then():
    dut = HbmBaseDie(TINY)
    left = []

    async def bench(ctx):
        for clock in range(80):
            lost = 10 <= clock < 60
            ctx.set(dut.c_reset.lost, lost)
            ctx.set(dut.c_reset.quiet, lost and clock >= 10 + QUIET_CLOCKS)
            ctx.set(dut.b_request.valid, clock in (20, 21))
            ctx.set(dut.b_request.header, {"tag": clock % 4, "length": 4})
            if ctx.get(dut.c_request.valid):
                left.append((clock, ctx.get(dut.c_request.header).tag))
            if lost and clock > 10 + QUIET_CLOCKS:
                assert ctx.get(dut.c_reset.settled)  # they are nothing that link C carries
            await ctx.tick()

    simulate(dut, bench, clocks=90)
    assert left == [(61, 0), (62, 1)]


def test_link_b_settles_only_when_reads_over_link_c_have_drained():
    """Requests that wait are dropped with their credit; pages and answers are, as they come."""
    dut = HbmBaseDie(TINY)

    async def bench(ctx):
        credits = 0

        async def clocks(count, settled=None):
            nonlocal credits
            for _ in range(count):
                credits += ctx.get(dut.b_request.credit)
                assert not ctx.get(dut.b_reply.valid)
                assert not ctx.get(dut.b_data.valid)
                if settled is not None:
                    assert ctx.get(dut.b_reset.settled) == settled
                await ctx.tick()

        ctx.set(dut.link_rate, 65_536)
        for tag in range(2):  # one will be refused, one brings a page
            ctx.set(dut.b_request.valid, 1)
            ctx.set(dut.b_request.header, {"tag": tag, "length": 4})
            await clocks(1)
        ctx.set(dut.b_request.valid, 0)
        await clocks(6)
        assert credits == 2
        ctx.set(dut.b_reset.lost, 1)
        ctx.set(dut.b_request.valid, 1)  # came late
        ctx.set(dut.b_request.header, {"tag": 2, "length": 4})
        await clocks(1)
        ctx.set(dut.b_request.valid, 0)
        await clocks(QUIET_CLOCKS - 1)
        assert credits == 3
        ctx.set(dut.b_reset.quiet, 1)
        await clocks(50, settled=0)
        ctx.set(dut.c_reply.valid, 1)
        header = {"message_class": MessageClass.READ_DATA, "tag": 1, "status": 1}
        ctx.set(dut.c_reply.header, header)
        await clocks(1, settled=0)
        ctx.set(dut.c_reply.valid, 0)
        await clocks(20, settled=0)
        for beat in range(4):
            header = {"message_class": MessageClass.RELAY_DATA, "tag": 0, "beat": beat}
            header |= {"page_end": beat == 3, "chunk_end": beat == 3}
            ctx.set(dut.c_data.valid, 1)
            ctx.set(dut.c_data.header, header)
            await clocks(1, settled=0)
        ctx.set(dut.c_data.valid, 0)
        await clocks(4, settled=0)  # it is still in its region
        await clocks(20)
        await clocks(10, settled=1)
        ctx.set(dut.b_reset.lost, 0)
        ctx.set(dut.b_reset.quiet, 0)
        await clocks(20)

    simulate(dut, bench, clocks=300)
