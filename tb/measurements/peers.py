"""Public models of HBF and the RTL on their geometries, side by side.

A channel of a peer is a TSV lane here, and no peer has links behind its channels. So pages count
where they get into the transfer regions; what the links then deliver is told beside.
"""

from dataclasses import dataclass

from hw.hbf.layouts import MAX_PAGES
from hw.params import Machine
from tb.measurements.published import ONE_SHOTS, SUSTAINED, OneShot, Sustained
from tb.measurements.rates import LIMIT_PCT, WAVES, steady
from tb.measurements.report import Measurement, Table
from tb.measurements.runs import Progress, play_all, read_run
from tb.read_result import ReadResult
from tb.reads import ReadRun


def one_shot_ns(machine: Machine, waves: int) -> float:
    """Closed form of a run whose pages are all asked for at once: the last page is in a region.

    The first wave is sensed while the TSVs idle, the last one is moved while the array idles; in
    between a wave takes the steady period.
    """
    wave = machine.geometry.wave_bytes
    period_ns = wave / machine.steady_bound_bytes_per_s(1) * 1e9
    return machine.nand.t_read_ns + (waves - 1) * period_ns + wave / machine.tsv.bytes_per_s * 1e9


def _one_shot_run(case: OneShot, seed: int) -> ReadRun:
    pages = min(MAX_PAGES, case.waves * case.machine.geometry.wave_pages)
    # Of one wave all pages fit in the regions, so one path will do.
    return read_run(case.machine, "direct", case.waves, request_pages=pages, seed=seed)


def paths(machine: Machine) -> int:
    """The fewest paths whose links do not limit ``machine``."""
    bounds = [machine.steady_bound_bytes_per_s(n) for n in (1, 2)]
    return 1 if bounds[0] == bounds[1] else 2


def _sustained_run(case: Sustained, seed: int) -> ReadRun:
    route = "dual" if paths(case.machine) == 2 else "direct"
    return read_run(case.machine, route, WAVES, seed=seed)


