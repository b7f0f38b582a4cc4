# amaranth: UnusedElaboratable=no
"""Requests against a register port in plain Python that takes its time."""

import random
from collections import deque

import pytest

from hw.ucie.sideband_completer import SidebandCompleter
from tests.hw.pysim import simulate
from tests.hw.ucie.sideband import COMPLETION, OPCODES, REQUEST, checked, fields_of, header_of

IDENTITY, ASKER = 5, 2


class Bench:
    """Drives all sides of a completer; the port holds words at some addresses, in order."""

    def __init__(self, seed=1, *, credits=4, delays=(1,)):
        self.dut = SidebandCompleter(credits=credits, identity=IDENTITY)
        self.pick, self.delays = random.Random(seed), delays
        self.words = {4 * k: self.pick.getrandbits(32) for k in range(8)}
        self.read_only = {8, 20}
        self.now = self.overflows = 0
        self.accesses: list[tuple[int, int, int, int]] = []  # clock, write, address, data
        self.answer: tuple[int, int, int] | None = None  # clock, data, error
        self.sent: list[tuple[int, int, int]] = []  # clock, header, data

    def port(self, words, write, address, data):
        """What the port does and answers."""
        if address not in words or (write and address in self.read_only):
            return 0, 1
        if write:
            words[address] = data
            return 0, 0
        return words[address], 0

    async def clock(self, ctx, packet=None, *, ready=True, up=True):
        dut, request, response = self.dut, self.dut.port.request, self.dut.port.response
        ctx.set(dut.up, up)
        ctx.set(dut.i.valid, packet is not None)
        if packet is not None:
            ctx.set(dut.i.packet, {"header": packet[0], "data": packet[1]})
        ctx.set(dut.o.ready, ready)
        answers = self.answer is not None and self.answer[0] == self.now
        ctx.set(response.valid, answers)
        ctx.set(response.data, self.answer[1] if answers else self.pick.getrandbits(32))
        ctx.set(response.error, self.answer[2] if answers else self.pick.randrange(2))
        if answers:
            self.answer = None
        if ctx.get(request.valid):
            assert self.answer is None, "one access at a time"
            asked = tuple(ctx.get(getattr(request, n)) for n in ("write", "address", "data"))
            self.accesses.append((self.now, *asked))
            self.answer = (self.now + self.pick.choice(self.delays), *self.port(self.words, *asked))
        if ready and ctx.get(dut.o.valid):
            got = ctx.get(dut.o.payload)
            self.sent.append((self.now, got.header, got.data))
        self.overflows += ctx.get(dut.overflow)
        await ctx.tick()
        self.now += 1

    def expected(self, words, header, data):
        """Header and data of the completion of a request, and what it does to the words."""
        f = fields_of(REQUEST, header)
        write, wide = f["opcode"] & 1, f["opcode"] >> 3 & 1
        size, all_bytes = (8, 0xFF) if wide else (4, 0xF)
        good = f["dstid"] == IDENTITY and not f["opcode"] & 4 and not (write and f["ep"])
        good = good and f["address"] % size == 0 and f["be"] & all_bytes == all_bytes
        status, result = (0, 0) if good else (1, 0)
        for half in range(1 + wide if good else 0):
            word = data >> 32 * half & 0xFFFFFFFF
            got, error = self.port(words, write, f["address"] + 4 * half, word)
            if error:
                status = 4 if half else 1
                break
            result |= got << 32 * half
        opcode = 0b10000 if write else 0b11001 if wide else 0b10001
        if status:
            opcode, result = 0b11001, header
        values = {"opcode": opcode, "be": f["be"], "tag": f["tag"], "status": status, "cr": 1}
        values |= {"srcid": IDENTITY, "dstid": f["srcid"]}
        return header_of(COMPLETION, **values), 0 if write and not status else result

    def request(self):
        pick = self.pick
        opcode = pick.choice([0b00000, 0b00001, 0b01000, 0b01001] * 4 + [0b00100, 0b01101])
        wide = opcode >> 3 & 1
        address = pick.choice([pick.randrange(0, 40, 8 if wide else 4)] * 6 + [pick.randrange(40)])
        be = pick.choice([0xFF if wide else 0xF] * 8 + [pick.getrandbits(8)])
        values = {"opcode": opcode, "tag": pick.randrange(32), "address": address, "be": be}
        values |= {"srcid": ASKER, "dstid": pick.choice([IDENTITY] * 9 + [0])}
        values |= {"ep": pick.random() < 0.1}
        data = pick.getrandbits(OPCODES[opcode]) if OPCODES[opcode] else 0
        return checked(header_of(REQUEST, **values), data), data


