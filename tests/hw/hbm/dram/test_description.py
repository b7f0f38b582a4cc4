"""The stacks: their rates, their times in clocks, and descriptions that make no sense."""

import dataclasses
from fractions import Fraction

import pytest

from hw.errors import InputError
from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.stacks import STACKS, stack

FULL = stack("hbm3e-9200")


def test_stacks_have_the_published_rates_and_sizes():
    slow = stack("hbm3-6400")
    assert FULL.peak_bytes_per_s == pytest.approx(1177.6e9)  # 1024 pins of 9.2 Gb/s
    assert FULL.channel_peak_bytes_per_s == pytest.approx(36.8e9)
    assert slow.peak_bytes_per_s == pytest.approx(819.2e9)
    assert FULL.organization.stack_bytes == 24 * 2**30  # 8 dies of 24 Gb
    assert FULL.organization.bank_count == 32
    assert FULL.scheduling.drain_level == 26 and FULL.scheduling.drained_level == 6


@pytest.mark.parametrize("name", STACKS)
def test_clocks_are_never_short_and_bursts_are_exact(name):
    which = stack(name)
    t, clocks = which.timing, clocks_of(which)
    clock_ns = 10**9 / Fraction(which.clock_hz)
    assert clocks.burst * clock_ns / clocks.phases == t.burst_ns
    for field, value in (
        ("rcd_read", t.rcd_read_ns), ("rcd_write", t.rcd_write_ns), ("rp", t.rp_ns),
        ("ras", t.ras_ns), ("rc", t.rc_ns), ("rrd_s", t.rrd_s_ns), ("rrd_l", t.rrd_l_ns),
        ("faw", t.faw_ns), ("rfc", t.rfc_ns), ("rrefd", t.rrefd_ns),
        ("activate_bus", t.activate_bus_ns),
    ):  # fmt: skip
        have = getattr(clocks, field) * clock_ns
        assert 0 <= have - Fraction(str(value)) < clock_ns, field
    # A column command may be sent almost a clock late.
    last = 1 - Fraction(1, clocks.phases)
    written = Fraction(str(t.cwl_ns)) + t.burst_ns
    for field, value in (
        ("read_to_precharge", t.rtp_ns), ("write_to_precharge", written + Fraction(str(t.wr_ns))),
        ("write_to_read_s", written + Fraction(str(t.wtr_s_ns))),
        ("write_to_read_l", written + Fraction(str(t.wtr_l_ns))),
        ("read_to_write", t.rtw_ns),
    ):  # fmt: skip
        have = (getattr(clocks, field) - last) * clock_ns
        assert 0 <= have - Fraction(str(value)) < 2 * clock_ns, field
    every = Fraction(str(t.refi_ns)) / which.organization.bank_count
    assert 0 <= every - clocks.refresh_every * clock_ns < clock_ns


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("organization", {"pseudo_channels": 3}, "pseudo_channels is 3: must be a power of two"),
        (
            "organization",
            {"bank_groups": 1},
            "bank_groups is 1: must be a power of two, at least 2",
        ),
        ("organization", {"pins": 64}, "pins is 64: an access of 64 B is two bursts"),
        ("organization", {"rows": 1}, "rows is 1: must be at least 2"),
        ("timing", {"rp_ns": 0.0}, "rp_ns is 0.0: must be greater than zero"),
        ("timing", {"rc_ns": 20.0}, r"rc_ns is 20.0: must be at least 28.125"),
        ("timing", {"rtw_ns": 5.0}, r"rtw_ns is 5.0: must be at least 7.1"),
        ("timing", {"ccd_l_bursts": 0.5}, "ccd_l_bursts is 0.5: must be at least 1"),
        ("timing", {"refi_ns": 200.0}, "leaves no time for anything else"),
        ("scheduling", {"reads": 3}, "reads is 3: must be a power of two, at least 2"),
        ("scheduling", {"drain_to": 0.9}, "drain_to is 0.9: must be below drain_from"),
        ("scheduling", {"postponed": 0}, "postponed is 0: must be at least 1"),
    ],
)
def test_descriptions_that_make_no_sense_are_refused(part, change, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(FULL, **{part: dataclasses.replace(getattr(FULL, part), **change)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clock_hz": 1e9}, "clock_hz is 1000000000.0: a burst of 0.8696 ns must last a clock"),
        ({"order": ("row", "bank", "bank_group", "column", "stack_id")}, "row last"),
        ({"order": ("bank", "column", "row")}, "must name bank_group, bank, stack_id, column, row"),
        ({"beat_bytes": 4096}, "beat_bytes is 4096: its accesses need a pseudo-channel each"),
        ({"beat_bytes": 96}, "beat_bytes is 96: must be a power of two, at least 64"),
    ],
)
def test_stacks_that_make_no_sense_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(FULL, **change)


def test_an_unknown_stack_is_named():
    with pytest.raises(InputError, match="stack 'hbm5' is unknown: choose hbm3e-9200"):
        stack("hbm5")
