"""Instants read back from waveforms, on waveforms whose instants are known."""

import pytest

from hw.errors import InputError
from hw.presets import preset, topology
from tb.reads import ReadRun, with_pairs
from tb.waveform import read_instants

PERIOD_PS = 500
RUN = ReadRun(
    machine=preset("formal"),
    topology=with_pairs(topology("dash"), 1),
    route="dual",
    waves=2,
)
WAVE_BEATS = 16  # four pages of four beats
SIGNALS = {
    "valid": ("!", ("top", "read__valid")),
    "ready": ('"', ("top", "read__ready")),
    "direct": ("|", ("top", "check_direct0", "taken")),
    "relay": ("+", ("top", "check_relay0", "taken")),
}


def write(path, highs, clocks, without=None):
    """A waveform in which each signal is high in the given clocks."""
    lines = ["$timescale 1ps $end"]
    for name, (code, (*scopes, last)) in SIGNALS.items():
        if name == without:
            continue
        lines += [f"$scope module {scope} $end" for scope in scopes]
        lines.append(f"$var wire 1 {code} {last} $end")
        lines += ["$upscope $end"] * len(scopes)
    lines += ["$scope module top $end", "$var wire 8 # other [7:0] $end", "$upscope $end"]
    lines.append("$enddefinitions $end")
    level = dict.fromkeys(SIGNALS)
    for clock in range(clocks + 1):
        lines += [f"#{clock * PERIOD_PS}", f"b{clock % 256:b} #"]
        for name, (code, _) in SIGNALS.items():
            now = int(clock in highs.get(name, ()))
            if now != level[name]:
                level[name] = now
                lines.append(f"{now}{code}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_instants_of_a_hand_made_waveform(tmp_path):
    direct = range(100, 120)
    relay = [*range(110, 118), *range(130, 134)]
    highs = {"valid": range(5, 40), "ready": [9, 20], "direct": direct, "relay": relay}
    seen = read_instants(write(tmp_path / "a.vcd", highs, 140), RUN)
    arrivals = sorted([*direct, *relay])
    assert len(arrivals) == 2 * WAVE_BEATS == seen.beats
    assert seen.accepted_ns == 4.5
    assert seen.first_beat_ns == 50.0
    assert seen.wave_end_ns == (arrivals[15] / 2, arrivals[31] / 2)
    assert seen.last_beat_ns == 66.5


@pytest.mark.parametrize(
    ("highs", "without", "words"),
    [
        ({"valid": [3], "ready": [4], "direct": [9]}, None, "no read"),
        ({"valid": [3], "ready": [3]}, None, "no data"),
        ({}, "relay", "has no signal top.check_relay0.taken"),
    ],
    ids=["never accepted", "nothing came", "signal gone"],
)
def test_useless_waveforms_are_refused(tmp_path, highs, without, words):
    file = write(tmp_path / "b.vcd", highs, 20, without)
    with pytest.raises(InputError, match=words) as error:
        read_instants(file, RUN)
    assert str(file) in str(error.value)


@pytest.mark.parametrize("content", [b"", b"not a waveform\n"], ids=["empty", "text"])
def test_what_is_no_waveform_is_refused(tmp_path, content):
    file = tmp_path / "c.vcd"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"c\.vcd"):
        read_instants(file, RUN)
