"""The derived numbers of the presets against those of the paper, DASH sections IV and VI-A."""

from collections.abc import Callable
from fractions import Fraction

import pytest

from hw.params import Machine, Sensing
from hw.presets import preset, topology

KIB, MIB, GIB = 2**10, 2**20, 2**30

# Each with the figure as the paper or the HBM3E product brief prints it.
FIGURES: dict[str, tuple[Callable[[Machine], object], object]] = {
    "raw link rate": (lambda m: m.link.raw_bytes_per_s, 2.048e12),
    "link headroom": (lambda m: round(100 * m.link.headroom, 1), 21.9),
    "die edge of a link": (lambda m: m.link.edge_mm, 1.556),
    "link power at 0.5 V": (lambda m: m.link.power_w[0], 6.40),
    "link power at 0.7 V": (lambda m: m.link.power_w[1], 7.68),
    "HBF SRAM, usable": (lambda m: m.sram.hbf_usable_bytes, 16 * MIB),
    "HBF SRAM with check bits": (
        lambda m: m.sram.physical_bytes(m.sram.hbf_usable_bytes),
        18 * MIB,
    ),
    "relay SRAM, usable": (lambda m: m.sram.relay_usable_bytes, 8 * MIB),
    "relay SRAM with check bits": (
        lambda m: m.sram.physical_bytes(m.sram.relay_usable_bytes),
        9 * MIB,
    ),
    "page wave": (lambda m: m.geometry.wave_bytes, 8 * MIB),
    "page wave of both stacks": (
        lambda m: topology("dash").pairs * m.geometry.wave_bytes,
        16 * MIB,
    ),
    "pages of a wave": (lambda m: m.geometry.wave_pages, 2048),
    "relay chunk": (lambda m: m.sram.relay_region_bytes, 4 * MIB),
    "pages of a relay chunk": (lambda m: m.relay_chunk_pages, 1024),
    "stack": (lambda m: m.geometry.stack_bytes, 512 * GIB),
    "beats of a page": (lambda m: m.page_beats, 4),
    "64-bit lanes": (lambda m: m.lanes, 128),
    "link beats a clock": (lambda m: m.link_beats_per_clock, Fraction(25, 32)),
    "bytes a clock on a TSV lane": (lambda m: 1024 * m.tsv_beats_per_clock_per_die, 100),
    "clocks of a page on a TSV lane": (
        lambda m: m.page_beats / m.tsv_beats_per_clock_per_die,
        Fraction("40.96"),
    ),
    "SRAM limit of the TSV rate": (lambda m: m.max_tsv_bytes_per_s, 4.096e12),
    "tR in clocks": (lambda m: m.t_read_cycles, 6000),
    "tPROG": (lambda m: m.nand.t_program_ns, 100e3),
    "program bandwidth": (
        lambda m: round(m.geometry.wave_bytes / m.nand.t_program_ns, 1),
        83.9,
    ),
    "HBM3E rate": (lambda m: m.hbm.peak_bytes_per_s, 1177.6e9),
}


@pytest.mark.parametrize(("derive", "figure"), FIGURES.values(), ids=FIGURES)
def test_paper_figure(derive: Callable[[Machine], object], figure: object) -> None:
    value = derive(preset("paper"))
    assert value == (pytest.approx(figure, rel=1e-12) if isinstance(figure, float) else figure)


FREE, LOCK = Sensing.INDEPENDENT, Sensing.LOCKSTEP


@pytest.mark.parametrize(
    ("tsv_tbps", "sensing", "cache_read", "one_path", "two_paths"),
    # By hand, in TB/s: 8.388608 MB over the longest of tR (3 us), fill and drain. Without cache
    # read a subarray adds the 16 to 41 ns of its page's transfer to tR; in lockstep all the fill.
    [
        (1.6, FREE, True, 1.600, 1.600),
        (1.6, FREE, False, 1.600, 1.600),
        (1.6, LOCK, True, 1.600, 1.600),
        (1.6, LOCK, False, 1.018, 1.018),
        (2.4, FREE, True, 1.600, 2.400),
        (2.4, FREE, False, 1.600, 2.400),
        (2.4, LOCK, True, 1.600, 2.400),
        (2.4, LOCK, False, 1.291, 1.291),
        (3.2, FREE, True, 1.600, 2.796),
        (3.2, FREE, False, 1.600, 2.777),
        (3.2, LOCK, True, 1.600, 2.796),
        (3.2, LOCK, False, 1.492, 1.492),
        (4.096, FREE, True, 1.600, 2.796),
        (4.096, FREE, False, 1.600, 2.781),
        (4.096, LOCK, True, 1.600, 2.796),
        (4.096, LOCK, False, 1.600, 1.662),
    ],
)
def test_steady_bound(
    tsv_tbps: float, sensing: Sensing, cache_read: bool, one_path: float, two_paths: float
) -> None:
    machine = preset("paper").with_registers(
        tsv_tbps=tsv_tbps, sensing=sensing, cache_read=cache_read
    )
    bounds = [machine.steady_bound_bytes_per_s(paths) / 1e12 for paths in (1, 2)]
    assert bounds == pytest.approx([one_path, two_paths], abs=0.0005)


@pytest.mark.parametrize("name", ["paper", "mini"])
def test_read_fill_and_drain_keep_the_ratio_of_the_paper(name: str) -> None:
    machine = preset(name)
    wave = Fraction(machine.geometry.wave_bytes)
    read = Fraction(machine.nand.t_read_ns) / 10**9
    fill = wave / Fraction(machine.tsv.bytes_per_s)
    drain = wave / Fraction(machine.link.usable_bytes_per_s)
    assert (fill / read, drain / read) == (Fraction("2.62144") / 3, Fraction("5.24288") / 3)
    assert machine.link_beats_per_clock == Fraction(25, 32)
    assert machine.sram.relay_region_bytes * 2 == wave


@pytest.mark.parametrize(
    ("t_read_ns", "clocks"), [(0.5, 1), (0.6, 2), (3000, 6000), (3000.1, 6001)]
)
def test_read_time_rounds_up_to_clocks(t_read_ns: float, clocks: int) -> None:
    assert preset("paper").with_registers(t_read_us=t_read_ns / 1e3).t_read_cycles == clocks


def test_decimal_microseconds_are_whole_clocks() -> None:
    # Every multiple of 10 ns is a whole number of clocks at 2 GHz, but few are in binary.
    machine = preset("paper")
    for hundredths in range(1, 5001):
        changed = machine.with_registers(t_read_us=hundredths / 100)
        assert changed.t_read_cycles == 20 * hundredths, hundredths
