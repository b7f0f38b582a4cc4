"""Scoreboard of a die against sets of subarrays, over all events that may come."""

import random

import pytest

from hw.hbf.subarray_state import SubarrayState
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SUBARRAYS = 4
DIRECT, RELAY, WRITE = 0, 1, 2
FREES = ("free_direct", "free_relay", "free_write")


def bits(subarrays) -> int:
    return sum(1 << s for s in set(subarrays))


@pytest.mark.parametrize("cache_read", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_registers_and_slots_are_busy_as_long_as_something_is_in_them(seed, cache_read):
    pick = random.Random(f"{seed}/{cache_read}")
    dut = SubarrayState(TINY)
    happened = dict.fromkeys(("sense", "latch", "load", "program", "left", "reserve", "free"), 0)

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.cache_read, cache_read)
        data: set[int] = set()  # subarrays whose data register is taken
        latched: set[int] = set()  # and, of them, whose page was latched already
        cache: dict[int, str] = {}  # what the cache register is taken by
        slots: dict[tuple[int, int], int] = {}  # by (subarray, region): who has it
        for clock in range(3000):
            say = f"clock {clock}, seed {seed}"
            assert ctx.get(dut.data_busy) == bits(data), say
            assert ctx.get(dut.cache_busy) == bits(cache), say
            for r in range(2):
                assert ctx.get(dut.slot_busy[r]) == bits(s for s, q in slots if q == r), say
            for path in (DIRECT, RELAY):
                holders = bits(s for (s, _), owner in slots.items() if owner == path)
                assert ctx.get(dut.holds[path]) == holders, say

            before = dict(slots)
            free = [(s, r) for s in range(SUBARRAYS) for r in range(2) if (s, r) not in before]
            none = {"valid": 0}
            events = {
                name: none
                for name in ("sense", "latch", "load", "program", "left", "reserve", *FREES)
            }
            # One command of the port, whose effects count from the next clock.
            after_data, after_cache = set(data), dict(cache)
            reads = [slot for slot in free if slot[0] not in data]
            latches = [s for s in data - latched if s not in cache]
            loads = [s for s in range(SUBARRAYS) if s not in data and s not in cache]
            programs = [s for s, what in cache.items() if what == "write"]
            command = pick.choice(("sense", "sense", "latch", "latch", "load", "program", ""))
            if command == "sense" and reads:
                s, r = pick.choice(reads)
                path = pick.choice((DIRECT, RELAY))
                events["sense"] = {
                    "valid": 1,
                    "slot": {"subarray": s, "region": r},
                    "path": path,
                }
                after_data.add(s)
                latched.discard(s)
                slots[s, r] = path
            elif command in ("latch", "load", "program"):
                able = {"latch": latches, "load": loads, "program": programs}[command]
                if able:
                    s = pick.choice(able)
                    events[command] = {"valid": 1, "subarray": s}
                    if command == "latch":
                        after_cache[s] = "read"
                        latched.add(s)
                        if cache_read:
                            after_data.discard(s)
                    elif command == "load":
                        after_cache[s] = "write"
                    else:
                        del after_cache[s]

            leaves = [s for s, what in cache.items() if what == "read"]
            if leaves and pick.random() < 0.3:
                s = pick.choice(leaves)
                events["left"] = {"valid": 1, "slot": {"subarray": s, "region": 0}}
                after_cache.pop(s)
                if not cache_read:
                    after_data.discard(s)
            writes = [slot for slot in free if slot not in slots]
            if writes and pick.random() < 0.2:
                s, r = pick.choice(writes)
                events["reserve"] = {"valid": 1, "slot": {"subarray": s, "region": r}}
                slots[s, r] = WRITE
            # Each kind of owner gives one slot back a clock, none of those just taken.
            for owner, name in enumerate(FREES):
                mine = [slot for slot, of in before.items() if of == owner]
                if mine and pick.random() < 0.2:
                    s, r = pick.choice(mine)
                    events[name] = {"valid": 1, "slot": {"subarray": s, "region": r}}
                    del slots[s, r]
                    happened["free"] += 1
            for name, event in events.items():
                ctx.set(getattr(dut, name), event)
                if name in happened:
                    happened[name] += event["valid"]
            data, cache = after_data, after_cache
            await ctx.tick()

    simulate(dut, bench, clocks=3100)
    assert min(happened.values()) > 50, happened
