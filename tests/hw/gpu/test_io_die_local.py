# amaranth: UnusedElaboratable=no
"""GPU I/O die with HBM stacks: local accesses beside relayed reads, two pairs."""

import random
from collections import Counter, deque

import pytest

from hw.gpu.io_die import GpuIoDie
from hw.gpu.router import Choice
from hw.ucie.pacer import RATE_ONE
from hw.ucie.transaction import MessageClass, Operation, Status
from hw.ucie.ucie_end import QUIET_CLOCKS
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.gpu.local_bench import FEW, NARROW, WIDE, pieces
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

PAIRS, RX_BEATS = 2, TINY.credits.rx_beats
PAGE_UNITS = WIDE.geometry.page_bytes // 64


class Bench:
    """Requests and beats of writes are taken at once; what is over is kept."""

    def __init__(self, dut: GpuIoDie, ctx):
        self.dut, self.ctx, self.clock = dut, Quiet(ctx), 0
        self.over: dict[str, list] = {
            name: [] for name in ("direct", "relay", "write", "local", "local_write")
        }  # of each: pair, tag, status
        self.overdue = Counter()  # by name, pair, slot and tag
        self.slots: dict[str, list] = {}  # of requests, by port: pair, tag of the header
        self.credits = [RX_BEATS] * PAIRS
        ctx.set(dut.window, 1000)
        ctx.set(dut.local_window, 1000)
        ctx.set(dut.link_rate, RATE_ONE)
        for pair in range(PAIRS):
            for out in (dut.direct_o, dut.relay_o, dut.local_o):
                ctx.set(out[pair].ready, 1)

    async def step(self) -> None:
        ctx, dut = self.ctx, self.dut
        for port in ("direct_request", "relay_request", "direct_write", "relay_local"):
            for pair, request in enumerate(getattr(dut, port)):
                ctx.set(request.credit, ctx.get(request.valid))
                if ctx.get(request.valid):
                    kept = self.slots.setdefault(port, [])
                    kept.append((pair, ctx.get(request.header).tag))
        for pair in range(PAIRS):
            ctx.set(dut.relay_in[pair].credit, ctx.get(dut.relay_in[pair].valid))
            self.credits[pair] += ctx.get(dut.relay_data[pair].credit)
            assert self.credits[pair] <= RX_BEATS
        for name, over in self.over.items():
            dones, overdues = getattr(dut, f"{name}_done"), getattr(dut, f"{name}_overdue")
            by_pair = name in ("write", "local", "local_write")
            for pair in range(PAIRS if by_pair else 1):
                done = ctx.get(dones[pair] if by_pair else dones)
                if done.valid:
                    over.append((pair, done.tag, Status(done.status)))
                late = ctx.get(overdues[pair] if by_pair else overdues)
                if late.valid:
                    self.overdue[name, pair, late.slot, late.tag] += 1
        await ctx.tick()
        self.clock += 1

    async def steps(self, clocks: int) -> None:
        for _ in range(clocks):
            await self.step()

    async def ask(self, port, **fields: int) -> None:
        self.ctx.set(port.payload, fields)
        self.ctx.set(port.valid, 1)
        assert self.ctx.get(port.ready)
        await self.step()
        self.ctx.set(port.valid, 0)
        await self.steps(3)

    async def beat(self, pair: int, number: int, **header: int) -> None:
        """Of link B."""
        port = self.dut.relay_data[pair]
        assert self.credits[pair]
        self.credits[pair] -= 1
        self.ctx.set(port.header, header)
        set_lanes(self.ctx, port, number)
        self.ctx.set(port.valid, 1)
        await self.step()
        self.ctx.set(port.valid, 0)

    async def reply(self, port, **header: int) -> None:
        self.ctx.set(port.header, header)
        self.ctx.set(port.valid, 1)
        await self.step()
        self.ctx.set(port.valid, 0)
        await self.steps(4)

    def lose(self, pair: int, *, lost: int = 1, quiet: int = 0) -> None:
        self.ctx.set(self.dut.relay_reset[pair].lost, lost)
        self.ctx.set(self.dut.relay_reset[pair].quiet, quiet)

    def settled(self, pair: int) -> bool:
        return bool(self.ctx.get(self.dut.relay_reset[pair].settled))


LOCAL = {"message_class": MessageClass.READ_DATA}
RELAY = {"message_class": MessageClass.RELAY_DATA}


def run(scenario, *, clocks: int = 600) -> None:
    dut = GpuIoDie(TINY, pairs=PAIRS, direct=True, relay=True, hbm=NARROW)

    async def bench(ctx):
        await scenario(Bench(dut, ctx))

    simulate(dut, bench, clocks=clocks)


