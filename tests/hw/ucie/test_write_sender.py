# amaranth: UnusedElaboratable=no
"""The requester of writes: requests, granted pages and completions under credit."""

import random
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.back import rtlil

from hw.params import Credits, Machine
from hw.presets import preset
from hw.ucie.pacer import RATE_ONE
from hw.ucie.transaction import MessageClass, Operation, Owner
from hw.ucie.write_sender import WriteSender
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

MACHINES = {"tiny": TINY, "two reply credits": preset("formal")}
Grant = tuple[int, int, int]  # tag, page, token


class Ends:
    """Responder, memory and link of a sender, clock by clock; each message is checked."""

    def __init__(self, sender: WriteSender, ctx: Any, credits: Credits, *, rate: int, seed: int):
        self.credits = credits
        self.sender, self.ctx, self.rng = sender, Quiet(ctx), random.Random(seed)
        ctx.set(sender.rate, rate)
        self.requests: deque[dict[str, int]] = deque()
        self.asked: list[dict[str, int]] = []  # accepted, not yet on the request port
        self.replies: deque[dict[str, int]] = deque()
        self.grants: deque[Grant] = deque()  # sent to the sender, in order
        self.fetched: int | None = None
        self.beats: list[tuple[int, Grant, int]] = []  # clock, page, beat
        self.page: tuple[Grant, int] | None = None  # page under way and its next beat
        self.held = {"request": 0, "data": 0}  # credits that the responder keeps
        self.reply_credits = credits.descriptors
        self.expected_done: dict[str, int] | None = None
        self.expected_read_done: dict[str, int] | None = None
        self.done = self.read_done = 0
        self.answers = False  # each request with its last COMPLETION
        self.clocks = 0

    async def clock(self, *, ask=1.0, reply=1.0, give_request=1.0, give_data=1.0) -> None:
        sender, ctx, rng = self.sender, self.ctx, self.rng
        self._credits(give_request=give_request, give_data=give_data)
        offers = bool(self.requests) and (ctx.get(sender.i.valid) or rng.random() < ask)
        ctx.set(sender.i.valid, offers)
        if self.requests:
            ctx.set(sender.i.payload, self.requests[0])
        self._outputs()
        self._reply(rng.random() < reply)
        if offers and ctx.get(sender.i.ready):
            self.asked.append(self.requests.popleft())
        await ctx.tick()
        self.clocks += 1

    def _credits(self, *, give_request: float, give_data: float) -> None:
        ctx, sender = self.ctx, self.sender
        for port, name, share in (
            (sender.request, "request", give_request),
            (sender.data, "data", give_data),
        ):
            gives = self.held[name] > 0 and self.rng.random() < share
            ctx.set(port.credit, gives)
            self.held[name] -= gives
        self.reply_credits += ctx.get(sender.reply.credit)
        assert self.reply_credits <= self.credits.descriptors

    def _reply(self, sends: bool) -> None:
        ctx, port = self.ctx, self.sender.reply
        sends = bool(sends and self.replies and self.reply_credits)
        ctx.set(port.valid, sends)
        self.expected_done = self.expected_read_done = None
        if not sends:
            return
        self.reply_credits -= 1
        header = self.replies.popleft()
        ctx.set(port.header, header)
        if header["message_class"] == MessageClass.GRANT:
            self.grants.append((header["tag"], header["page"], header["credit"]))
        elif header["message_class"] == MessageClass.READ_DATA:
            self.expected_read_done = {name: header[name] for name in ("tag", "status")}
        else:
            fields = ("operation", "tag", "page", "status")
            self.expected_done = {name: header[name] for name in fields}
            self.expected_done["last"] = header["chunk_end"]

    def _outputs(self) -> None:
        ctx, sender = self.ctx, self.sender
        if ctx.get(sender.request.valid):
            h, want = ctx.get(sender.request.header), self.asked.pop(0)
            assert h.message_class == MessageClass.REQUEST
            found = {
                "first": h.address / 4,
                "pages": h.length / 4,
                "tag": h.tag,
                "operation": h.operation,
                "owner": h.owner,
                "relocated": h.relocated,
            }
            assert found == want
            if self.answers:
                self.replies.append(completion(h.tag))
            self.held["request"] += 1
            assert self.held["request"] <= self.credits.writes
        assert not self.asked  # a request leaves one clock after it was accepted

        self._done(ctx.get(sender.done))
        read_done = ctx.get(sender.read_done)
        assert read_done.valid == (self.expected_read_done is not None)
        if self.expected_read_done is not None:
            found = {name: read_done[name] for name in self.expected_read_done}
            assert found == self.expected_read_done
            self.read_done += 1

        # The memory answers one clock after it is asked, with words that tell who was asked for.
        if self.fetched is not None:
            set_lanes(ctx, SimpleNamespace(lanes=sender.fetch_lanes), self.fetched)
        fetch = ctx.get(sender.fetch)
        asked = (fetch.tag << 14 | fetch.page << 2 | fetch.beat) if fetch.valid else None
        sent = ctx.get(sender.data.valid)
        assert sent == (self.fetched is not None)
        if sent:
            self._beat()
        else:
            assert self.page is None, "a gap within a page"
        self.fetched = asked

    def _done(self, done: Any) -> None:
        assert done.valid == (self.expected_done is not None)
        if self.expected_done is not None:
            assert {name: done[name] for name in self.expected_done} == self.expected_done
            self.done += 1

    def _beat(self) -> None:
        h = self.ctx.get(self.sender.data.header)
        grant, beat = self.page or (self.grants.popleft(), 0)
        assert (h.tag, h.page, h.credit) == grant
        assert (h.message_class, h.beat, h.page_end) == (MessageClass.WRITE_DATA, beat, beat == 3)
        assert get_lanes(self.ctx, self.sender.data) == (h.tag << 14 | h.page << 2 | beat)
        self.page = (grant, beat + 1) if beat < 3 else None
        self.beats.append((self.clocks, grant, beat))
        self.held["data"] += 1
        assert self.held["data"] <= self.credits.rx_beats


