"""Random reads on :class:`hw.package.Package`, its NAND and its consumers played in plain Python.

No RTL model stands around the package, so this bench and :mod:`tb.benches.read` judge each other.
It looks at every port in every clock, which only small presets allow.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from hw.gpu.router import Choice
from hw.params import Machine, Sensing, preset, topology
from hw.ucie.transaction import Route
from tb.simulator.clock import start_clock
from tb.vip.agents import Consumer, Fault, Requester, Stack
from tb.vip.scoreboard import Scoreboard

PLAN = "PAGEWAVE_PACKAGE_PLAN"
QUIET_CLOCKS = 256  # after the last completion, in which nothing more may come
STUCK_CLOCKS = 5_000  # longer than any consumer stands still and any page takes


@cocotb.test()
async def reads(dut) -> None:
    """Reads of random pages over random paths; every byte and event is checked.

    The plan is JSON: ``preset``, ``topology``, ``pairs``, number of ``reads``, ``settings`` and the
    ``registers`` that they make, and a ``fault`` of the NAND or null.
    """
    plan = json.loads(os.environ[PLAN])
    random = Random(f"{cocotb.RANDOM_SEED}/package")
    machine, pairs = _machine(plan), plan["pairs"]
    links = topology(plan["topology"])
    present = {Route.DIRECT: links.direct, Route.RELAY: links.relay}
    routes = tuple(route for route in Route if present[route])

    wave = machine.geometry.wave_pages * pairs
    window = random.choice((wave // 4, wave, 3 * wave))
    scoreboard = Scoreboard(machine, pairs, routes, window)
    asked = random_reads(machine, routes, plan["reads"], random)
    fault = Fault(plan["fault"], random.randrange(300, 900))
    stacks = [Stack(dut, machine, pair, fault) for pair in range(pairs)]
    consumers = [
        Consumer(dut, machine, route, pair, random) for route in routes for pair in range(pairs)
    ]
    requester = Requester(dut, machine, asked, random)
    dones = [(route, getattr(dut, f"{route.name.lower()}_done")) for route in routes]
    for name, value in plan["registers"].items():
        getattr(dut, f"registers__{name}").value = value
    dut.window.value = window
    await start_clock(dut, hz=machine.clock_hz)

    clocks, quiet, moved_at = 0, 0, 0
    while quiet < QUIET_CLOCKS:
        await RisingEdge(dut.clk)
        clocks += 1
        before = len(scoreboard.beats)
        scoreboard.begin_clock()
        requester.clock(scoreboard)
        for consumer in consumers:
            consumer.clock(scoreboard)
        for route, done in dones:
            word = int(done.value)
            if word & 1:
                scoreboard.done(route, word >> 1 & 0xFFF, bool(word >> 13))
        for pair, stack in enumerate(stacks):
            stack.clock()
            scoreboard.sensed(pair, stack.model.senses)
        if len(scoreboard.beats) > before:
            moved_at = clocks
        idle = requester.exhausted and not scoreboard.tags
        quiet = quiet + 1 if idle else 0
        assert clocks - moved_at < STUCK_CLOCKS, f"no beat since clock {moved_at}"

    scoreboard.finish([stack.model.read_out for stack in stacks])
    assert all(stack.model.idle for stack in stacks), "pages are left in registers of the NAND"
    report = {
        "clocks": clocks,
        "beats": scoreboard.beats,
        "completions": scoreboard.completions,
    }
    Path("report.json").write_text(json.dumps(report))


def random_reads(
    machine: Machine, routes: tuple[Route, ...], count: int, random: Random
) -> Iterator[tuple[int, int, Choice]]:
    """First page, pages and choice of ``count`` reads: anywhere, at the end, or in one place."""
    g = machine.geometry
    choices: list[Any] = [*(Choice(int(route)) for route in routes), Choice.LEAST_LOADED]
    crowded = random.randrange(g.wave_pages)
    for _ in range(count):
        pages = random.randrange(1, random.choice((2, 20, 101, 101)))
        last = g.stack_pages - pages
        first = random.choice((random.randrange(last + 1), random.randrange(last + 1), last))
        if random.random() < 0.25:
            # Pages of one subarray, whose registers and slots they must share.
            pages = random.randrange(1, 4)
            first = random.randrange(g.rows - 1) * g.wave_pages + crowded
        yield first, pages, random.choice(choices)


def _machine(plan: dict) -> Machine:
    settings = dict(plan["settings"])
    if "sensing" in settings:
        settings["sensing"] = Sensing(settings["sensing"])
    return preset(plan["preset"]).with_registers(**settings)
