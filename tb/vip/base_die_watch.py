"""Tells the judges in which order one HBF base die takes things up."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data

from hw.hbf.block_layouts import BlockOperation, operation_layout
from hw.hbf.block_port import answer_layout
from hw.hbf.layouts import descriptor_layout
from hw.hbf.write_acceptance import range_layout
from hw.params import Machine, Topology
from hw.ucie.transaction import PATHS, Header, Route
from tb.vip.probes import Probes
from tb.vip.scoreboard import Read, Scoreboard

SILENT = (BlockOperation.SENSED, BlockOperation.QUERY)  # not asked for by writes


def unpacker(layout: Any) -> Callable[[int], dict[str, int]]:
    """From the bits of a layout to its fields; names of inner ones are joined by dots."""
    places: list[tuple[str, int, int]] = []

    def walk(inner: Any, prefix: str, low: int) -> None:
        for name, field in data.Layout.cast(inner):
            if isinstance(field.shape, data.Layout):
                walk(field.shape, f"{prefix}{name}.", low + field.offset)
            else:
                width = Shape.cast(field.shape).width
                places.append((prefix + str(name), low + field.offset, (1 << width) - 1))

    walk(layout, "", 0)
    return lambda bits: {name: bits >> low & mask for name, low, mask in places}


class BaseDieWatch:
    """Watches requests that are taken up and block tables that are asked, in every clock."""

    def __init__(self, dut: Any, machine: Machine, topology: Topology, pair: int) -> None:
        probe = Probes(dut, pair)
        dies = range(machine.geometry.dies)
        there = {"direct": topology.direct, "relay": topology.relay}
        ports = {"direct": "write", "relay": "writeback"}
        self._pair = pair
        self._ports = [ports[path] for path in PATHS if there[path]]
        self._routes = [
            (route, probe(f"die0.{path}__valid"), probe(f"die0.{path}__payload"))
            for route, path in zip(Route, PATHS, strict=True)
            if there[path]
        ]
        self._accepted = probe("tracker.acceptance.accepted")
        self._retired = probe("tracker.retired")
        self._ranges = [probe(f"tracker.ranges__{n}") for n in range(machine.credits.writes)]
        self._asks = [
            [probe(f"die{d}.writes.op__{name}") for name in ("valid", "ready", "payload")]
            for d in dies
        ]
        self._answers = [probe(f"die{d}.answer") for d in dies]
        self._header = unpacker(Header)
        self._range = unpacker(range_layout(machine))
        self._descriptor = unpacker(descriptor_layout(machine))
        self._operation = unpacker(operation_layout(machine))
        self._answer = unpacker(answer_layout(machine))

    def clock(self, scoreboard: Scoreboard) -> list[Read]:
        """Tell the judges; gives the reads that were taken up."""
        writes = scoreboard.writes.stacks[self._pair]
        reads = [
            scoreboard.taken_up(route, self._pair, self._descriptor(int(descriptor.value))["tag"])
            for route, valid, descriptor in self._routes
            if int(valid.value)
        ]
        bits = int(self._accepted.value)
        if bits & 1:
            link = bits >> 129 & 1
            writes.taken_up(self._ports[link], self._header(bits >> 1))
        if retired := int(self._retired.value):
            for n, span in enumerate(self._ranges):
                if retired >> n & 1:
                    pages = self._range(int(span.value))
                    writes.retired(pages["first"], pages["end"])
        for die, (valid, ready, payload) in enumerate(self._asks):
            if int(valid.value) and int(ready.value):
                op = self._operation(int(payload.value))
                writes.asks(
                    die,
                    BlockOperation(op["kind"]),
                    op["where.subarray"],
                    op["where.block"],
                    op["page"],
                    op["owner"],
                )
        for die, handle in enumerate(self._answers):
            bits = int(handle.value)
            if bits & 1:
                answer = self._answer(bits)
                kind = BlockOperation(answer["kind"])
                if kind not in SILENT:
                    writes.answered(die, kind, answer["status"], bool(answer["erase"]))
        return reads

    def finish(self) -> None:
        """The tracker may hold no pages.

        Raises:
            AssertionError: some pages are held.
        """
        for span in self._ranges:
            pages = self._range(int(span.value))
            assert not pages["valid"], (
                f"stack {self._pair}: the tracker holds pages {pages['first']} to "
                f"{pages['end'] - 1} at the end"
            )