@pytest.mark.parametrize(("seed", "stall"), [(1, 0.1), (2, 0.6)])
def test_local_and_relayed_reads_share_links_and_mix_in_no_way(seed, stall):
    """Beats of both kinds alternate at random in one pool of credits; each finds its place."""
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = GpuIoDie(WIDE, pairs=PAIRS, direct=False, relay=True, hbm=FEW)
    wanted = 8  # reads of each kind

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.window, 1000)
        ctx.set(dut.local_window, 1000)
        relayed, asked, done = 0, [0] * PAIRS, Counter()
        streams = [[] for _ in range(PAIRS)]  # of each open read a queue of beats
        tags = [[] for _ in range(PAIRS)]
        due = [{"relay": deque(), "local": deque()} for _ in range(PAIRS)]
        credits, number = [RX_BEATS] * PAIRS, 0
        while done["relay"] < wanted or done["local"] < PAIRS * wanted:
            ctx.set(dut.i.valid, relayed < wanted)
            ctx.set(dut.i.payload, {"first": relayed, "pages": 2, "tag": relayed, "choice": 1})
            relayed += relayed < wanted and ctx.get(dut.i.ready)
            for pair in range(PAIRS):
                local = dut.local[pair]
                ctx.set(local.valid, asked[pair] < wanted)
                address = (7 * asked[pair] + pair) % 19
                request = {"address": address, "length": 13, "tag": 100 + asked[pair]}
                ctx.set(local.payload, request)
                asked[pair] += asked[pair] < wanted and ctx.get(local.ready)
                for port in (dut.relay_request[pair], dut.relay_local[pair]):
                    ctx.set(port.credit, ctx.get(port.valid))
                request = ctx.get(dut.relay_request[pair].header)
                if ctx.get(dut.relay_request[pair].valid):
                    first = request.address // PAGE_UNITS
                    beats = deque()
                    for page in range(2):
                        for k in range(4):
                            header = {**RELAY, "tag": request.tag, "page": page, "beat": k}
                            header["page_end"] = k == 3
                            place = (first + page) * PAGE_UNITS + 4 * k
                            beats.append(("relay", header, (place, first)))
                    streams[pair].append(beats)
                request = ctx.get(dut.relay_local[pair].header)
                if ctx.get(dut.relay_local[pair].valid):
                    tag = 100 + len(tags[pair])
                    tags[pair].append(tag)
                    streams[pair].append(
                        deque(
                            ("local", {**LOCAL, "tag": request.tag}, (piece.address, tag))
                            for piece in pieces(request.address, request.length, 4)
                        )
                    )
                data, able = dut.relay_data[pair], [beats for beats in streams[pair] if beats]
                sends = bool(able) and credits[pair] and pick.random() < 0.9
                ctx.set(data.valid, bool(sends))
                if sends:
                    kind, header, place = pick.choice(able).popleft()
                    ctx.set(data.header, header)
                    set_lanes(ctx, data, number)
                    due[pair][kind].append((*place, number))
                    number += 1
                    credits[pair] -= 1
                credits[pair] += ctx.get(data.credit)
                assert credits[pair] <= RX_BEATS
                for kind in ("relay", "local"):
                    out = getattr(dut, f"{kind}_o")[pair]
                    ctx.set(out.ready, ready := pick.random() >= stall)
                    if ready and ctx.get(out.valid):
                        shown = ctx.get(out.header)
                        place = (shown.address, shown.tag, get_lanes(ctx, out))
                        assert place == due[pair][kind].popleft()
                done["local"] += ctx.get(dut.local_done[pair]).valid
            done["relay"] += ctx.get(dut.relay_done).valid
            await ctx.tick()

    simulate(dut, bench, clocks=4000)


def test_a_consumer_of_local_data_that_stalls_stalls_its_link_and_no_other():
    async def scenario(bench: Bench) -> None:
        ctx, dut = bench.ctx, bench.dut
        await bench.ask(dut.local[0], address=0, length=1, tag=5)
        await bench.ask(dut.i, first=0, pages=1, tag=9, choice=Choice.RELAY)
        ctx.set(dut.local_o[0].ready, 0)
        await bench.beat(0, 1, **LOCAL)
        for pair in range(PAIRS):
            for k in range(4):
                await bench.beat(pair, 2 + k, **RELAY, beat=k, page_end=k == 3)
        await bench.steps(10)
        assert bench.credits == [RX_BEATS - 5, RX_BEATS]
        assert not bench.over["relay"] and not bench.over["local"]
        ctx.set(dut.local_o[0].ready, 1)
        await bench.steps(12)
        assert bench.credits == [RX_BEATS, RX_BEATS]
        assert bench.over["local"] == [(0, 5, Status.OK)]
        assert bench.over["relay"] == [(0, 9, Status.OK)]

    run(scenario)


