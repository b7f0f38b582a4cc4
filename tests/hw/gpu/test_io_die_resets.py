"""GPU I/O die with two pairs when a link of one of them is reset."""

import pytest

from hw.gpu.io_die import GpuIoDie
from hw.gpu.router import Choice
from hw.ucie.transaction import PATHS, MessageClass, Operation, Status
from hw.ucie.ucie_end import QUIET_CLOCKS
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

PAIRS = 2


class Bench:
    """Requests are taken at once, beats are taken as they come; ends are kept."""

    def __init__(self, dut: GpuIoDie, ctx, path: str):
        self.dut, self.ctx, self.path = dut, Quiet(ctx), path
        self.clock = 0
        self.done: list[tuple[int, int, int]] = []  # clock, tag, status
        self.slots: list[list[int]] = [[] for _ in range(PAIRS)]  # of requests
        self.written: list[list[tuple[int, int]]] = [[] for _ in range(PAIRS)]  # tag, status
        ctx.set(dut.window, 1000)
        ctx.set(dut.link_rate, 65_536)
        for name in PATHS:
            for pair in range(PAIRS):
                ctx.set(getattr(dut, f"{name}_o")[pair].ready, 1)

    def port(self, name: str, pair: int):
        return getattr(self.dut, f"{self.path}_{name}")[pair]

    async def step(self) -> None:
        ctx, dut = self.ctx, self.dut
        for pair in range(PAIRS):
            request = self.port("request", pair)
            if ctx.get(request.valid):
                self.slots[pair].append(ctx.get(request.header).tag)
            ctx.set(request.credit, ctx.get(request.valid))
            write = dut.direct_write[pair]
            ctx.set(write.credit, ctx.get(write.valid))
            ended = ctx.get(dut.write_done[pair])
            if ended.valid and ended.last:
                self.written[pair].append((ended.tag, ended.status))
        done = ctx.get(getattr(dut, f"{self.path}_done"))
        if done.valid:
            self.done.append((self.clock, done.tag, done.status))
        await ctx.tick()
        self.clock += 1

    async def steps(self, clocks: int) -> None:
        for _ in range(clocks):
            await self.step()

    async def read(self, tag: int, pages: int) -> int:
        """Ask for a read; its slot."""
        choice = Choice.DIRECT if self.path == "direct" else Choice.RELAY
        read = {"first": tag, "pages": pages, "tag": tag, "choice": choice}
        self.ctx.set(self.dut.i.payload, read)
        self.ctx.set(self.dut.i.valid, 1)
        assert self.ctx.get(self.dut.i.ready)
        await self.step()
        self.ctx.set(self.dut.i.valid, 0)
        await self.steps(3)
        assert self.slots[0][-1] == self.slots[1][-1]
        return self.slots[0][-1]

    async def page(self, pair: int, slot: int, page: int) -> None:
        port = self.port("data", pair)
        for beat in range(4):
            header = {"tag": slot, "page": page, "beat": beat, "page_end": beat == 3}
            self.ctx.set(port.header, header)
            self.ctx.set(port.valid, 1)
            await self.step()
        self.ctx.set(port.valid, 0)

    def lose(self, pair: int, *, lost: int = 1, quiet: int = 0) -> None:
        reset = self.port("reset", pair)
        self.ctx.set(reset.lost, lost)
        self.ctx.set(reset.quiet, quiet)

    def settled(self, pair: int) -> bool:
        return bool(self.ctx.get(self.port("reset", pair).settled))


def run(scenario, path: str, *, clocks: int = 600) -> None:
    dut = GpuIoDie(TINY, pairs=PAIRS, direct=True, relay=True)

    async def bench(ctx):
        await scenario(Bench(dut, ctx, path))

    simulate(dut, bench, clocks=clocks)


