"""The die has no latch and no loop, and its report adds up by a count that takes another way."""

import re

import pytest

from hw.presets import preset
from hw.sram.macro import VERILOG_MODELS
from tb.synthesis.netlist import _yosys
from tb.synthesis.report import count_cells

MACHINE = preset("mini")


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    return count_cells(MACHINE, folder), folder


def test_the_die_has_no_latch_and_no_loop(counted):
    found, folder = counted
    assert found.total.latches == 0
    for name in ("check.txt", "check_flat.txt"):
        assert (folder / name).read_text().rstrip().endswith("Found and reported 0 problems.")


def test_blocks_and_parts_sum_to_the_flat_netlist(counted):
    found, folder = counted
    models = "read_verilog -lib " + " ".join(map(str, VERILOG_MODELS))
    _yosys(folder, (models, "read_rtlil mapped.il", "flatten -noscopeinfo", "write_rtlil flat.il"))
    flat = (folder / "flat.il").read_text()
    flip_flops = len(re.findall(r"^  cell \$_S?DFFE?_", flat, re.M))
    gates = len(re.findall(r"^  cell \$_(?:NOT|AND|OR|XOR|MUX)_", flat, re.M))
    memories = re.findall(r"^  cell \$mem_v2 .*\n((?:    parameter .*\n)+)", flat, re.M)
    memory_bits = sum(bits("WIDTH", text) * bits("SIZE", text) for text in memories)
    macros = re.findall(r"^  cell \\sram_\w+ .*\n((?:    parameter .*\n)+)", flat, re.M)
    macro_bits = sum(bits("WIDTH", text) * bits("DEPTH", text) for text in macros)
    expected = (flip_flops, gates, len(memories), memory_bits, len(macros), macro_bits)
    assert min(expected) > 0
    for blocks in (found.blocks, found.parts):
        sums = [
            sum(getattr(block.cells, name) * block.instances for block in blocks)
            for name in (
                "flip_flops", "gates", "memories", "memory_bits", "macros", "macro_bits"
            )
        ]  # fmt: skip
        assert tuple(sums) == expected
    assert found.total.flip_flops == flip_flops


def test_parts_are_those_of_the_die(counted):
    found, _ = counted
    parts = {part.name: part for part in found.parts}
    assert parts["die_controller"].instances == MACHINE.geometry.dies
    # 8 check bits beside 64 of data, two regions.
    assert parts["regions"].cells.macro_bits == 2 * MACHINE.sram.hbf_region_bytes * 8 * 72 // 64
    blocks = {block.name: block.instances for block in found.blocks}
    assert blocks["tsv_lane"] == MACHINE.geometry.dies
    assert blocks["fill_pipe"] == 4
    assert blocks["die_controller.reads.pending_relay"] == MACHINE.geometry.dies


def test_tables_and_json_tell_the_same(counted):
    found, _ = counted
    rows = found.as_json()["blocks"]
    table = found.tables[1]
    assert len(table.rows) == len(rows) + 1
    for shown, row in zip(table.rows, rows, strict=False):
        names = ("instances", "flip_flops", "gates", "memory_bits", "macro_bits")
        assert shown == (f"`{row['block']}`", *(f"{row[name]:,}" for name in names))
    assert f"**{found.total.flip_flops:,}**" in found.markdown()


def bits(parameter, text):
    """Value of a parameter of a cell, in RTLIL a number or a string of bits."""
    value = re.search(rf"parameter (?:signed )?\\{parameter} (\S+)", text)[1]
    return int(value.split("'")[1], 2) if "'" in value else int(value)
