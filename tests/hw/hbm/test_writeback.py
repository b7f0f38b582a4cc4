# amaranth: UnusedElaboratable=no
"""Writeback: complete waves from the HBM to the HBF, and nothing released that is not there."""

from collections import Counter

import pytest

from hw.hbm.dram.stacks import stack
from hw.hbm.writeback import CLOCK_COUNTERS, Writeback
from hw.presets import preset
from tests.hw.hbm.local_bench import SIZES
from tests.hw.hbm.writeback_bench import BEATS, UNIT, Hbf, writeback_design
from tests.hw.machines import TINY
from tests.hw.pysim import simulate


def run(scenario, *, size="beats of an access", seed=0, clocks=20_000) -> None:
    print(f"seed {seed}")
    machine, hbm = SIZES[size]
    design, block, sender = writeback_design(machine, hbm)

    async def bench(ctx):
        await scenario(Hbf(ctx, machine, hbm, block, sender, seed=seed))

    simulate(design, bench, clocks=clocks)


SHARES = {
    "eager": dict.fromkeys(("grant", "reply", "credit", "told", "command"), 1.0),
    "link is slow": {"credit": 0.1},
    "grants are rare": {"grant": 0.08},
    "told late": {"told": 0.02},
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_each_command_ends_once_and_is_released_when_it_is_written(size, shares):
    async def scenario(hbf):
        hbf.shares |= shares
        hbf.spoil = 0.15
        hbf.model.poisoned = set(range(0, hbf.hbm.accesses, 401))
        accesses = BEATS * hbf.hbm.beat_accesses
        for tag in range(15):
            command = hbf.command(tag * 7)
            if tag % 5 == 3:  # breaks the rule, each in another way
                command.good = False
                way = tag // 5
                command.pages += way == 0
                command.source += way == 1
                command.source = hbf.hbm.accesses - accesses if way == 2 else command.source
            hbf.commands.append(command)
        while not hbf.idle:
            await hbf.clock()
        for _ in range(4):
            await hbf.clock()
        assert hbf.released + hbf.failed == 15 and min(hbf.released, hbf.failed) >= 3
        assert hbf.ctx.get(hbf.block.reset.settled)
        assert len(hbf.model.taken) == hbf.pages, "each page is read once"

    run(scenario, size=size, seed=len(str(shares)))


@pytest.mark.parametrize("seed", range(3))
def test_a_reset_ends_what_is_at_the_hbf_and_releases_nothing_of_it(seed):
    cuts = []

    async def scenario(hbf):
        hbf.shares["credit"] = 0.4
        for epoch in range(6):
            hbf.commands.extend(hbf.command(64 * epoch + tag) for tag in range(6))
            for _ in range(hbf.rng.randrange(20, 150)):
                await hbf.clock()
            cuts.append(await hbf.reset())
            while not hbf.idle:  # what waited is written afterwards
                await hbf.clock()
        assert hbf.released + hbf.failed == 36 and hbf.failed == sum(cuts)

    run(scenario, seed=seed)
    assert sum(cuts) > 3, cuts


def test_counters_tell_pages_and_each_clock_once():
    async def scenario(hbf):
        hbf.commands.extend(hbf.command(tag) for tag in range(6))
        pages = sum(command.pages for command in hbf.commands)
        while not hbf.idle:
            await hbf.clock()
        for _ in range(3):
            await hbf.clock()
        found = hbf.ctx.get(hbf.block.counters)
        assert [
            found[f"pages_{name}"] for name in ("asked", "granted", "read", "sent", "done")
        ] == [pages] * 5
        clocks = [found[name] for name in CLOCK_COUNTERS]
        assert all(clocks) and sum(clocks) <= hbf.clocks

    run(scenario)


@pytest.mark.parametrize(
    ("shares", "latency", "most"),
    [
        ({"credit": 0.1}, 1, "link_clocks"),
        ({}, 400, "hbm_clocks"),
        ({"grant": 0.02}, 1, "grant_clocks"),
        ({"late": 0.005}, 1, "program_clocks"),
    ],
)
def test_clocks_tell_what_a_write_waits_for(shares, latency, most):
    async def scenario(hbf):
        hbf.shares |= {"grant": 1.0, "reply": 1.0, "credit": 1.0} | shares
        hbf.model.latency = latency
        hbf.commands.append(hbf.command(1, pages=UNIT))
        if "late" in shares:  # behind one that is refused, and never granted
            hbf.commands.appendleft(hbf.command(0, pages=4 * UNIT))
            hbf.spoil = 1.0
        while not hbf.idle:
            if "late" in shares:  # grants come at once, the COMPLETION does not
                hbf.spoil *= not hbf.slots
                hbf.shares["reply"] = shares["late"] if hbf.pages == UNIT else 1.0
            await hbf.clock()
        found = hbf.ctx.get(hbf.block.counters)
        clocks = Counter({name: found[name] for name in CLOCK_COUNTERS})
        assert clocks.most_common(1)[0][0] == most, clocks

    run(scenario, seed=5)


def test_a_beat_a_clock_over_the_link():
    """From the first page to the last without a gap, once grants and data are ahead."""

    async def scenario(hbf):
        hbf.shares |= dict.fromkeys(hbf.shares, 1.0)
        hbf.model.latency = hbf.model.beat_share = hbf.model.request_share = 1
        hbf.commands.extend(hbf.command(tag, pages=4 * UNIT) for tag in range(2))
        sent = []
        while not hbf.idle:
            if hbf.ctx.get(hbf.sender.data.valid):
                sent.append(hbf.clocks)
            await hbf.clock()
        assert len(sent) == 32 * BEATS
        assert sent[-1] - sent[0] <= 32 * BEATS + 4 * BEATS

    run(scenario)


def test_what_cannot_be_is_refused_at_once():
    with pytest.raises(ValueError, match="unit_pages must be a power of two up to 4096, not 3"):
        Writeback(TINY, stack("mini"), unit_pages=3)
    with pytest.raises(ValueError, match="beat_bytes of stack 'hbm3e-9200' is 1024: must be 64"):
        Writeback(TINY, stack("hbm3e-9200"))
    with pytest.raises(ValueError, match="at least 2, not 1"):
        Writeback(TINY, stack("mini"), pages=1)
    assert Writeback(preset("mini"), stack("mini")).unit_pages == 128
