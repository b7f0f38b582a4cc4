"""What must have come, and in which version: counted by hand, and on the small machine."""

import dataclasses
from functools import cache

import pytest

from hw.gpu.router import Choice
from hw.presets import preset, topology
from tb.delivery import misdelivered, stale, wanted_beats
from tb.play import design, play
from tb.reads import LISTED, ReadRun
from tb.settings import Faults
from tb.simulator import build
from tb.verdict import wrongs
from tb.writes import WriteRequest, kv_writes

MINI = preset("mini")
ONE_PAIR = topology("compact")
PLANES = range(MINI.geometry.planes)
READS = ((10, 2, Choice.DIRECT), (11, 1, Choice.RELAY))  # page 11 twice


def listed(**changes):
    return ReadRun(machine=MINI, topology=ONE_PAIR, route=LISTED, listed=READS, **changes)


def after(*writes, **changes):
    return listed(writes=writes, writes_first=True, **changes)


def test_wanted_beats_are_four_a_page_or_those_of_a_piece():
    assert wanted_beats(listed()) == [range(40, 48), range(44, 48)]
    small = ReadRun(machine=MINI, topology=ONE_PAIR, route="direct", waves=1, pages=3,
                    piece_bytes=128)  # fmt: skip
    for run, (first, _, _), (offset, units) in zip(
        wanted_beats(small), small.requests(), small.pieces(), strict=True
    ):
        assert units == 2  # of 64 bytes, each a beat of this machine
        assert run == range(4 * first + offset, 4 * first + offset + 2)


@pytest.mark.parametrize(("beats", "address_sum", "wrong"), [
    (12, sum(range(40, 48)) + sum(range(44, 48)), 0),
    (12, sum(range(40, 48)) + sum(range(45, 49)), 1),
    (9, 0, 3),
    (13, 0, 1),
])  # fmt: skip
def test_beats_and_addresses_must_be_those_asked_for(beats, address_sum, wrong):
    assert misdelivered(listed(), beats, address_sum) == wrong


def test_version_of_each_page_is_the_one_written_last():
    first = WriteRequest(first=8, pages=3, version=5)  # pages 8, 9, 10
    again = WriteRequest(first=10, pages=1, version=7, barrier=True)
    sums = 4 * 7, 7 * sum(range(40, 44))  # page 11 was never written
    assert stale(after(first, again), *sums) is False
    assert stale(after(first), *sums) is True
    assert stale(after(first, again), 4 * 7, 7 * sum(range(44, 48))) is True  # the wrong page
    assert stale(listed(), 0, 0) is False
    assert stale(listed(), *sums) is True


def test_what_the_requests_do_not_say_is_not_judged():
    write = WriteRequest(first=8, pages=3)
    assert stale(listed(writes=(write,)), 0, 0) is None
    other = dataclasses.replace(write, port="writeback")
    assert stale(after(write, other), 0, 0) is None
    assert stale(after(write), 0, 0, failures=1) is None
    faults = Faults(programs=1)  # that did not strike
    assert stale(after(write, faults=faults), 4 * 2, 80 + 86 + 88) is not None
    assert stale(after(*kv_writes(MINI, waves=1, planes=PLANES, trim=True)), 0, 0) is None


@cache
def after_writes(port, rewrite):
    what = ReadRun(
        machine=MINI,
        topology=ONE_PAIR,
        route="dual",
        waves=2,
        writes=kv_writes(MINI, waves=1, planes=PLANES, port=port, rewrite=rewrite),
        writes_first=True,
    )
    return play(build(design(MINI, ONE_PAIR)), what)


@pytest.mark.parametrize("rewrite", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("port", ["write", "writeback"])
def test_reads_after_writes_bring_what_was_written(verilator, port, rewrite):
    result = after_writes(port, rewrite)
    wave = MINI.geometry.wave_pages
    assert result.writes.programs == wave * (1 + rewrite)
    assert result.writes.wrong_beats == result.violations == result.writes.refused == 0
    # Written twice, the blocks of the wave are erased: the wave behind it is blank, see
    # docs/hardware.md.
    if rewrite:
        assert result.data_errors == 4 * wave
        assert (result.stale, wrongs(result)) == (None, [])
    else:
        assert (result.data_errors, result.stale, wrongs(result)) == (0, False, [])


def test_a_write_that_did_not_arrive_is_seen(verilator, monkeypatch):
    monkeypatch.setattr("tb.play.stale", lambda what, *sums, failures: stale(listed(), *sums))
    what = after_writes("write", False).run
    result = play(build(design(MINI, ONE_PAIR)), what)
    assert wrongs(result) == ["pages did not come as they were written last"]
