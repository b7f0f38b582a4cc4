"""The relay path by way of forwarding: steady rate and first byte, each beside its closed form."""

import dataclasses
import itertools
from dataclasses import dataclass
from math import ceil

from hw.hbm.relay import safe_early_pages
from hw.params import Machine
from hw.sram.regions import GROUPS, READ_CLOCKS
from tb.measurements.rates import WAVES, missed, steady
from tb.measurements.report import Measurement, Table
from tb.measurements.runs import Progress, play_all, read_run
from tb.read_result import ReadResult
from tb.settings import RelayModes

LIMIT_PCT = 0.5  # of a steady rate from its closed form
STORED_CLOCKS = 1  # from the last beat of a page to the clock in which it may be chosen
LEAVE_CLOCKS = 3  # from there to the link
REQUEST_CLOCKS = 3  # through the HBM base die


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way of forwarding, or Direct for comparison, in a long run and in one read of a chunk."""

    modes: RelayModes | None  # None: Direct
    stream: ReadResult
    single: ReadResult

    @property
    def machine(self) -> Machine:
        return self.stream.run.machine

    @property
    def name(self) -> str:
        if self.modes is None:
            return "Direct"
        how = "cut-through" if self.modes.cut_through else "store and forward"
        early = self.modes.early_pages
        return f"Relay, {how}" + (f", early grant of {early} pages" if early else "")

    @property
    def delivered(self) -> float:
        """At the GPU side, in bytes per second."""
        return steady(self.stream)[1]

    @property
    def bound(self) -> float:
        """That of the link, of chunks that are stored whole less the turn of a credit.

        A region is drained and filled in turn, one while the other is filled and drained, so a turn
        is lost every two chunks. It takes from the last page that leaves to the first that comes
        and from the last that came to the first that leaves: a read and a register, link C, the
        credit counter of the HBF base die, the read of a beat, link C, the rest of a page, storing.
        All pages begin with a frame, so drain, fill and turn are whole frames. With an early grant
        the turn passes while the last pages are taken; with cut-through the other region is empty.
        """
        machine, modes = self.machine, self.modes
        usable = machine.link.usable_bytes_per_s
        if modes is None or modes.cut_through:
            return usable
        pages = machine.relay_chunk_pages
        turn = 2 * machine.link.one_way_cycles + 3 + READ_CLOCKS + 1 + STORED_CLOCKS + GROUPS - 1
        left = max(0.0, turn - modes.early_pages * self.page_clocks)
        if not left:
            return usable
        moving = ceil((pages - 1) * self.page_clocks / GROUPS)
        period_clocks = GROUPS * (2 * moving + ceil(left / GROUPS))
        return 2 * pages * machine.geometry.page_bytes * machine.clock_hz / period_clocks

    @property
    def page_clocks(self) -> float:
        """From page to page on a link."""
        return self.machine.page_beats / float(self.machine.link_beats_per_clock)

    @property
    def later_ns(self) -> float:
        """First byte after that of Direct, but for the waits for frames, at the HBF and here.

        A link more each way, the HBM base die, and what must be whole: a page or the chunk.
        """
        machine, modes = self.machine, self.modes
        if modes is None:
            return 0.0
        pages = 1 if modes.cut_through else machine.relay_chunk_pages
        whole = (pages - 1) * self.page_clocks + machine.page_beats - 1
        way = 2 * machine.link.one_way_cycles + REQUEST_CLOCKS + STORED_CLOCKS + LEAVE_CLOCKS
        return (way + whole) / machine.clock_hz * 1e9

    @property
    def deviation_pct(self) -> float:
        return 100 * (self.delivered / self.bound - 1)

    def as_json(self) -> dict[str, object]:
        modes = self.modes
        return {
            "preset": self.machine.name,
            "path": "direct" if modes is None else "relay",
            "cut_through": modes is not None and modes.cut_through,
            "early_pages": 0 if modes is None else modes.early_pages,
            "bound_tbps": self.bound / 1e12,
            "delivered_tbps": self.delivered / 1e12,
            "deviation_pct": self.deviation_pct,
            "later_ns": self.later_ns,
            "first_byte_ns": self.single.first_byte_ns,
            "last_byte_ns": self.single.delivered.ns,
        }


def ways(machine: Machine) -> list[RelayModes | None]:
    """Direct, and all ways of Relay."""
    early = (0, safe_early_pages(machine))
    return [
        None,
        *(
            RelayModes(cut_through=cut_through, early_pages=pages)
            for cut_through, pages in itertools.product((False, True), early)
        ),
    ]


def measure(machine: Machine, seed: int, progress: Progress) -> Measurement:
    """Run a stream and one read of a chunk each way."""
    cases = ways(machine)
    pages = machine.relay_chunk_pages
    runs = []
    for modes in cases:
        route = "direct" if modes is None else "relay"
        for what in (
            read_run(machine, route, WAVES, seed=seed),
            read_run(machine, route, 1, seed=seed, pages=pages, request_pages=pages),
        ):
            of = dataclasses.replace(what, relay=modes or RelayModes())
            runs.append((f"{route}, {of.relay}, {what.waves} waves", of))
    results = play_all(runs, progress)
    seen = [
        Way(modes=modes, stream=stream, single=single)
        for modes, stream, single in zip(cases, results[::2], results[1::2], strict=True)
    ]
    return Measurement(
        name="relay",
        presets=(machine.name,),
        seed=seed,
        rows=tuple(way.as_json() for way in seen),
        tables=(_table(machine, seen),),
        misses=tuple(missed(seen, LIMIT_PCT)),
    )


def _table(machine: Machine, seen: list[Way]) -> Table:
    scale, unit = (1e12, "TB/s") if machine.link.usable_bytes_per_s >= 1e12 else (1e9, "GB/s")
    digits = 4 if scale == 1e12 else 2
    chunk_kib = machine.sram.relay_region_bytes / 1024
    direct = seen[0].single.first_byte_ns
    return Table(
        title=f"Paths of one stack pair, `{machine.name}`: steady rate in {unit}, and one read of "
        f"{chunk_kib:,g} KiB on an idle machine, in nanoseconds",
        columns=(
            *("path", "closed form", "GPU side", "deviation"),
            *("first byte", "closed form", "after Direct", "last byte"),
        ),
        rows=tuple(
            (
                way.name,
                f"{way.bound / scale:.{digits}f}",
                f"**{way.delivered / scale:.{digits}f}**",
                f"{way.deviation_pct:+.2f} %",
                f"**{way.single.first_byte_ns:,.1f}**",
                f"{way.later_ns:,.1f}",
                f"{way.single.first_byte_ns - direct:,.1f}",
                f"{way.single.delivered.ns:,.1f}",
            )
            for way in seen
        ),
    )