def run(
    scenario: Any, *, clocks: int, rate: int = RATE_ONE, seed: int = 0, machine: Machine = TINY
) -> None:
    sender = WriteSender(machine)

    async def bench(ctx: Any) -> None:
        await scenario(Ends(sender, ctx, machine.credits, rate=rate, seed=seed))

    simulate(sender, bench, clocks=clocks)


def grant(tag: int, page: int, token: int) -> dict[str, int]:
    return {"message_class": MessageClass.GRANT, "tag": tag, "page": page, "credit": token}


def end_of_read(tag: int, *, status: int) -> dict[str, int]:
    return {"message_class": MessageClass.READ_DATA, "tag": tag, "status": status}


def completion(tag: int, *, page: int = 0, status: int = 0, last: int = 1) -> dict[str, int]:
    return {
        "message_class": MessageClass.COMPLETION,
        "operation": Operation.WRITE,
        "tag": tag,
        "page": page,
        "status": status,
        "chunk_end": last,
    }


SHARES = {
    "eager": {},
    "slow link": {"give_data": 0.15},
    "slow responder": {"give_request": 0.05, "reply": 0.2},
    "all": {"ask": 0.3, "give_data": 0.6, "give_request": 0.4, "reply": 0.5},
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_random_traffic(shares: dict[str, float], seed: int) -> None:
    rng = random.Random(seed)
    print(f"seed {seed}")

    async def scenario(ends: Ends) -> None:
        ends.answers = True
        for _ in range(40):
            ends.requests.append(
                {
                    "first": rng.randrange(256),
                    "pages": rng.choice([1, 256, 4096, rng.randrange(1, 4097)]),
                    "tag": rng.getrandbits(12),
                    "operation": rng.choice([1, 2, 3]),
                    "owner": rng.choice(list(Owner)),
                    "relocated": rng.getrandbits(1),
                }
            )
        grants = completions = reads = 0
        for _ in range(120):
            tag, page = rng.getrandbits(12), rng.getrandbits(12)
            if rng.random() < 0.7:
                grants += 1
                ends.replies.append(grant(tag, page, rng.getrandbits(16)))
            elif rng.random() < 0.3:
                reads += 1
                ends.replies.append(end_of_read(tag, status=rng.getrandbits(3)))
            else:
                completions += 1
                status, last = rng.getrandbits(3), rng.getrandbits(1)
                ends.replies.append(completion(tag, page=page, status=status, last=last))
        while ends.requests or ends.replies or ends.grants:
            await ends.clock(**shares)
        for _ in range(40):
            await ends.clock()
        assert len(ends.beats) == 4 * grants
        assert (ends.done, ends.read_done) == (40 + completions, reads)
        assert ends.held == {"request": 0, "data": 0}
        assert ends.reply_credits == ends.credits.descriptors

    run(scenario, clocks=8000, seed=seed)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_completions_pass_grants_that_wait_for_the_link(machine: Machine) -> None:
    """While the link is shut, grants come up to one below the reply credits, completions go on."""

    async def scenario(ends: Ends) -> None:
        pages = ends.credits.rx_beats // 4 + ends.credits.descriptors - 1
        ends.replies.extend(grant(5, page, page) for page in range(pages))
        for _ in range(60):
            await ends.clock(give_data=0)
        assert len(ends.beats) == ends.credits.rx_beats
        assert ends.reply_credits == 1
        ends.replies.extend(completion(tag) for tag in range(20))
        for _ in range(60):
            await ends.clock(give_data=0)
        assert ends.done == 20
        assert len(ends.beats) == ends.credits.rx_beats
        while ends.grants:
            await ends.clock()

    run(scenario, clocks=500, machine=machine)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_as_many_grants_in_a_row_as_there_are_credits(machine: Machine) -> None:
    async def scenario(ends: Ends) -> None:
        for burst in range(3):
            pages = ends.credits.descriptors
            ends.replies.extend(grant(burst, page, page) for page in range(pages))
            for _ in range(pages):
                await ends.clock()
            assert not ends.replies
            for _ in range(8 * pages + 20):
                await ends.clock()
            assert len(ends.beats) == 4 * pages * (burst + 1)

    run(scenario, clocks=500, machine=machine)


@pytest.mark.parametrize("phase", range(4))
def test_latency_of_a_page_and_of_a_completion(phase: int) -> None:
    async def scenario(ends: Ends) -> None:
        for _ in range(8 + phase):
            await ends.clock()
        ends.replies.append(grant(1, 2, 3))
        granted = ends.clocks
        for _ in range(20):
            await ends.clock()
        # Fetch 3 to 6 clocks after the grant, in the clock that begins a frame.
        fetch = granted + 3 + (-(granted + 3)) % 4
        assert [clock for clock, *_ in ends.beats] == [fetch + 1 + beat for beat in range(4)]

    run(scenario, clocks=100)


@pytest.mark.parametrize("rate", [RATE_ONE, 51_200, 32_768, 6_554])
def test_pages_come_at_the_rate_of_the_link(rate: int) -> None:
    """Evenly: after any number of frames the share of them to within one page."""

    async def scenario(ends: Ends) -> None:
        for _ in range(60):  # what the pacer saved at rest is one page
            await ends.clock()
        ends.replies.extend(grant(1, page, page) for page in range(60))
        while not ends.beats:
            await ends.clock()
        begin = ends.beats[0][0]
        while ends.clocks < begin + 160:
            await ends.clock()
        for frames in range(1, 40):
            sent = sum(1 for clock, *_ in ends.beats if clock < begin + 4 * frames) / 4
            assert abs(sent - frames * rate / RATE_ONE) <= 1.001
        if rate == RATE_ONE:
            assert [clock for clock, *_ in ends.beats[:156]] == list(range(begin, begin + 156))

    run(scenario, clocks=400, rate=rate)


@pytest.mark.parametrize("name", ["formal", "mini", "paper"])
def test_converts(name: str) -> None:
    rtlil.convert(WriteSender(preset(name)))
