"""Saved views: every signal that they name is in the waveform, and nothing less is accepted."""

import re
from functools import cache

import pytest
from vcdvcd import VCDVCD

from hw.errors import InputError
from hw.presets import preset, topology
from tb.play import read
from tb.reads import ReadRun, with_pairs
from tb.simulator import Simulator
from tb.views import write_views
from tb.views.__main__ import main
from tb.views.header import names

MACHINE = preset("mini")
CASES = [  # simulator, topology, pairs, route
    (Simulator.VERILATOR, "compact", 1, "dual"),
    (Simulator.ICARUS, "direct-only", 2, "direct"),
    (Simulator.ICARUS, "relay-only", 1, "relay"),
]


@pytest.fixture(scope="module")
def waveform(tmp_path_factory):
    @cache
    def make(simulator, name, pairs, route):
        vcd = tmp_path_factory.mktemp(name) / "read.vcd"
        what = ReadRun(
            machine=MACHINE, topology=with_pairs(topology(name), pairs), route=route, waves=1
        )
        return read(what, simulator=simulator, waves=vcd).waveform

    return make


def header_of(vcd, *, without=None):
    """The header alone, as a file of its own."""
    lines = vcd.read_text().partition("$enddefinitions $end\n")
    kept = [
        line for line in lines[0].splitlines() if without is None or without not in line.split()
    ]
    file = vcd.with_name("header.vcd")
    file.write_text("\n".join([*kept, lines[1]]))
    return file


@pytest.mark.parametrize(("simulator", "name", "pairs", "route"), CASES, ids=str)
def test_a_read_leaves_views_of_what_the_waveform_holds(waveform, simulator, name, pairs, route):
    vcd = waveform(simulator, name, pairs, route)
    known = set(VCDVCD(str(vcd), only_sigs=True).signals)

    gtkwave = vcd.with_suffix(".gtkw").read_text()
    assert f'[dumpfile] "{vcd}"' in gtkwave
    traces = re.findall(r"^\+\{[^}]+\} (\S+)$", gtkwave, re.M)
    assert len(traces) > 60
    assert set(traces) <= known

    commands = [line.split() for line in vcd.with_suffix(".sucl").read_text().splitlines()]
    added = [words[1] for words in commands if words[0] == "variable_add"]
    assert added == [trace.partition("[")[0] for trace in traces]
    assert commands[-1] == ["zoom_fit"]
    assert all(len(words) == 2 for words in commands[:-1])

    groups = [words[1] for words in commands if words[0] == "divider_add"]
    paths = {"dual": {"Direct_path", "Relay_path"}}.get(route, {f"{route.capitalize()}_path"})
    assert {group for group in groups if group.endswith("_path")} == paths
    assert "Scheduler_of_die_1" in groups
    assert [g.replace("_", " ") for g in groups] == re.findall(r"^@800200\n-(.*)$", gtkwave, re.M)


def test_a_signal_that_is_gone_is_an_error(waveform):
    vcd = waveform(*CASES[0])
    assert len(write_views(header_of(vcd))) == 2
    for gone in ("admit", "region0_busy", "outstanding1", "zoom", "wave_end", "close"):
        shortened = header_of(vcd, without=gone)
        if gone == "zoom":  # in no view, nor in the waveform
            write_views(shortened)
            continue
        with pytest.raises(InputError, match=rf"lacks .*\.{gone}\b"):
            write_views(shortened)


def test_only_the_header_is_read(tmp_path):
    vcd = tmp_path / "small.vcd"
    begin = "$scope module top $end $comment x $end\n$var wire 3 ! a [2:0] $end\n"
    with vcd.open("wb") as file:
        file.write(f"{begin}$upscope $end\n$enddefinitions $end\n".encode())
        file.truncate(1 << 40)  # a terabyte of nothing, which must not be looked at
    found = names(vcd)
    assert found.variables == {"top.a": "[2:0]"}
    assert found.scopes == {"top"}


def test_what_is_no_waveform_of_a_package(tmp_path, capsys):
    other = tmp_path / "other.vcd"
    other.write_text("$scope module top $end\n$upscope $end\n$enddefinitions $end\n")
    with pytest.raises(InputError, match="shows no package"):
        write_views(other)
    main([str(other)])
    assert capsys.readouterr().out.split() == [str(other)]
    assert list(tmp_path.iterdir()) == [other]

    other.write_text("$scope module top $end\n")
    with pytest.raises(InputError, match="its header does not end"):
        write_views(other)


def test_command_writes_views_of_a_package(waveform, capsys):
    vcd = header_of(waveform(*CASES[0]))
    main([str(vcd)])
    written = [vcd, vcd.with_suffix(".gtkw"), vcd.with_suffix(".sucl")]
    assert capsys.readouterr().out.split() == [str(path) for path in written]
    assert all(path.stat().st_size for path in written)
