"""Register file of the base die: what it sets, counts, asks and shows."""

import dataclasses
import itertools
import random
from collections import Counter

import pytest

from hw.hbf.block_layouts import BlockOperation
from hw.hbf.control import Control
from hw.hbf.layouts import Registers
from hw.hbf.read_issue import Blocked
from hw.hbf.write_admission import WriteAdmission
from hw.registers.hbf import hbf_resets
from tests.hw.machines import TINY
from tests.hw.pysim import simulate
from tests.hw.read_bench import registers

DIES = 4


def test_registers_come_up_as_the_machine_says_and_are_set_one_by_one():
    dut = Control(TINY)
    names = list(Registers().members)

    async def bench(ctx):
        port = registers(ctx, dut.port)
        resets = hbf_resets(TINY)
        known = {name: resets[name] for name in names if name in resets}
        assert {name: ctx.get(getattr(dut.registers, name)) for name in known} == known
        values = {}
        for k, name in enumerate(names):
            values[name] = (3 + k) % (1 << len(getattr(dut.registers, name)))
        await port.write(**values)
        assert {name: ctx.get(getattr(dut.registers, name)) for name in names} == values

    simulate(dut, bench, clocks=1000)


@pytest.mark.parametrize("period", [1, 2, 10])
def test_slices_are_equally_long(period):
    """From reset a slice is as long as a suspend takes, and each begins when one has ended."""
    nand = dataclasses.replace(TINY.nand, t_suspend_ns=5.0)
    dut = Control(dataclasses.replace(TINY, nand=nand))
    ticks = []

    async def bench(ctx):
        await registers(ctx, dut.port).write(suspend_slice=period - 1)
        for clock in range(120):
            if ctx.get(dut.slice_tick):
                ticks.append(clock)
            await ctx.tick()

    simulate(dut, bench, clocks=400)
    late = ticks[-8:]
    assert [b - a for a, b in itertools.pairwise(late)] == [period] * 7


COUNTERS = {
    "pages_programmed": "programmed",
    "pages_relocated": "relocated",
    "program_failures": "program_failed",
    "erases": "erased",
    "collected": "collected",
    "erase_failures": "erase_failed",
}


