"""Random reads and writes on :class:`hw.package.Package`, NAND and host played in plain Python.

No RTL model stands around the package, so this bench and :mod:`tb.benches.read` judge each other.
It looks at every port in every clock, which only small machines allow.
"""

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from hw.gpu.completions import read_done_layout
from hw.gpu.router import Choice
from hw.hbf.layouts import Command
from hw.package import Package
from hw.ucie.transaction import Route, Status
from tb.coverage.goals import goals
from tb.coverage.package import (
    StackCoverage,
    cover_end,
    cover_final,
    cover_meeting,
    cover_small_read,
)
from tb.coverage.points import Coverage
from tb.package_runs import MACHINES, PLAN, PackageRun, links, random_relay
from tb.simulator.clock import start_clock
from tb.vip.agents import Consumer, Requester, Writer, unpacker
from tb.vip.base_die_watch import BaseDieWatch
from tb.vip.collection_switch import CollectionSwitch
from tb.vip.final_checks import check_blocking, check_counters, check_memory
from tb.vip.injector import Injector
from tb.vip.link_resets import LinkResets
from tb.vip.register_port import register_access
from tb.vip.scoreboard import Read, Scoreboard
from tb.vip.stack import Failures, Fault, Stack
from tb.vip.traffic import Mix, Traffic

RELAY_SWITCHES = 0.005  # chance a clock that the relay buffers forward otherwise
QUIET_CLOCKS = 256  # after the last completion, in which nothing more may come
STUCK_CLOCKS = 6_000  # longer than any consumer stands still and any page takes


@cocotb.test()
async def package(dut) -> None:
    """Random traffic over random paths; every byte and event is checked.

    The plan is a :class:`tb.package_runs.PackageRun` in JSON.
    """
    bench = Bench(dut, PackageRun(**json.loads(os.environ[PLAN])))
    await bench.set_up()
    await bench.play()
    await bench.check()
    Path("report.json").write_text(json.dumps(bench.report()))


