"""Reads that are over, against a plain model of slots and pairs."""

import random

import pytest

from hw.gpu.completions import Completions
from hw.ucie.transaction import Status
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SLOTS = TINY.credits.descriptors


@pytest.mark.parametrize("sources", [1, 2])
@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_each_read_is_told_once_all_pairs_are_done(pairs, sources):
    """Any pair may bring a read whole or not, each with a status of its own, in any source."""
    seed = f"{pairs}/{sources}"
    pick = random.Random(seed)
    print(f"seed {seed}")
    dut = Completions(TINY, pairs=pairs, sources=sources)
    told = {"whole": 0, "failed": 0, "mixed": 0, "poisoned": 0, "waited": 0}

    async def bench(ctx):
        ctx = Quiet(ctx)
        under_way = {}  # by slot: tag, chance to fail, pairs that are not done, statuses, poison
        over = set()
        for clock in range(2000):
            free = [slot for slot in range(SLOTS) if slot not in under_way]
            begins = pick.choice(free) if free and pick.random() < 0.6 else None
            tag = pick.randrange(4096)
            ctx.set(dut.begin, {"valid": begins is not None, "slot": begins or 0, "tag": tag})
            for pair in range(pairs):
                for source in range(sources):  # several reads end in one clock
                    open_ = [slot for slot, read in under_way.items() if pair in read["left"]]
                    # Without `valid` the rest says nothing.
                    end = {"valid": 0, "slot": pick.randrange(SLOTS), "poison": pick.getrandbits(1)}
                    end["status"] = pick.randrange(16)
                    if open_ and pick.random() < 0.5 / sources:
                        slot = pick.choice(open_)
                        read = under_way[slot]
                        fails = pick.random() < read["fails"]
                        status = pick.randint(1, 15) if fails else Status.OK
                        end = {"valid": 1, "slot": slot, "poison": pick.random() < 0.2}
                        end["status"] = status
                        read["left"].remove(pair)
                        read["poison"] |= end["poison"]
                        read["statuses"].append(status)
                        if not read["left"]:
                            over.add(slot)
                    ctx.set(dut.end[pair][source], end)
            done = ctx.get(dut.done)
            assert done.valid == bool(over), f"clock {clock}"
            if over:
                slot = min(over)
                read = under_way.pop(slot)
                assert ctx.get(dut.slot) == slot, f"clock {clock}"
                assert (done.tag, done.poison) == (read["tag"], read["poison"]), f"clock {clock}"
                failures = {status for status in read["statuses"] if status != Status.OK}
                assert done.status in (failures or {Status.OK}), f"clock {clock}"
                told["failed" if failures else "whole"] += 1
                told["mixed"] += len(set(read["statuses"])) > 1
                told["poisoned"] += read["poison"]
                told["waited"] += len(over) > 1
                over.remove(slot)
            if begins is not None:
                under_way[begins] = {
                    "tag": tag, "fails": pick.choice((0, 0, 0.5, 1)), "left": set(range(pairs)),
                    "statuses": [], "poison": False,
                }  # fmt: skip
            await ctx.tick()

    simulate(dut, bench, clocks=2010)
    assert min(told["whole"], told["failed"], told["poisoned"]) > 50, told
    assert pairs == 1 or told["mixed"] > 50, told
    assert pairs * sources == 1 or told["waited"], told