@pytest.mark.parametrize("seed", range(2))
def test_counters_equal_the_events(seed):
    pick = random.Random(seed)
    dut = Control(TINY)
    want: Counter[str] = Counter()
    assert set(COUNTERS.values()) == set(WriteAdmission.COUNTS)

    async def bench(ctx):
        port = registers(ctx, dut.port)
        most = 0
        for clock in range(400):
            for d in range(DIES):
                blocked = pick.choice((0, *Blocked))
                counts = {name: pick.random() < 0.3 for name in WriteAdmission.COUNTS}
                status = {
                    name: pick.randrange(2) for name in ("issued", "path", "held", "suspends")
                }
                cycles = (clock // 3) * (d + 1)
                most = max(most, cycles)
                ctx.set(
                    dut.dies[d],
                    {"blocked_on": blocked, "counts": counts, "max_cycles": cycles, **status},
                )
                if blocked:
                    want[f"blocked_{Blocked(blocked).name.lower()}"] += 1
                if status["issued"]:
                    want["issued_relay" if status["path"] else "issued_direct"] += 1
                want["reads_held"] += status["held"]
                want["suspends"] += status["suspends"]
                for name, event in COUNTERS.items():
                    want[name] += counts[event]
            await ctx.tick()
        for d in range(DIES):
            ctx.set(dut.dies[d], {"max_cycles": most if d == 2 else 0})
        for _ in range(DIES + 2):
            await ctx.tick()
        found = {name: await port.read(name) for name in want}
        assert found == dict(want), f"seed {seed}"
        assert await port.read("max_cycles") == most
        await port.pulse("clear_counters")
        assert {await port.read(name) for name in want} == {0}

    simulate(dut, bench, clocks=3000)
    assert len(want) == 4 + 2 + 2 + len(COUNTERS) and min(want.values()) > 50


def test_counters_follow_the_events_by_two_clocks():
    """A read looks at a counter one clock after it was asked for."""
    found = {}
    for later in range(5):
        dut = Control(TINY)

        async def bench(ctx, dut=dut, later=later):
            ctx.set(dut.dies[1], {"held": 1})
            port = registers(ctx, dut.port)
            for _ in range(later):
                await ctx.tick()
                ctx.set(dut.dies[1], {})
            found[later] = await port.read("reads_held")

        simulate(dut, bench, clocks=50)
    assert [count > 0 for count in found.values()] == [False, True, True, True, True]


@pytest.mark.parametrize("wait", [0, 7])
def test_a_block_is_looked_up_in_its_die(wait):
    dut = Control(TINY)
    answer = {
        "owner": 2, "dirty": 1, "failed": 1, "next_page": 3, "live_pages": 2,
        "erase_cycles": 70_000, "reads": 123_456,
    }  # fmt: skip
    other = {name: 0 for name in answer}

    async def bench(ctx):
        port = registers(ctx, dut.port)
        for die in (2, 0):
            await port.write(query_die=die, query_subarray=3, query_block=1)
            await port.pulse("query_go")
            await ctx.tick()
            for clock in range(wait + 1):
                # All dies hear other questions and answers; only this die is asked.
                valids = [ctx.get(query.valid) for query in dut.query]
                assert valids == [d == die for d in range(DIES)]
                block = ctx.get(dut.query[die].payload)
                assert (block.subarray, block.block) == (3, 1)
                ctx.set(dut.query[die].ready, clock == wait)
                await ctx.tick()
            ctx.set(dut.query[die].ready, 0)
            assert not any(ctx.get(query.valid) for query in dut.query), "asked twice"
            for d in range(DIES):
                kind = BlockOperation.SENSED if d == die else BlockOperation.QUERY
                ctx.set(dut.answer[d], {"valid": 1, "kind": kind, "entry": other})
            await ctx.tick()
            for d in range(DIES):
                ctx.set(dut.answer[d], {"valid": 0})
            assert await port.read("query_valid") == 0
            entry = {"valid": 1, "kind": BlockOperation.QUERY, "entry": answer}
            ctx.set(dut.answer[die], entry)
            await ctx.tick()
            ctx.set(dut.answer[die], {"valid": 0, "kind": BlockOperation.QUERY, "entry": other})
            assert await port.read("query_valid") == 1
            names = {"next_page": "next", "live_pages": "live", "erase_cycles": "cycles"}
            for name, value in answer.items():
                assert await port.read(f"query_{names.get(name, name)}") == value, name

    simulate(dut, bench, clocks=1000)


@pytest.mark.parametrize("takes", range(24))
def test_the_answer_that_shows_is_that_of_the_last_question(takes):
    """The die takes questions ``takes`` clocks after they come, and answers three clocks later."""
    dut = Control(TINY)

    async def host(ctx):
        port = registers(ctx, dut.port)
        for block in (1, 2):
            await port.write(query_die=1, query_subarray=0, query_block=block)
            await port.pulse("query_go")
        while not await port.read("query_valid"):
            pass
        assert await port.read("query_cycles") == 2

    async def die(ctx):
        waited, due = 0, []
        for clock in range(200):
            asks = ctx.get(dut.query[1].valid)
            taken = asks and waited >= takes
            ctx.set(dut.query[1].ready, taken)
            waited = 0 if taken or not asks else waited + 1
            if taken:
                due.append((clock + 3, ctx.get(dut.query[1].payload.block)))
            answers = bool(due) and due[0][0] == clock
            ctx.set(dut.answer[1], {"valid": 0})
            if answers:
                entry = {"erase_cycles": due.pop(0)[1]}
                answer = {"valid": 1, "kind": BlockOperation.QUERY, "entry": entry}
                ctx.set(dut.answer[1], answer)
            await ctx.tick()

    simulate(dut, host, die, clocks=500)


def test_error_log_and_injection():
    dut = Control(TINY)

    async def bench(ctx):
        port = registers(ctx, dut.port)
        inject, log = dut.ecc.inject, dut.ecc.log
        fields = {"inject_word": 5, "inject_bit0": 71, "inject_bit1": 3, "inject_double": 1}
        await port.write(**fields, inject_beats=9)
        found = [
            ctx.get(getattr(inject, n)) for n in ("word", "first", "second", "double", "beats")
        ]
        assert found == [5, 71, 3, 1, 9] and not ctx.get(inject.arm)
        pulses = {"arm": 0, "clear": 0}

        async def pulse(name: str) -> None:
            await port.pulse(name)
            for _ in range(4):
                pulses["arm"] += ctx.get(inject.arm)
                pulses["clear"] += ctx.get(log.clear)
                await ctx.tick()

        await pulse("inject_arm")
        assert pulses == {"arm": 1, "clear": 0}
        await pulse("ecc_clear")
        assert pulses == {"arm": 1, "clear": 1}
        ctx.set(inject.armed, 1)
        ctx.set(log.corrected, 77)
        ctx.set(log.uncorrectable, 78)
        place = {"region": 1, "group": 2, "row": 13}
        ctx.set(
            log.first,
            {"valid": 1, "uncorrectable": 1, "place": place, "word": 6, "syndrome": 0xA5},
        )
        want = {
            "inject_armed": 1, "ecc_corrected": 77, "ecc_uncorrected": 78, "ecc_first_valid": 1,
            "ecc_first_uncorrected": 1, "ecc_first_word": 6, "ecc_first_syndrome": 0xA5,
            "ecc_first_address": 1 | 2 << 1 | 13 << 3,
        }  # fmt: skip
        assert {name: await port.read(name) for name in want} == want

    simulate(dut, bench, clocks=500)
