"""Counts what a run of the package bench covers, clock by clock."""

from typing import Any

from hw.hbf.layouts import Command
from hw.hbf.read_issue import Blocked
from hw.params import Machine, Topology
from hw.sram.ecc_log import place_layout
from hw.sram.secded import report_layout
from hw.ucie.transaction import PATHS, Operation, Route, Status
from tb.coverage.goals import MODES, READERS, gate_bin
from tb.coverage.points import Coverage
from tb.coverage.slots import SlotWatch
from tb.vip.base_die_watch import unpacker
from tb.vip.probes import Probes
from tb.vip.scoreboard import Read
from tb.vip.stack import Stack
from tb.vip.stack_writes import StackWrites
from tb.vip.write_ranges import Transaction


class StackCoverage:
    """Coverage of one stack.

    Attributes:
        coverage: Where it is counted.
        slots: Lives of its slots.
        blocked: Clocks by reason, summed over dies, as the registers count them.
        held: Reads held, as the registers count them.
    """

    def __init__(
        self, dut: Any, machine: Machine, topology: Topology, pair: int, coverage: Coverage
    ) -> None:
        probe = Probes(dut, pair)
        self.coverage, dies = coverage, range(machine.geometry.dies)
        paths = [path for path in PATHS if getattr(topology, path)]
        self.slots = SlotWatch(probe, machine, paths, coverage)
        self.blocked = dict.fromkeys(Blocked, 0)
        self.held = 0
        names = (
            "blocked_on",
            "held",
            "covered",
            "port_free",
            "plane_free",
            "slot_free__0",
            "slot_free__1",
            "path_open",
        )
        self._gates = [{name: probe(f"die{d}.reads.{name}") for name in names} for d in dies]
        self._waiting = [[probe(f"die{d}.reads.waiting_{path}") for path in PATHS] for d in dies]
        self._issued = [probe(f"die{d}.issued") for d in dies]
        self._reports = [probe(f"regions.report__{k}") for k in range(len(READERS))]
        self._report = unpacker(report_layout(lanes=machine.lanes, place=place_layout(machine)))

    def clock(self, stack: Stack) -> None:
        sensed = {c.die: c.subarray for c in stack.commands if c.command is Command.SENSE}
        self.slots.clock(sensed)
        self._commands(stack)
        for die in range(len(self._gates)):
            self._blocking(die, sensed.get(die))
        for reader, handle in zip(READERS, self._reports, strict=True):
            if (bits := int(handle.value)) & 1:
                report = self._report(bits)
                for kind in ("corrected", "uncorrectable"):
                    if report[kind]:
                        self.coverage.points["ecc"].hit(f"{kind}/{reader}", report[kind])

    def _commands(self, stack: Stack) -> None:
        points = self.coverage.points
        for c in stack.commands:
            points["commands"].hit(c.command.name)
            if c.command is Command.SUSPEND:
                late = "in time" if c.activity == "runs" else "too late"
                points["suspend"].hit(f"{c.work}/{late}")
            if c.command is Command.SENSE and c.activity == "suspended":
                points["read_while_suspended"].hit(c.work)

    def _blocking(self, die: int, sensed: int | None) -> None:
        """Which gates shut out each page that stays behind in this clock."""
        gates = self._gates[die]
        if blocked_on := int(gates["blocked_on"].value):
            reason = Blocked(blocked_on)
            self.blocked[reason] += 1
            self.coverage.points["blocked_on"].hit(reason.name.lower())
        if int(gates["held"].value):
            self.held += 1
            covered = int(gates["covered"].value)
            for p, path in enumerate(PATHS):
                self.coverage.points["read_held"].hit(path, covered >> p & 1)
        waiting = [int(handle.value) for handle in self._waiting[die]]
        if not any(waiting):
            return
        shut = {
            "plane": ~int(gates["plane_free"].value),
            "sram": ~(int(gates["slot_free__0"].value) | int(gates["slot_free__1"].value)),
        }
        path_shut = ~int(gates["path_open"].value)
        port_busy = sensed is not None or not int(gates["port_free"].value)
        issued = sensed, int(self._issued[die].value) >> 1 & 1
        for p, pages in enumerate(waiting):
            for subarray in range(pages.bit_length()):
                if not pages >> subarray & 1 or (subarray, p) == issued:
                    continue
                at = ["die"] if port_busy else []
                at += [gate for gate, bits in shut.items() if bits >> subarray & 1]
                at += ["path"] if path_shut >> p & 1 else []
                if at:
                    self.coverage.points["gates"].hit(gate_bin(at))


def cover_small_read(coverage: Coverage, read: Read) -> None:
    """A read was accepted."""
    if read.asked.units:
        beats = f"{read.beats[0]}-{read.beats[-1]}"
        coverage.points["small_read"].hit(f"{read.route.name.lower()}/{beats}")


def cover_meeting(coverage: Coverage, read: Read, writes: StackWrites, clock: int) -> None:
    """A read was taken up: which writes of its pages are under way."""
    pages = range(read.asked.first, read.asked.first + read.asked.pages)
    for t in writes.open.values():
        if t.request.operation != Operation.WRITE or t.whole:
            continue
        theirs = t.request.range
        if theirs.start < pages.stop and pages.start < theirs.stop:
            order = "younger" if t.taken_up is not None and t.taken_up < clock else "older"
            path = Route(read.route).name.lower()
            coverage.points["read_meets_write"].hit(f"{order}/{path}/{t.port}")


def cover_end(coverage: Coverage, t: Transaction, status: Status) -> None:
    """A write, trim or release has ended."""
    coverage.points["write_status"].hit(status.name)
    coverage.points["write_port"].hit(f"{t.port}/{status.name}")
    for _, of_page in t.reported:
        coverage.points["page_status"].hit(of_page.name)


def cover_final(coverage: Coverage, registers: dict[str, int], stacks: list[StackWrites]) -> None:
    """Modes of the run, and what the judges have counted."""
    for mode in MODES:
        if mode in registers:
            coverage.points["modes"].hit(f"{mode}/{'on' if registers[mode] else 'off'}")
    for writes in stacks:
        counts = writes.counts
        coverage.points["array_failure"].hit("program", counts["programs_failed"])
        coverage.points["array_failure"].hit("erase", counts["erase_failures"])
        for what in ("erased", "failed"):
            coverage.points["collection"].hit(what, counts[f"collection_{what}"])
