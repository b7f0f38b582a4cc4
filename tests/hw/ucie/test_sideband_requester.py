# amaranth: UnusedElaboratable=no
"""Accesses against a completer in plain Python that answers in any order, late, or never."""

import random
from dataclasses import dataclass

import pytest

from hw.ucie.sideband_packet import TAGS
from hw.ucie.sideband_requester import AccessStatus, SidebandRequester
from tests.hw.pysim import simulate
from tests.hw.ucie.sideband import COMPLETION, REQUEST, checked, fields_of, header_of

TIMEOUT = 60
ENDS = {"identity": 2, "destination": 5}


@dataclass
class Open:
    """An access that has no response yet."""

    access: dict
    since: int
    answer: tuple[int, int] | None = None  # status and data that it must end with
    came: int = 0


class Bench:
    """Drives all sides of a requester and holds it to its promises."""

    def __init__(self, seed=1, *, tags=4, credits=3, timeout=TIMEOUT):
        self.dut = SidebandRequester(tags=tags, credits=credits, timeout=timeout, **ENDS)
        self.pick = random.Random(seed)
        self.tags, self.credits, self.timeout = tags, credits, timeout
        self.now, self.accepted, self.ended = 0, 0, 0
        self.open: dict[int, Open] = {}
        self.quarantine: dict[int, int] = {}  # tag: begin of its access, ended as TIMEOUT
        self.requests: list[tuple[int, dict, int]] = []  # clock, fields, data
        self.answers: list[tuple[int, int, int]] = []  # clock, header, data
        self.statuses: list[AccessStatus] = []

    def access(self):
        pick = self.pick
        return {
            "write": pick.randrange(2),
            "wide": pick.randrange(2),
            "config": pick.randrange(2),
            "address": pick.getrandbits(24),
            "be": pick.getrandbits(8),
            "data": pick.getrandbits(64),
        }

    async def clock(self, ctx, *, access=None, ready=True, response=True, packet=None, up=True):
        dut = self.dut
        ctx.set(dut.up, up)
        ctx.set(dut.access.valid, access is not None)
        if access is not None:
            ctx.set(dut.access.payload, access)
        ctx.set(dut.o.ready, ready)
        ctx.set(dut.response.ready, response)
        ctx.set(dut.i.valid, packet is not None)
        if packet is not None:
            ctx.set(dut.i.packet, {"header": packet[0], "data": packet[1]})
            self.comes(packet)
        taken = access is not None and ctx.get(dut.access.ready)
        if taken:
            tag = ctx.get(dut.tag)
            assert tag < self.tags and tag not in self.open, "no tag twice"
            if tag in self.quarantine:
                assert self.now - self.quarantine.pop(tag) >= 2 * self.timeout, "quarantine"
            self.open[tag] = Open(access, self.now)
            self.accepted += 1
        if ready and ctx.get(dut.o.valid):
            got = ctx.get(dut.o.payload)
            self.requests.append((self.now, fields_of(REQUEST, got.header), got.data))
        if response and ctx.get(dut.response.valid):
            self.ends(ctx.get(dut.response.payload))
        assert ctx.get(dut.credits) <= self.credits
        await ctx.tick()
        self.now += 1
        return bool(taken)

    def comes(self, packet):
        """A packet arrives; if it ends an access, the response must say so."""
        fields = fields_of(COMPLETION, packet[0])
        tag, status = fields["tag"], fields["status"]
        if fields["dstid"] != ENDS["identity"]:
            return
        if tag in self.quarantine:
            del self.quarantine[tag]
        elif tag in self.open and self.open[tag].answer is None:
            self.open[tag].answer, self.open[tag].came = (status, packet[1]), self.now

    def ends(self, response):
        entry = self.open.pop(response.tag)
        self.ended += 1
        status = AccessStatus(response.status)
        self.statuses.append(status)
        if status is AccessStatus.TIMEOUT:
            assert response.data == 0
            assert self.timeout <= self.now - entry.since
            if entry.answer is None:
                self.quarantine[response.tag] = entry.since
            else:  # the completion came while the response waited
                assert self.timeout <= entry.came - entry.since
        else:
            assert entry.answer == (status, response.data)

    def completion(self, fields, *, status=0, data=None, **changes):
        """What a completer sends back for a request with these fields."""
        wide, write = fields["opcode"] >> 3 & 1, fields["opcode"] & 1
        if data is None:
            data = self.pick.getrandbits(64 if wide else 32)
        opcode = 0b10000 if write else 0b11001 if wide else 0b10001
        if status:
            opcode, data = self.pick.choice([(0b10000, 0), (0b11001, self.pick.getrandbits(64))])
        data = 0 if opcode == 0b10000 else data
        values = {"opcode": opcode, "tag": fields["tag"], "be": fields["be"], "status": status}
        values |= {"dstid": fields["srcid"], "srcid": fields["dstid"], "cr": 1} | changes
        return checked(header_of(COMPLETION, **values), data), data


