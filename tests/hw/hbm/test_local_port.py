# amaranth: UnusedElaboratable=no
"""Local reads and writes of the GPU, beside page reads of writeback, against a plain memory."""

import pytest

from hw.hbm.dram.stacks import stack
from hw.hbm.local_port import LocalPort
from hw.hbm.write_pieces import PIECE_BEATS
from tests.hw.hbm.local_bench import SIZES, Gpu, Request, local_design, requests
from tests.hw.machines import TINY, WIDE
from tests.hw.pysim import simulate


def run(scenario, *, size: str = "beats of two", seed: int = 0, clocks: int = 20_000) -> None:
    print(f"seed {seed}")
    machine, hbm = SIZES[size]
    design, port, share = local_design(machine, hbm)

    async def bench(ctx):
        await scenario(Gpu(ctx, machine, hbm, port, share, seed=seed))

    simulate(design, bench, clocks=clocks)


SHARES = {
    "eager": {"ask": 1.0, "data": 1.0, "o": 1.0, "completion": 1.0, "page": 0.3},
    "link is slow": {"o": 0.15, "completion": 0.1},
    "data are late": {"data": 0.1, "page": 0.0},
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_every_request_ends_once_and_every_access_is_right(size, shares):
    async def scenario(gpu):
        gpu.shares |= shares
        work = requests(gpu.rng, gpu.hbm, 50)
        gpu.queue.extend(work)
        gpu.model.poisoned = {5, gpu.hbm.accesses - 15 * gpu.hbm.beat_accesses}
        while not gpu.idle:
            await gpu.clock()
            if not gpu.queue:
                gpu.shares["page"] = 0
        assert gpu.reads + gpu.writes + gpu.refused == len(work)
        assert min(gpu.reads, gpu.writes) > 12 and gpu.refused > 2
        for _ in range(5):
            await gpu.clock()
        assert gpu.ctx.get(gpu.port.reset.settled)

    run(scenario, size=size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(2))
def test_a_reset_ends_all_and_cuts_writes_at_a_piece(size, seed):
    """What is left of a write that was cut is its begin, in whole pieces; credits are whole."""
    torn = []

    async def scenario(gpu):
        per = gpu.hbm.beat_accesses
        for epoch in range(8):
            gpu.shares |= gpu.rng.choice(({"data": 0.2}, {"o": 0.1}, {"completion": 0.1}))
            work = requests(gpu.rng, gpu.hbm, 30, first=1 + 30 * epoch)
            gpu.queue.extend(r for r in work if r.length > 4 * per or gpu.rng.random() < 0.3)
            for _ in range(gpu.rng.randrange(20, 120)):
                await gpu.clock()
            gpu.queue.clear()
            for write in await gpu.reset():
                wanted = write.wanted(per)
                there = [
                    all(gpu.model.versions.get(a, 0) >= write.version for a in accesses)
                    for accesses in wanted
                ]
                beats = there.index(False) if False in there else len(there)
                assert beats == len(there) or beats % PIECE_BEATS == 0, (write, there)
                behind = {gpu.model.versions.get(a, 0) for of in wanted[beats:] for a in of}
                assert write.version not in behind, "written behind the cut"
                torn.append(0 < beats < len(there))
        gpu.shares["page"] = 0
        gpu.queue.extend(requests(gpu.rng, gpu.hbm, 20, first=1000))
        while not gpu.idle:
            await gpu.clock()

    run(scenario, size=size, seed=seed, clocks=40_000)
    assert len(torn) > 4 and any(torn), torn


def test_reads_pass_writes_that_wait_for_their_data():
    async def scenario(gpu):
        gpu.shares |= {"ask": 1.0, "data": 0.0, "page": 0.0}
        gpu.queue.append(Request(True, 0, 64, 1))
        gpu.queue.extend(Request(False, 100, 4) for _ in range(10))
        while gpu.reads < 10:
            await gpu.clock()
        assert gpu.writes == 0
        gpu.shares["data"] = 1.0
        while not gpu.idle:
            await gpu.clock()

    run(scenario, clocks=2000)


def test_latency_of_a_request_and_of_a_write():
    """Two clocks through the queue to `read`, one more through the share; data two clocks."""
    times = {}

    async def scenario(gpu):
        gpu.shares |= {"ask": 1.0, "data": 1.0, "o": 1.0, "completion": 1.0, "page": 0.0}
        gpu.model.request_share = gpu.model.write_share = 1.0
        for write in (False, True):
            gpu.queue.append(Request(write, 8, 4, 1))
            begin = gpu.clocks
            while not gpu.idle:
                for name, signal in (
                    ("request", gpu.share.request.valid),
                    ("data", gpu.port.write_data.valid),
                ):
                    if gpu.ctx.get(signal):
                        times.setdefault((name, write), gpu.clocks - begin)
                await gpu.clock()

    run(scenario, clocks=300)
    assert times == {("request", False): 3, ("request", True): 4, ("data", True): 4}


@pytest.mark.parametrize("write", [False, True])
def test_a_beat_a_clock(write):
    """Of 48 beats each way, with the first 12 clocks and credits on their way left out."""

    async def scenario(gpu):
        gpu.shares |= {"ask": 1.0, "data": 1.0, "o": 1.0, "completion": 1.0, "page": 0.0}
        model, per = gpu.model, gpu.hbm.beat_accesses
        model.request_share = model.write_share = model.beat_share = 1.0
        model.latency = 1
        gpu.queue.extend(Request(write, 0, 12 * per, 1 + k) for k in range(4))
        port = gpu.port.write_data if write else gpu.port.o
        moved = []
        while not gpu.idle:
            await gpu.clock()
            if gpu.ctx.get(port.valid) and len(moved) < 200:
                moved.append(gpu.clocks)
        span = moved[-1] - moved[0] + 1
        assert span <= 48 + (4 if write else 0), moved

    run(scenario, clocks=500)


def test_stack_and_link_have_the_same_beat():
    with pytest.raises(ValueError, match="beat_bytes of stack 'mini' is 64: must be 128"):
        LocalPort(WIDE, stack("mini"))
    LocalPort(TINY, stack("mini"))
