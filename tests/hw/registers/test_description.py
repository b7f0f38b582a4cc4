"""The register map of the HBF base die, its page, and what the compiler wrapper refuses."""

from collections import Counter
from pathlib import Path

import pytest
from systemrdl import RDLCompileError

from hw.params import NAND_TIME_BITS, RATE_BITS
from hw.presets import PRESETS, preset
from hw.registers.__main__ import page
from hw.registers.description import Kind
from hw.registers.hbf import hbf_description, hbf_resets
from tests.hw.registers.maps import SMALL_RDL, describe_text

PAGE = Path(__file__).parents[3] / "docs" / "registers.md"


def test_no_bit_of_the_map_has_two_fields():
    bits = Counter(
        (at, part.shift + k)
        for at, parts in hbf_description().words.items()
        for part in parts
        for k in range(part.width)
    )
    assert max(bits.values()) == 1
    assert len(bits) == sum(field.width for field in hbf_description().fields)
    assert all(at % 4 == 0 and bit < 32 for at, bit in bits)


def test_nand_times_and_rates_have_the_widths_of_the_machine():
    widths = {f.name: f.width for f in hbf_description().fields if f.name.startswith("t_")}
    assert widths == NAND_TIME_BITS
    for rate in ("tsv_rate", "link_rate"):
        assert hbf_description().by_name[rate].width == RATE_BITS + 1


def test_counters_are_cleared_by_a_strobe():
    counters = [f for f in hbf_description().fields if f.kind is Kind.COUNTER]
    assert len(counters) == 14
    for field in counters:
        assert field.width == 48
        assert hbf_description().by_name[field.cleared_by].kind is Kind.STROBE


@pytest.mark.parametrize("machine", PRESETS.values(), ids=PRESETS)
def test_the_machine_gives_exactly_what_the_map_leaves_open(machine):
    resets = hbf_resets(machine)
    left_open = {f.name for f in hbf_description().fields if f.has_reset and f.reset is None}
    assert resets.keys() == left_open
    widths = {f.name: f.width for f in hbf_description().fields}
    assert all(0 <= value < 1 << widths[name] for name, value in resets.items())


def test_reset_values_of_the_paper_machine():
    resets = hbf_resets(preset("paper"))
    assert (resets["dies"], resets["planes"], resets["subarrays"]) == (16, 32, 4)
    assert resets["t_read"] == 6_000  # 3 us at 2 GHz
    assert resets["t_program"] == 200_000
    assert resets["link_rate"] == 51_200  # 25 beats of 32
    assert resets["tsv_rate"] == 6_400  # 100 bytes of 1024
    assert (resets["suspend_slice"], resets["poll_clocks"]) == (20_000, 1_562)


def test_page_is_that_of_the_map():
    assert PAGE.read_text() == page(), "run `make docs`"


def test_page_names_every_field_and_reset_value():
    lines = [line.replace(" ", "") for line in page().splitlines()]
    for field in hbf_description().fields:
        reset = "—" if field.reset is None else f"0x{field.reset:X}"
        access = {Kind.CONFIG: "rw", Kind.STROBE: "w"}.get(field.kind, "r")
        high = field.low + field.width - 1
        bits = str(high) if field.width == 1 else f"{high}:{field.low}"
        row = f"|{bits}|{field.name}|{access}|{reset}|"
        assert any(line.startswith(row) for line in lines), row


def test_page_says_what_every_register_and_field_means():
    rows = [line for line in page().splitlines() if line.startswith("|")]
    assert len(rows) > 100
    assert [row for row in rows if row.strip(" |").endswith("—")] == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("config low[4:0]", "field { sw = rw; hw = rw; } low[4:0]", "low is of no kind"),
        ("config low[4:0]", "field { sw = rw; hw = r; onwrite = woclr; } low[4:0]", "of no kind"),
        ("hw = na; counter; incrwidth = 3;", "hw = r; counter; incrwidth = 3;", "left is of no"),
        ("} wide[47:8];", "} wide[47:8]; config more[7:0];", "more is in a wide register"),
        ("wide.wide->hwclr = mixed.clear;", "", "wide is of no kind"),
        ("wide.wide->hwclr = mixed.clear;", "wide.wide->hwclr;", "wide is cleared by no field"),
        ("} state[31:0]", "} low[31:0]", "low has the name of another field"),
        ("default accesswidth = 32;", "", "wide is not accessed in words of 32 bits"),
        ("reg { strobe alone[0:0]; } alone", "reg { regwidth = 128; strobe alone[0:0]; } alone",
         "alone is wider than two words"),
        ("alone @ 0x800000", "alone @ 0x1000000", "alone lies above the 24 address bits"),
        ("reg { strobe alone[0:0]; } alone", "reg { shared; strobe alone[0:0]; } alone",
         "alone has shared, which the register file ignores"),
    ],
)  # fmt: skip
def test_what_is_not_built_is_refused(old, new, message, tmp_path):
    assert old in SMALL_RDL
    with pytest.raises(ValueError, match=message):
        describe_text(tmp_path, SMALL_RDL.replace(old, new, 1))


def test_the_compiler_refuses_fields_that_overlap(tmp_path, capsys):
    with pytest.raises(RDLCompileError):
        describe_text(tmp_path, SMALL_RDL.replace("fixed[9:7]", "fixed[9:4]"))
    assert "overlaps" in capsys.readouterr().err