def test_requests_are_those_asked_for():
    bench = Bench(tags=TAGS, credits=32)

    async def drive(ctx):
        asked = []
        await bench.clock(ctx)
        await bench.clock(ctx)
        while len(asked) < 32:
            access = bench.access()
            before = bench.now
            assert await bench.clock(ctx, access=access)
            asked.append((before + 1, access))
        for _ in range(3):
            await bench.clock(ctx)
        for tag, ((sent, fields, data), (clock, access)) in enumerate(
            zip(bench.requests, asked, strict=True)
        ):
            opcode = access["wide"] << 3 | access["config"] << 2 | access["write"]
            be = access["be"] if access["wide"] else access["be"] & 15
            expected = {"opcode": opcode, "ep": 0, "be": be, "tag": tag, "srcid": 2, "dstid": 5}
            assert {name: fields[name] for name in expected} == expected
            assert fields["address"] == access["address"]
            assert data == (access["data"] if access["write"] else 0)
            assert sent == clock, "one clock later"

    simulate(bench.dut, drive, clocks=100)


@pytest.mark.parametrize("losses", [0.0, 0.2], ids=["nothing lost", "lost and late"])
@pytest.mark.parametrize(("tags", "credits"), [(4, 3), (4, 4), (3, 8), (1, 1)])
def test_every_access_ends_once_with_what_came(tags, credits, losses):
    bench = Bench(tags * 10 + credits, tags=tags, credits=credits)
    accesses = 120

    async def drive(ctx):
        pick, seen, access, coming = bench.pick, 0, None, []
        while bench.ended < accesses or not ctx.get(bench.dut.idle):
            if access is None and bench.accepted < accesses and pick.random() < 0.7:
                access = bench.access()
            due = [entry for entry in coming if entry[0] <= bench.now]
            packet = pick.choice(due) if due and pick.random() < 0.8 else None
            if packet:
                coming.remove(packet)
            if await bench.clock(
                ctx,
                access=access,
                ready=pick.random() < 0.6,
                response=pick.random() < 0.6,
                packet=packet and packet[1],
            ):
                access = None
            for clock, fields, _ in bench.requests[seen:]:
                late = pick.random() < losses
                if late and pick.random() < 0.5:
                    continue  # lost, one way or the other
                delay = (
                    pick.randrange(TIMEOUT - 10, 2 * TIMEOUT - 20) if late else pick.randrange(25)
                )
                status = pick.choice([0, 0, 0, 1, 4])
                coming.append((clock + delay, bench.completion(fields, status=status)))
            seen = len(bench.requests)
        for _ in range(2):
            await bench.clock(ctx)
        assert ctx.get(bench.dut.credits) == credits
        assert ctx.get(bench.dut.unexpected) == 0

    simulate(bench.dut, drive, clocks=60_000)
    assert bench.accepted == bench.ended == len(bench.requests) == accesses
    assert (AccessStatus.TIMEOUT in bench.statuses) == (losses > 0)
    assert {0, 1, 4} <= {int(status) for status in bench.statuses}


@pytest.mark.parametrize("phase", range(0, 30, 5))
@pytest.mark.parametrize("late", [None, 10, 50])
def test_a_silent_completer_ends_in_a_timeout_and_a_quarantine(late, phase):
    """-0/+50 % each; the late completion ends the quarantine at once and gives the credit back."""
    bench = Bench(tags=1, credits=1)

    async def drive(ctx):
        for _ in range(phase + 2):
            await bench.clock(ctx)
        begin = bench.now
        assert await bench.clock(ctx, access=bench.access())
        while not bench.ended:
            assert ctx.get(bench.dut.credits) == 0
            await bench.clock(ctx)
        end = bench.now
        assert TIMEOUT <= end - begin <= TIMEOUT * 3 // 2 + 5
        if late is not None:
            for _ in range(late):
                assert not await bench.clock(ctx, access=bench.access())
            await bench.clock(ctx, packet=bench.completion(bench.requests[0][1]))
        waits = 0
        while not await bench.clock(ctx, access=bench.access()):
            waits += 1
        free = bench.now - 1 - end
        if late is None:
            assert TIMEOUT <= free <= TIMEOUT * 3 // 2 + 5
        else:
            assert waits == 0
        assert ctx.get(bench.dut.unexpected) == 0

    simulate(bench.dut, drive, clocks=1000)
    assert bench.statuses == [AccessStatus.TIMEOUT]


