"""Streams of experts for readers: what was run, what the load model says, and their tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from hw.address_map import AddressMap
from hw.params import Machine
from perfmodel.memory.striping import POLICIES, lay_out, losses, random_sets
from tb.experts import Assignment, ExpertResult
from tb.measurements.report import Table

EXPERTS = 128  # of a layer; fewer where a machine does not hold them under every policy

Rows = list[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run by name.

    Attributes:
        policy: Of placement.
        picked: Experts, in the order of reading.
        deal: Whether they are read as :func:`perfmodel.memory.striping.dealt` says instead.
        set_seed: Of a random set; ``None`` for consecutive experts.
    """

    policy: str
    picked: tuple[int, ...]
    assignment: Assignment
    deal: bool = False
    set_seed: int | None = None

    @property
    def name(self) -> str:
        kind = "consecutive" if self.set_seed is None else f"random (seed {self.set_seed})"
        order = ", dealt" if self.deal else ""
        return f"{len(self.picked)} {kind}, {self.policy}{order}, {self.assignment.value}"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A case, what it showed, and the bound of its load on the subarrays."""

    case: Case
    result: ExpertResult
    bound_clocks: float
    balanced_clocks: float

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.case.name,
            "policy": self.case.policy,
            "picked": list(self.case.picked),
            "dealt": self.case.deal,
            "set_seed": self.case.set_seed,
            "bound_clocks": self.bound_clocks,
            "balanced_clocks": self.balanced_clocks,
            **self.result.as_json(),
        }


@dataclass(frozen=True, kw_only=True)
class Modelled:
    """Loss of random sets by the load model, in percent of the balanced rate."""

    policy: str
    count: int
    sets: int
    mean_pct: float
    worst_of_20_pct: float
    spare_pct: float


def experts_of(machine: Machine, pages: int) -> int:
    """Experts of a layer on this machine: 128, or as many as every policy has room for."""
    rows = -(-pages // machine.geometry.wave_pages) + 1
    return min(EXPERTS, machine.geometry.rows // rows)


def model(
    machine: Machine, pages: int, counts: Sequence[int], sets: int, seed: int
) -> tuple[Modelled, ...]:
    """The load model over random sets, each policy; both paths, as one never senses too slowly."""
    at, experts = AddressMap(machine.geometry), experts_of(machine, pages)
    found = []
    for policy in POLICIES:
        layout = lay_out(policy, at, experts=experts, pages=pages)
        for count in counts:
            loss = losses(layout, machine, random_sets(experts, count, sets, seed), 2)
            found.append(
                Modelled(
                    policy=policy,
                    count=count,
                    sets=sets,
                    mean_pct=100 * float(loss.mean()),
                    worst_of_20_pct=100 * float(sorted(loss)[int(0.95 * len(loss))]),
                    spare_pct=100 * layout.spare,
                )
            )
    return tuple(found)


def tables(
    machine: Machine, experts: int, seen: Sequence[Seen], modelled: Sequence[Modelled]
) -> tuple[Table, ...]:
    """All tables of the experiment."""
    streams = [s for s in seen if s.case.set_seed is None]
    sets = [s for s in seen if s.case.set_seed is not None]
    return (
        _stream_table(machine, streams),
        _bubble_table(machine, streams),
        _set_table(machine, experts, streams, sets),
        _model_table(experts, modelled),
    )


def _stream_table(machine: Machine, streams: Sequence[Seen]) -> Table:
    columns = ("experts", "path", "first byte us", "first whole us", "all whole us",
               "steady TB/s", "of bound")  # fmt: skip
    rows: Rows = []
    for seen in streams:
        result = seen.result
        begin = result.reads.accepted
        steady = result.steady_bytes_per_s
        rows.append(
            (
                f"{len(seen.case.picked)}",
                seen.case.assignment.value,
                _us(machine, min(a.first_beat for a in result.arrivals) - begin),
                _us(machine, min(a.done for a in result.arrivals) - begin),
                _us(machine, result.clocks),
                "" if steady is None else f"{steady / 1e12:.3f}",
                "" if steady is None else f"{100 * steady / result.bound_bytes_per_s:.1f} %",
            )
        )
    return _table("Consecutive experts, packed", columns, rows)


def _bubble_table(machine: Machine, streams: Sequence[Seen]) -> Table:
    columns = ("experts", "path", "bubble clocks, median", "largest", "between completions us",
               "longest us", "lowest rate over one tR TB/s")  # fmt: skip
    rows: Rows = []
    for seen in streams:
        result = seen.result
        bubbles, spacing = sorted(result.bubbles), sorted(result.spacing)
        if not bubbles:
            continue
        lowest = result.lowest_bytes_per_s
        rows.append(
            (
                f"{len(seen.case.picked)}",
                seen.case.assignment.value,
                f"{bubbles[len(bubbles) // 2]:,}",
                f"{bubbles[-1]:,}",
                _us(machine, sum(spacing) / len(spacing)),
                _us(machine, spacing[-1]),
                "" if lowest is None else f"{lowest / 1e12:.3f}",
            )
        )
    return _table("Between consecutive experts of a path", columns, rows)


def _set_table(
    machine: Machine, experts: int, streams: Sequence[Seen], sets: Sequence[Seen]
) -> Table:
    base = {(len(seen.case.picked), seen.case.assignment): seen.result for seen in streams}
    columns = (
        *("experts", "policy", "set", "all sensed us", "all whole us"),
        *("loss by load", "loss, sensed", "loss, whole"),
    )
    rows: Rows = []
    for seen in sets:
        case, result = seen.case, seen.result
        consecutive = base[len(case.picked), case.assignment]
        rows.append(
            (
                f"{len(case.picked)}",
                case.policy + (", dealt" if case.deal else ""),
                f"{case.set_seed}",
                _us(machine, result.sensing_clocks),
                _us(machine, result.clocks),
                f"{100 * (1 - seen.balanced_clocks / seen.bound_clocks):.1f} %",
                f"{100 * (1 - consecutive.sensing_clocks / result.sensing_clocks):.1f} %",
                f"{100 * (1 - consecutive.clocks / result.clocks):.1f} %",
            )
        )
    return _table(
        f"Random experts of {experts} over both paths, against as many consecutive ones",
        columns,
        rows,
    )


def _model_table(experts: int, modelled: Sequence[Modelled]) -> Table:
    counts = tuple(dict.fromkeys(row.count for row in modelled))
    columns = (
        "policy",
        *(f"{n} of {experts}: mean, 95th" for n in counts),
        "space beyond",
    )
    rows: Rows = []
    for policy in dict.fromkeys(row.policy for row in modelled):
        of_policy = {row.count: row for row in modelled if row.policy == policy}
        cells = [
            f"{of_policy[n].mean_pct:.1f} %, {of_policy[n].worst_of_20_pct:.1f} %" for n in counts
        ]
        rows.append((policy, *cells, f"{of_policy[counts[0]].spare_pct:.1f} %"))
    title = f"Loss by load over {modelled[0].sets:,} random sets, both paths"
    return _table(title, columns, rows)


def _table(title: str, columns: tuple[str, ...], rows: Rows) -> Table:
    return Table(title=title, columns=columns, rows=tuple(rows))


def _us(machine: Machine, clocks: float) -> str:
    return f"{clocks / machine.clock_hz * 1e6:,.2f}"
