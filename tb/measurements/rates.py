"""Steady read rates over TSV rate, paths, sensing and cache read, each beside its closed form."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hw.params import Machine, Sensing
from tb.measurements.report import Measurement, Table
from tb.measurements.runs import Progress, play_all, read_run
from tb.read_result import ReadResult

# TSV rate in multiples of the rate of one link, and paths: 1.6 to 4.096 TB/s in `paper`.
CELLS = ((1.0, 1), (1.0, 2), (1.5, 2), (2.0, 1), (2.0, 2), (2.56, 2))
MODES = tuple(itertools.product(Sensing, (True, False)))
# A pair holds up to three waves between sensing and GPU: two in the transfer regions, one in the
# relay regions. When the fourth wave is in, all buffers are as full as they will be; until the last
# but three is out, none runs dry. What lies between is the same for a run of any length.
SKIP = 3  # waves at each end, besides the first and the last
WAVES = 12
LIMIT_PCT = 2.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One case: registers and paths, and the rates seen at both points."""

    machine: Machine
    paths: int
    result: ReadResult

    @property
    def bound(self) -> float:
        return self.machine.steady_bound_bytes_per_s(self.paths)

    @property
    def filled(self) -> float:
        return steady(self.result)[0]

    @property
    def delivered(self) -> float:
        return steady(self.result)[1]

    @property
    def deviation_pct(self) -> float:
        """The larger one of both points, signed."""
        return max(
            (100 * (rate / self.bound - 1) for rate in (self.filled, self.delivered)), key=abs
        )

    @property
    def name(self) -> str:
        return name(self.machine, self.paths)

    def as_json(self) -> dict[str, object]:
        machine = self.machine
        return {
            "preset": machine.name,
            "tsv_tbps": machine.tsv.bytes_per_s / 1e12,
            "paths": self.paths,
            "link_tbps": machine.link.usable_bytes_per_s / 1e12,
            "t_read_us": machine.nand.t_read_ns / 1e3,
            "sense": machine.nand.sensing.value,
            "cache_read": machine.nand.cache_read,
            "waves": self.result.run.waves,
            "bound_tbps": self.bound / 1e12,
            "fill_tbps": self.filled / 1e12,
            "delivered_tbps": self.delivered / 1e12,
            "deviation_pct": self.deviation_pct,
        }


def steady(result: ReadResult) -> tuple[float, float]:
    """Rates of the middle of a run, at the TSV ports and at the GPU side."""
    rates = [point.steady_bytes_per_s(skip=SKIP) for point in (result.fill, result.delivered)]
    if None in rates:
        raise ValueError(f"{result.run.waves} waves have no middle: at least {2 * SKIP + 2}")
    return rates[0], rates[1]  # type: ignore[return-value]


def name(machine: Machine, paths: int) -> str:
    """A short name of the case."""
    return (
        f"TSV {machine.tsv.bytes_per_s / 1e12:.4g} TB/s, {paths} path{'s' if paths > 1 else ''}, "
        f"{machine.nand.sensing.value}, cache read {'on' if machine.nand.cache_read else 'off'}"
    )


def grid(machine: Machine) -> list[tuple[Machine, int]]:
    """Registers and paths of every case."""
    link_tbps = machine.link.usable_bytes_per_s / 1e12
    return [
        (
            machine.with_registers(
                tsv_tbps=multiple * link_tbps, sensing=sensing, cache_read=cache_read
            ),
            paths,
        )
        for (multiple, paths), (sensing, cache_read) in itertools.product(CELLS, MODES)
    ]


def measure(machine: Machine, seed: int, progress: Progress) -> Measurement:
    """Run the grid on ``machine``."""
    cases = grid(machine)
    runs = [
        (name(of, paths), read_run(of, "dual" if paths == 2 else "direct", WAVES, seed=seed))
        for of, paths in cases
    ]
    results = play_all(runs, progress)
    cells = [
        Cell(machine=of, paths=paths, result=result)
        for (of, paths), result in zip(cases, results, strict=True)
    ]
    return Measurement(
        name="rates",
        presets=(machine.name,),
        seed=seed,
        rows=tuple(cell.as_json() for cell in cells),
        tables=(_table(machine, cells),),
        misses=tuple(missed(cells)),
    )


class Compared(Protocol):
    """A rate at the GPU side beside its closed form, in bytes per second."""

    @property
    def name(self) -> str: ...

    @property
    def bound(self) -> float: ...

    @property
    def delivered(self) -> float: ...

    @property
    def deviation_pct(self) -> float: ...


def missed(cells: Sequence[Compared], limit_pct: float = LIMIT_PCT) -> list[str]:
    """A line for each cell that lies too far from its closed form."""
    return [
        f"{cell.name}: {cell.delivered / 1e12:.4f} TB/s is {cell.deviation_pct:+.2f} % from "
        f"{cell.bound / 1e12:.4f}"
        for cell in cells
        if abs(cell.deviation_pct) > limit_pct
    ]


def _table(machine: Machine, cells: list[Cell]) -> Table:
    scale, unit = (1e12, "TB/s") if machine.tsv.bytes_per_s >= 1e12 else (1e9, "GB/s")
    digits = 4 if scale == 1e12 else 1
    link = machine.link.usable_bytes_per_s / scale
    return Table(
        title=f"Steady read rate of one stack pair, `{machine.name}`, tR "
        f"{machine.nand.t_read_ns / 1e3:.4g} us, in {unit}",
        columns=(
            *("TSV", "links", "sensing", "cache read"),
            *("closed form", "TSV ports", "GPU side", "deviation"),
        ),
        rows=tuple(
            (
                f"{cell.machine.tsv.bytes_per_s / scale:.4g}",
                f"{cell.paths} x {link:.4g}",
                cell.machine.nand.sensing.value,
                "on" if cell.machine.nand.cache_read else "off",
                f"{cell.bound / scale:.{digits}f}",
                f"{cell.filled / scale:.{digits}f}",
                f"**{cell.delivered / scale:.{digits}f}**",
                f"{cell.deviation_pct:+.2f} %",
            )
            for cell in cells
        ),
        left=4,
    )
