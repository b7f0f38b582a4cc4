"""The cells of the HBF base die block by block, as tables and as JSON."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hw.hbf.base_die import HbfBaseDie
from hw.params import Machine
from hw.source import rtl_fingerprint
from tb.measurements.report import Table
from tb.simulator.tools import REPOSITORY
from tb.synthesis.netlist import TOP, Cells, Netlist, convert, examine, synthesize

BUILD = REPOSITORY / "build" / "cells"

_COLUMNS = ("instances", "flip-flops", "gates", "memory bits", "SRAM bits")
_ITSELF = "the die itself"


@dataclass(frozen=True, kw_only=True)
class Block:
    """Modules of equal cells whose names differ in numbers only.

    Attributes:
        name: Place in the hierarchy, with ``*`` for a number that differs.
        instances: In the whole die.
        cells: Of one instance, without the blocks inside it.
    """

    name: str
    instances: int
    cells: Cells


@dataclass(frozen=True, kw_only=True)
class CellReport:
    """What the HBF base die of a machine is made of.

    Attributes:
        name: Of the preset; names the block of a page that takes the tables.
        machine_fingerprint: Of that preset.
        blocks: Every block of the hierarchy, in its order.
        parts: The blocks right below the top, each with all that is inside it.
        total: The whole die.
    """

    name: str
    machine_fingerprint: str
    blocks: tuple[Block, ...]
    parts: tuple[Block, ...]
    total: Cells

    def as_json(self) -> dict[str, object]:
        """All counts: ``blocks`` and ``parts`` for one instance, ``total`` for the die."""

        def rows(blocks: Sequence[Block]) -> list[dict[str, object]]:
            return [{"block": b.name, "instances": b.instances, **vars(b.cells)} for b in blocks]

        return {
            "preset": self.name,
            "rtl_fingerprint": rtl_fingerprint(),
            "machine_fingerprint": self.machine_fingerprint,
            "blocks": rows(self.blocks),
            "parts": rows(self.parts),
            "total": vars(self.total),
        }

    @property
    def tables(self) -> tuple[Table, ...]:
        """Parts of the die, and all blocks."""
        return (
            self._table("Parts of the die, with all that is inside them", "part", self.parts),
            self._table("Every block, without the blocks inside it", "block", self.blocks),
        )

    def markdown(self) -> str:
        """The tables with the RTL that they are of, for a page."""
        head = (
            f"RTL fingerprint `{rtl_fingerprint()}`. {self.total.latches} latches, "
            "no combinational loop."
        )
        return "\n\n".join([head, *(table.markdown() for table in self.tables)])

    def _table(self, title: str, kind: str, blocks: Sequence[Block]) -> Table:
        rows = [_row(f"`{b.name}`", b.instances, b.cells) for b in blocks]
        total = tuple(f"**{cell}**" if cell else "" for cell in _row("die", None, self.total))
        return Table(
            title=f"{title}, counts of one instance (`{self.name}`)",
            columns=(kind, *_COLUMNS),
            rows=(*rows, total),
        )


def count_cells(machine: Machine, folder: Path | None = None) -> CellReport:
    """Synthesize the HBF base die of ``machine`` and count its cells.

    Args:
        machine: Its description.
        folder: Where netlists are left, ``build/cells/NAME`` by default.

    Raises:
        UnsynthesizableError: it has a latch or a combinational loop.
        ToolError: Yosys failed.
    """
    folder = folder or BUILD / machine.name
    source = folder / "top.il"
    convert(HbfBaseDie(machine), source)
    examine([source], folder)
    return report(machine, synthesize(folder))


def report(machine: Machine, netlist: Netlist) -> CellReport:
    """Sums over ``netlist``, the synthesized die of ``machine``."""
    instances = Counter({TOP: 1})
    order = _order(netlist)
    for name in order:
        for child, times in netlist.places[name].items():
            instances[child] += instances[name] * times
    inside: dict[str, Cells] = {}
    for name in reversed(order):
        places = netlist.places[name].items()
        inside[name] = sum((inside[c] * n for c, n in places), netlist.cells[name])
    parts = [(child, netlist.places[TOP][child]) for child in order if child in netlist.places[TOP]]
    return CellReport(
        name=machine.name,
        machine_fingerprint=machine.fingerprint,
        blocks=_merged([(name, instances[name], netlist.cells[name]) for name in order]),
        parts=_merged([(TOP, 1, netlist.cells[TOP]), *((c, n, inside[c]) for c, n in parts)]),
        total=inside[TOP],
    )


def _order(netlist: Netlist) -> list[str]:
    """Names of the modules, each before those inside it, and close to them."""
    found: list[str] = []

    def visit(name: str) -> None:
        if name not in found:
            for child in reversed(sorted(netlist.places[name])):
                visit(child)
            found.append(name)

    visit(TOP)
    return found[::-1]


def _merged(modules: Sequence[tuple[str, int, Cells]]) -> tuple[Block, ...]:
    """One block for modules that differ in the numbers of their names only."""
    groups: dict[tuple[str, Cells], list[tuple[str, int]]] = {}
    for name, count, cells in modules:
        groups.setdefault((re.sub(r"\d+", "*", name), cells), []).append((name, count))
    blocks = []
    for (pattern, cells), members in groups.items():
        name = pattern if len(members) > 1 else members[0][0]
        name = _ITSELF if name == TOP else name.removeprefix(f"{TOP}.")
        blocks.append(Block(name=name, instances=sum(n for _, n in members), cells=cells))
    return tuple(blocks)


def _row(name: str, instances: int | None, cells: Cells) -> tuple[str, ...]:
    counts = (cells.flip_flops, cells.gates, cells.memory_bits, cells.macro_bits)
    shown = "" if instances is None else f"{instances:,}"
    return (name, shown, *(f"{n:,}" for n in counts))