class Bench:
    """All that stands around the package in one run."""

    def __init__(self, dut: Any, run: PackageRun) -> None:
        self._dut, self._run = dut, run
        self._random = random = Random(f"{cocotb.RANDOM_SEED}/package")
        self._machine, self._built = run.with_registers(), MACHINES[run.machine]
        self._topology = topology = links(run.topology, flits=run.flits)
        machine, pairs = self._machine, topology.pairs
        present = {Route.DIRECT: topology.direct, Route.RELAY: topology.relay}
        self._routes = routes = tuple(route for route in Route if present[route])
        ports = Package(self._built, topology).writers

        wave = machine.geometry.wave_pages * pairs
        self.window = random.choice((wave // 2, wave, 3 * wave))
        self.scoreboard = scoreboard = Scoreboard(machine, pairs, routes, self.window)
        for contents in scoreboard.contents:
            contents.torn = bool(run.registers.get("suspend_enable", 0))
        fault = Fault(run.fault, random.randrange(300, 900))
        self.failures = Failures(run.program_failures, run.erase_failures, random)
        self.stacks = [
            Stack(dut, machine, pair, fault, self.failures, scoreboard.writes.stacks[pair])
            for pair in range(pairs)
        ]
        self.watches = [BaseDieWatch(dut, machine, topology, pair) for pair in range(pairs)]
        choices = (*(Choice(int(route)) for route in routes), Choice.LEAST_LOADED)
        mix: dict[str, Any] = dict(run.mix)
        self.traffic = traffic = Traffic(
            machine,
            Mix(reads=run.reads, writes=run.writes, **mix),
            choices,
            random,
            lambda: scoreboard.writes.outstanding,
        )
        self.requester = Requester(dut, machine, traffic.read, random)
        self.writers = [Writer(dut, machine, port, pairs, traffic.write, random) for port in ports]
        self.consumers = [
            Consumer(dut, machine, route, pair, random) for route in routes for pair in range(pairs)
        ]
        self._over = unpacker(read_done_layout())
        self._dones = [(route, getattr(dut, f"{route.name.lower()}_done")) for route in routes]
        self.registers = [register_access(dut, f"registers__{pair}") for pair in range(pairs)]
        self.injectors = [
            Injector(self.registers[pair], dut, machine.lanes, run.injections, random)
            for pair in range(pairs)
        ]
        self.switches = [
            CollectionSwitch(port, dut, random) for port in self.registers if run.switch_collection
        ]
        self.coverage = goals(resets=bool(run.link_resets)) if run.coverage else None
        self.resets = None
        if run.flits:
            self.resets = LinkResets(dut, topology, run.link_resets, random, self.coverage)
            scoreboard.coverage = self.coverage
        self.covers = []
        if self.coverage is not None:
            self.covers = [
                StackCoverage(dut, machine, topology, pair, self.coverage) for pair in range(pairs)
            ]
        self._relay = Random(f"{cocotb.RANDOM_SEED}/relay") if run.switch_relay else None
        self.clocks = 0

    async def set_up(self) -> None:
        """Clock, reset and registers, which are set over the port."""
        run = self._run
        self._dut.window.value = self.window
        own = round(self._built.link_beats_per_clock * 2**16)
        self._dut.link_rate.value = run.registers.get("link_rate", own)
        for name, value in run.relay.items():
            getattr(self._dut, name).value = value
        await start_clock(self._dut, hz=self._machine.clock_hz)
        for port in self.registers:
            await port.write(**run.registers)
            for name, value in run.registers.items():
                assert await port.read(name) == value, f"register {name} did not keep {value}"

    async def play(self) -> None:
        """Until all that was asked for has ended and nothing more comes."""
        tasks: list[Injector | CollectionSwitch] = [*self.injectors, *self.switches]
        for task in tasks:
            cocotb.start_soon(task.run())
        await self._until_quiet()
        for task in tasks:
            task.stop()
            while not task.stopped:
                await RisingEdge(self._dut.clk)
                self.clock()
        if self.switches:  # blocks that died while it was off are collected now
            await self._until_quiet()

    async def _until_quiet(self) -> None:
        quiet, moved_at = 0, self.clocks
        while quiet < QUIET_CLOCKS:
            await RisingEdge(self._dut.clk)
            if self.clock():
                moved_at = self.clocks
            quiet = quiet + 1 if self._idle() else 0
            assert self.clocks - moved_at < STUCK_CLOCKS, self._stuck(moved_at)

    def clock(self) -> bool:
        """Look at all ports in this clock; tells whether anything moved."""
        self.clocks += 1
        scoreboard = self.scoreboard
        before = len(scoreboard.beats), len(scoreboard.completions)
        scoreboard.begin_clock()
        taken_up = [watch.clock(scoreboard) for watch in self.watches]
        reset = self.resets is not None and self.resets.clock(scoreboard)
        if self._relay is not None and self._relay.random() < RELAY_SWITCHES:
            for name, value in random_relay(self._relay, self._built).items():
                getattr(self._dut, name).value = value
        self.requester.clock(scoreboard)
        for writer in self.writers:
            writer.clock(scoreboard)
        for consumer in self.consumers:
            consumer.clock(scoreboard)
        for route, done in self._dones:
            word = int(done.value)
            if word & 1:
                over = self._over(word)
                scoreboard.done(route, over["tag"], bool(over["poison"]), over["status"])
        moved = reset or before != (len(scoreboard.beats), len(scoreboard.completions))
        for pair, stack in enumerate(self.stacks):
            stack.clock()
            scoreboard.sensed(pair, stack.model.senses)
            moved |= any(c.command is not Command.STATUS for c in stack.commands)
        if self.coverage is not None:
            self._cover(self.coverage, taken_up)
        for judge in scoreboard.writes.stacks:
            for ended, status in judge.results:
                pages = [page for page, _ in ended.reported]
                if status is Status.LINK_RESET:  # nobody knows what was written
                    pages = list(range(ended.request.pages))
                self.traffic.ended(ended.request, pages)
                moved = True
            judge.results.clear()
        return moved

    def _cover(self, coverage: Coverage, taken_up: list[list[Read]]) -> None:
        for pair, (reads, judge) in enumerate(
            zip(taken_up, self.scoreboard.writes.stacks, strict=True)
        ):
            self.covers[pair].clock(self.stacks[pair])
            for read in reads:
                cover_small_read(coverage, read)
                cover_meeting(coverage, read, judge, self.clocks)
            for ended, status in judge.results:
                cover_end(coverage, ended, status)
        for consumer in self.consumers:
            coverage.points["consumer"].hit(consumer.mood)

    def _idle(self) -> bool:
        return (
            self.traffic.exhausted
            and (self.resets is None or self.resets.idle)
            and self.requester.idle
            and all(writer.idle for writer in self.writers)
            and not self.scoreboard.tags
            and not self.scoreboard.writes.outstanding
            and all(stack.model.idle for stack in self.stacks)
        )

    def _stuck(self, since: int) -> str:
        board = self.scoreboard
        return (
            f"nothing moved since clock {since}: reads {board.outstanding[:4]}, "
            f"writes {board.writes.outstanding[:4]}"
        )

    async def check(self) -> None:
        """Nothing may be left, in memory and registers must be what the judges say."""
        board = self.scoreboard
        board.finish([stack.model.read_out for stack in self.stacks])
        for watch in self.watches:
            watch.finish()
        assert all(stack.model.idle for stack in self.stacks), "the NAND is still at work"
        for pair, stack in enumerate(self.stacks):
            check_memory(board.contents[pair], stack.model)
            if self.coverage is not None:
                await check_blocking(self.registers[pair], self.covers[pair])
            await check_counters(
                self.registers[pair],
                board,
                pair,
                stack,
                self.injectors[pair],
                self._random,
                resets=self._run.link_resets,
            )
        if self.coverage is not None:
            cover_final(self.coverage, self._run.registers, board.writes.stacks)
            self.coverage.save(Path("coverage.json"))

    def report(self) -> dict[str, Any]:
        board = self.scoreboard
        return {
            "clocks": self.clocks,
            "beats": board.beats,
            "completions": board.completions,
            "writes": [dict(stack.counts) for stack in board.writes.stacks],
            "commands": [dict(stack.counts) for stack in self.stacks],
            "poisoned": board.poisoned,
            "resets": self.resets.done if self.resets is not None else {},
        }
