"""Steady rates: closed forms against figures worked out by hand, and the small machine."""

import dataclasses

import pytest

from hw.params import Sensing
from hw.presets import preset
from tb.measurements import rates
from tb.read_result import Passage
from tests.tb.measurements.mini import LINK, MINI, played

FREE, LOCK = Sensing.INDEPENDENT, Sensing.LOCKSTEP

# In TB/s: a wave of 8.388608 MB over the longest of tR (3 us), fill and drain; without cache read
# tR plus the transfer of a page, or in lockstep of the wave.
BY_HAND = {
    (1.6, 1): (1.600, 1.600, 1.600, 1.018),
    (1.6, 2): (1.600, 1.600, 1.600, 1.018),
    (2.4, 2): (2.400, 2.400, 2.400, 1.291),
    (3.2, 1): (1.600, 1.600, 1.600, 1.492),
    (3.2, 2): (2.796, 2.777, 2.796, 1.492),
    (4.096, 2): (2.796, 2.781, 2.796, 1.662),
}


def test_grid_has_every_cell_of_the_table_by_hand():
    modes = ((FREE, True), (FREE, False), (LOCK, True), (LOCK, False))
    found = {
        (round(of.tsv.bytes_per_s / 1e12, 6), paths, of.nand.sensing, of.nand.cache_read): (
            of.steady_bound_bytes_per_s(paths) / 1e12
        )
        for of, paths in rates.grid(preset("paper"))
    }
    by_hand = {
        (*cell, *mode): figure
        for cell, figures in BY_HAND.items()
        for mode, figure in zip(modes, figures, strict=True)
    }
    assert found.keys() == by_hand.keys()
    assert found == pytest.approx(by_hand, abs=0.0005)


def passage(ends: list[int]) -> Passage:
    return Passage(
        bytes=100 * len(ends),
        wave_bytes=100,
        clock_hz=1e9,
        accepted=5,
        first=10,
        last=ends[-1],
        wave_ends=tuple(ends),
    )


def test_ends_of_a_run_do_not_count():
    # A wave a 50 ns in the middle, faster while buffers fill, slower while they run dry.
    seen = passage([20, 30, 40, 90, 140, 190, 240, 340, 440, 540])
    assert seen.steady_bytes_per_s(skip=3) == pytest.approx(100 / 50e-9)
    assert seen.steady_bytes_per_s() == pytest.approx(9 * 100 / 520e-9)
    assert seen.steady_bytes_per_s(skip=4) == pytest.approx(100 / 50e-9)
    assert seen.steady_bytes_per_s(skip=5) is None
    assert seen.bytes_per_s == pytest.approx(1000 / 535e-9)


# Deviations seen at this size, in %: a credit round trip in two relay chunks of 328 clocks, frames
# of four clocks; without cache read the clocks between read-out and SENSE, 6 of 385.
@pytest.mark.parametrize(
    ("registers", "paths", "limit_pct"),
    [
        ({"tsv_tbps": 1.0 * LINK}, 1, 0.3),
        ({"tsv_tbps": 2.0 * LINK}, 1, 0.3),
        ({"tsv_tbps": 2.0 * LINK}, 2, 0.5),
        ({"tsv_tbps": 1.5 * LINK}, 2, 1.0),
        ({"tsv_tbps": 2.0 * LINK, "cache_read": False}, 2, 2.0),
        ({"tsv_tbps": 2.0 * LINK, "cache_read": False, "sensing": LOCK}, 2, 1.0),
    ],
    ids=str,
)
def test_small_machine_keeps_to_its_closed_form(verilator, registers, paths, limit_pct):
    of = MINI.with_registers(**registers)
    result = played(of, "dual" if paths == 2 else "direct", rates.WAVES)
    cell = rates.Cell(machine=of, paths=paths, result=result)
    assert abs(cell.deviation_pct) < limit_pct
    assert rates.missed([cell]) == []
    # Where the registers say otherwise than the run, the figure is off and says so.
    other = dataclasses.replace(cell, machine=of.with_registers(link_tbps=0.5 * LINK, t_read_us=1))
    (miss,) = rates.missed([other])
    assert "path" in miss and "from" in miss


@pytest.mark.parametrize(("fill", "gpu", "pct"), [(2, 1, -50), (1, 2, -50), (1, 0.5, 100)])
def test_deviation_is_the_worse_of_both_points(verilator, fill, gpu, pct):
    result = played(MINI, "direct", rates.WAVES)

    def stretched(ends, by):
        return tuple(round(by * end) for end in ends)

    changed = dataclasses.replace(
        result,
        fill=dataclasses.replace(result.fill, wave_ends=stretched(result.fill.wave_ends, fill)),
        wave_ends=stretched(result.wave_ends, gpu),
    )
    cell = rates.Cell(machine=MINI, paths=1, result=changed)
    assert cell.deviation_pct == pytest.approx(pct, abs=0.5)


def test_a_run_without_a_middle_is_refused(verilator):
    with pytest.raises(ValueError, match="no middle"):
        rates.steady(played(MINI, "direct", 7))