@pytest.mark.parametrize("delays", [(1,), (2,), (1, 2, 3, 9, 40)], ids=["1", "2", "any"])
@pytest.mark.parametrize("credits", [1, 2, 5])
def test_each_request_is_answered_once_in_order(credits, delays):
    bench = Bench(10 * credits + len(delays), credits=credits, delays=delays)
    words, waiting, asked = dict(bench.words), deque(), []

    async def drive(ctx):
        held, answered = credits, 0
        while len(asked) < 150 or waiting:
            packet = None
            if len(asked) < 150 and held and bench.pick.random() < 0.5:
                packet = bench.request()
                asked.append(packet)
                waiting.append(bench.expected(words, *packet))
                held -= 1
            await bench.clock(ctx, packet, ready=bench.pick.random() < 0.4)
            for _, header, data in bench.sent[answered:]:
                assert (header, data) == waiting.popleft()
                held += header >> 61 & 1
            answered = len(bench.sent)
        assert bench.overflows == 0
        assert held == credits
        assert ctx.get(bench.dut.dropped) == 0

    simulate(bench.dut, drive, clocks=20_000)
    assert bench.words == words
    statuses = [fields_of(COMPLETION, header)["status"] for _, header, _ in bench.sent]
    assert set(statuses) == {0, 1, 4}


def order(address, *, opcode=0b01000, **more):
    values = {"opcode": opcode, "tag": 3, "address": address, "be": 0xFF} | more
    return header_of(REQUEST, srcid=ASKER, dstid=IDENTITY, **values), 0x1_0000_0002


@pytest.mark.parametrize(("opcode", "clocks"), [(0b00000, 6), (0b01000, 9), (0b01001, 9)])
def test_latency_over_a_port_of_two_clocks(opcode, clocks):
    bench = Bench(delays=(2,))

    async def drive(ctx):
        await bench.clock(ctx)
        begin = bench.now
        await bench.clock(ctx, order(24, opcode=opcode))
        while not bench.sent:
            await bench.clock(ctx)
        assert bench.sent[0][0] - begin == clocks

    simulate(bench.dut, drive, clocks=50)


def test_wide_accesses_take_the_low_word_first():
    bench = Bench(delays=(2,))

    async def drive(ctx):
        await bench.clock(ctx)
        await bench.clock(ctx, order(24, opcode=0b01000))
        await bench.clock(ctx, order(24, opcode=0b01001))
        while len(bench.sent) < 2:
            await bench.clock(ctx)

    simulate(bench.dut, drive, clocks=50)
    assert [a[1:3] for a in bench.accesses] == [(0, 24), (0, 28), (1, 24), (1, 28)]
    assert [a[3] for a in bench.accesses[2:]] == [2, 1]


def test_more_requests_than_credits_are_dropped_and_counted():
    bench = Bench(credits=4, delays=(30,))

    async def drive(ctx):
        await bench.clock(ctx)
        for tag in range(8):  # one is at work, four wait
            await bench.clock(ctx, order(24, tag=tag))
        for _ in range(400):
            await bench.clock(ctx)
        assert ctx.get(bench.dut.dropped) == bench.overflows == 8 - len(bench.sent) == 3
        assert [fields_of(COMPLETION, h)["tag"] for _, h, _ in bench.sent] == [0, 1, 2, 3, 4]

    simulate(bench.dut, drive, clocks=1000)


def test_what_is_no_request_is_dropped_and_counted():
    bench = Bench()
    strangers = [opcode for opcode in range(32) if OPCODES.get(opcode) is None or opcode >= 16]

    async def drive(ctx):
        await bench.clock(ctx)
        for opcode in strangers:
            await bench.clock(ctx, (opcode, 0))
        for _ in range(20):
            await bench.clock(ctx)
        assert ctx.get(bench.dut.dropped) == len(strangers) == 24

    simulate(bench.dut, drive, clocks=100)
    assert bench.sent == bench.accesses == []


@pytest.mark.parametrize("fall", range(12))
def test_what_waits_when_the_link_goes_down_is_forgotten(fall):
    """At whatever point: the port is never asked twice at once, and no old answer comes."""
    bench = Bench(delays=(3,))

    async def drive(ctx):
        await bench.clock(ctx)
        for tag in range(3):
            await bench.clock(ctx, order(24, tag=tag), ready=False)
        for _ in range(fall):
            await bench.clock(ctx, ready=False)
        await bench.clock(ctx, up=False)
        await bench.clock(ctx, order(24, tag=9), up=False)
        await bench.clock(ctx, order(24, tag=7))
        for _ in range(30):
            await bench.clock(ctx)
        assert [fields_of(COMPLETION, h)["tag"] for _, h, _ in bench.sent] == [7]

    simulate(bench.dut, drive, clocks=200)


@pytest.mark.parametrize(
    ("sizes", "words"), [({"credits": 0}, "at least one"), ({"identity": 8}, "cannot be 8")]
)
def test_sizes_that_cannot_work_are_refused(sizes, words):
    with pytest.raises(ValueError, match=words):
        SidebandCompleter(**sizes)
