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
    def first_byte_ns(*options):
        assert main([*RUN, "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)["first_byte_ns"]

    usual = first_byte_ns()
    # Pages leave in frames of four clocks, 2 ns.
    assert first_byte_ns("--t-read-us", "0.375") == pytest.approx(usual + 187.5, abs=2)
    assert first_byte_ns("--tsv-tbps", "0.1") > usual
    assert first_byte_ns("--sense", "lockstep", "--no-cache-read") >= usual


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
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_ends_in_one_line(options, words, capsys):
    assert main([*RUN, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1
