"""First byte of one read on an idle machine, over route, size of the read and way of draining."""

import dataclasses
import itertools
from dataclasses import dataclass

from hw.params import Machine
from tb.measurements.report import Measurement, Table
from tb.measurements.runs import Progress, play_all, read_run
from tb.read_result import ReadResult
from tb.settings import Modes

ROUTES = ("direct", "relay")


@dataclass(frozen=True, kw_only=True)
class FirstByte:
    """One read, and what its first byte waited for."""

    route: str
    result: ReadResult

    @property
    def machine(self) -> Machine:
        return self.result.run.machine

    @property
    def pages(self) -> int:
        return self.result.run.pages

    @property
    def whole_region(self) -> bool:
        return self.result.run.modes.drain_whole_region

    @property
    def fill_ns(self) -> float:
        """A page on the TSV lane of its die; all pages of a die if the whole region must fill."""
        machine = self.machine
        beats_per_s = float(machine.tsv_beats_per_clock_per_die) * machine.clock_hz
        pages = -(-self.pages // machine.geometry.dies) if self.whole_region else 1
        return pages * machine.page_beats / beats_per_s * 1e9

    @property
    def chunk_ns(self) -> float:
        """A relay chunk on link C, which is stored as a whole before link B sends it on."""
        if self.route == "direct":
            return 0.0
        pages = min(self.pages, self.machine.relay_chunk_pages)
        machine = self.machine
        return pages * machine.geometry.page_bytes / machine.link.usable_bytes_per_s * 1e9

    @property
    def rest_ns(self) -> float:
        """Links, queues and the clock of the frames."""
        sensed = self.machine.t_read_cycles / self.machine.clock_hz * 1e9
        return self.result.first_byte_ns - sensed - self.fill_ns - self.chunk_ns

    def as_json(self) -> dict[str, object]:
        return {
            "preset": self.machine.name,
            "route": self.route,
            "pages": self.pages,
            "drain_whole_region": self.whole_region,
            "first_byte_ns": self.result.first_byte_ns,
            "t_read_ns": self.machine.nand.t_read_ns,
            "fill_ns": self.fill_ns,
            "chunk_ns": self.chunk_ns,
            "rest_ns": self.rest_ns,
            "last_byte_ns": self.result.delivered.ns,
        }


def sizes(machine: Machine) -> tuple[int, ...]:
    """Pages of the reads: one page, a relay chunk, a wave."""
    return (1, machine.relay_chunk_pages, machine.geometry.wave_pages)


def measure(machine: Machine, seed: int, progress: Progress) -> Measurement:
    """Run one read over each route in each size."""
    cases = list(itertools.product((False, True), ROUTES, sizes(machine)))
    runs = [
        (
            f"{route}, {pages} pages{', whole region' if whole else ''}",
            dataclasses.replace(
                read_run(machine, route, 1, pages=pages, request_pages=pages, seed=seed),
                modes=Modes(drain_whole_region=whole),
            ),
        )
        for whole, route, pages in cases
    ]
    results = play_all(runs, progress)
    seen = [
        FirstByte(route=route, result=result)
        for (_, route, _), result in zip(cases, results, strict=True)
    ]
    return Measurement(
        name="first-byte",
        presets=(machine.name,),
        seed=seed,
        rows=tuple(first.as_json() for first in seen),
        tables=(_table(machine, seen),),
    )


def _table(machine: Machine, seen: list[FirstByte]) -> Table:
    return Table(
        title=f"First byte of one read, `{machine.name}` and idle, in nanoseconds",
        columns=(
            "route",
            "read",
            "drains",
            "first byte",
            "tR",
            "fill",
            "relay chunk",
            "rest",
            "last byte",
        ),
        rows=tuple(
            (
                first.route,
                f"{first.pages * machine.geometry.page_bytes / 1024:,g} KiB",
                "whole region" if first.whole_region else "page by page",
                f"**{first.result.first_byte_ns:,.1f}**",
                f"{machine.nand.t_read_ns:,.1f}",
                f"{first.fill_ns:,.1f}",
                f"{first.chunk_ns:,.1f}",
                f"{first.rest_ns:,.1f}",
                f"{first.result.delivered.ns:,.1f}",
            )
            for first in seen
        ),
        left=3,
    )
