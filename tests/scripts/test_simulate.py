"""``pagewave simulate`` as a user meets it."""

import json

import pytest

from scripts.main import main

RUN = ["simulate", "--topology", "dash", "--preset", "mini", "--route", "dual", "--waves", "4"]
FIELDS = {
    "pairs",
    "bytes",
    "cycles",
    "clock_hz",
    "first_byte_ns",
    "steady_bytes_per_s",
    "data_errors",
    "wall_s",
    "cycles_per_wall_s",
}


def test_json_is_one_object_with_the_promised_fields(verilator, capsys, tmp_path):
    vcd = tmp_path / "dual.vcd"
    assert main([*RUN, "--json", "--waves-out", str(vcd)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result.keys() >= FIELDS
    assert result["pairs"] == 1
    assert result["bytes"] == 4 * 32 * 1024
    assert result["data_errors"] == 0
    assert result["cycles_per_wall_s"] == pytest.approx(result["cycles"] / result["wall_s"])
    assert {file.name for file in tmp_path.iterdir()} == {"dual.vcd", "dual.gtkw", "dual.sucl"}


def test_registers_reach_the_rtl(verilator, capsys):
    def seen(name, *options):
        assert main([*RUN, "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)[name]

    def first_byte_ns(*options):
        return seen("first_byte_ns", *options)

    usual, clocks = first_byte_ns(), seen("cycles")
    # Pages leave in frames of four clocks, 2 ns.
    assert first_byte_ns("--t-read-us", "0.375") == pytest.approx(usual + 187.5, abs=2)
    assert first_byte_ns("--tsv-tbps", "0.1") > usual
    assert seen("cycles", "--link-tbps", "0.05") > 1.3 * clocks
    lockstep = seen("cycles", "--sense", "lockstep")
    assert lockstep != clocks
    assert seen("cycles", "--sense", "lockstep", "--no-cache-read") > 1.2 * lockstep


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--topology", "ring"], "topology 'ring' is unknown"),
        (["--preset", "huge"], "preset 'huge' is unknown"),
        (["--topology", "direct-only"], "topology 'direct-only' does not have"),
        (["--waves", "0"], "waves is 0"),
        (["--pairs", "0"], "Topology.pairs is 0"),
        (["--tsv-tbps", "9"], "Tsv.bytes_per_s"),
        (["--link-tbps", "0"], "Link.usable_bytes_per_s"),
        (["--t-read-us", "-1"], "NandTiming.t_read_ns"),
        (["--sense", "half"], "sense 'half' is unknown"),
        (["--simulator", "spice"], "simulator 'spice' is unknown"),
        (["--simulator", "icarus", "--preset", "paper"], "use verilator"),
        (["--link-tbps", "1e-7"], "too slow for its rate register"),
        (["--tsv-tbps", "1e-7"], "too slow for its rate register"),
        (["--waves-out", "/dev/null/x.vcd"], "waves-out is '/dev/null/x.vcd'"),
        (["--waves-out", "/dev"], "waves-out is '/dev'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_ends_in_one_line(options, words, capsys):
    assert main([*RUN, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["calibrate", "--preset", "mini", "--out", "/dev"], "out is '/dev'"),
        (["calibrate", "--preset", "mini", "--out", "/dev/null/x"], "out is '/dev/null/x'"),
        (["calibrate", "--preset", "formal", "--out", "x.json"], "calibration takes paper or mini"),
        (["demo", "--out", "/dev/null"], "out is '/dev/null'"),
    ],
    ids=" ".join,
)
def test_results_that_cannot_be_written_stop_before_work(
    arguments, words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
