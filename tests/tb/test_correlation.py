"""RTL and twin, read by read, on traces of the small machine."""

import dataclasses

import numpy as np
import pytest

from hw.errors import InputError
from hw.presets import preset, topology
from perfmodel.memory.twin import Path, Read, Times, Trace, play
from perfmodel.memory.twin.latencies import LATENCIES
from tb.correlation import Compared, correlate, misses, report, trace_of
from tb.correlation import compare as module
from tb.correlation.store import rtl_times
from tb.correlation.traces import KINDS
from tb.traces import times, trace_run

SEED = 31
MINI = preset("mini")


@pytest.fixture(scope="module")
def compared(verilator, tmp_path_factory) -> list[Compared]:
    folder = tmp_path_factory.mktemp("correlation")
    return correlate([f"mini-compact-{kind}-{SEED}" for kind in KINDS], folder)


def test_the_error_is_within_its_bounds(compared):
    totals = report(compared)
    assert totals["n"] == sum(len(c.trace.reads) for c in compared)
    assert misses(totals) == []


def test_every_stamp_of_the_small_machine_is_the_same(compared):
    """The twin has every mechanism that these traces meet, so nothing is left to differ."""
    for c in compared:
        assert c.rtl == c.twin, f"{c.name}: repeat with `pagewave correlate`"


def test_traces_are_offered_when_they_say(compared):
    (paced,) = [c for c in compared if "paced" in c.name]
    accepted = np.array([t.accepted for t in paced.rtl])
    wanted = accepted[0] + np.array([read.at for read in paced.trace.reads])
    # Each comes in its clock, or in the first one after it in which it may be taken.
    assert (accepted >= wanted).all()
    assert (accepted == wanted)[1:].any()
    assert (np.diff(accepted) > 0).all()


def chunk_trace() -> Trace:
    """Pages of one subarray, whose chunks close by themselves, then a stream of whole chunks."""
    wave = MINI.geometry.wave_pages
    alone = [Read(first=wave * k, pages=1, path=Path.RELAY) for k in range(8)]
    stream = [Read(first=wave * 20 + 64 * k, pages=64, path=Path.RELAY, at=9000) for k in range(10)]
    return Trace(
        machine=MINI,
        topology=topology("compact"),
        reads=(*alone, *stream),
        window_pages=6 * wave,
    )


def test_chunks_close_and_regions_come_back_in_the_same_clocks(verilator, tmp_path):
    trace = chunk_trace()
    rtl, _ = rtl_times(trace, tmp_path, "chunks")
    assert rtl == play(trace, start=rtl[0].accepted)
    # These decide in this trace; less than a slot of four clocks may not show.
    for name, change in (("chunk_idle", 4), ("emptied", -1), ("emptied", 4)):
        value = getattr(LATENCIES, name)
        object.__setattr__(LATENCIES, name, value + change)
        try:
            assert rtl != play(trace, start=rtl[0].accepted), name
        finally:
            object.__setattr__(LATENCIES, name, value)


def test_whole_regions_drain_in_the_same_clocks(verilator, tmp_path):
    by_page = trace_of("mini-compact-scattered-40")
    by_region = dataclasses.replace(by_page, drain_whole_region=True)
    rtl, _ = rtl_times(by_region, tmp_path, "regions")
    assert rtl == play(by_region, start=rtl[0].accepted) != play(by_page, start=rtl[0].accepted)


def test_busy_planes_hold_up_a_wave_of_lockstep_in_the_same_clocks(verilator, tmp_path):
    """Planes that are busy decide when a wave may open: the page that ended first is stuck."""
    pair = trace_of("mini-dash-stream-100244")
    trace = dataclasses.replace(
        pair, topology=topology("compact"), window_pages=pair.window_pages // 2
    )
    rtl, _ = rtl_times(trace, tmp_path, "planes")
    assert rtl == play(trace, start=rtl[0].accepted)


def test_times_of_the_rtl_are_kept(verilator, tmp_path, monkeypatch):
    name = f"mini-compact-hot-{SEED}"
    (first,) = correlate([name], tmp_path)
    monkeypatch.setattr("tb.correlation.store.play", None)
    played = []
    (again,) = correlate([name], tmp_path, lambda _, __, fresh: played.append(fresh))
    assert (played, again.rtl) == ([False], first.rtl)
    # Those of another state of the RTL are not.
    monkeypatch.setattr("tb.correlation.store.rtl_fingerprint", lambda: "another")
    with pytest.raises(TypeError):
        correlate([name], tmp_path)


def test_wrong_data_has_no_times(verilator):
    from tb.correlation.store import _simulation
    from tb.play import play

    trace = trace_of(f"mini-compact-hot-{SEED}")
    run = dataclasses.replace(trace_run(trace), corrupt=True)
    with pytest.raises(RuntimeError, match="wrong beats"):
        times(play(_simulation("mini", trace.topology), run))


# The figures, without a simulator -----------------------------------------------------------------


def made(late: list[int]) -> Compared:
    """A trace whose reads take 100 clocks each and are so many clocks late on the twin."""
    trace = trace_of("mini-compact-small-1")
    reads = (Read(first=0, pages=1, path=Path.DIRECT),) * len(late)
    rtl = [Times(accepted=k, first_beat=k + 9, last_beat=k + 9, done=k + 100, path=Path.DIRECT)
           for k in range(len(late))]  # fmt: skip
    twin = [dataclasses.replace(t, done=t.done + d) for t, d in zip(rtl, late, strict=True)]
    return Compared(
        name="mini-compact-small-1",
        trace=dataclasses.replace(trace, reads=reads),
        rtl=tuple(rtl),
        twin=tuple(twin),
    )


def test_error_is_the_difference_over_the_time_of_the_read():
    totals = report([made([0, -3, 2, 0]), made([0] * 4)])
    assert totals["n"] == 8
    assert totals["exact"] == 6
    assert totals["max_pct"] == 3.0
    assert (totals["worst"]["read"], totals["worst"]["error_pct"]) == (1, 3.0)
    assert totals["worst"]["twin"]["done"] - totals["worst"]["rtl"]["done"] == -3
    assert totals["median_pct"] == 0.0
    assert totals["groups"]["kind"]["small"]["traces"] == 2


@pytest.mark.parametrize(
    ("late", "missed"),
    [
        ([0, 0, 0, 2], []),
        ([1, 1, 1, 0], ["median_pct is 1.000: must be 0.5 at most"]),
        ([0, 0, 0, 9], ["p99_pct is 8.730: must be 2.0 at most"]),
    ],
)
def test_bounds_that_are_not_kept_are_named(late, missed):
    assert misses(report([made(late)])) == missed


def test_nothing_to_report():
    with pytest.raises(ValueError, match="no trace"):
        report([])


def test_a_path_that_is_not_there():
    trace = trace_of("mini-compact-stream-1")
    reads = (Read(first=0, pages=1, path=Path.RELAY),)
    with pytest.raises(InputError, match="RELAY"):
        dataclasses.replace(trace, topology=topology("direct-only"), reads=reads)


def test_parameters_name_the_corner():
    found = module.parameters(made([0]))
    assert found["topology"] == "compact"
    assert set(found) >= {"tR ns", "TSV TB/s", "link TB/s", "sensing", "cache read"}