def measure(
    seed: int,
    progress: Progress,
    one_shots: tuple[OneShot, ...] = ONE_SHOTS,
    sustained: tuple[Sustained, ...] = SUSTAINED,
) -> Measurement:
    """Run every case on the RTL."""
    runs = [
        *((f"{case.id}, one shot", _one_shot_run(case, seed)) for case in one_shots),
        *((f"{case.id}, sustained", _sustained_run(case, seed)) for case in sustained),
    ]
    results = play_all(runs, progress)
    shots = [
        Shot(case=case, result=result)
        for case, result in zip(one_shots, results[: len(one_shots)], strict=True)
    ]
    streams = [
        Stream(case=case, result=result)
        for case, result in zip(sustained, results[len(one_shots) :], strict=True)
    ]
    return Measurement(
        name="peers",
        presets=tuple(dict.fromkeys(run.machine.name for _, run in runs)),
        seed=seed,
        rows=(*(shot.as_json() for shot in shots), *(stream.as_json() for stream in streams)),
        tables=(_rate_table(shots), _time_table(shots), _stream_table(streams)),
        misses=tuple(
            f"{stream.case.id}, sustained: {stream.rate / 1e9:.1f} GB/s is "
            f"{stream.deviation_pct:+.2f} % from {stream.bound / 1e9:.1f}"
            for stream in streams
            if abs(stream.deviation_pct) > LIMIT_PCT
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A case and its run: everything asked for at once."""

    case: OneShot
    result: ReadResult

    @property
    def closed_ns(self) -> float:
        return one_shot_ns(self.case.machine, self.case.waves)

    @property
    def rest_ns(self) -> float:
        """What the closed form leaves out: the way of the request, and clocks between commands."""
        return self.result.fill.ns - self.closed_ns

    @property
    def peer_ns(self) -> float:
        """How long the peer takes for the same bytes."""
        return self.result.fill.bytes / self.case.peer_bytes_per_s * 1e9

    def as_json(self) -> dict[str, object]:
        fill, delivered = self.result.fill, self.result.delivered
        return {
            "id": self.case.id,
            "kind": "one shot",
            "peer": self.case.peer,
            "preset": self.case.machine.name,
            "pages": self.result.fill.bytes // self.case.machine.geometry.page_bytes,
            "peer_bytes_per_s": self.case.peer_bytes_per_s,
            "peer_ns": self.peer_ns,
            "fill_bytes_per_s": fill.bytes_per_s,
            "fill_ns": fill.ns,
            "closed_form_ns": self.closed_ns,
            "rest_ns": self.rest_ns,
            "delivered_bytes_per_s": delivered.bytes_per_s,
            "delivered_ns": delivered.ns,
        }


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A case and its run: waves without end."""

    case: Sustained
    result: ReadResult

    @property
    def bound(self) -> float:
        return self.case.machine.steady_bound_bytes_per_s(paths(self.case.machine))

    @property
    def point(self) -> int:
        """Where it is judged: 0 at the TSV ports, 1 at the GPU side.

        Behind slow links the TSVs still fill the regions of the die.
        """
        return int(self.case.limit == "links")

    @property
    def rate(self) -> float:
        return steady(self.result)[self.point]

    @property
    def rates(self) -> tuple[str, str]:
        """At both points, the one that is judged in bold."""
        shown = [_gb(rate) for rate in steady(self.result)]
        shown[self.point] = f"**{shown[self.point]}**"
        return shown[0], shown[1]

    @property
    def deviation_pct(self) -> float:
        return 100 * (self.rate / self.bound - 1)

    def as_json(self) -> dict[str, object]:
        filled, delivered = steady(self.result)
        return {
            "id": self.case.id,
            "kind": "sustained",
            "peer": self.case.peer,
            "preset": self.case.machine.name,
            "peer_bytes_per_s": self.case.peer_bytes_per_s,
            "bound_bytes_per_s": self.bound,
            "fill_bytes_per_s": filled,
            "delivered_bytes_per_s": delivered,
            "deviation_pct": self.deviation_pct,
        }


def _gb(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else f"{bytes_per_s / 1e9:,.1f}"


def _rate_table(shots: list[Shot]) -> Table:
    return Table(
        title="Everything asked for at once, one stack, GB/s from the first request to the last "
        "byte; the peer's published figure, then this RTL",
        columns=(
            *("case", "peer and geometry", "pages", "peer"),
            *("TSV ports", "GPU side", "RTL to peer"),
        ),
        rows=tuple(
            (
                shot.case.id,
                shot.case.title,
                f"{shot.result.fill.bytes // shot.case.machine.geometry.page_bytes:,}",
                _gb(shot.case.peer_bytes_per_s),
                f"**{_gb(shot.result.fill.bytes_per_s)}**",
                _gb(shot.result.delivered.bytes_per_s),
                f"{100 * (shot.peer_ns / shot.result.fill.ns - 1):+.1f} %",
            )
            for shot in shots
        ),
        left=2,
    )


def _time_table(shots: list[Shot]) -> Table:
    """Where the time goes: the peer's sum, ours, and what ours leaves to the logic."""
    return Table(
        title="The same in nanoseconds: sums of mechanisms, `rest` is what they leave",
        columns=("case", "peer", "peer's sum", "TSV ports", "sum here", "rest here"),
        rows=tuple(
            (
                shot.case.id,
                f"{shot.peer_ns:,.0f}",
                shot.case.peer_sum,
                f"{shot.result.fill.ns:,.1f}",
                _sum(shot.case),
                f"{shot.rest_ns:,.1f}",
            )
            for shot in shots
        ),
        left=1,
    )


def _sum(case: OneShot) -> str:
    """The closed form in words: what is overlapped, what is not."""
    machine, waves = case.machine, case.waves
    wave = machine.geometry.wave_bytes
    fill_ns = wave / machine.tsv.bytes_per_s * 1e9
    sense = f"{machine.nand.t_read_ns:,.0f}"
    between = ""
    if waves > 1:
        period_ns = wave / machine.steady_bound_bytes_per_s(1) * 1e9
        between = f" + {waves - 1} x {period_ns:,.0f}"
    return f"{sense}{between} + {fill_ns:,.0f} = {one_shot_ns(machine, waves):,.0f}"


def _stream_table(streams: list[Stream]) -> Table:
    return Table(
        title="Sustained, one stack, GB/s: the peer's figure where it gives one, then this RTL",
        columns=(
            *("case", "peer and geometry", "limit", "peer"),
            *("TSV ports", "GPU side", "closed form", "deviation"),
        ),
        rows=tuple(
            (
                stream.case.id,
                stream.case.title,
                stream.case.limit,
                _gb(stream.case.peer_bytes_per_s),
                *stream.rates,
                _gb(stream.bound),
                f"{stream.deviation_pct:+.2f} %",
            )
            for stream in streams
        ),
        left=3,
    )
