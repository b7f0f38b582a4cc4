"""Goodput of a UCIe link by itself, over format, transfer, pacer, way and errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from hw.params import Machine
from hw.ucie.adapter import replay_rows
from hw.ucie.flit import FLIT_BYTES, FORMATS, FlitFormat
from hw.ucie.framing import SLOT_BYTES
from hw.ucie.link_shape import ANSWER_CLOCKS, LinkShape, link_shape
from tb.link_runs import (
    ALL,
    CLOCK_HZ,
    PACED,
    LinkResult,
    LinkRun,
    link_build,
    play_link,
)
from tb.measurements.report import Measurement, Table
from tb.measurements.runs import Progress
from tb.simulator import Build

MIB = 1 << 20
TRANSFERS = (MIB, 8 * MIB)
PACER = Fraction(PACED, ALL)
# Of the deviation from the closed form; replays that find a NOP to repeat cost more than it says.
LIMITS = {"transfers": 0.01, "round trips": 0.01, "errors": 0.012}
# From the clock in which the first beat is chosen: source 1, queue of the sender 2, packer 1,
# adapter 2, adapter at the other end 1, unpacker 1, queue of the receiver 2; the channel on top.
BLOCK_CLOCKS = 10
NAK_CLOCKS = ANSWER_CLOCKS + 1  # until the group is sent again
CHANNELS = (2, 6, 12, 13, 15, 18, 24)  # clocks each way, of the table of round trips
ERRORS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
DEEP = 128  # beats of credit, so that the rows of the replay buffer limit first


@dataclass(frozen=True)
class Factor:
    """What a layer leaves of the rate, and why."""

    name: str
    share: Fraction


def factors(shape: LinkShape) -> tuple[Factor, ...]:
    """From the raw rate of the lanes to that of data, one loss after the other."""
    flit_format, layout = shape.flit_format, shape.layout
    payload = shape.flits * flit_format.payload_bytes
    slots = layout.slots * SLOT_BYTES
    return (
        Factor("flit headers, CRCs and reserved bytes", flit_format.efficiency),
        Factor("bytes behind the last slot", Fraction(slots, payload)),
        Factor("slot of messages, credits among them", Fraction(layout.data_slots, layout.slots)),
        Factor("header of each beat", Fraction(layout.beat_slots - 1, layout.beat_slots)),
    )


def beats_a_clock(shape: LinkShape, *, paced: bool) -> Fraction:
    """Closed form of the steady rate, without errors."""
    beats = Fraction(shape.group_bytes, 8 * shape.lanes)
    for factor in factors(shape):
        beats *= factor.share
    return min(PACER, beats) if paced else beats


def transfer_clocks(shape: LinkShape, beats: int, *, paced: bool, channel: int) -> float:
    """From the first beat at the sender to the last one at the consumer."""
    # The end of the last beat waits for company until the packer gives up.
    last = shape.flush + 1
    return float((beats - 1) / beats_a_clock(shape, paced=paced)) + BLOCK_CLOCKS + channel + last


def go_back_n(group_errors: float, round_trip: int) -> float:
    """Share of the groups that bring something: each one that fails costs a round trip."""
    return (1 - group_errors) / (1 - group_errors + group_errors * round_trip)


def group_errors(shape: LinkShape, flit_errors: float) -> float:
    """A group is dropped whole if one of its flits is wrong."""
    return 1 - (1 - flit_errors) ** shape.flits


@dataclass(frozen=True)
class Case:
    """One figure beside its closed form, in bytes of data a second or beats a clock."""

    labels: Mapping[str, object]
    measured: float
    expected: float

    @property
    def deviation(self) -> float:
        return self.measured / self.expected - 1

    def as_json(self) -> dict[str, object]:
        return {**self.labels, "measured": self.measured, "expected": self.expected}


def transfer_run(shape: LinkShape, transfer_bytes: int, *, paced: bool) -> LinkRun:
    """One transfer from end to end, nothing else on the link but the credits that it needs."""
    beats = transfer_bytes // (8 * shape.lanes)
    return LinkRun(beats=(beats, 0), rate=(PACED if paced else ALL, ALL), steady_from=beats // 10)


def transfer(shape: LinkShape, build: Build, transfer_bytes: int, *, paced: bool) -> Case:
    """The rate of a whole transfer, its latency with it."""
    run = transfer_run(shape, transfer_bytes, paced=paced)
    result, beats = play_link(build, run), run.beats[0]
    clocks = result.end[0] - result.begin[0]
    expected = transfer_clocks(shape, beats, paced=paced, channel=run.cycles)
    per_s = 8 * shape.lanes * CLOCK_HZ
    labels = {
        "format": shape.flit_format.number,
        "bytes": beats * 8 * shape.lanes,
        "pacer": paced,
    }
    return Case(labels, beats / clocks * per_s, beats / expected * per_s)


def steady(run: LinkRun, result: LinkResult) -> float:
    """Beats a clock from beat ``steady_from`` to the last one."""
    return (run.beats[0] - 1 - run.steady_from) / (result.end[0] - result.steady[0])


def round_trip(shape: LinkShape, build: Build, channel: int, *, paced: bool, beats: int) -> Case:
    """The steady rate over a channel of some length."""
    rate = PACED if paced else ALL
    run = LinkRun(beats=(beats, 0), rate=(rate, ALL), cycles=channel, steady_from=beats // 4)
    clocks = ANSWER_CLOCKS + 2 * channel
    rows = shape.rows or replay_rows(shape.flits)
    full = beats_a_clock(shape, paced=False) * min(Fraction(1), Fraction(rows, clocks))
    expected = min(full, PACER) if paced else full
    labels = {
        "format": shape.flit_format.number,
        "channel": channel,
        "round_trip": clocks,
        "pacer": paced,
    }
    return Case(labels, steady(run, play_link(build, run)), float(expected))


def erring(shape: LinkShape, build: Build, flit_errors: float, *, beats: int) -> Case:
    """The steady rate with errors on the way of the data."""
    run = LinkRun(
        beats=(beats, 0), errors=(flit_errors, 0.0), steady_from=beats // 20, timeout=20_000_000
    )
    result = play_link(build, run)
    failing = group_errors(shape, flit_errors)
    share = go_back_n(failing, NAK_CLOCKS + 2 * run.cycles)
    labels = {"flit_errors": flit_errors, "group_errors": failing, "struck": result.struck[0]}
    return Case(labels, steady(run, result), float(beats_a_clock(shape, paced=False)) * share)


def formats(machine: Machine) -> tuple[FlitFormat, ...]:
    """Those in which the flits of a machine come; only those of 256 bytes come in two."""
    own = link_shape(machine).flit_format
    return FORMATS[::-1] if own.flit_bytes == FLIT_BYTES else (own,)


def measure(machine: Machine, seed: int, progress: Progress) -> Measurement:
    """All of it; the errors are the same whatever the seed of the addresses is."""
    found: dict[str, list[Case]] = {"transfers": [], "round trips": [], "errors": []}
    shapes = [link_shape(machine, flit_format) for flit_format in formats(machine)]
    for shape in shapes:
        progress(f"{machine.name}, format {shape.flit_format.number}: building if it is new ...")
        build = link_build(shape)
        for transfer_bytes in TRANSFERS:
            for paced in (False, True):
                found["transfers"].append(transfer(shape, build, transfer_bytes, paced=paced))
    deep = [link_build(shape, depth_beats=DEEP) for shape in shapes]
    for shape, build in zip(shapes, deep, strict=True):
        for channel in CHANNELS:
            for paced in (False, True):
                case = round_trip(shape, build, channel, paced=paced, beats=8_000)
                found["round trips"].append(case)
    for flit_errors in ERRORS:
        progress(f"flit errors {flit_errors:g}")
        beats = int(min(200_000, 4_000 / flit_errors))
        found["errors"].append(erring(shapes[0], deep[0], flit_errors, beats=max(beats, 40_000)))
    misses = [
        f"{kind} {dict(case.labels)}: {100 * case.deviation:+.2f} %"
        for kind, limit in LIMITS.items()
        for case in found[kind]
        if abs(case.deviation) > limit
    ]
    rows = [{"kind": kind, **case.as_json()} for kind, cases in found.items() for case in cases]
    return Measurement(
        name="goodput",
        presets=(machine.name,),
        seed=seed,
        rows=tuple(rows),
        tables=(
            _factors_table(shapes),
            _transfers_table(found["transfers"]),
            _round_trips_table(shapes[0], found["round trips"]),
            _errors_table(found["errors"]),
        ),
        misses=tuple(misses),
    )


def _factors_table(shapes: list[LinkShape]) -> Table:
    rows, raw = [], [shape.group_bytes * CLOCK_HZ for shape in shapes]
    rows.append(("raw lanes", *(f"{rate / 1e12:.3f}" for rate in raw)))
    for k, factor in enumerate(factors(shapes[0])):
        cells = []
        for which, shape in enumerate(shapes):
            share = factors(shape)[k].share
            raw[which] *= float(share)
            cells.append(f"{raw[which] / 1e12:.3f} (x {share.numerator}/{share.denominator})")
        rows.append((f"after {factor.name}", *cells))
    return Table(
        title="Rate in TB/s, one loss after the other",
        columns=("", *(f"format {shape.flit_format.number}" for shape in shapes)),
        rows=tuple(rows),
    )


def _transfers_table(cases: list[Case]) -> Table:
    return Table(
        title="Whole transfers, their latency with them, in TB/s of data",
        columns=("format", "transfer", "pacer", "closed form", "measured", "deviation"),
        rows=tuple(
            (
                str(case.labels["format"]),
                f"{int(str(case.labels['bytes'])) // MIB} MiB",
                "25 of 32" if case.labels["pacer"] else "off",
                f"{case.expected / 1e12:.4f}",
                f"{case.measured / 1e12:.4f}",
                f"{100 * case.deviation:+.2f} %",
            )
            for case in cases
        ),
        left=3,
    )


def _round_trips_table(shape: LinkShape, cases: list[Case]) -> Table:
    rows = shape.rows or replay_rows(shape.flits)
    return Table(
        title=f"Steady beats a clock over the round trip, {rows} groups unacknowledged at most",
        columns=(
            *("format", "channel each way", "round trip", "pacer"),
            *("closed form", "measured", "deviation"),
        ),
        rows=tuple(
            (
                str(case.labels["format"]),
                f"{case.labels['channel']} clocks",
                f"{case.labels['round_trip']} clocks",
                "25 of 32" if case.labels["pacer"] else "off",
                f"{case.expected:.4f}",
                f"{case.measured:.4f}",
                f"{100 * case.deviation:+.2f} %",
            )
            for case in cases
        ),
        left=4,
    )


def _errors_table(cases: list[Case]) -> Table:
    return Table(
        title="Steady beats a clock with errors on the way of the data, in the first format",
        columns=(
            *("errors a flit", "errors a group", "flits struck"),
            *("go-back-N", "measured", "deviation"),
        ),
        rows=tuple(
            (
                f"{case.labels['flit_errors']:g}",
                f"{case.labels['group_errors']:.2e}",
                f"{case.labels['struck']:,}",
                f"{case.expected:.4f}",
                f"{case.measured:.4f}",
                f"{100 * case.deviation:+.2f} %",
            )
            for case in cases
        ),
        left=0,
    )