@pytest.mark.parametrize("lost", range(PAIRS))
@pytest.mark.parametrize("path", PATHS)
def test_a_read_that_one_pair_loses_ends_once_when_the_other_is_done(path, lost):
    """The other pair's pages come after the reset; slots and the count of pages are free then."""

    async def scenario(bench: Bench) -> None:
        other = 1 - lost
        slot = await bench.read(7, 3)
        await bench.page(lost, slot, 2)
        await bench.page(other, slot, 0)
        bench.lose(lost)
        await bench.steps(QUIET_CLOCKS)
        assert not bench.settled(lost)
        bench.lose(lost, quiet=1)
        await bench.steps(6)
        assert bench.settled(lost) and not bench.done
        for page in (1, 2):
            assert not bench.done
            await bench.page(other, slot, page)
        end = bench.clock
        await bench.steps(8)
        assert [of[1:] for of in bench.done] == [(7, Status.LINK_RESET)]
        assert end <= bench.done[0][0] <= end + 4
        bench.lose(lost, lost=0)
        # As before: as many reads as there are slots, of which each ends whole.
        bench.done.clear()
        bench.ctx.set(bench.dut.window, 1)  # all pages of the read before must be forgotten
        slot = await bench.read(8, 2)
        bench.ctx.set(bench.dut.window, 1000)
        slots = [slot, *[await bench.read(9 + k, 2) for k in range(TINY.credits.descriptors - 1)]]
        for pair in range(PAIRS):
            for slot in slots:
                for page in range(2):
                    await bench.page(pair, slot, page)
        await bench.steps(8)
        assert [of[1:] for of in bench.done] == [(8 + k, Status.OK) for k in range(len(slots))]

    run(scenario, path)


@pytest.mark.parametrize("lost", range(PAIRS))
@pytest.mark.parametrize("path", PATHS)
def test_nothing_begins_on_a_path_with_a_lost_link(path, lost):
    """Whichever pair it is, neither at that pair nor at the other; the other path goes on."""

    async def scenario(bench: Bench) -> None:
        ctx, dut = bench.ctx, bench.dut
        write = {"first": 0, "pages": 1, "tag": 5, "operation": Operation.TRIM}
        ctx.set(dut.write.payload, write)
        ctx.set(dut.write.valid, 1)
        ctx.set(dut.i.valid, 1)
        bench.lose(lost)
        chosen = path == "relay"
        for clock in range(2 * QUIET_CLOCKS):
            bench.lose(lost, quiet=clock >= QUIET_CLOCKS)
            for choice in (Choice.DIRECT, Choice.RELAY):
                ctx.set(dut.i.payload, {"pages": 1, "choice": choice})
                assert ctx.get(dut.i.ready) == (choice != chosen)
            assert ctx.get(dut.write.ready) == (path != "direct")
            ctx.set(dut.i.payload, {"pages": 1, "choice": chosen})
            ctx.set(dut.write.valid, path == "direct")
            await bench.step()
        assert bench.slots == [[], []] and bench.settled(lost)
        bench.lose(lost, lost=0)
        assert ctx.get(dut.i.ready) and ctx.get(dut.write.ready)
        await bench.step()
        ctx.set(dut.i.valid, 0)
        await bench.steps(3)
        assert list(map(len, bench.slots)) == [1, 1]

    run(scenario, path)


@pytest.mark.parametrize("lost", range(PAIRS))
def test_a_write_that_one_pair_loses_ends_there_and_goes_on_at_the_other(lost):
    async def scenario(bench: Bench) -> None:
        ctx, dut, other = bench.ctx, bench.dut, 1 - lost
        write = {"first": 0, "pages": 1, "tag": 5, "operation": Operation.TRIM}
        ctx.set(dut.write.payload, write)
        ctx.set(dut.write.valid, 1)
        await bench.step()
        ctx.set(dut.write.valid, 0)
        await bench.steps(4)
        bench.lose(lost)
        await bench.steps(QUIET_CLOCKS)
        assert not bench.settled(lost)
        bench.lose(lost, quiet=1)
        await bench.steps(4)
        assert bench.settled(lost) and not bench.settled(other)
        assert bench.written[lost] == [(5, Status.LINK_RESET)] and not bench.written[other]
        reply = dut.direct_reply[other]
        header = {"message_class": MessageClass.COMPLETION, "tag": 5, "chunk_end": 1}
        ctx.set(reply.header, header)
        ctx.set(reply.valid, 1)
        await bench.step()
        ctx.set(reply.valid, 0)
        await bench.steps(4)
        assert bench.settled(other)
        assert bench.written[lost] == [(5, Status.LINK_RESET)]
        assert bench.written[other] == [(5, Status.OK)]

    run(scenario, "direct")
