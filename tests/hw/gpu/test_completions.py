"""Reads that are over, against a plain model of slots and pairs."""

import random

import pytest

from hw.gpu.completions import Completions
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SLOTS = TINY.credits.descriptors


@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_each_read_is_told_once_all_pairs_are_done(pairs):
    pick = random.Random(pairs)
    print(f"seed {pairs}")
    dut = Completions(TINY, pairs=pairs)
    told = {"whole": 0, "refused": 0, "poisoned": 0, "waited": 0}

    async def bench(ctx):
        ctx = Quiet(ctx)
        under_way = {}  # by slot: tag, status to come, pairs that are not done, poison
        over = set()
        for clock in range(2000):
            free = [slot for slot in range(SLOTS) if slot not in under_way]
            begins = pick.choice(free) if free and pick.random() < 0.6 else None
            tag = pick.randrange(4096)
            ctx.set(dut.begin, {"valid": begins is not None, "slot": begins or 0, "tag": tag})
            for pair in range(pairs):
                # A pair that brings the read's data and one that refuses another, in one clock.
                for status, port in ((0, dut.whole[pair]), (1, dut.refused[pair])):
                    open_ = [
                        slot
                        for slot, read in under_way.items()
                        if pair in read["left"] and bool(read["status"]) == bool(status)
                    ]
                    slot = pick.choice(open_) if open_ and pick.random() < 0.5 else None
                    # Without `valid` the rest says nothing.
                    noise = {"tag": pick.randrange(4096), "status": pick.randrange(16)}
                    if not status:
                        noise = {"slot": pick.randrange(SLOTS), "poison": pick.random() < 0.5}
                    event = {"valid": slot is not None, **noise}
                    read = under_way.get(slot)
                    if read:
                        read["left"].remove(pair)
                        if status:
                            event |= {"tag": slot, "status": read["status"]}
                        else:
                            event |= {"slot": slot, "poison": pick.random() < 0.2}
                            read["poison"] |= event["poison"]
                        if not read["left"]:
                            over.add(slot)
                    ctx.set(port, event)
            done = ctx.get(dut.done)
            assert done.valid == bool(over), f"clock {clock}"
            if over:
                slot = min(over)
                read = under_way.pop(slot)
                assert ctx.get(dut.slot) == slot, f"clock {clock}"
                have = done.tag, done.status, done.poison
                assert have == (read["tag"], read["status"], read["poison"]), f"clock {clock}"
                told["refused" if read["status"] else "whole"] += 1
                told["poisoned"] += read["poison"]
                told["waited"] += len(over) > 1
                over.remove(slot)
            if begins is not None:
                status = pick.choice((0, 0, pick.randint(1, 15)))
                under_way[begins] = {
                    "tag": tag, "status": status, "left": set(range(pairs)), "poison": False
                }  # fmt: skip
            await ctx.tick()

    simulate(dut, bench, clocks=2010)
    assert min(told["whole"], told["refused"], told["poisoned"]) > 50, told
    assert told["waited"], told
