"""Errors of the SRAM seen from the GPU: corrected without a trace, or poison and never silence."""

import pytest

from hw.gpu.router import Choice
from hw.presets import preset, topology
from tests.hw.read_bench import Settings, play

D, R = Choice.DIRECT, Choice.RELAY
READS = [(0, 3, D), (4, 3, R), (9, 2, D), (12, 2, R)]
BEATS = 4 * sum(pages for _, pages, _ in READS)


def play_with(**inject: int) -> dict[str, int]:
    settings = Settings(inject={f"inject_{name}": value for name, value in inject.items()})
    counters = play(preset("formal"), topology("compact"), READS, settings, clocks=5000)
    assert counters["completed"] == len(READS) and not counters["violations"]
    assert counters["beats_direct"] + counters["beats_relay"] == BEATS
    return counters


@pytest.mark.parametrize("bit", [17, 66])
def test_one_wrong_bit_in_every_beat_is_corrected_and_counted(bit: int) -> None:
    counters = play_with(beats=2 * BEATS, word=5, bit0=bit)
    assert counters["corrected"] == BEATS
    assert counters["uncorrected"] == counters["errors"] == counters["poisoned"] == 0


def test_two_wrong_bits_poison_the_read_that_has_them_and_no_other() -> None:
    counters = play_with(beats=1, word=2, bit0=3, bit1=40, double=1)
    assert counters["uncorrected"] == counters["poisoned"] == counters["errors"] == 1
    assert counters["corrected"] == 0


def test_two_wrong_check_bits_poison_reads_over_both_paths() -> None:
    counters = play_with(beats=2 * BEATS, word=7, bit0=64, bit1=71, double=1)
    assert counters["uncorrected"] == BEATS
    assert counters["poisoned"] == len(READS)
    # The data bits are right, but a poisoned beat counts as a wrong one.
    assert counters["errors"] == BEATS and not counters["corrected"]
