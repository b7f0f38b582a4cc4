"""The twin as a whole, without a simulator: closed forms of the machine, and bounds of any run."""

import dataclasses
import itertools

import pytest

from hw.errors import InputError
from hw.params import Sensing
from hw.presets import preset, topology
from perfmodel.memory.twin import Path, Read, Trace, play
from perfmodel.memory.twin.load import loads
from tb.correlation.traces import KINDS, names, trace_of
from tb.reads import with_pairs

MINI, PAPER, ONE_PAIR = preset("mini"), preset("paper"), topology("compact")


def stream(machine, path, waves, *, joined=ONE_PAIR, parts=4):
    """Requests of a quarter wave that follow each other; ``path`` of two paths in turns is None."""
    pages = machine.geometry.wave_pages // parts
    return Trace(
        machine=machine,
        topology=joined,
        reads=tuple(
            Read(first=k * pages, pages=pages, path=Path(k % 2) if path is None else path)
            for k in range(parts * waves)
        ),
        window_pages=3 * machine.geometry.wave_pages * joined.pairs,
    )


def period(times, waves, parts=4):
    """Clocks of a wave while the pipeline is full."""
    ends = sorted(t.done for t in times)[parts - 1 :: parts]
    return (ends[-3] - ends[2]) / (waves - 5)


@pytest.mark.parametrize("sensing", list(Sensing))
@pytest.mark.parametrize("cache_read", [True, False])
@pytest.mark.parametrize(("path", "paths"), [(Path.DIRECT, 1), (None, 2)])
def test_steady_rate_is_the_closed_form(sensing, cache_read, path, paths):
    machine = MINI.with_registers(sensing=sensing, cache_read=cache_read)
    bound = machine.steady_bound_bytes_per_s(paths)
    ideal = machine.geometry.wave_bytes / bound * machine.clock_hz
    # In lockstep without cache read a wave waits for the last page of the one before, whose SENSE
    # came as many clocks after the first as a die has subarrays.
    late = machine.geometry.subarrays_per_die + 1 if sensing is Sensing.LOCKSTEP else 0
    clocks = period(play(stream(machine, path, 16)), 16)
    assert 0.985 * ideal <= clocks <= 1.02 * ideal + late * (not cache_read)


def test_first_byte_at_full_size_is_that_of_the_hardware_page():
    """tR, 41 clocks of fill and 36 of links and queues; how long is a matter of the slots."""
    starts = [
        play(stream(PAPER, Path.DIRECT, 1), start=start)[0].first_beat - start for start in range(4)
    ]
    assert all(0 <= 6000 + 41 + 36 - clocks < 4 for clocks in starts)


def test_relay_comes_a_chunk_later():
    direct, relay = (play(stream(MINI, path, 2))[0] for path in (Path.DIRECT, Path.RELAY))
    chunk = MINI.relay_chunk_pages * 4 * 32 / 25
    assert chunk <= relay.first_beat - direct.first_beat <= chunk + 40


def test_a_clock_later_is_a_clock_later():
    """Nothing but the slots of four clocks knows what time it is."""
    trace = trace_of("mini-compact-scattered-1")
    early, late = play(trace), play(trace, start=400)
    for a, b in zip(early, late, strict=True):
        assert (b.accepted - a.accepted, b.done - a.done) == (400, 400)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_of_any_run(kind):
    for seed in range(2):
        trace = trace_of(f"mini-dash-{kind}-{seed}")
        times = play(trace)
        assert play(trace) == times
        least = 2 * MINI.link.one_way_cycles + trace.machine.t_read_cycles
        for read, t in zip(trace.reads, times, strict=True):
            assert t.accepted >= read.at
            assert t.accepted + least < t.first_beat <= t.last_beat < t.done
            beats = read.pages * 4 if not read.units else 1
            assert t.last_beat - t.first_beat >= beats - 1
        accepted = [t.accepted for t in times]
        assert all(a < b for a, b in itertools.pairwise(accepted))
        assert max(loads(trace, times).values()) <= 1


def test_pairs_work_alike():
    """What one pair does depends on the others only through the window, which counts all pages."""
    for path in Path:
        one = play(stream(MINI, path, 4))
        two = play(stream(MINI, path, 4, joined=with_pairs(ONE_PAIR, 2)))
        assert one == two


READ = Read(first=0, pages=1)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"reads": ()}, "reads is empty"),
        ({"window_pages": 0}, "window_pages"),
        ({"topology": dataclasses.replace(ONE_PAIR, flits=True)}, "topology.flits"),
        ({"topology": topology("relay-only"), "reads": (Read(first=0, pages=1, path=Path.DIRECT),)},
         "reads[0].path"),
        ({"reads": (Read(first=0, pages=0),)}, "reads[0].pages"),
        ({"reads": (Read(first=0, pages=4097),)}, "reads[0].pages"),
        ({"reads": (Read(first=-1, pages=1),)}, "reads[0].first"),
        ({"reads": (Read(first=MINI.geometry.stack_pages, pages=1),)}, "reads[0].first"),
        ({"reads": (Read(first=0, pages=1, at=1),)}, "reads[0].at"),
        ({"reads": (READ, Read(first=0, pages=1, at=3), READ)}, "reads[2].at"),
        ({"reads": (Read(first=0, pages=2, units=1),)}, "reads[0].units"),
        ({"reads": (Read(first=0, pages=1, units=4),)}, "reads[0].units"),
        ({"reads": (Read(first=0, pages=1, offset=2, units=3),)}, "reads[0].offset"),
    ],
)  # fmt: skip
def test_traces_that_cannot_be_are_refused(changes, field):
    usual = {"machine": MINI, "topology": ONE_PAIR, "reads": (READ,), "window_pages": 1}
    with pytest.raises(InputError) as caught:
        Trace(**usual | changes)
    assert str(caught.value).startswith(field)


def test_names_of_traces_say_everything():
    wanted = names("mini", ("dash", "relay-only"), count=20, seed=3)
    assert len(set(wanted)) == 20
    assert wanted[:10] == names("mini", ("dash", "relay-only"), count=10, seed=3)
    assert [name.split("-")[1] for name in wanted[:4]] == ["dash", "relay"] * 2
    assert trace_of(wanted[0]) == trace_of(wanted[0]) != trace_of(wanted[2])
    for wrong in (
        "mini-dash-stream",
        "formal-dash-stream-1",
        "mini-star-stream-1",
        "mini-dash-x-1",
    ):
        with pytest.raises(InputError):
            trace_of(wrong)
