"""Presets stand beside the RTL: nothing that is built may depend on which of them exist."""

import ast

import pytest

from hw import source
from hw.presets import PRESETS, TOPOLOGIES, preset, topology


def test_no_logic_looks_at_presets():
    # The fingerprint of the RTL leaves them out. What writes pages is no logic.
    others = ("presets.py", "channel_page.py")
    files = [path for path in source.ROOT.rglob("*.py") if path.name not in others]
    assert len(files) > 20
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module != "hw.presets", file
                assert node.module != "hw" or "presets" not in [a.name for a in node.names], file
            if isinstance(node, ast.Import):
                assert "hw.presets" not in [alias.name for alias in node.names], file


def test_names_are_unique_and_lead_back():
    assert [preset(name).name for name in PRESETS] == list(PRESETS)
    assert [topology(name).name for name in TOPOLOGIES] == list(TOPOLOGIES)
    assert len({machine.fingerprint for machine in PRESETS.values()}) == len(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_regions_and_waves_fit(name):
    # The registers at their extremes stay valid on every preset.
    machine = preset(name)
    beats = machine.link.beat_bytes * machine.clock_hz / 1e12  # one a clock
    fastest = machine.with_registers(tsv_tbps=2 * beats, link_tbps=beats)
    assert fastest.steady_bound_bytes_per_s(2) <= 2 * beats * 1e12