def test_a_packet_that_waits_for_the_line_does_not_age():
    bench = Bench(tags=2, credits=2)

    async def drive(ctx):
        await bench.clock(ctx)
        await bench.clock(ctx)
        assert await bench.clock(ctx, access=bench.access(), ready=False)
        for _ in range(5 * TIMEOUT):
            await bench.clock(ctx, ready=False)
        assert not bench.ended
        begin = bench.now
        while not bench.ended:
            await bench.clock(ctx)
        assert TIMEOUT <= bench.now - begin <= TIMEOUT * 3 // 2 + 5

    simulate(bench.dut, drive, clocks=1000)


READ_64 = {"write": 0, "wide": 1, "config": 0, "address": 8, "be": 255, "data": 0}
STRANGERS = {
    "another tag": {"tag": 1},
    "a tag that does not exist": {"tag": 9},
    "another destination": {"dstid": 3},
    "too short": {"opcode": 0b10001},
    "no data": {"opcode": 0b10000},
    "a request": {"opcode": 0b01000},
    "a message": {"opcode": 0b10010},
    "a stall": {"status": 7},
    "a refusal of the wrong length": {"status": 1, "opcode": 0b10001},
}


@pytest.mark.parametrize("change", STRANGERS.values(), ids=STRANGERS)
def test_what_completes_nothing_is_dropped_and_counted(change):
    bench = Bench(tags=4, credits=2)

    async def drive(ctx):
        await bench.clock(ctx)
        await bench.clock(ctx)
        assert await bench.clock(ctx, access=READ_64)
        await bench.clock(ctx)
        fields = bench.requests[0][1]
        right = bench.completion(fields, data=5)
        values = fields_of(COMPLETION, right[0]) | change
        wrong = checked(header_of(COMPLETION, **values), 5), 5
        bench.comes = lambda packet: None
        await bench.clock(ctx, packet=wrong)
        for _ in range(3):
            await bench.clock(ctx)
        assert not bench.ended
        assert ctx.get(bench.dut.credits) == 1
        assert ctx.get(bench.dut.unexpected) == 1
        del bench.comes
        await bench.clock(ctx, packet=right)
        await bench.clock(ctx)
        await bench.clock(ctx)
        assert bench.statuses == [AccessStatus.SUCCESS], "two clocks later"
        assert ctx.get(bench.dut.credits) == 2

    simulate(bench.dut, drive, clocks=100)


def test_nothing_happens_while_the_link_is_down():
    bench = Bench(tags=4, credits=4)

    async def drive(ctx):
        dut = bench.dut
        for _ in range(3):
            assert not await bench.clock(ctx, access=bench.access(), up=False)
            assert ctx.get(dut.credits) == 0
        assert not await bench.clock(ctx, access=bench.access())
        assert ctx.get(dut.credits) == 4
        for _ in range(4):
            assert await bench.clock(ctx, access=bench.access())
        await bench.clock(ctx)
        packet = bench.completion(bench.requests[0][1])
        bench.timeout = 0  # they end before their time
        await bench.clock(ctx, up=False)
        bench.comes = lambda packet: None
        await bench.clock(ctx, up=False, packet=packet)
        for _ in range(12):
            await bench.clock(ctx, up=False)
            assert ctx.get(dut.credits) == 0
        assert bench.statuses == [AccessStatus.TIMEOUT] * 4
        assert ctx.get(dut.idle)
        await bench.clock(ctx)
        assert ctx.get(dut.credits) == 4
        for _ in range(4):
            assert await bench.clock(ctx, access=bench.access())

    simulate(bench.dut, drive, clocks=100)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"tags": 0}, "tags must be 1 to 32"),
        ({"tags": 33}, "tags must be 1 to 32"),
        ({"credits": 0}, "at least one"),
        ({"timeout": 1}, "at least two clocks"),
        ({"identity": 8}, "cannot be 8"),
    ],
)
def test_sizes_that_cannot_work_are_refused(sizes, words):
    with pytest.raises(ValueError, match=words):
        SidebandRequester(**sizes)