@pytest.mark.parametrize(("lost", "whole"), [(0, False), (1, True)])
def test_a_reset_of_link_b_ends_what_its_pair_has_under_way(lost, whole):
    """Behind beats that came, of both kinds; the other pair goes on and the link comes back.

    With ``whole`` the last beats of a relayed read wait behind one of a local read.
    """

    async def scenario(bench: Bench) -> None:
        ctx, dut, other = bench.ctx, bench.dut, 1 - lost
        for pair in range(PAIRS):
            await bench.ask(dut.local[pair], address=0, length=2, tag=5)
            await bench.ask(dut.local_write[pair], address=0, length=2, tag=6)
        await bench.ask(dut.i, first=0, pages=1, tag=9, choice=Choice.RELAY)
        ctx.set(dut.local_o[lost].ready, 0)
        ctx.set(dut.relay_o[lost].ready, 0)
        await bench.beat(lost, 1, **RELAY)
        await bench.beat(lost, 2, **LOCAL)
        for k in range(1, 4 if whole else 2):
            await bench.beat(lost, 2 + k, **RELAY, beat=k, page_end=k == 3)
        bench.lose(lost)
        for port in (dut.local[lost], dut.local_write[lost]):
            ctx.set(port.valid, 1)
            assert not ctx.get(port.ready)
            ctx.set(port.valid, 0)
        await bench.steps(QUIET_CLOCKS)
        bench.lose(lost, quiet=1)
        await bench.steps(10)
        # Nothing ends in front of the beats that came, whichever of them waits.
        assert not bench.settled(lost) and not bench.over["local"]
        ctx.set(dut.relay_o[lost].ready, 1)
        await bench.steps(10)
        assert not bench.settled(lost) and not bench.over["local"]
        ctx.set(dut.local_o[lost].ready, 1)
        await bench.steps(10)
        assert bench.settled(lost) and not bench.settled(other)
        assert bench.over["local"] == [(lost, 5, Status.LINK_RESET)]
        assert bench.over["local_write"] == [(lost, 6, Status.LINK_RESET)]
        assert not bench.over["relay"]  # the other pair has not brought its part
        for k in range(4):
            await bench.beat(other, k, **RELAY, beat=k, page_end=k == 3)
        await bench.steps(8)
        assert bench.over["relay"] == [(0, 9, Status.OK if whole else Status.LINK_RESET)]
        assert not bench.settled(other)  # its local accesses are open still
        for number in range(2):
            await bench.beat(other, number, **LOCAL)
        answer = {"message_class": MessageClass.COMPLETION, "operation": Operation.WRITE}
        await bench.reply(dut.relay_reply[other], **answer)
        assert bench.over["local"][1:] == [(other, 5, Status.OK)]
        assert bench.over["local_write"][1:] == [(other, 6, Status.OK)]
        bench.lose(lost, lost=0)
        await bench.ask(dut.local[lost], address=0, length=1, tag=7)
        await bench.beat(lost, 4, **LOCAL)
        await bench.steps(6)
        assert bench.over["local"][2:] == [(lost, 7, Status.OK)]

    run(scenario)


@pytest.mark.parametrize("timeout", [0, 40])
def test_whatever_is_open_for_too_long_is_reported_once_and_ends_as_always(timeout):
    async def scenario(bench: Bench) -> None:
        ctx, dut = bench.ctx, bench.dut
        ctx.set(dut.timeout, timeout)
        await bench.ask(dut.i, first=0, pages=1, tag=1, choice=Choice.DIRECT)
        await bench.ask(dut.i, first=0, pages=1, tag=2, choice=Choice.RELAY)
        await bench.ask(dut.write, first=0, pages=1, tag=3, operation=Operation.TRIM)
        for pair in range(PAIRS):
            await bench.ask(dut.local[pair], address=0, length=1, tag=4 + pair)
            await bench.ask(dut.local_write[pair], address=0, length=1, tag=6 + pair)
        assert not bench.overdue
        await bench.steps(100)
        late = [("direct", 0, 0, 1), ("relay", 0, 0, 2), ("write", 0, 0, 3), ("write", 1, 0, 3)]
        late += [("local", pair, 0, 4 + pair) for pair in range(PAIRS)]
        late += [("local_write", pair, 0, 6 + pair) for pair in range(PAIRS)]
        assert bench.overdue == Counter(late if timeout else [])
        assert not any(bench.over.values())
        ends = {"message_class": MessageClass.COMPLETION, "chunk_end": 1}
        for pair in range(PAIRS):  # of the same slot as the relayed read, which it does not end
            await bench.reply(dut.relay_reply[pair], **ends, operation=Operation.WRITE)
        assert not bench.over["relay"]
        for pair in range(PAIRS):
            await bench.reply(dut.relay_reply[pair], message_class=MessageClass.READ_DATA)
            await bench.reply(dut.direct_reply[pair], message_class=MessageClass.READ_DATA)
            await bench.reply(dut.direct_reply[pair], **ends, tag=3)
            await bench.beat(pair, 1, **LOCAL)
        await bench.steps(60)
        assert bench.overdue.total() == (len(late) if timeout else 0)
        assert {name: len(over) for name, over in bench.over.items()} == {
            "direct": 1, "relay": 1, "write": 2, "local": 2, "local_write": 2,
        }  # fmt: skip
        for name, many in (("direct", 1), ("relay", 1)):
            count = ctx.get(getattr(dut, f"{name}_overdue")).count
            assert count == (many if timeout else 0)

    run(scenario)


def test_stacks_need_link_b():
    with pytest.raises(ValueError, match="over link B, which needs the relay path"):
        GpuIoDie(TINY, pairs=1, direct=True, relay=False, hbm=NARROW)
