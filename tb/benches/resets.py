"""Plays a :class:`tb.reset_runs.ResetRun` against an HBF base die."""

import json
import os
from pathlib import Path
from random import Random

import cocotb
from cocotb.triggers import RisingEdge

from tb.benches.channels import Handles
from tb.channel_runs import MACHINE
from tb.reset_probe import Link, Nand
from tb.reset_runs import ResetRun
from tb.simulator.clock import start_clock

BETWEEN = 600  # clocks from one reset to the next, on average
DRAIN = 6_000  # clocks in which all must end


@cocotb.test()
async def resets(dut) -> None:
    what = ResetRun(**json.loads(os.environ["PAGEWAVE_PLAN"]))
    pick = Random(what.seed)
    wires = Handles(dut)
    nand = Nand(wires, MACHINE)
    links = {name: Link(wires, MACHINE, name, Random(f"{what.seed}/{name}")) for name in "ac"}
    await start_clock(dut)
    edge = RisingEdge(dut.clk)

    async def clock() -> None:
        nand.clock()
        for link in links.values():
            link.clock()
        await edge

    async def drain() -> None:
        for link in links.values():
            link.busy = False
        for _ in range(DRAIN):
            if all(link.idle for link in links.values()) and nand.model.idle:
                break
            await clock()
        left = {link.name: (link.state, link.read_of, link.write_of) for link in links.values()}
        assert all(link.idle for link in links.values()), left

    left = what.resets
    while left:
        if pick.random() < 1 / BETWEEN:
            link = links[pick.choice(what.links)]
            if link.state == "up":
                link.lose()
                left -= 1
        await clock()
    await drain()
    for _ in range(200):
        await clock()
    whole = sum(link.check(nand.model) for link in links.values())

    # All slots are free, and all credits are with the die: without new ones it fills every slot
    # behind what it may send.
    g = MACHINE.geometry
    for link in links.values():
        assert not link.beats.owed
        link.beats.generous = False
    before = nand.model.senses
    for n in range(4):
        for k, link in enumerate(links.values()):
            link.read(k * g.stack_pages // 2 + 8 * n, 16)
    came = {name: link.beats.came for name, link in links.items()}
    for _ in range(1500):
        await clock()
    came = {name: link.beats.came - came[name] for name, link in links.items()}
    senses = nand.model.senses - before
    for link in links.values():
        link.beats.generous = True
    await drain()
    report = {
        **{name: dict(link.counts) for name, link in links.items()},
        "came": came,
        "senses": senses,
        "whole": whole,
    }
    Path("report.json").write_text(json.dumps(report))
